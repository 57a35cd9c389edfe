"""One JSON object per call between two markers: `<tool_call>{"name": N, "arguments": O}</tool_call>`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.errors import UnsupportedError
from narrows.formats.families.base import Build, Entry
from narrows.formats.families.json_arguments import give_back, ignore
from narrows.formats.families.json_text import entries_of, keys_of, object_node, object_text, problems
from narrows.stream.markers import Exit
from narrows.stream.names import is_name
from narrows.stream.regions.json_call import CallObject
from narrows.stream.regions.name import Name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.tools.request import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonObjectShape:
    """Keys of a `[[call]]` table of family `json_object`."""

    form: str
    open: str = ""
    """The marker. It may be left out where `at_start` is set: then the first bracket opens."""
    open_also: tuple[str, ...] = ()
    """Other spellings of the opener that are read, but not written."""
    head: str = ""
    """A marker before the opener. The name stands between the two, or nothing; what counts is the name in the object."""
    close: str = ""
    close_also: tuple[str, ...] = ()
    inside: str = ""
    """Layout behind the opener and before the closer."""
    at_start: bool = False
    """Calls begin only where the answer does, or behind its reasoning. What begins there is a call if it has a name, arguments that are an
    object, and no keys but those below; else it is text. The grammar's free text begins otherwise."""
    strict: bool = False
    """As with `at_start`, only what is convincingly a call is one, though there is a marker."""
    name_keys: tuple[str, ...] = ("name",)
    arguments_keys: tuple[str, ...] = ("arguments",)
    id_keys: tuple[str, ...] = ()
    ignored_keys: tuple[str, ...] = ()
    """Further keys that models write and that mean nothing."""
    name_is_key: bool = False
    """The name is the object's one key, the arguments its value: `{N: O}`."""
    written: str = ""
    """The canonical spelling, if it is not `{"name": $name, "arguments": $arguments}` with the first keys."""
    written_also: tuple[str, ...] = ()
    """Other spellings that the grammar allows, but `render` does not write."""
    arguments_indent: str = ""
    """The arguments are written over several lines, the further ones behind this and `arguments_step` a level."""
    arguments_step: str = "    "
    """A level of `arguments_indent`."""

    def markers(self) -> tuple[str, ...]:
        return tuple(m for m in (self.head, self.open, *self.open_also, self.close, *self.close_also) if m)

    def markers_behind_values(self) -> tuple[str, ...]:
        """Those that end a bare value: none, for JSON ends by itself."""
        return ()

    def problems(self) -> Iterator[tuple[str, str]]:
        if not self.open and not self.at_start:
            yield "open", "must not be empty, unless at_start is set"
        yield from problems(self.written, "written") if self.written else ()
        for spelling in self.written_also:
            yield from problems(spelling, "written_also")

    def entries(self, build: Build) -> list[Entry]:
        closers = (self.close, *self.close_also)
        raw = build.raw(*build.closing(closers, build.after))
        call = CallObject(keys_of(self), build.tail(*closers), raw)
        entries = entries_of(self, call, "{")
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
            object_node(lowering, self, tool, ids=False),
            inside if self.close else lowering.text(""),
            lowering.marker(self.close),
        )

    def calls(self, lowering: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        return lowering.repeated(call, many, between)

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        end = self.inside + self.close if self.close else ""
        return between.join(
            (self.head + name if self.head else "") + self.open + self.inside + object_text(self, name, arguments) + end
            for name, arguments, _ in calls
        )
