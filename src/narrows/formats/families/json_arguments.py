"""The name outside, the arguments as JSON: `[TOOL_CALLS]N[ARGS]{...}`, with an id in between where the wire carries one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.errors import UnsupportedError
from narrows.formats.families.shape import Build, Entry
from narrows.formats.spelling import arguments_text
from narrows.stream.json_call import JsonArguments
from narrows.stream.markers import Exit
from narrows.stream.names import Name, is_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from narrows.formats.lowering import Lowering
    from narrows.grammar import ir
    from narrows.stream.machine import Machine, Region
    from narrows.stream.tools import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonArgumentsShape:
    """Keys of a `[[call]]` table of family `json_arguments`."""

    form: str
    open: str
    arguments_open: str
    arguments_open_may_be_missing: bool = False
    """Some models leave it out: then the name ends at `{`."""
    id_open: str = ""
    close: str = ""

    def markers(self) -> tuple[str, ...]:
        return tuple(m for m in (self.open, self.id_open, self.arguments_open, self.close) if m)

    def entries(self, build: Build) -> list[Entry]:
        raw = build.raw(*build.closing(self.close, build.after))
        header = _Header(JsonArguments(build.tail(self.close), raw))
        name = Name(header.take_name, give_back)
        ends = [Exit(build.encode(self.arguments_open), header)]
        if self.arguments_open_may_be_missing:
            ends.append(Exit("{", header, keep=True))
        if self.id_open:
            call_id = Name(header.take_id, give_back)
            call_id.link(ends)
            name.link([*ends, Exit(build.encode(self.id_open), call_id)])
        else:
            name.link(ends)
        return [Entry(self.open, name)]

    def call(self, lowering: Lowering, tool: Tool | None) -> ir.Node:
        if tool is not None:
            ends = [self.arguments_open, self.id_open, "{" if self.arguments_open_may_be_missing else ""]
            if not is_name(tool.name, False, "") or any(end and end in tool.name for end in ends):
                raise UnsupportedError(
                    f"the name {tool.name!r} cannot be written in this format", code="tool_name_unsupported"
                )
        call_id = (
            lowering.optional(lowering.marker(self.id_open), lowering.word()) if self.id_open else lowering.text("")
        )
        return lowering.seq(
            lowering.marker(self.open),
            lowering.text(tool.name) if tool else lowering.word(),
            call_id,
            lowering.marker(self.arguments_open),
            lowering.arguments(tool),
            lowering.marker(self.close),
        )

    def calls(self, lowering: Lowering, call: ir.Node, many: bool, between: str) -> ir.Node:
        return lowering.repeated(call, many, between)

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        return between.join(
            self.open
            + name
            + (self.id_open + call_id if ids and self.id_open and call_id else "")
            + self.arguments_open
            + arguments_text(arguments)
            + self.close
            for name, arguments, call_id in calls
        )


def give_back(machine: Machine) -> Region:
    return machine.give_back()


class _Header:
    """Name and id on their way to the arguments; entering it starts the call."""

    __slots__ = ("_arguments", "_id", "_name", "_span")
    place = "call"

    def __init__(self, arguments: JsonArguments) -> None:
        self._arguments = arguments
        self._name = ""
        self._id = ""
        self._span = (0, 0)

    def take_name(self, machine: Machine, name: str, span: tuple[int, int]) -> None:
        self._name, self._span, self._id = name, span, ""

    def take_id(self, machine: Machine, name: str, span: tuple[int, int]) -> None:
        self._id = name

    def enter(self, machine: Machine) -> Region:
        machine.start_call(machine.clean(self._name), self._span, machine.clean(self._id) or None)
        return self._arguments.enter(machine)

    def read(self, machine: Machine) -> Region | None:
        raise AssertionError("entered, never read")

    def stop(self, machine: Machine) -> None:
        raise AssertionError("entered, never read")
