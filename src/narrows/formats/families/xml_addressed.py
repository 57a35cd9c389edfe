"""Tags in a message that names the tool in its head, too: ` to=N<|message|><calls><invoke name="N">...</invoke></calls>`."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from narrows.formats.families.json_arguments import give_back
from narrows.formats.families.xml_attributes import XmlAttributesShape
from narrows.grammar import ir
from narrows.stream.markers import Exit
from narrows.stream.regions.name import Name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from narrows.formats.families.base import Build, Entry
    from narrows.formats.rule_writer import RuleWriter
    from narrows.stream.machine import Machine
    from narrows.tools.request import Tool, Tools


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlAddressedShape(XmlAttributesShape):
    """Keys of a `[[call]]` table of family `xml_addressed`: those of `xml_attributes`, and what stands behind the recipient.

    `open` is what stands before the recipient at the beginning of an answer (`open_also`: elsewhere); the name in the call's own tag is the one that counts."""

    address_end: str
    namespaces: bool = False
    """A name may be written with a namespace before it."""
    message_end: str = ""
    """May stand behind the last call's message; read as one of `close_also`."""

    def markers(self) -> tuple[str, ...]:
        return (*super(XmlAddressedShape, self).markers(), self.address_end)

    def entries(self, build: Build) -> list[Entry]:
        found = []
        for entry in super(XmlAddressedShape, self).entries(build):
            recipient = Name(_ignore, give_back)
            recipient.link([Exit(build.encode(self.address_end), entry.region)])
            if entry.marker == build.encode(self.open):  # the text of an answer may lack the blank before it
                found.append(replace(entry, marker=entry.marker.lstrip(), region=recipient, at_start=True))
            else:
                found.append(replace(entry, region=recipient, opener=self._opener(entry.marker)))
        return found

    def resolve(self, tools: Tools, name: str) -> str:
        """The tool that a name means: itself, or, where it is none that was offered, what stands behind its last point."""
        last = name.rpartition(".")[2]
        return last if self.namespaces and not tools.knows(name) and tools.knows(last) else name

    def _opener(self, marker: str) -> ir.Node:
        """The head of a message to anyone: the words before the recipient alone may well be prose."""
        name = ir.Repeat(ir.byte_set((0x21, 0x3B), (0x3D, 0x7E)), 1)
        return ir.Seq((ir.Bytes(marker.encode()), name, ir.Bytes(self.address_end.encode())))

    def _body(self) -> XmlAttributesShape:
        """What stands behind the recipient, as a shape of its own."""
        keys = {field.name: getattr(self, field.name) for field in fields(XmlAttributesShape)}
        return XmlAttributesShape(**{**keys, "open": self.address_end})

    def call(self, lowering: RuleWriter, tool: Tool | None) -> ir.Node:
        body = self._body().call(lowering, tool)
        return lowering.seq(lowering.text(self.open), lowering.text(tool.name) if tool else lowering.word(), body)

    def calls(self, lowering: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        end = lowering.optional(lowering.marker(self.message_end)) if self.message_end else lowering.text("")
        return lowering.seq(super(XmlAddressedShape, self).calls(lowering, call, many, between), end)

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        body = self._body()
        return between.join(self.open + call[0] + body.render([call], "", ids) for call in calls) + self.message_end


def _ignore(machine: Machine, name: str, span: tuple[int, int]) -> None:
    """The recipient means nothing: the call's own tag has the name. But what is addressed is a call."""
    machine.be_sure()
