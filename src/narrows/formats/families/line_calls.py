"""Calls without any marker, each on a line of its own: `N(K="V", K=3)`."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import TYPE_CHECKING

from narrows.formats.families.base import name_unsupported
from narrows.formats.families.build import give_back
from narrows.formats.families.literal_calls import NOT_IN_NAMES, LiteralCallsShape
from narrows.formats.families.openers import Opener
from narrows.stream.markers import Exit
from narrows.stream.regions.call_list import CallList
from narrows.stream.regions.literals import LiteralArguments
from narrows.stream.regions.name import Name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from narrows.formats.families.build import Build
    from narrows.formats.families.openers import CallContext, Entry
    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.tools.request import Tool

_NEWLINE = "\n"
_BEGINS_NAME = string.ascii_letters + string.digits + "_./-"
"""Where an answer begins with another character, it does not begin with a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCallsShape(LiteralCallsShape):
    """Keys of a `[[call]]` table of family `line_calls`: those of `literal_calls`, but for markers and lists.

    Two tables make a format: one with `at_start`, for calls that the answer begins with, and one for calls after a
    newline."""

    open: str = _NEWLINE
    """Not to be set: a newline stands before a call, or nothing."""
    separator: str = _NEWLINE
    """Not to be set: each call stands on a line of its own."""
    at_start: bool = False
    """Calls begin where the answer begins, or goes on after its reasoning."""

    def problems(self) -> Iterator[tuple[str, str]]:
        for key in ("close", "list_open", "list_close", "call_open"):
            if getattr(self, key):
                yield key, "has no meaning where calls have no marker"
        if self.open != _NEWLINE or self.separator != _NEWLINE:
            yield "open", "has no meaning where calls have no marker"
        if not self.known_only:
            yield "known_only", "must be true: without a marker, only a tool that was offered makes a call"

    def markers(self) -> tuple[str, ...]:
        return ()

    def openers(self, context: CallContext) -> list[Opener]:
        if not self.at_start:
            return [Opener(_NEWLINE, node=self.call_begin(context, _NEWLINE))]
        node = self.call_begin(context, "")
        return [Opener(char, keep=True, at_start=True, node=node) for char in _BEGINS_NAME]

    def entries(self, build: Build) -> list[Entry]:
        name = Name(lambda *taken: arguments.take_name(*taken), give_back, False, NOT_IN_NAMES)
        after = CallList(name, build.after, build.after, ("", False), self.separator, build.parallel).following()
        arguments = LiteralArguments(self.dialect(build), after, build.raw(), self.known_only)
        name.link([Exit(self.arguments_open, arguments)])
        return [opener.to(name) for opener in self.openers(build)]

    def call(self, writer: RuleWriter, tool: Tool | None) -> ir.Node:
        if tool is not None and tool.name[:1] not in _BEGINS_NAME:
            raise name_unsupported(tool.name)
        return super(LineCallsShape, self).call(writer, tool)

    def opening(self) -> str:
        return "" if self.at_start else _NEWLINE
