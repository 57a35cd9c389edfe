"""Several calls after one marker: an array `[TOOL_CALLS][{"name": N, "arguments": O}, ...]`, or objects in a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.formats.families.json_call import JsonMarkedShape
from narrows.formats.families.openers import Opener
from narrows.stream.regions.enter_only import EnterOnly
from narrows.stream.regions.json_arguments import JsonArguments
from narrows.stream.regions.json_array import CallArray
from narrows.stream.regions.json_call import CallObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from narrows.formats.families.build import Build
    from narrows.formats.families.openers import CallContext, Entry
    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.stream.machine import Machine, Region
    from narrows.tools.request import Tool

_NAMED = Opener("{", keep=True, at_start=True)
"""Begins the arguments of the call that the request names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonArrayShape(JsonMarkedShape):
    """Keys of a `[[call]]` table of family `json_array`. `open` and `close` stand around all calls."""

    begin: str = "["
    """What stands before the first call, with its layout. Without a bracket, as in "\\n", the calls stand in a row."""
    separator: str = ", "
    """What stands between calls, with its layout: a comma, a semicolon, or whitespace alone."""
    separator_may_be_missing: bool = False
    """Some models leave the separator out: then the next call follows at once, or after whitespace."""
    end: str = "]"
    """What stands after the last call, with its layout."""
    named_alone: bool = False
    """If the request names a tool, the answer is the arguments of that call and nothing else."""

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super(JsonArrayShape, self).problems()
        punctuation = (
            ("begin", self.begin, ("[", "")),
            ("separator", self.separator, (",", ";", "")),
            ("end", self.end, ("]", "")),
        )
        for key, text, allowed in punctuation:
            if text.strip() not in allowed:
                yield key, f"one of {', '.join(repr(a) for a in allowed)}, with whitespace around"

    # Reading.

    def openers(self, context: CallContext) -> list[Opener]:
        begin = self.begin.strip()
        openers = self.marked_openers(begin or "{", "{" if begin else "")
        return [*openers, _NAMED] if self.named_alone and context.named is not None else openers

    def entries(self, build: Build) -> list[Entry]:
        closers = (self.close, *self.close_also)
        tail = build.tail(*closers)
        raw = build.raw(*build.closing(closers, build.after))
        begin, separator, end = (text.strip() for text in (self.begin, self.separator, self.end))
        array = CallArray(tail, tail, build.parallel, begin, separator, end, self.separator_may_be_missing)
        array.link(CallObject(build.keys(self.call_keys()), array.following(), raw))
        openers = self.openers(build)
        if not self.named_alone or build.named is None:
            return [opener.to(array) for opener in openers]
        *of_arrays, of_arguments = openers
        named = _StartNamed(build.named, JsonArguments(tail, raw))
        return [*(opener.to(array) for opener in of_arrays), of_arguments.to(named)]

    # The grammar.

    def call(self, writer: RuleWriter, tool: Tool | None) -> ir.Node:
        return writer.arguments(tool) if self._is_alone(writer) else self.object_node(writer, tool)

    def calls(self, writer: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        if self._is_alone(writer):
            return call
        return writer.seq(
            writer.marker(self.open),
            writer.text(self.begin),
            writer.separated(call, many, self.separator),
            writer.text(self.end),
            writer.marker(self.close),
        )

    def _is_alone(self, writer: RuleWriter) -> bool:
        return self.named_alone and writer.named is not None

    # The text.

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        objects = (
            self.object_text(name, arguments, call_id if ids else "", index)
            for index, (name, arguments, call_id) in enumerate(calls)
        )
        return f"{self.open}{self.begin}{self.separator.join(objects)}{self.end}{self.close}"


class _StartNamed(EnterOnly):
    """Starts the call of the tool that the request names."""

    __slots__ = ("_arguments", "_name")

    def __init__(self, name: str, arguments: JsonArguments) -> None:
        self._name = name
        self._arguments = arguments

    def enter(self, machine: Machine) -> Region:
        machine.start_call(self._name, (machine.offset, machine.offset))
        return self._arguments.enter(machine)
