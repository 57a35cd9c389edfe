"""One JSON object per call between two markers: `<tool_call>{"name": N, "arguments": O}</tool_call>`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.formats.families.base import name_unsupported
from narrows.formats.families.build import give_back, ignore
from narrows.formats.families.json_call import JsonMarkedShape
from narrows.formats.families.openers import Opener
from narrows.stream.markers import Exit
from narrows.stream.names import is_name
from narrows.stream.regions.json_call import CallObject
from narrows.stream.regions.name import Name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from narrows.formats.families.build import Build
    from narrows.formats.families.openers import CallContext, Entry
    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.tools.request import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonObjectShape(JsonMarkedShape):
    """Keys of a `[[call]]` table of family `json_object`."""

    head: str = ""
    """A marker before `open`. The name stands between the two, or nothing. The name in the object is the one that
    counts."""
    inside: str = ""
    """Layout after `open` and before `close`."""

    def markers(self) -> tuple[str, ...]:
        return (*((self.head,) if self.head else ()), *super(JsonObjectShape, self).markers())

    # Reading.

    def openers(self, context: CallContext) -> list[Opener]:
        openers = self.marked_openers("{")
        if self.head:
            openers += [Opener(self.head + opener.marker, "{") for opener in openers]
            openers.append(Opener(self.head))
        return openers

    def entries(self, build: Build) -> list[Entry]:
        closers = (self.close, *self.close_also)
        raw = build.raw(*build.closing(closers, build.after))
        call = CallObject(build.keys(self.call_keys()), build.tail(*closers), raw)
        openers = self.openers(build)
        if not self.head:
            return [opener.to(call) for opener in openers]
        # Another `head` ends the name: what stands between is text then, with or without whitespace in it.
        name = Name(ignore, give_back, forbidden=self.head[0] + build.encode(self.head)[0])
        name.link([Exit(build.encode(opener.marker), call) for opener in self.marked_openers("{")])
        *of_objects, of_names = openers
        return [*(opener.to(call) for opener in of_objects), of_names.to(name)]

    # The grammar.

    def call(self, writer: RuleWriter, tool: Tool | None) -> ir.Node:
        inside = writer.text(self.inside)
        head = writer.seq()
        if self.head:
            if tool is not None and not is_name(tool.name, False, self.head[0]):
                raise name_unsupported(tool.name)
            head = writer.seq(writer.marker(self.head), writer.text(tool.name) if tool else writer.word())
        return writer.seq(
            head,
            writer.marker(self.open),
            inside,
            self.object_node(writer, tool, ids=False),
            inside if self.close else writer.text(""),
            writer.marker(self.close),
        )

    def calls(self, writer: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        return writer.repeated(call, many, between)

    # The text.

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        end = self.inside + self.close if self.close else ""
        return between.join(
            (self.head + name if self.head else "") + self.open + self.inside + self.object_text(name, arguments) + end
            for name, arguments, _ in calls
        )
