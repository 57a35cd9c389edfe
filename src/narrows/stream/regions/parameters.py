"""The arguments object of a call whose parameters come one by one.

`Parameters` writes their names and values as one JSON object. Where a parameter is given twice, the first value counts,
and the later ones are read and left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.stream.json_scan import WHITESPACE, keys_of, quote
from narrows.stream.names import LONGEST_NAME, TOO_MANY_KEYS, next_key
from narrows.stream.regions.enter_only import EnterOnly
from narrows.value_types import JSON, NOWHERE, UNTYPED, ValueType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from narrows.stream.machine import Machine, Region


class Parameters:
    """Writes the keys and values of the open call as JSON.

    `wrappers`: names that models give to one parameter that holds all arguments as an object. Where the schema has no
    such parameter, the object's members are the arguments.
    """

    __slots__ = ("_arguments", "_key", "_machine", "_span", "_tool", "_wrappers", "_wraps", "again", "kind")

    def __init__(self, wrappers: Iterable[str] = ()) -> None:
        self.kind: ValueType = UNTYPED
        self._key: str | None = None
        self._span = (0, 0)
        self._tool: str | None = None
        self._arguments = NOWHERE
        """The schema's place of the arguments of `_tool`."""
        self._wrappers = frozenset(wrappers)
        self._wraps = False
        self._machine: Machine | None = None
        self.again = False
        """The parameter was given before, so none of it is written."""

    def key(self, machine: Machine, name: str, span: tuple[int, int], declared: ValueType | None = None) -> None:
        """A parameter's name has been read, and perhaps its type. If no value follows, nothing is written."""
        name, given = machine.clean(name), machine.given
        if self._key is not None and not self.again:
            given.pop(self._key, None)
        self._key, self._span = name, span
        if name not in given and len(given) >= machine.limits.stream_keys:
            machine.trouble, self.again = TOO_MANY_KEYS, True
        else:
            self.again = given.setdefault(name, span[0]) != span[0]
        self._machine = machine if machine.limits.stream_name_chars >= LONGEST_NAME else None
        self._wraps = name in self._wrappers and not machine.wrote_arguments and self._unknown(machine, name)
        if declared is not None or self._wraps:
            self.kind = declared or JSON
        else:
            if self._tool != machine.name:
                self._tool, self._arguments = machine.name, machine.tools.place(machine.name)
            self.kind = self._arguments.member(name).kind

    def next_string(self, name: str, place: int) -> str | None:
        """The JSON that the core writes for the name of a parameter whose tag says that it is a string."""
        return next_key(self._machine, name, place)

    def next_typed(self, name: str, place: int) -> str | None:
        """The same for a parameter whose schema says so."""
        machine = self._machine
        if machine is None or machine.name != self._tool or not self._arguments.member(name).kind.plain_string:
            return None
        return next_key(machine, name, place)

    def resuming(
        self, region: Region, declared: ValueType | None = None
    ) -> Callable[[Machine, tuple[str, tuple[int, int]] | None], Region]:
        """A function by which `region` takes over from the core: after a parameter's name, or where none was read."""

        def resume(machine: Machine, named: tuple[str, tuple[int, int]] | None) -> Region:
            self.again = False
            if named is not None:
                self.key(machine, *named, declared)
            return region.enter(machine)

        return resume

    def _unknown(self, machine: Machine, name: str) -> bool:
        """Whether the tool declares parameters, but not this one."""
        names = machine.tools.place(machine.name).names
        return bool(names) and name not in names

    def write_key(self, machine: Machine) -> None:
        """Write `{"name": ` or `, "name": ` before the value begins, once."""
        if self._key is not None:
            self.write_held(machine, f"{', ' if machine.wrote_arguments else '{'}{quote(self._key)}: ", self._span)
            self._key = None

    def write_value(self, machine: Machine, json_text: str, span: tuple[int, int]) -> None:
        """Write a value in one piece, with its key."""
        if self._wraps and json_text[0] == "{":
            inside = json_text[1:-1].strip(WHITESPACE)
            machine.write_held("{" + inside if inside else "", span)
            self._key = None
            machine.given.update(dict.fromkeys(keys_of(json_text), span[0]))
            return
        self.write_key(machine)
        self.write_held(machine, json_text, span)

    def write(self, machine: Machine, text: str, start: int) -> None:
        """Write more of the value."""
        if not self.again:
            machine.write(text, start)

    def write_held(self, machine: Machine, text: str, span: tuple[int, int]) -> None:
        """Write what was held back."""
        if not self.again:
            machine.write_held(text, span)

    def close(self, machine: Machine) -> None:
        """All parameters have been read."""
        machine.write("}" if machine.wrote_arguments else "{}", machine.offset)


class EndOfCall(EnterOnly):
    """The call's closing tag has been read: the arguments are whole. Then `after`."""

    __slots__ = ("_after", "_parameters")

    def __init__(self, parameters: Parameters, after: Region) -> None:
        self._parameters = parameters
        self._after = after

    def enter(self, machine: Machine) -> Region:
        self._parameters.close(machine)
        machine.end_call()
        return self._after.enter(machine)
