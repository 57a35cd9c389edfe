"""Tags in a message whose head also names the tool: ` to=N<|message|><calls><invoke name="N">...</invoke></calls>`."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from narrows.formats.families.build import give_back
from narrows.formats.families.xml_attributes import XmlAttributesShape
from narrows.formats.families.xml_call import addressed
from narrows.grammar import ir
from narrows.stream.markers import Exit
from narrows.stream.regions.name import Name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from narrows.formats.families.build import Build
    from narrows.formats.families.openers import CallContext, Entry, Opener
    from narrows.formats.rule_writer import RuleWriter
    from narrows.stream.machine import Machine
    from narrows.tools.request import Tool, Tools


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlAddressedShape(XmlAttributesShape):
    """Keys of a `[[call]]` table of family `xml_addressed`: those of `xml_attributes`, and what follows the recipient.

    `open` is what stands before the recipient at the beginning of an answer, `open_also` what stands there elsewhere.
    The name in the call's own tag is the one that counts."""

    address_end: str
    """What stands after the recipient."""
    namespaces: bool = False
    """A name may be written with a namespace before it."""
    message_end: str = ""
    """What may stand after the message of the last call. It is read as one of `close_also`."""

    def markers(self) -> tuple[str, ...]:
        return (*super(XmlAddressedShape, self).markers(), self.address_end)

    # Reading.

    def openers(self, context: CallContext) -> list[Opener]:
        openers = super(XmlAddressedShape, self).openers(context)
        return addressed(openers, self.open, ir.Bytes(self.address_end.encode()))

    def entries(self, build: Build) -> list[Entry]:
        entries = []
        for entry in super(XmlAddressedShape, self).entries(build):
            recipient = Name(_ignore_recipient, give_back)
            recipient.link([Exit(build.encode(self.address_end), entry.region)])
            entries.append(replace(entry, region=recipient))
        return entries

    def resolve(self, tools: Tools, name: str) -> str:
        """The tool that a name means. A name that the request does not offer means what stands after its last point."""
        last = name.rpartition(".")[2]
        return last if self.namespaces and not tools.knows(name) and tools.knows(last) else name

    # The grammar.

    def _body(self) -> XmlAttributesShape:
        """What stands after the recipient, as a shape of its own."""
        keys = {field.name: getattr(self, field.name) for field in fields(XmlAttributesShape)}
        return XmlAttributesShape(**{**keys, "open": self.address_end})

    def call(self, writer: RuleWriter, tool: Tool | None) -> ir.Node:
        body = self._body().call(writer, tool)
        return writer.seq(writer.text(self.open), writer.text(tool.name) if tool else writer.word(), body)

    def calls(self, writer: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        end = writer.optional(writer.marker(self.message_end)) if self.message_end else writer.text("")
        return writer.seq(super(XmlAddressedShape, self).calls(writer, call, many, between), end)

    # The text.

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        body = self._body()
        return between.join(self.open + call[0] + body.render([call], "", ids) for call in calls) + self.message_end


def _ignore_recipient(machine: Machine, name: str, span: tuple[int, int]) -> None:
    """The recipient's name means nothing, since the call's own tag has the name. But a message to it is a call."""
    machine.be_sure()
