"""Parameters as tags around bare text: `<function=N><parameter=K>V</parameter></function>`, values typed by the schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.errors import UnsupportedError
from narrows.formats.families.json_arguments import give_back
from narrows.formats.families.shape import Build, Entry
from narrows.formats.spelling import arguments_of, value_text
from narrows.stream.markers import Exit
from narrows.stream.names import Expect, Name, is_name
from narrows.stream.xml_call import EndOfCall, Parameters, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from narrows.formats.lowering import Lowering
    from narrows.grammar import ir
    from narrows.stream.machine import Machine, Region
    from narrows.stream.tools import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlParametersShape:
    """Keys of a `[[call]]` table of family `xml_parameters`."""

    form: str
    open: str
    close: str
    open_may_be_missing: bool = False
    """A call may begin at `call_open` itself."""
    call_open: str
    name_end: str
    call_close: str
    parameter_open: str
    key_end: str
    parameter_close: str
    trim_value: bool = True
    """One newline at either end of a value is layout."""
    inside: str = ""
    """Layout between the tags."""

    def markers(self) -> tuple[str, ...]:
        tags = (self.open, self.close, self.call_open, self.call_close, self.parameter_open, self.parameter_close)
        return tuple(m for m in tags if m)

    def entries(self, build: Build) -> list[Entry]:
        tail = build.tail(self.close)
        parameters = Parameters()
        end, end_at_close = EndOfCall(parameters, tail), EndOfCall(parameters, build.after)
        call_close = Exit(build.encode(self.call_close), end)
        close = Exit(build.encode(self.close), end_at_close)
        raw = build.raw(Exit(call_close.marker, tail), Exit(close.marker, build.after))
        broken = _Broken(raw)

        between = Expect(broken.between)
        key = Name(parameters.key, broken.in_key, spaced=True, forbidden=_NOT_IN_NAMES)
        value = Value(parameters, self.trim_value)
        open_parameter = Exit(build.encode(self.parameter_open), key)
        close_parameter = Exit(build.encode(self.parameter_close), between)
        between.link([open_parameter, close_parameter, call_close, close])
        key.link([Exit(build.encode(self.key_end), value)])
        value.link([close_parameter], [open_parameter, call_close])

        name = Name(start_call, give_back, forbidden=_NOT_IN_NAMES)
        name.link([Exit(build.encode(self.name_end), between)])
        opened = Expect(give_back)
        opened.link([Exit(build.encode(self.call_open), name)])
        entries = [Entry(self.open, opened)]
        if self.open_may_be_missing:
            entries.append(Entry(self.call_open, name))
        return entries

    def call(self, lowering: Lowering, tool: Tool | None) -> ir.Node:
        if tool is not None and not is_name(tool.name, False, _NOT_IN_NAMES + self.name_end[:1]):
            raise UnsupportedError(
                f"the name {tool.name!r} cannot be written in this format", code="tool_name_unsupported"
            )
        inside = lowering.text(self.inside)
        return lowering.seq(
            lowering.marker(self.open),
            inside,
            lowering.marker(self.call_open),
            lowering.text(tool.name) if tool else lowering.word(_NOT_IN_NAMES + self.name_end[:1]),
            lowering.marker(self.name_end),
            inside,
            lowering.parameters(self, tool),
            lowering.marker(self.call_close),
            inside,
            lowering.marker(self.close),
        )

    def calls(self, lowering: Lowering, call: ir.Node, many: bool, between: str) -> ir.Node:
        return lowering.repeated(call, many, between)

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        return between.join(self._render(name, arguments_of(arguments)) for name, arguments, _ in calls)

    def _render(self, name: str, arguments: Mapping[str, Any]) -> str:
        line = "\n" if self.trim_value else ""
        parts = [self.open, self.inside, self.call_open, name, self.name_end, self.inside]
        for key, value in arguments.items():
            parts += [self.parameter_open, key, self.key_end, line, value_text(value), line, self.parameter_close]
            parts.append(self.inside)
        return "".join([*parts, self.call_close, self.inside, self.close])


_NOT_IN_NAMES = "<"


def start_call(machine: Machine, name: str, span: tuple[int, int]) -> None:
    machine.start_call(machine.clean(name), span)


class _Broken:
    """Where markup of a call that has started breaks off."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def between(self, machine: Machine) -> Region:
        region: Region = self._raw.because("text between the parameters").enter(machine)
        return region

    def in_key(self, machine: Machine) -> Region:
        region: Region = self._raw.because("a parameter's name breaks off").enter(machine)
        return region
