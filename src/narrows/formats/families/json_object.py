"""One JSON object per call between two markers: `<tool_call>{"name": N, "arguments": O}</tool_call>`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.errors import UnsupportedError
from narrows.formats.families.base import Build, Entry
from narrows.formats.families.json_arguments import give_back, ignore
from narrows.formats.families.json_call import JsonMarkedShape
from narrows.stream.markers import Exit
from narrows.stream.names import is_name
from narrows.stream.regions.json_call import CallObject
from narrows.stream.regions.name import Name

if TYPE_CHECKING:
    from collections.abc import Mapping

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

    def entries(self, build: Build) -> list[Entry]:
        closers = (self.close, *self.close_also)
        raw = build.raw(*build.closing(closers, build.after))
        call = CallObject(self.call_keys(), build.tail(*closers), raw)
        entries = self.entries_of(call, "{")
        if self.head:
            # Another marker ends the name: what stands between is text then, with or without a blank in it.
            name = Name(ignore, give_back, forbidden=self.head[0] + build.encode(self.head)[0])
            name.link([Exit(build.encode(entry.marker), call) for entry in entries])
            entries += [Entry(self.head + entry.marker, call, "{") for entry in entries]
            entries.append(Entry(self.head, name))
        return entries

    def call(self, lowering: RuleWriter, tool: Tool | None) -> ir.Node:
        inside = lowering.text(self.inside)
        header = lowering.seq()
        if self.head:
            if tool is not None and not is_name(tool.name, False, self.head[0]):
                raise UnsupportedError(
                    f"the name {tool.name!r} cannot be written in this format", code="tool_name_unsupported"
                )
            header = lowering.seq(lowering.marker(self.head), lowering.text(tool.name) if tool else lowering.word())
        return lowering.seq(
            header,
            lowering.marker(self.open),
            inside,
            self.object_node(lowering, tool, ids=False),
            inside if self.close else lowering.text(""),
            lowering.marker(self.close),
        )

    def calls(self, lowering: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        return lowering.repeated(call, many, between)

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        end = self.inside + self.close if self.close else ""
        return between.join(
            (self.head + name if self.head else "") + self.open + self.inside + self.object_text(name, arguments) + end
            for name, arguments, _ in calls
        )
