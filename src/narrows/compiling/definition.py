"""A definition: a JSON value that says all that a grammar depends on, but for the wire format and the limits, which a server has one of.

    ["text", KIND, VALUE, WHITESPACE, ADDITIONAL, ON_UNSUPPORTED]     the whole text; KIND is json, regex, choice or grammar
    ["chat", TOOLS, TOOL_CHOICE, PARALLEL, REASONING, PROMPT, MAX_CALLS, ADDITIONAL, ON_UNSUPPORTED, SHAPE]
        a turn; SHAPE is what follows "text" above, for the content, or null

It is the key under which a compiled grammar is kept, and what is sent to the child process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows import Grammar
from narrows.errors import NarrowsError
from narrows.formats import from_response_template
from narrows.formats.from_toml import format_from as format_of_table
from narrows.grammar.flatten import lower

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
class Lowered:
    """What the core compiles, and what of the definition it does not enforce."""

    arrays: dict[str, Any]
    """As `narrows.grammar.flatten.lower` gives them."""
    loose: tuple[str, ...]
    """Places in the definition of keywords that are left out."""


def lowered(definition: Sequence[Any], fmt: Format, facts: TokenFacts, limits: Limits) -> Lowered:
    """Reads the definition. Raises `GrammarError`, `UnsupportedError` and `LimitError`, with places inside the definition's value; inside the
    content's, behind /content."""
    made = grammar(definition, fmt, limits)
    return Lowered(
        lower(made.module, facts, limits, made.work), tuple(at for at, status in made.report.items() if status in LOOSE)
    )


def grammar(definition: Sequence[Any], fmt: Format, limits: Limits) -> Grammar:
    """The grammar alone."""
    if definition[0] == "text":
        return _of_text(definition[1:], limits)
    tools, tool_choice, parallel, reasoning, prompt, max_calls, additional, on_unsupported, shape = definition[1:]
    content = None
    if shape is not None:
        try:
            content = _of_text(shape, limits)
        except NarrowsError as error:
            error.pointer = "/content" + (error.pointer or "")
            raise
    return fmt.grammar(
        tools=tools,
        tool_choice=tool_choice,
        parallel=parallel,
        reasoning=reasoning,
        prompt=prompt,
        max_calls=max_calls,
        additional=additional,
        on_unsupported=on_unsupported,
        content=content,
        limits=limits,
    )


def _of_text(shape: Sequence[Any], limits: Limits) -> Grammar:
    kind, value, whitespace, additional, on_unsupported = shape
    if kind == "json":
        return Grammar.from_json_schema(
            value, whitespace=whitespace, additional=additional, on_unsupported=on_unsupported, limits=limits
        )
    if kind == "regex":
        return Grammar.from_regex(value, limits=limits)
    if kind == "choice":
        return Grammar.choice(value, limits=limits)
    return Grammar.from_gbnf(value, limits=limits)


def format_from(source: str, name: str) -> Format:
    """The format that was made from this text: TOML, or the JSON of a `response_template`."""
    if source.lstrip().startswith("{"):  # which no TOML does
        return from_response_template(source, name)
    return format_of_table(tomllib.loads(source), name, source)
