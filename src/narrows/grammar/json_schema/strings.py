"""`minLength`, `maxLength` and `pattern`: one automaton over the characters of the string, however they are spelled.

Lengths count code points; a surrogate pair of escapes is one. A pattern is ECMA-262 and is found anywhere in the string. All
of them, and several patterns, hold together. Cost: a length is a counter, whatever its size; a pattern what it costs as a
regex, once: short ones are remembered.
"""

from __future__ import annotations

from functools import lru_cache

from narrows.errors import GrammarError, LimitError, UnsupportedError
from narrows.grammar import ir, json_text, regex
from narrows.grammar.json_schema.facts import Pattern, Text, meet_text
from narrows.grammar.json_schema.formats import format_body
from narrows.grammar.json_schema.reading import Reading
from narrows.grammar.json_schema.report import Reporter, invalid
from narrows.grammar.json_schema.spelling import Escapes, Spelling
from narrows.limits import Limits

KEYWORDS = ("minLength", "maxLength", "pattern")

LONGEST_KEPT = 256
"""Characters of a pattern that is remembered once lowered; the last 1,024 are."""


def read(reading: Reading) -> None:
    found = Text(
        min=reading.count("minLength") or 0,
        max=reading.count("maxLength"),
        min_at=reading.at("minLength"),
        max_at=reading.at("maxLength"),
    )
    if "pattern" in reading.schema:
        found.patterns = (Pattern(reading.at("pattern"), source=reading.text("pattern")),)
    reading.facts.text = meet_text(reading.facts.text, found)  # a format may have said something


def lower(text: Text | None, spelling: Spelling, reporter: Reporter, limits: Limits) -> ir.Node:
    """The strings as one lexeme, quotes included."""
    if text is None:
        return spelling.string
    parts = bodies(text.patterns, spelling, reporter, limits)
    if text.min or text.max is not None or not parts:
        parts.append(ir.Repeat(spelling.character, text.min, text.max))
    return ir.Lexeme(spelling.quoted(parts[0] if len(parts) == 1 else ir.And(tuple(parts))))


def bodies(patterns: tuple[Pattern, ...], spelling: Spelling, reporter: Reporter, limits: Limits) -> list[ir.Node]:
    """Each pattern as a regular node over the characters between the quotes."""
    nodes = []
    for pattern in patterns:
        node = format_body(pattern.name, spelling) if pattern.name else _search(pattern, spelling, reporter, limits)
        if node is not None:
            nodes.append(node)
    return nodes


def _search(pattern: Pattern, spelling: Spelling, reporter: Reporter, limits: Limits) -> ir.Node | None:
    try:
        if len(pattern.source) > LONGEST_KEPT:
            return _lowered.__wrapped__(pattern.source, spelling.escapes, limits)
        return _lowered(pattern.source, spelling.escapes, limits)
    except LimitError as error:
        raise LimitError(error.message, pointer=pattern.pointer, limit=error.limit, hint=error.hint) from error
    except UnsupportedError as error:
        reporter.unsupported(pattern.pointer, f"{error.message}{_place(error)}", hint=error.hint)
        return None
    except GrammarError as error:
        raise invalid(pattern.pointer, f"{error.message}{_place(error)}", error.hint) from error


@lru_cache(maxsize=1024)
def _lowered(source: str, escapes: Escapes, limits: Limits) -> ir.Node:
    return regex.search_node(
        source, dialect="ecma", encode=lambda ranges: json_text.char(ranges, escapes), limits=limits
    )


def _place(error: GrammarError) -> str:
    return f" at offset {error.offset} of the pattern" if error.offset is not None else ""
