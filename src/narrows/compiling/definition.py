"""Definitions: a JSON value that holds all that a grammar depends on, except the server's wire format and limits.

    ["text", LANGUAGE, SOURCE, OPTIONS]     the whole text: the arguments of `Grammar.from_language`
    ["chat", TURN, MAX_CALLS, ADDITIONAL, ON_UNSUPPORTED, CONTENT]
        a turn: TURN is an object, the arguments of `tools.turn.TurnOptions`; CONTENT holds the three entries after
        "text" above, for the content alone, or is null
    ["chat_in", FORMAT, TURN, ...]          the same turn in a wire format of this name, whatever the server's is
    ["reported", DEFINITION]                one of these, with the report on all of its keywords
    ["by_rule", DEFINITION]                 one of these, in which no rules are fused: explanations name each rule,
                                            and masks are slower

It is the key of a compiled grammar in the cache, and what is sent to the child process.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from narrows.errors import NarrowsError
from narrows.formats import from_response_template, get
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


REPORTED = 2_000
"""Most keywords in a report."""


@dataclass(frozen=True, slots=True)
class Report:
    """What becomes of each keyword. Those that are not plainly exact come first."""

    entries: tuple[tuple[str, str, str], ...]
    """Pointer into the definition (or line:column), status, and reason, which may be empty. At most `REPORTED`."""
    left_out: int
    """The number of keywords beyond these."""

    @classmethod
    def of(cls, statuses: Mapping[str, Any]) -> Report:
        entries = [(place, str(status), str(getattr(status, "reason", ""))) for place, status in statuses.items()]
        entries.sort(key=lambda entry: (entry[1] == "exact", not entry[2]))
        return cls(tuple(entries[:REPORTED]), max(0, len(entries) - REPORTED))

    @property
    def bytes(self) -> int:
        """About what it takes in memory."""
        return sum(200 + len(place) + len(reason) for place, _, reason in self.entries)


@dataclass(frozen=True, slots=True)
class FlatGrammar:
    """The arrays that the core compiles, and the keywords of the definition that they do not enforce."""

    arrays: dict[str, Any]
    """As `narrows.grammar.flatten.flatten` gives them."""
    loose: tuple[str, ...]
    """Pointers into the definition, to these keywords."""
    report: Report | None = None
    """Of a "reported" definition."""


def read_definition(definition: Sequence[Any], fmt: Format, facts: TokenFacts, limits: Limits) -> FlatGrammar:
    """The arrays of a definition. Raises `GrammarError`, `UnsupportedError` and `LimitError`. Their pointers lead into
    the definition's source or tools. A pointer into the content's source begins with /content."""
    how = definition[0]
    is_reported = how == "reported"
    parsed = grammar(definition[1] if how in ("reported", "by_rule") else definition, fmt, limits)
    module = replace(parsed.module, marked=True) if how == "by_rule" else parsed.module
    arrays = flatten(module, facts, limits, parsed.work)
    statuses = parsed.report
    loose = tuple(pointer for pointer, status in statuses.items() if status in LOOSE)
    return FlatGrammar(arrays, loose, Report.of(statuses) if is_reported else None)


def grammar(definition: Sequence[Any], fmt: Format, limits: Limits) -> Grammar:
    """The grammar of a definition, before it becomes arrays."""
    if definition[0] == "text":
        return _of_text(definition[1:], limits)
    if definition[0] == "chat_in":
        fmt, definition = get(definition[1]), definition[1:]
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
