"""What `Matcher.explain` says of a schema: the place in it, and the keywords that refuse a token.

Cost: one reading of the schemas that lead to the place. If a token is refused, one reading and compilation of the whole
schema for each keyword that might be to blame, as long as all of them together take at most `EXPLAIN_WORK` units of
`Limits.reading_work` (some 1 us each). Compiling a schema does nothing for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from narrows.errors import LimitError, NarrowsError
from narrows.grammar.grammar import Grammar
from narrows.grammar.json_schema.places import SchemaPlace, find
from narrows.limits import DEFAULT_LIMITS, Limits

EXPLAIN_WORK = 200_000
_STEPS = 100
"""Units of work of the core for each unit of `work`: to read the text under one changed schema. Half of its time."""
_NUMBER = frozenset([b"%c" % char for char in b"0123456789+-.eE"])


class Compiler(Protocol):
    """The method of `narrows.Vocabulary` that is needed here."""

    def compile(self, grammar: Grammar, limits: Limits = ...) -> Any: ...


@dataclass(frozen=True, slots=True)
class Tried:
    """What was tried: the text before, and the bytes after it that do not fit; b"" for the end of the text, None if
    what was tried fits."""

    before: bytes
    refused: bytes | None


def schema_place(
    schema: Any,
    options: Mapping[str, Any],
    tried: Tried,
    vocabulary: Compiler,
    work: int = EXPLAIN_WORK,
    limits: Limits = DEFAULT_LIMITS,
) -> SchemaPlace | None:
    """The place in the schema (an object, a boolean or JSON text) where the text before stands. `options`: of
    `Grammar.from_json_schema`. None where the schema alone takes more than `work` units to read."""
    text, bounds = tried.before.decode("utf-8", "ignore"), replace(limits, reading_work=work)
    place = find(schema, text, bounds)
    if place is None or tried.refused is None:
        return place.found if place is not None else None
    left = work
    steps = min(limits.step_work, _STEPS * work)

    def allows(changed: Any) -> bool:
        nonlocal left
        bound = replace(limits, reading_work=max(left, 1), step_work=steps, sequence_work=steps)
        try:
            grammar = Grammar.from_json_schema(changed, **{**options, "on_unsupported": "ignore"}, limits=bound)
            left -= grammar.work
            matcher = vocabulary.compile(grammar, bound).matcher()
            if not matcher.accept_bytes(tried.before):
                return False
            return bool(matcher.accept_bytes(tried.refused) if tried.refused else matcher.is_accepting)
        except LimitError:
            raise
        except NarrowsError:  # what is left is no schema, or nothing satisfies it
            return False

    try:
        found = place.refusing(allows)
    except LimitError:
        return place.found
    if not found.keywords and text[-1:].isdigit() and tried.refused not in _NUMBER:
        behind = find(schema, text + " ", bounds)  # the number is whole, so what is missing comes after it
        return behind.found if behind is not None else found
    return found
