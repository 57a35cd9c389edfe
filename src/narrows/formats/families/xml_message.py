"""Parameters in a message whose head names the tool: ` to=N<|message|><parameter name="K">V</parameter><|call|>`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from narrows.formats.families.xml_parameters import XmlParametersShape
from narrows.formats.spelling import arguments_of
from narrows.grammar import ir

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from narrows.formats.families.base import Build, Entry
    from narrows.formats.rule_writer import RuleWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlMessageShape(XmlParametersShape):
    """Keys of a `[[call]]` table of family `xml_message`: those of `xml_parameters`.

    `open` is what stands before the recipient at the beginning of an answer, `open_also` elsewhere; `name_end` the rest of the head.
    Several messages follow each other, with the layout between calls, each ended by `call_close`."""

    last_close: str = ""
    """Ends the last message, in place of `call_close`."""

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

    def entries(self, build: Build) -> list[Entry]:
        found = []
        for entry in super(XmlMessageShape, self).entries(build):
            if entry.marker == build.encode(self.open):  # the text of an answer may lack the blank before it
                found.append(replace(entry, marker=entry.marker.lstrip(), at_start=True))
            else:
                found.append(replace(entry, opener=self._opener(entry.marker)))
        return found

    def _opener(self, marker: str) -> ir.Node:
        """The head of a message to anyone: the words before the recipient alone may well be prose."""
        name = ir.Repeat(ir.byte_set((0x21, 0x3B), (0x3D, 0x7E)), 1)
        heads = ir.Literals(tuple(end.encode() for end in (self.name_end, *self.name_end_also)))
        return ir.Seq((ir.Bytes(marker.encode()), name, heads))

    def call_node(self, lowering: RuleWriter, tag: ir.Node, parameters: ir.Node) -> ir.Node:
        """One call, but for its end."""
        return lowering.seq(lowering.text(self.open), tag, parameters)

    def calls(self, lowering: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        end = lowering.marker(self.last_close)
        if not many:
            return lowering.seq(call, end)
        gap = lowering.marker(self.call_close + between)
        return lowering.seq(lowering.several(call, lowering.seq(gap, call)), end)

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        made = [
            self.open + self.render_call(name, arguments_of(arguments), i).removesuffix(self.call_close)
            for i, (name, arguments, _) in enumerate(calls)
        ]
        return (self.call_close + between).join(made) + self.last_close
