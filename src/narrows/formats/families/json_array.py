"""Several calls in one JSON array behind a marker: `[TOOL_CALLS][{"name": N, "arguments": O}, ...]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.formats.families.json_object import keys_of, object_text
from narrows.formats.families.shape import Build, Entry
from narrows.stream.json_call import CallArray, CallObject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from narrows.formats.lowering import Lowering
    from narrows.grammar import ir
    from narrows.stream.tools import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonArrayShape:
    """Keys of a `[[call]]` table of family `json_array`."""

    form: str
    open: str
    close: str = ""
    name_keys: tuple[str, ...] = ("name",)
    arguments_keys: tuple[str, ...] = ("arguments",)
    id_keys: tuple[str, ...] = ()
    ignored_keys: tuple[str, ...] = ()

    def markers(self) -> tuple[str, ...]:
        return tuple(m for m in (self.open, self.close) if m)

    def entries(self, build: Build) -> list[Entry]:
        raw = build.raw(*build.closing(self.close, build.after))
        array = CallArray(build.tail(self.close), build.after, build.parallel)
        array.link(CallObject(keys_of(self), array.following(), raw))
        return [Entry(self.open, array, "[")]

    def call(self, lowering: Lowering, tool: Tool | None) -> ir.Node:
        return lowering.object_call(self.name_keys[0], self.arguments_keys[0], tool, self.id_keys[:1])

    def calls(self, lowering: Lowering, call: ir.Node, many: bool, between: str) -> ir.Node:
        return lowering.seq(
            lowering.marker(self.open),
            lowering.text("["),
            lowering.separated(call, many, ", "),
            lowering.text("]"),
            lowering.marker(self.close),
        )

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        inside = (object_text(self, name, arguments, call_id if ids else "") for name, arguments, call_id in calls)
        return f"{self.open}[{', '.join(inside)}]{self.close}"
