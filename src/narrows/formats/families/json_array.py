"""Several calls behind one marker: an array `[TOOL_CALLS][{"name": N, "arguments": O}, ...]`, or objects one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.formats.families.base import Build, Entry
from narrows.formats.families.json_text import entries_of, keys_of, object_node, object_text, problems
from narrows.stream.regions.json_arguments import JsonArguments
from narrows.stream.regions.json_array import CallArray
from narrows.stream.regions.json_call import CallObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.stream.machine import Machine, Region
    from narrows.tools.request import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonArrayShape:
    """Keys of a `[[call]]` table of family `json_array`."""

    form: str
    open: str = ""
    """The marker. It may be left out where `at_start` is set: then the first bracket opens."""
    open_also: tuple[str, ...] = ()
    """Other spellings of the opener that are read, but not written."""
    close: str = ""
    close_also: tuple[str, ...] = ()
    begin: str = "["
    """What stands before the first call, with its layout. Without a bracket, as in "\\n", the calls stand one after the other."""
    separator: str = ", "
    """Between calls, with its layout: a comma, a semicolon, or blanks alone."""
    separator_may_be_missing: bool = False
    """Some models leave it out: then the next call follows at once, blanks apart."""
    end: str = "]"
    """Behind the last call, with its layout."""
    at_start: bool = False
    """Calls begin only where the answer does, or behind its reasoning. What begins there is a call if it has a name, arguments that are an
    object, and no keys but those below; else it is text. The grammar's free text begins otherwise."""
    named_alone: bool = False
    """Where the request names a tool, the answer is that call's arguments and nothing else."""
    strict: bool = False
    """As with `at_start`, only what is convincingly a call is one, though there is a marker."""
    name_keys: tuple[str, ...] = ("name",)
    arguments_keys: tuple[str, ...] = ("arguments",)
    id_keys: tuple[str, ...] = ()
    ignored_keys: tuple[str, ...] = ()
    name_is_key: bool = False
    """The name is an object's one key, the arguments its value: `{N: O}`."""
    written: str = ""
    """The canonical spelling of a call, if it is not `{"name": $name, "arguments": $arguments}` with the first keys."""
    written_also: tuple[str, ...] = ()
    """Other spellings that the grammar allows, but `render` does not write."""
    arguments_indent: str = ""
    """The arguments are written over several lines, the further ones behind this and `arguments_step` a level."""
    arguments_step: str = "    "
    """A level of `arguments_indent`."""

    def markers(self) -> tuple[str, ...]:
        return tuple(m for m in (self.open, *self.open_also, self.close, *self.close_also) if m)

    def markers_behind_values(self) -> tuple[str, ...]:
        """Those that end a bare value: none, for JSON ends by itself."""
        return ()

    def problems(self) -> Iterator[tuple[str, str]]:
        if not self.open and not self.at_start:
            yield "open", "must not be empty, unless at_start is set"
        yield from problems(self.written, "written") if self.written else ()
        for spelling in self.written_also:
            yield from problems(spelling, "written_also")
        for key, allowed in (("begin", ("[", "")), ("separator", (",", ";", "")), ("end", ("]", ""))):
            if getattr(self, key).strip() not in allowed:
                yield key, f"one of {', '.join(repr(a) for a in allowed)}, with blanks around"

    def entries(self, build: Build) -> list[Entry]:
        closers = (self.close, *self.close_also)
        tail = build.tail(*closers)
        raw = build.raw(*build.closing(closers, build.after))
        begin, separator, end = (text.strip() for text in (self.begin, self.separator, self.end))
        array = CallArray(tail, tail, build.parallel, begin, separator, end, self.separator_may_be_missing)
        array.link(CallObject(keys_of(self), array.following(), raw))
        entries = entries_of(self, array, begin or "{", "{" if begin else "")
        if self.named_alone and build.named is not None:
            alone = _Named(build.named, JsonArguments(tail, raw))
            entries.append(Entry("{", alone, keep=True, at_start=True))
        return entries

    def call(self, lowering: RuleWriter, tool: Tool | None) -> ir.Node:
        return lowering.arguments(tool) if self._is_alone(lowering) else object_node(lowering, self, tool)

    def calls(self, lowering: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        if self._is_alone(lowering):
            return call
        return lowering.seq(
            lowering.marker(self.open),
            lowering.text(self.begin),
            lowering.separated(call, many, self.separator),
            lowering.text(self.end),
            lowering.marker(self.close),
        )

    def _is_alone(self, lowering: RuleWriter) -> bool:
        return self.named_alone and lowering.named is not None

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        objects = (
            object_text(self, name, arguments, call_id if ids else "", index)
            for index, (name, arguments, call_id) in enumerate(calls)
        )
        return f"{self.open}{self.begin}{self.separator.join(objects)}{self.end}{self.close}"


class _Named:
    """Starts the call of the tool that the request names."""

    __slots__ = ("_arguments", "_name")
    place = "call"

    def __init__(self, name: str, arguments: JsonArguments) -> None:
        self._name = name
        self._arguments = arguments

    def enter(self, machine: Machine) -> Region:
        machine.start_call(self._name, (machine.offset, machine.offset))
        return self._arguments.enter(machine)

    def read(self, machine: Machine) -> Region | None:
        raise AssertionError("entered, never read")

    def stop(self, machine: Machine) -> None:
        raise AssertionError("entered, never read")
