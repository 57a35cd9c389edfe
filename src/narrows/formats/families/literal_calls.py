"""The name outside, the arguments as literals that are not JSON: `[N(K='V', K=3)]`, `call:N{K:<|"|>V<|"|>}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.formats.families.base import Shape, name_unsupported
from narrows.formats.families.build import give_back
from narrows.formats.families.openers import Opener
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

    from narrows.formats.families.build import Build
    from narrows.formats.families.openers import CallContext, Entry
    from narrows.formats.rule_writer import RuleWriter
    from narrows.stream.machine import Region
    from narrows.tools.request import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralCallsShape(Shape):
    """Keys of a `[[call]]` table of family `literal_calls`."""

    open: str
    """The marker before each call, or before all of them if `separator` is set."""
    close: str = ""
    """The marker at the end."""
    close_also: tuple[str, ...] = ()
    """Other spellings of `close` that are read, but not written."""
    list_open: str = ""
    """A bracket after `open`, if many calls stand between one pair of markers."""
    list_close: str = ""
    """The bracket that closes it."""
    separator: str = ""
    """What stands between the calls of one list. Empty if each call has its own markers."""
    known_only: bool = False
    """If the request gives tools, only their names make a call. For calls that no marker announces."""
    call_open: str = ""
    """What stands before the name."""
    arguments_open: str = "("
    arguments_close: str = ")"
    assign: str = "="
    """What stands between a key and its value."""
    quotes: tuple[str, ...] = ('"', "'")
    """What strings stand between. The first is written."""
    escapes: bool = True
    """Backslashes in strings are Python's. If false, a string's text is as it stands."""
    bare_keys: bool = False
    """Keys of objects are written without quotes."""
    bare_strings: bool = False
    """A value that is no literal is read as a string."""
    loose_quotes: bool = False
    """A quote is part of the string unless what may come after a string follows it: the next key, the list's end."""

    def markers(self) -> tuple[str, ...]:
        quotes = () if self.escapes else self.quotes
        return tuple(m for m in (self.open, self.close, *self.close_also, *quotes) if len(m) > 1)

    # Reading.

    def openers(self, context: CallContext) -> list[Opener]:
        return [
            Opener(self.open, self.list_open, node=self.call_begin(context, self.open) if self.known_only else None)
        ]

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
            in_list = Expect(give_back)
            in_list.link([Exit(self.list_open, first)])
            first = in_list
        return [opener.to(first) for opener in self.openers(build)]

    def _closers(self, build: Build) -> tuple[str, bool]:
        """What ends a list, and whether the closing marker still has to come after it."""
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

    def call_begin(self, context: CallContext, marker: str) -> ir.Node:
        """What the parser takes for the beginning of a call, if the marker alone is not enough."""
        whitespace = ir.Repeat(ir.byte_set(b" \t\n\r"))
        names: ir.Node = ir.Repeat(ir.byte_set((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A), b"_.:/-"), 1)
        if context.names is not None:
            names = ir.Literals(tuple(name.encode("utf-8", "surrogatepass") for name in context.names))
        arguments_open = ir.Bytes(self.arguments_open.encode())
        return ir.Seq((ir.Bytes(marker.encode()), whitespace, names, whitespace, arguments_open))

    # The grammar.

    def opening(self) -> str:
        """What stands before the calls."""
        return self.open

    def call(self, writer: RuleWriter, tool: Tool | None) -> ir.Node:
        if tool is not None and not is_name(tool.name, False, NOT_IN_NAMES):
            raise name_unsupported(tool.name)
        spelled = spelling_of(self.quotes[0], self.escapes)
        as_object = self.arguments_open == "{" and self.assign == ":"
        rules = object_rules if as_object else keyword_rules
        arguments = writer.arguments_by(
            self.form, lambda schema, prefix, *how: rules(schema, prefix, spelled, *how), tool
        )
        call = writer.seq(
            writer.text(self.call_open),
            writer.text(tool.name) if tool else writer.word(NOT_IN_NAMES),
            *((arguments,) if as_object else (writer.text(self.arguments_open), arguments)),
            writer.text("" if as_object else self.arguments_close),
        )
        return call if self.separator else writer.seq(writer.marker(self.open), call, writer.marker(self.close))

    def calls(self, writer: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        if not self.separator:
            return writer.repeated(call, many, between)
        opening = self.opening()
        return writer.seq(
            writer.marker(opening) if len(opening) > 1 else writer.text(opening),
            writer.text(self.list_open),
            writer.separated(call, many, self.separator),
            writer.text(self.list_close),
            writer.marker(self.close),
        )

    # The text.

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
