"""One JSON object per call between two markers: `<tool_call>{"name": N, "arguments": O}</tool_call>`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.formats.families.shape import Build, Entry
from narrows.formats.spelling import arguments_text, json_text
from narrows.stream.json_call import CallKeys, CallObject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from narrows.formats.lowering import Lowering
    from narrows.grammar import ir
    from narrows.stream.tools import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonObjectShape:
    """Keys of a `[[call]]` table of family `json_object`."""

    form: str
    open: str
    close: str = ""
    inside: str = ""
    """Layout behind the opener and before the closer."""
    name_keys: tuple[str, ...] = ("name",)
    arguments_keys: tuple[str, ...] = ("arguments",)
    id_keys: tuple[str, ...] = ()
    ignored_keys: tuple[str, ...] = ()
    """Further keys that models write and that mean nothing."""

    def markers(self) -> tuple[str, ...]:
        return tuple(m for m in (self.open, self.close) if m)

    def entries(self, build: Build) -> list[Entry]:
        raw = build.raw(*build.closing(self.close, build.after))
        call = CallObject(keys_of(self), build.tail(self.close), raw)
        return [Entry(self.open, call, "{")]

    def call(self, lowering: Lowering, tool: Tool | None) -> ir.Node:
        inside = lowering.text(self.inside)
        return lowering.seq(
            lowering.marker(self.open),
            inside,
            lowering.object_call(self.name_keys[0], self.arguments_keys[0], tool),
            inside,
            lowering.marker(self.close),
        )

    def calls(self, lowering: Lowering, call: ir.Node, many: bool, between: str) -> ir.Node:
        return lowering.repeated(call, many, between)

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        return between.join(
            self.open + self.inside + object_text(self, name, arguments) + self.inside + self.close
            for name, arguments, _ in calls
        )


def keys_of(shape: Any) -> CallKeys:
    return CallKeys(
        frozenset(shape.name_keys),
        frozenset(shape.arguments_keys),
        frozenset(shape.id_keys),
        frozenset(shape.ignored_keys),
    )


def object_text(shape: Any, name: str, arguments: Mapping[str, Any] | str, call_id: str = "") -> str:
    """`{"name": N, "arguments": O}`, with the id behind where one is given."""
    parts = [f"{json_text(shape.name_keys[0])}: {json_text(name)}"]
    parts.append(f"{json_text(shape.arguments_keys[0])}: {arguments_text(arguments)}")
    if call_id:
        parts.append(f"{json_text(shape.id_keys[0])}: {json_text(call_id)}")
    return "{" + ", ".join(parts) + "}"
