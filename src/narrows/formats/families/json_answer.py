"""The whole answer is a JSON object: `{"tool_calls": [...]}`, `{"tool_call": {...}}`, or `{"response": "..."}`.

The last one holds text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from narrows.formats.families.build import give_back
from narrows.formats.families.json_call import JsonCallShape
from narrows.formats.families.openers import Opener
from narrows.formats.spelling import json_text
from narrows.stream.markers import Exit
from narrows.stream.regions.expect import Expect
from narrows.stream.regions.json_array import CallArray
from narrows.stream.regions.json_call import CallObject
from narrows.stream.regions.json_content import EndOfObject, JsonContent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from narrows.formats.families.build import Build
    from narrows.formats.families.openers import CallContext, Entry
    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.stream.machine import Region
    from narrows.tools.request import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonAnswerShape(JsonCallShape):
    """Keys of a `[[call]]` table of family `json_answer`."""

    calls_key: str
    """The property that holds several calls."""
    call_key: str
    """The property that holds one call."""
    text_key: str
    """The property that holds text."""
    open: str = field(default="", init=False)  # no key: no marker announces an answer
    at_start = True

    def markers(self) -> tuple[str, ...]:
        return ()

    def openers(self, context: CallContext) -> list[Opener]:
        return [Opener("{", keep=True, at_start=True)]

    def entries(self, build: Build) -> list[Entry]:
        tail, raw = EndOfObject(build.after), build.raw()
        array = CallArray(tail, build.after, build.parallel)
        array.link(CallObject(self.call_keys(), array.following(), raw))
        one = CallObject(self.call_keys(), tail, raw)
        ways: list[tuple[str, Region]] = [
            (self.calls_key, array),
            (self.call_key, one),
            (self.text_key, JsonContent(tail)),
        ]
        key = Expect(give_back)
        exits = []
        for name, region in ways:
            colon = Expect(give_back)
            colon.link([Exit(":", region)])
            exits.append(Exit(json_text(name), colon))
        key.link(exits)
        brace = Expect(give_back)
        brace.link([Exit("{", key)])
        return [opener.to(brace) for opener in self.openers(build)]

    def call(self, writer: RuleWriter, tool: Tool | None) -> ir.Node:
        return self.object_node(writer, tool)

    def calls(self, writer: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        if not many:
            return writer.seq(writer.text(f"{{{json_text(self.call_key)}: "), call, writer.text("}"))
        return writer.seq(
            writer.text(f"{{{json_text(self.calls_key)}: ["),
            writer.separated(call, many, ", "),
            writer.text("]}"),
        )

    def text(self, writer: RuleWriter) -> ir.Node:
        return writer.seq(writer.text(f"{{{json_text(self.text_key)}: "), writer.json_string(), writer.text("}"))

    def render_text(self, content: str) -> str:
        return f"{{{json_text(self.text_key)}: {json_text(content)}}}"

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        objects = (self.object_text(name, arguments, call_id if ids else "") for name, arguments, call_id in calls)
        return f"{{{json_text(self.calls_key)}: [{', '.join(objects)}]}}"
