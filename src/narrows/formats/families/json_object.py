"""One JSON object per call between two markers: `<tool_call>{"name": N, "arguments": O}</tool_call>`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.formats.families.json_text import entries_of, keys_of, object_node, object_text, problems
from narrows.formats.families.shape import Build
from narrows.stream.json_call import CallObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from narrows.formats.families.shape import Entry
    from narrows.formats.lowering import Lowering
    from narrows.grammar import ir
    from narrows.stream.tools import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonObjectShape:
    """Keys of a `[[call]]` table of family `json_object`."""

    form: str
    open: str = ""
    """The marker. It may be left out where `at_start` is set: then the first bracket opens."""
    open_also: tuple[str, ...] = ()
    """Other spellings of the opener that are read, but not written."""
    close: str = ""
    close_also: tuple[str, ...] = ()
    inside: str = ""
    """Layout behind the opener and before the closer."""
    at_start: bool = False
    """Calls begin only where the answer does, or behind its reasoning. What begins there is a call if it has a name, arguments that are an
    object, and no keys but those below; else it is text. The grammar's free text begins otherwise."""
    name_keys: tuple[str, ...] = ("name",)
    arguments_keys: tuple[str, ...] = ("arguments",)
    id_keys: tuple[str, ...] = ()
    ignored_keys: tuple[str, ...] = ()
    """Further keys that models write and that mean nothing."""
    name_is_key: bool = False
    """The name is the object's one key, the arguments its value: `{N: O}`."""
    written: str = ""
    """The canonical spelling, if it is not `{"name": $name, "arguments": $arguments}` with the first keys."""
    arguments_indent: str = ""
    """The arguments are written over several lines, the further ones behind this and four blanks a level."""

    def markers(self) -> tuple[str, ...]:
        return tuple(m for m in (self.open, *self.open_also, self.close, *self.close_also) if m)

    def markers_behind_text(self) -> tuple[str, ...]:
        """Those that free text may come before."""
        return tuple(m for m in (self.open, *self.open_also) if m)

    def problems(self) -> Iterator[tuple[str, str]]:
        if not self.open and not self.at_start:
            yield "open", "must not be empty, unless at_start is set"
        yield from problems(self.written, "written") if self.written else ()

    def entries(self, build: Build) -> list[Entry]:
        closers = (self.close, *self.close_also)
        raw = build.raw(*build.closing(closers, build.after))
        call = CallObject(keys_of(self), build.tail(*closers), raw)
        return entries_of(self, call, "{")

    def call(self, lowering: Lowering, tool: Tool | None) -> ir.Node:
        inside = lowering.text(self.inside)
        return lowering.seq(
            lowering.marker(self.open),
            inside,
            object_node(lowering, self, tool, ids=False),
            inside if self.close else lowering.text(""),
            lowering.marker(self.close),
        )

    def calls(self, lowering: Lowering, call: ir.Node, many: bool, between: str) -> ir.Node:
        return lowering.repeated(call, many, between)

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        end = self.inside + self.close if self.close else ""
        return between.join(
            self.open + self.inside + object_text(self, name, arguments) + end for name, arguments, _ in calls
        )
