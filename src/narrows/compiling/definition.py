"""Definitions: a JSON value that holds all that a grammar depends on, except the server's wire format and limits.

    ["text", LANGUAGE, SOURCE, OPTIONS]     the whole text: the arguments of `Grammar.from_language`
    ["chat", TURN, MAX_CALLS, ADDITIONAL, ON_UNSUPPORTED, CONTENT]
        a turn: TURN is an object, the arguments of `tools.turn.TurnOptions`; CONTENT holds the three entries after
        "text" above, for the content alone, or is null

It is the key of a compiled grammar in the cache, and what is sent to the child process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.errors import NarrowsError
from narrows.formats import from_response_template
from narrows.formats.from_toml import format_of_table
from narrows.grammar.flatten import flatten
from narrows.grammar.grammar import Grammar
from narrows.grammar.json_schema.report import LOOSE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from narrows.formats import Format
    from narrows.grammar.flatten import TokenFacts
    from narrows.limits import Limits


@dataclass(frozen=True, slots=True)
class FlatGrammar:
    """The arrays that the core compiles, and the keywords of the definition that they do not enforce."""

    arrays: dict[str, Any]
    """As `narrows.grammar.flatten.flatten` gives them."""
    loose: tuple[str, ...]
    """Pointers into the definition, to these keywords."""


def read_definition(definition: Sequence[Any], fmt: Format, facts: TokenFacts, limits: Limits) -> FlatGrammar:
    """The arrays of a definition. Raises `GrammarError`, `UnsupportedError` and `LimitError`. Their pointers lead into
    the definition's source or tools. A pointer into the content's source begins with /content."""
    parsed = grammar(definition, fmt, limits)
    arrays = flatten(parsed.module, facts, limits, parsed.work)
    return FlatGrammar(arrays, tuple(pointer for pointer, status in parsed.report.items() if status in LOOSE))


def grammar(definition: Sequence[Any], fmt: Format, limits: Limits) -> Grammar:
    """The grammar of a definition, before it becomes arrays."""
    if definition[0] == "text":
        return _of_text(definition[1:], limits)
    turn, max_calls, additional, on_unsupported, content_shape = definition[1:]
    content = None
    if content_shape is not None:
        try:
            content = _of_text(content_shape, limits)
        except NarrowsError as error:
            error.pointer = "/content" + (error.pointer or "")
            raise
    return fmt.grammar(
        **turn,
        max_calls=max_calls,
        additional=additional,
        on_unsupported=on_unsupported,
        content=content,
        limits=limits,
    )


def _of_text(shape: Sequence[Any], limits: Limits) -> Grammar:
    language, source, options = shape
    return Grammar.from_language(language, source, limits=limits, **options)


def format_from(source: str, name: str) -> Format:
    """The format that was made from this text: TOML, or the JSON of a `response_template`."""
    if source.lstrip().startswith("{"):  # no TOML begins so
        return from_response_template(source, name)
    return format_of_table(tomllib.loads(source), name, source)
