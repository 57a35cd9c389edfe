"""Regions for calls whose arguments are JSON: passed through as the model wrote them, validated on the way.

`CallObject` reads `{"name": ..., "arguments": {...}}` with its keys in any order; `JsonArguments` reads a bare arguments
object after a name that stands outside it. Where the JSON breaks off after the call has started, `RawArguments` lets the rest
follow as it is until the call's closing marker.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.stream.held import Held
from narrows.stream.json_scan import BLANK, JsonScanner
from narrows.stream.machine import CUT
from narrows.stream.markers import Exit, Markers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.text import Text

_NOT_AN_OBJECT = "the arguments are not a JSON object"


class RawArguments:
    """The rest of a call that has gone wrong, as raw arguments, until one of its exits; the call ends incomplete."""

    __slots__ = ("_home", "_markers", "_reason")
    place = "call"

    def __init__(self, home: Text) -> None:
        self._home = home
        self._markers = Markers(())
        self._reason = ""

    def link(self, exits: Iterable[Exit]) -> None:
        self._markers = Markers(tuple(exits))

    def enter(self, machine: Machine) -> RawArguments:
        return self

    def ends_here(self, machine: Machine) -> tuple[bool, bool]:
        """(whether one of the exits comes next, whether more text may make one). Where the answer is cut in one, there is none."""
        found, _ = self._markers.match(machine.text, machine.pos, machine.final)
        return found is not None, self._markers.match(machine.text, machine.pos, False)[1]

    def because(self, reason: str) -> RawArguments:
        self._reason = reason
        return self

    def read(self, machine: Machine) -> Region | None:
        at, found = self._markers.search(machine.text, machine.pos, machine.final)
        if at > machine.pos:
            machine.pass_through(at)
        if found is None:
            return None
        machine.end_call(self._reason)
        if found.begins:
            machine.hold(self._home, found.inside, found.sure)
        machine.take(at if found.keep else at + len(found.marker))
        return found.region.enter(machine)

    def stop(self, machine: Machine) -> None:
        machine.pass_through(len(machine.text))
        machine.end_call(self._reason)


class ArgumentsValue:
    """One arguments value, streamed while the call's name is known and held while it is not."""

    __slots__ = ("_empty", "_held", "_run", "_scanner", "begin", "end")

    def __init__(self, machine: Machine) -> None:
        self._scanner = JsonScanner(machine.limits.stream_depth)
        self._run = Run.of_json(self._scanner)
        self._held = Held()
        self._empty = False
        self.begin = self.end = machine.offset

    @property
    def fault(self) -> str | None:
        return self._scanner.fault

    @property
    def flaw(self) -> str | None:
        """Why these arguments are not a JSON object although the value has ended."""
        if self._scanner.kind != "{" and not self._empty:
            return _NOT_AN_OBJECT
        return self._scanner.flaw

    def read(self, machine: Machine, stream: bool) -> bool:
        """Take what there is; True when the value has ended (or broken off: `fault`)."""
        scanner = self._scanner
        at = scanner.scan(machine.text, machine.pos)
        ended = scanner.done or scanner.fault is not None
        if at > machine.pos:
            start = machine.offset
            piece = machine.clean(machine.take(at))
            self.end = machine.offset
            if scanner.kind == "n" or not stream:
                self._held.add(piece)
            else:
                machine.write(piece, start)
                if machine.offset >= 0 and not ended:
                    machine.run = self._run
        if scanner.done and scanner.kind == "n":  # null: a call without arguments
            self._empty = True
            self._held = Held("{}")
        if stream and self._held.size and ended:
            self.flush(machine)
        return ended

    def flush(self, machine: Machine) -> None:
        """Emit what was held."""
        machine.write_held(self._held.text, (self.begin, self.end))
        self._held = Held()


class JsonArguments:
    """A bare arguments object of a call that has started; then `after`. Where nothing stands before what ends the call, it is `{}`.

    With `objects_only`, anything else is raw, up to the closing marker: elsewhere a value ends the arguments, whatever it is."""

    __slots__ = ("_after", "_objects_only", "_raw", "_value")
    place = "call"

    def __init__(self, after: Region, raw: RawArguments, objects_only: bool = False) -> None:
        self._after = after
        self._raw = raw
        self._objects_only = objects_only
        self._value: ArgumentsValue | None = None

    def enter(self, machine: Machine) -> JsonArguments:
        self._value = None
        return self

    def read(self, machine: Machine) -> Region | None:
        if self._value is None:
            if not skip_blanks(machine):
                return None
            ended, maybe = self._raw.ends_here(machine)
            if ended:
                machine.write("{}", machine.offset)
                machine.end_call()
                return self._after.enter(machine)
            if maybe:
                return None
            if self._objects_only and machine.text[machine.pos] not in "{n":
                return self._raw.because(_NOT_AN_OBJECT).enter(machine)
            self._value = ArgumentsValue(machine)
        if not self._value.read(machine, stream=True):
            return None
        if self._value.fault is not None:
            return self._raw.because(self._value.fault).enter(machine)
        machine.end_call(self._value.flaw)
        return self._after.enter(machine)

    def stop(self, machine: Machine) -> None:
        if self._value is not None:
            self._value.flush(machine)
        machine.take(len(machine.text))  # half a marker
        machine.end_call(CUT)


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
        if not skip_blanks(machine):
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
                return self._broken(machine, _NOT_AN_OBJECT)
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


def skip_blanks(machine: Machine) -> bool:
    """Take JSON blanks; False when that was all there is."""
    text, pos = machine.text, machine.pos
    end = len(text)
    while pos < end and text[pos] in BLANK:
        pos += 1
    if pos > machine.pos:
        machine.take(pos)
    return pos < end
