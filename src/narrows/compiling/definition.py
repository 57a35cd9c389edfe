"""A definition: a JSON value that says all that a grammar depends on, but for the wire format and the limits of the
server.

    ["text", LANGUAGE, SOURCE, OPTIONS]     the whole text: the arguments of `Grammar.from_language`
    ["chat", TURN, MAX_CALLS, ADDITIONAL, ON_UNSUPPORTED, CONTENT]
        a turn: TURN is an object, the arguments of `tools.turn.TurnOptions`; CONTENT is what follows "text" above, for
        the content alone, or null

It is the key under which a compiled grammar is kept, and what is sent to the child process.
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

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from narrows.formats import Format
    from narrows.grammar.flatten import TokenFacts
    from narrows.limits import Limits

LOOSE = ("ignored", "over")
"""Statuses of keywords that are not enforced, or not wholly."""


@dataclass(frozen=True, slots=True)
class FlatGrammar:
    """What the core compiles, and what of the definition it does not enforce."""

    arrays: dict[str, Any]
    """As `narrows.grammar.flatten.flatten` gives them."""
    loose: tuple[str, ...]
    """Places in the definition of keywords that are left out."""


def read_definition(definition: Sequence[Any], fmt: Format, facts: TokenFacts, limits: Limits) -> FlatGrammar:
    """The arrays of a definition. Raises `GrammarError`, `UnsupportedError` and `LimitError`. Their place is one in the
    definition's source or tools; a place in the content's source begins with /content."""
    read = grammar(definition, fmt, limits)
    arrays = flatten(read.module, facts, limits, read.work)
    return FlatGrammar(arrays, tuple(pointer for pointer, status in read.report.items() if status in LOOSE))


def grammar(definition: Sequence[Any], fmt: Format, limits: Limits) -> Grammar:
    """The grammar alone."""
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
    if source.lstrip().startswith("{"):  # which no TOML does
        return from_response_template(source, name)
    return format_of_table(tomllib.loads(source), name, source)
