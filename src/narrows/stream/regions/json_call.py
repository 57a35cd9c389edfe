"""A call as one JSON object: `{"name": N, "arguments": {...}}` with its keys in any order.

| state | what comes | next state |
| --- | --- | --- |
| `OPENING_BRACE` | `{` | `FIRST_KEY_OR_END` |
| `FIRST_KEY_OR_END`, `KEY` | `"` | `IN_KEY` |
| `IN_KEY` | the key's end | `COLON` |
| `COLON` | `:` | `VALUE` |
| `VALUE` | anything: the value begins | `IN_VALUE`, and read again |
| `IN_VALUE` | the value's end | `COMMA_OR_END` |
| `COMMA_OR_END` | `,` | `KEY` |
| `FIRST_KEY_OR_END`, `COMMA_OR_END` | `}` | the call ends |
| any | anything else | the call breaks off |

Whitespace may stand between these. Where the call breaks off before it has started, its text is given back as text.
Afterwards the rest follows as raw arguments (`RawArguments`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from narrows.stream.json_scan import JsonScanner
from narrows.stream.regions.json_arguments import NOT_AN_OBJECT, ArgumentsValue
from narrows.stream.states import State
from narrows.stream.whitespace import skip_whitespace

if TYPE_CHECKING:
    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.raw_arguments import RawArguments


Role = Literal["name", "arguments", "id", "ignored", "other"]
"""A property's role in a call. "ignored" and "other" ones are left out. "other" ones may show that it is no call."""


@dataclass(frozen=True, slots=True)
class CallKeys:
    """The roles of the properties of a call's object. The values of properties without a role are left out."""

    name: frozenset[str]
    arguments: frozenset[str]
    id: frozenset[str]
    ignored: frozenset[str]
    name_is_key: bool = False
    """The first property's name is the call's name, and its value the arguments."""
    strict: bool = False
    """For calls that no marker announces. An object is no call if it has other keys, has no arguments, or has arguments
    that are not an object."""

    known: bool = False
    """Besides `strict`: an object whose name is that of no tool is no call, if it is the first. For content that was
    held to a grammar of its own, which may look like a call."""

    def role(self, key: str) -> Role:
        if key in self.name:
            return "name"
        if key in self.arguments:
            return "arguments"
        if key in self.id:
            return "id"
        return "ignored" if key in self.ignored else "other"


OPENING_BRACE = State("`{`")
FIRST_KEY_OR_END = State("a property name or `}`")
KEY = State("a property name")
IN_KEY = State("more of a property name")
COLON = State("`:`")
VALUE = State("a value")
IN_VALUE = State("more of a value")
COMMA_OR_END = State("`,` or `}`")

_AFTER_PUNCTUATION = {(OPENING_BRACE, "{"): FIRST_KEY_OR_END, (COLON, ":"): VALUE, (COMMA_OR_END, ","): KEY}


class CallObject:
    """`{"name": N, "arguments": O}` with its keys in any order, and possibly an id and other keys.

    The call starts when its name is known and its arguments begin. Arguments that come first are held back until the
    name has come, at most `stream_held_chars`. An id that comes after the arguments is not used.
    """

    __slots__ = ("_after", "_arguments", "_id", "_keys", "_literal", "_literal_size", "_name", "_name_from", "_name_to",
                 "_others", "_raw", "_role", "_scanner", "_state", "_trouble")  # fmt: skip
    place = "call"

    def __init__(self, keys: CallKeys, after: Region, raw: RawArguments) -> None:
        self._keys = keys
        self._after = after
        self._raw = raw

    def enter(self, machine: Machine) -> CallObject:
        self._state = OPENING_BRACE
        self._role: Role = "other"
        self._name: str | None = None
        self._name_from = self._name_to = 0
        self._id: str | None = None
        self._arguments: ArgumentsValue | None = None
        self._scanner: JsonScanner | None = None
        self._literal: list[str] = []
        self._literal_size = 0
        self._trouble: str | None = None
        self._others = False
        return self

    def read(self, machine: Machine) -> Region | None:
        while True:
            if self._state is IN_VALUE:
                step = self._read_value(machine)
            elif self._state is IN_KEY:
                step = self._read_key(machine)
            else:
                step = self._read_structure(machine)
            if step is not self:
                return step

    # Each step returns this region (go on), another (it takes over), or None (more text is needed).

    def _read_structure(self, machine: Machine) -> Region | None:
        if not skip_whitespace(machine):
            return None
        char, state = machine.text[machine.pos], self._state
        if char == "}" and (state is FIRST_KEY_OR_END or state is COMMA_OR_END):
            machine.take(machine.pos + 1)
            return self._end(machine)
        if char == '"' and (state is FIRST_KEY_OR_END or state is KEY):
            self._begin_literal(machine)
            self._state = IN_KEY
            return self
        if state is VALUE:
            return self._begin_value(machine)
        after = _AFTER_PUNCTUATION.get((state, char))
        if after is None:
            return self._broken(machine, f"the call's object breaks off where {state.expected} is expected")
        machine.take(machine.pos + 1)
        self._state = after
        return self

    def _begin_literal(self, machine: Machine) -> None:
        self._scanner = JsonScanner(machine.limits.stream_depth)
        self._literal = []
        self._literal_size = 0

    def _read_literal(self, machine: Machine) -> bool:
        """Take more of a short value. Returns True at its end. `_scanner.fault`: it is broken or too long."""
        scanner = self._scanner
        assert scanner is not None
        pos, room = machine.pos, machine.limits.stream_name_chars + 1 - self._literal_size
        window = machine.text if len(machine.text) - pos <= room else machine.text[: pos + room]
        at = scanner.scan(window, pos)
        self._literal_size += at - pos
        if self._literal_size > machine.limits.stream_name_chars and scanner.fault is None:
            scanner.fault = "a key or a name is too long [limit stream_name_chars]"
        self._literal.append(machine.clean(machine.take(at)))
        return scanner.done or scanner.fault is not None

    def _string(self) -> str | None:
        """The string that was read; None where it is no string, or has half a surrogate pair."""
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
        self._state = COLON
        return self

    def _key_as_name(self, machine: Machine, key: str | None) -> Region:
        """A key where the first key is the call's name, as in `{N: O}`. Further keys are left out."""
        if not key:
            return machine.give_back()
        if self._name is not None:
            self._others = True
            self._trouble = self._trouble or "the call has further keys"
            self._role = "other"
        else:
            self._name, self._role = key, "arguments"
            self._name_from, self._name_to = machine.offset - self._literal_size, machine.offset
        self._state = COLON
        return self

    def _begin_value(self, machine: Machine) -> Region | None:
        self._state = IN_VALUE
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
                self._state = COMMA_OR_END
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
        self._state = COMMA_OR_END
        return self

    def _take_name(self, machine: Machine) -> bool:
        self._name = self._string()
        if not self._name or (self._keys.known and not machine.calls and not machine.tools.knows(self._name)):
            return False
        self._name_to = machine.offset
        if self._arguments is not None:  # they came first: the call begins where they begin
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
        if self._state is IN_VALUE and machine.started and self._role == "arguments" and self._arguments is not None:
            self._arguments.flush(machine)
        machine.cut()
