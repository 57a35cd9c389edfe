"""Parameters in a message whose head names the tool: ` to=N<|message|><parameter name="K">V</parameter><|call|>`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.formats.families.xml_call import addressed
from narrows.formats.families.xml_parameters import XmlParametersShape
from narrows.formats.spelling import arguments_of
from narrows.grammar import ir

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from narrows.formats.families.openers import CallContext, Opener
    from narrows.formats.rule_writer import RuleWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlMessageShape(XmlParametersShape):
    """Keys of a `[[call]]` table of family `xml_message`: those of `xml_parameters`.

    `open` is what stands before the recipient at the beginning of an answer, `open_also` what stands there elsewhere.
    `name_end` is the rest of the head. Several messages follow each other, with the layout between calls. Each ends
    with `call_close`."""

    last_close: str = ""
    """What ends the last message, in place of `call_close`."""

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super(XmlMessageShape, self).problems()
        if not self.name_end or self.name_end_may_be_missing:
            yield "name_end", "is needed: without it, a recipient cannot be told from prose"
        if not self.last_close:
            yield "last_close", "is missing"
        if self.close or self.call_open or self.many:
            yield "close", "close, call_open and many have no meaning here"

    def call_ends(self) -> tuple[str, ...]:
        return (*super(XmlMessageShape, self).call_ends(), self.last_close)

    # Reading.

    def openers(self, context: CallContext) -> list[Opener]:
        ends = ir.Literals(tuple(end.encode() for end in (self.name_end, *self.name_end_also)))
        return addressed(super(XmlMessageShape, self).openers(context), self.open, ends)

    # The grammar.

    def call_node(self, writer: RuleWriter, tag: ir.Node, parameters: ir.Node) -> ir.Node:
        """One call, but for its end."""
        return writer.seq(writer.text(self.open), tag, parameters)

    def calls(self, writer: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        end = writer.marker(self.last_close)
        if not many:
            return writer.seq(call, end)
        gap = writer.marker(self.call_close + between)
        return writer.seq(writer.several(call, writer.seq(gap, call)), end)

    # The text.

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        texts = [
            self.open + self.render_call(name, arguments_of(arguments), i).removesuffix(self.call_close)
            for i, (name, arguments, _) in enumerate(calls)
        ]
        return (self.call_close + between).join(texts) + self.last_close
