"""The name outside, the arguments as literals of another notation than JSON: `[N(K='V', K=3)]`, `call:N{K:<|"|>V<|"|>}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.errors import UnsupportedError
from narrows.formats.families.base import Build, Entry, Shape
from narrows.formats.families.json_arguments import give_back
from narrows.formats.literal_rules import is_bare_key, keyword_rules, literal_text, object_rules, spelling_of
from narrows.formats.spelling import arguments_of
from narrows.grammar import ir
from narrows.stream.literals.closing_quote import CallEnd
from narrows.stream.literals.dialect import Dialect
from narrows.stream.markers import Exit
from narrows.stream.names import is_name
from narrows.stream.regions.call_list import CallList
from narrows.stream.regions.expect import Expect
from narrows.stream.regions.literals import LiteralArguments
from narrows.stream.regions.name import Name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from narrows.formats.rule_writer import RuleWriter
    from narrows.stream.machine import Region
    from narrows.tools.request import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralCallsShape(Shape):
    """Keys of a `[[call]]` table of family `literal_calls`."""

    open: str
    close: str = ""
    close_also: tuple[str, ...] = ()
    """Other spellings of it that are read, but not written."""
    list_open: str = ""
    """A bracket behind the opener, where many calls stand between one pair of markers."""
    list_close: str = ""
    separator: str = ""
    """Between calls of one list; empty where each call has its own markers."""
    known_only: bool = False
    """Only a tool that was offered makes a call (where tools were given): for calls that no marker announces."""
    call_open: str = ""
    """Before the name."""
    arguments_open: str = "("
    arguments_close: str = ")"
    assign: str = "="
    quotes: tuple[str, ...] = ('"', "'")
    """What strings stand between; the first is written."""
    escapes: bool = True
    """Backslashes in strings are Python's; else a string's text is as it stands."""
    bare_keys: bool = False
    """Keys of objects are written without quotes."""
    bare_strings: bool = False
    """A value that is no literal is read as a string."""
    loose_quotes: bool = False
    """A quote that nothing follows that may stand behind a string (its next key, the list's end) is read as part of it."""

    def markers(self) -> tuple[str, ...]:
        quotes = () if self.escapes else self.quotes
        return tuple(m for m in (self.open, self.close, *self.close_also, *quotes) if len(m) > 1)

    def entries(self, build: Build) -> list[Entry]:
        closers = (self.close, *self.close_also)
        raw = build.raw(*build.closing(closers, build.after))
        name = Name(
            lambda machine, name, span: arguments.take_name(machine, name, span), give_back, False, NOT_IN_NAMES
        )
        after: Region = build.tail(*closers)
        if self.separator:
            calls = CallList(name, after, build.after, self._closers(build), self.separator, build.parallel)
            after = calls.following()
        arguments = LiteralArguments(self.dialect(build), after, raw, self.known_only)
        name.link([Exit(self.arguments_open, arguments)])
        first: Region = name
        if self.call_open:
            first = Expect(give_back)
            first.link([Exit(self.call_open, name)])
        if self.list_open:
            opened = Expect(give_back)
            opened.link([Exit(self.list_open, first)])
            first = opened
        opener = self.opener(build, self.open) if self.known_only else None
        return [Entry(self.open, first, self.list_open, opener=opener)]

    def _closers(self, build: Build) -> tuple[str, bool]:
        """What ends a list, and whether the closing marker is still due behind it."""
        return (self.list_close, True) if self.list_close else (build.encode(self.close), False)

    def dialect(self, build: Build) -> Dialect:
        """How arguments are written, as they stand in the text."""
        return Dialect(
            assign=self.assign,
            close=self.arguments_close,
            quotes=tuple(build.encode(quote) for quote in self.quotes),
            escapes=self.escapes,
            bare_keys=self.bare_keys,
            bare_strings=self.bare_strings,
            loose_quotes=self._call_end(build) if self.loose_quotes else None,
        )

    def _call_end(self, build: Build) -> CallEnd:
        return CallEnd(
            list_close=self.list_close,
            separator=self.separator,
            close=build.encode(self.close),
            arguments_open=self.arguments_open,
        )

    def opening(self) -> str:
        """What stands before the calls."""
        return self.open

    def opener(self, build: Build, marker: str) -> ir.Node:
        """What the parser takes for the beginning of a call, where the marker alone is not convincing."""
        blanks = ir.Repeat(ir.byte_set(b" \t\n\r"))
        names: ir.Node = ir.Repeat(ir.byte_set((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A), b"_.:/-"), 1)
        if build.names is not None:
            names = ir.Literals(tuple(name.encode("utf-8", "surrogatepass") for name in build.names))
        return ir.Seq((ir.Bytes(marker.encode()), blanks, names, blanks, ir.Bytes(self.arguments_open.encode())))

    def call(self, lowering: RuleWriter, tool: Tool | None) -> ir.Node:
        if tool is not None and not is_name(tool.name, False, NOT_IN_NAMES):
            raise UnsupportedError(
                f"the name {tool.name!r} cannot be written in this format", code="tool_name_unsupported"
            )
        spelled = spelling_of(self.quotes[0], self.escapes)
        as_object = self.arguments_open == "{" and self.assign == ":"
        rules = object_rules if as_object else keyword_rules
        arguments = lowering.arguments_by(
            self.form, lambda schema, prefix, *how: rules(schema, prefix, spelled, *how), tool
        )
        call = lowering.seq(
            lowering.text(self.call_open),
            lowering.text(tool.name) if tool else lowering.word(NOT_IN_NAMES),
            *((arguments,) if as_object else (lowering.text(self.arguments_open), arguments)),
            lowering.text("" if as_object else self.arguments_close),
        )
        return call if self.separator else lowering.seq(lowering.marker(self.open), call, lowering.marker(self.close))

    def calls(self, lowering: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        if not self.separator:
            return lowering.repeated(call, many, between)
        opening = self.opening()
        return lowering.seq(
            lowering.marker(opening) if len(opening) > 1 else lowering.text(opening),
            lowering.text(self.list_open),
            lowering.separated(call, many, self.separator),
            lowering.text(self.list_close),
            lowering.marker(self.close),
        )

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        texts = [self._render(name, arguments_of(arguments)) for name, arguments, _ in calls]
        if self.separator:
            return self.opening() + self.list_open + self.separator.join(texts) + self.list_close + self.close
        return between.join(self.open + text + self.close for text in texts)

    def _render(self, name: str, arguments: Mapping[str, Any]) -> str:
        comma = ", " if self.escapes else ","
        quote = self.quotes[0]
        pairs = [
            (key if self.assign == "=" or is_bare_key(key) else quote + key + quote)
            + self.assign
            + literal_text(value, quote, self.escapes)
            for key, value in arguments.items()
        ]
        return f"{self.call_open}{name}{self.arguments_open}{comma.join(pairs)}{self.arguments_close}"


NOT_IN_NAMES = "()[]{}\"',=:<>|"
