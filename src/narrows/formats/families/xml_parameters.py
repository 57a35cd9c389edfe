"""Parameters as tags around bare text, name and key between literals: `<function=N><parameter=K>V</parameter></function>`, or with
tags of their own: `<tool_call>N<arg_key>K</arg_key><arg_value>V</arg_value></tool_call>`. Values are typed by the schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.errors import UnsupportedError
from narrows.formats.families.json_arguments import give_back
from narrows.formats.families.shape import Build, Entry
from narrows.formats.families.xml_call import XmlShape, start_call
from narrows.formats.parameters import Wire
from narrows.stream.markers import Exit
from narrows.stream.names import Expect, Name, is_name

if TYPE_CHECKING:
    from narrows.formats.lowering import Lowering
    from narrows.grammar import ir
    from narrows.stream.machine import Region
    from narrows.stream.tools import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlParametersShape(XmlShape):
    """Keys of a `[[call]]` table of family `xml_parameters`."""

    call_open: str = ""
    """Before the name. Without it, the name stands right behind `open`."""
    name_end: str = ""
    """Behind the name. Without it, the name ends at the first parameter or at `call_close`."""
    name_end_may_be_missing: bool = False
    key_end: str
    value_open: str = ""
    """A tag of its own before the value."""
    inside_parameter: str = ""
    """Layout between `key_end` and `value_open`."""

    def markers(self) -> tuple[str, ...]:
        outer = (
            self.open,
            *self.open_also,
            self.close,
            *self.close_also,
            self.wrap_open,
            self.wrap_close,
            self.call_open,
            self.call_close,
        )
        ends = (self.name_end, self.key_end, self.value_open)
        tags = (*outer, self.parameter_open, self.parameter_close, *(end for end in ends if end[:1] == "<"))
        return tuple(m for m in tags if m)

    def has_inner_tag(self) -> bool:
        return bool(self.call_open)

    def entries(self, build: Build) -> list[Entry]:
        regions = self.skeleton(build, self.call_open)
        key = Name(regions.parameters.key, regions.in_key, spaced=True, forbidden=_NOT_IN_NAMES)
        value: Region = regions.value
        if self.value_open:
            behind_key = Expect(regions.in_key)
            # A key without a value: models write that, and mean nothing by it.
            behind_key.link([Exit(build.encode(self.value_open), value), *regions.ends(key, self.parameter_open)])
            value = behind_key
        key.link([Exit(build.encode(self.key_end), value)])

        name = Name(start_call, give_back, forbidden=_NOT_IN_NAMES)
        ends = [Exit(build.encode(self.name_end), regions.between)] if self.name_end else []
        if not ends or self.name_end_may_be_missing:
            behind = (self.parameter_open, self.call_close)
            ends += [Exit(build.encode(end), regions.between, keep=True) for end in behind]
        name.link(ends)
        return regions.link(name, key, self.parameter_open)

    def call(self, lowering: Lowering, tool: Tool | None) -> ir.Node:
        if tool is not None and not is_name(tool.name, False, _NOT_IN_NAMES + self.name_end[:1]):
            raise UnsupportedError(
                f"the name {tool.name!r} cannot be written in this format", code="tool_name_unsupported"
            )
        tag = lowering.seq(
            lowering.marker(self.call_open),
            lowering.text(tool.name) if tool else lowering.word(),
            lowering.marker(self.name_end),
            self.layout(lowering),
        )
        return self.call_node(lowering, tag, lowering.parameters(self.form, self._wire(lowering), tool))

    def _wire(self, lowering: Lowering) -> Wire:
        def key(name: ir.Node, declared: str) -> ir.Node:
            return lowering.seq(
                lowering.marker(self.parameter_open),
                name,
                lowering.marker(self.key_end),
                self.layout(lowering, self.inside_parameter),
                lowering.marker(self.value_open),
            )

        return self.wire(lowering, key=key, spell=_spell)

    def call_tag(self, name: str, index: int) -> str:
        return self.call_open + name + self.name_end + self.inside

    def key_tag(self, key: str, value: Any) -> str:
        return self.parameter_open + key + self.key_end + self.inside_parameter + self.value_open


_NOT_IN_NAMES = "<"


def _spell(key: str) -> str | None:
    """A key that stands bare between its tags."""
    fits = key and key.strip() == key and not any(c < " " or c in "<>" or "\ud800" <= c <= "\udfff" for c in key)
    return key if fits else None
