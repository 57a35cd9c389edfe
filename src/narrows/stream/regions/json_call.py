"""A call as one JSON object: `{"name": ..., "arguments": {...}}` with its keys in any order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from narrows.stream.json_scan import JsonScanner
from narrows.stream.regions.json_arguments import NOT_AN_OBJECT, ArgumentsValue
from narrows.stream.whitespace import skip_whitespace

if TYPE_CHECKING:
    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.raw_arguments import RawArguments


@dataclass(frozen=True, slots=True)
class CallKeys:
    """Which property of a call's object is what. Others are read over."""

    name: frozenset[str]
    arguments: frozenset[str]
    id: frozenset[str]
    ignored: frozenset[str]
    name_is_key: bool = False
    """The first property's name is the call's, its value the arguments."""
    strict: bool = False
    """Where no marker says that a call comes: other keys, a name without arguments, arguments that are no object make no call."""

    def role(self, key: str) -> str:
        if key in self.name:
            return "name"
        if key in self.arguments:
            return "arguments"
        if key in self.id:
            return "id"
        return "ignored" if key in self.ignored else "other"


class CallObject:
    """`{"name": N, "arguments": O}` with its keys in any order, and possibly an id and other keys.

    The call starts when its name is known and its arguments begin. Arguments that come first are held until the name has
    come, at most `stream_held_chars`; an id that comes after the arguments is too late to be the call's id.
    """

    __slots__ = (
        "_after",
        "_arguments",
        "_expect",
        "_id",
        "_key",
        "_keys",
        "_literal",
        "_name",
        "_name_from",
        "_name_to",
        "_others",
        "_raw",
        "_role",
        "_scanner",
        "_taken",
        "_trouble",
    )
    place = "call"

    def __init__(self, keys: CallKeys, after: Region, raw: RawArguments) -> None:
        self._keys = keys
        self._after = after
        self._raw = raw

    def enter(self, machine: Machine) -> CallObject:
        self._expect = (
            "open"  # open, first key, key, colon, value, comma: between values; key text, value text: inside one
        )
        self._role = ""
        self._name: str | None = None
        self._name_from = self._name_to = 0
        self._id: str | None = None
        self._arguments: ArgumentsValue | None = None
        self._scanner: JsonScanner | None = None
        self._literal: list[str] = []
        self._taken = 0
        self._trouble: str | None = None
        self._others = False
        return self

    def read(self, machine: Machine) -> Region | None:
        while True:
            if self._expect == "value text":
                step = self._read_value(machine)
            elif self._expect == "key text":
                step = self._read_key(machine)
            else:
                step = self._read_structure(machine)
            if step is not self:
                return step

    # Each step returns this region (go on), another (it takes over), or None (more text is needed).

    def _read_structure(self, machine: Machine) -> Region | None:
        if not skip_whitespace(machine):
            return None
        char = machine.text[machine.pos]
        expect = self._expect
        if expect in ("first key", "comma") and char == "}":
            machine.take(machine.pos + 1)
            return self._end(machine)
        if expect in ("first key", "key") and char == '"':
            self._begin_literal(machine)
            self._expect = "key text"
            return self
        if expect == "value":
            return self._begin_value(machine)
        if (expect, char) not in (("open", "{"), ("colon", ":"), ("comma", ",")):
            return self._broken(machine, f"the call's object breaks off where {_EXPECTED[expect]} is expected")
        machine.take(machine.pos + 1)
        self._expect = {"open": "first key", "colon": "value", "comma": "key"}[expect]
        return self

    def _begin_literal(self, machine: Machine) -> None:
        self._scanner = JsonScanner(machine.limits.stream_depth)
        self._literal = []
        self._taken = 0

    def _read_literal(self, machine: Machine) -> bool:
        """Take more of a short string; True when it has ended (broken, or longer than the limit: `_scanner.fault`)."""
        scanner = self._scanner
        assert scanner is not None
        pos, room = machine.pos, machine.limits.stream_name_chars + 1 - self._taken
        window = machine.text if len(machine.text) - pos <= room else machine.text[: pos + room]
        at = scanner.scan(window, pos)
        self._taken += at - pos
        if self._taken > machine.limits.stream_name_chars and scanner.fault is None:
            scanner.fault = "a key or a name is too long [limit stream_name_chars]"
        self._literal.append(machine.clean(machine.take(at)))
        return scanner.done or scanner.fault is not None

    def _string(self) -> str | None:
        """The value of the literal that was read, or None where it is not a string of whole characters."""
        assert self._scanner is not None
        if self._scanner.kind != '"' or self._scanner.flaw is not None:
            return None
        value: str = json.loads("".join(self._literal))
        try:
            value.encode()
        except UnicodeEncodeError:
            return None
        return value

    def _read_key(self, machine: Machine) -> Region | None:
        if not self._read_literal(machine):
            return None
        assert self._scanner is not None
        if self._scanner.fault is not None:
            return self._broken(machine, self._scanner.fault)
        key = self._string()
        if self._keys.name_is_key and not self._others:
            return self._key_as_name(machine, key)
        role = self._keys.role(key) if key is not None else "other"
        repeated = (role == "name" and self._name is not None) or (role == "arguments" and self._arguments is not None)
        if repeated:
            self._trouble = self._trouble or f"the call repeats {key!r}"
            role = "ignored"
        self._others = self._others or role == "other"
        if self._keys.strict and self._others and not machine.started:
            return machine.give_back()
        self._role = role
        self._expect = "colon"
        return self

    def _key_as_name(self, machine: Machine, key: str | None) -> Region:
        """The first key of `{N: O}`; what comes behind its value is read over."""
        if not key:
            return machine.give_back()
        if self._name is not None:
            self._others = True
            self._trouble = self._trouble or "the call has further keys"
            self._role = "other"
        else:
            self._name, self._role = key, "arguments"
            self._name_from, self._name_to = machine.offset - self._taken, machine.offset
        self._expect = "colon"
        return self

    def _begin_value(self, machine: Machine) -> Region | None:
        self._expect = "value text"
        if self._role == "arguments":
            if self._keys.strict and machine.text[machine.pos] != "{":
                return self._broken(machine, NOT_AN_OBJECT)
            self._arguments = ArgumentsValue(machine)
            if self._name is not None:
                self._start(machine, (self._name_from, self._name_to))
        else:
            self._begin_literal(machine)
            self._name_from = machine.offset if self._role == "name" else self._name_from
        return self

    def _read_value(self, machine: Machine) -> Region | None:
        if self._role == "arguments":
            assert self._arguments is not None
            ended = self._arguments.read(machine, stream=machine.started)
            if self._arguments.fault is not None:
                return self._broken(machine, self._arguments.fault)
            if ended:
                self._expect = "comma"
            return self if ended else None
        scanner = self._scanner
        assert scanner is not None
        if self._role in ("name", "id"):
            if not self._read_literal(machine):
                return None
        else:
            machine.take(scanner.scan(machine.text, machine.pos))
            if not scanner.done and scanner.fault is None:
                return None
        if scanner.fault is not None:
            return self._broken(machine, scanner.fault)
        if self._role == "name" and not self._take_name(machine):
            return machine.give_back()
        if self._role == "id" and not machine.started:
            self._id = self._string()
        self._expect = "comma"
        return self

    def _take_name(self, machine: Machine) -> bool:
        self._name = self._string()
        if not self._name:
            return False
        self._name_to = machine.offset
        if self._arguments is not None:  # they came first: the call begins where they do
            begin = self._arguments.begin
            self._start(machine, (begin, begin))
            self._arguments.flush(machine)
        return True

    def _start(self, machine: Machine, span: tuple[int, int]) -> None:
        assert self._name is not None
        machine.start_call(self._name, span, self._id)

    def _end(self, machine: Machine) -> Region:
        if not machine.started:
            if self._name is None or self._keys.strict:
                return machine.give_back()
            self._start(machine, (self._name_from, self._name_to))
        if self._arguments is None:
            machine.write("{}", machine.offset)
            if self._others:
                self._trouble = self._trouble or "the call has no arguments, but other keys"
        elif self._arguments.flaw is not None:
            self._trouble = self._trouble or self._arguments.flaw
        machine.end_call(self._trouble)
        return self._after.enter(machine)

    def _broken(self, machine: Machine, reason: str) -> Region:
        if not machine.started:
            return machine.give_back()
        return self._raw.because(reason).enter(machine)

    def stop(self, machine: Machine) -> None:
        if (
            self._expect == "value text"
            and machine.started
            and self._role == "arguments"
            and self._arguments is not None
        ):
            self._arguments.flush(machine)
        machine.cut()


_EXPECTED = {
    "open": "`{`",
    "first key": "a property name or `}`",
    "key": "a property name",
    "colon": "`:`",
    "comma": "`,` or `}`",
}
