"""The options of a JSON Schema for llguidance (`x-guidance`), as a spelling of narrows.

| option | here |
| --- | --- |
| `whitespace_flexible`, `whitespace_pattern` | the same: any whitespace, none, or what the pattern matches |
| `item_separator`, `key_separator` | `,` and `:`; or `, ` and `: ` without other whitespace |
| `json_allowed_escapes` | all, which is the default |
| `json_allow_general_unicode_escapes` | true: every escape that JSON readers accept |
| `coerce_one_of` | `oneOf` is enforced as it is |
| `lenient` | what cannot be enforced is left out, with a warning |

Anything else is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from narrows.errors import GrammarError, InputError, UnsupportedError
from narrows.grammar import ir
from narrows.grammar.json_schema import SchemaResult, schema_rules
from narrows.grammar.json_schema.spelling.spelling import Spelling
from narrows.grammar.json_text import Escapes
from narrows.grammar.options import Whitespace
from narrows.grammar.regex import regex_node
from narrows.grammar.work import Work

KEY = "x-guidance"
_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "item_separator": ((str,), "a string"),
    "key_separator": ((str,), "a string"),
    "whitespace_flexible": ((bool,), "true or false"),
    "whitespace_pattern": ((str, type(None)), "a string or null"),
    "coerce_one_of": ((bool,), "true or false"),
    "lenient": ((bool,), "true or false"),
    "json_allowed_escapes": ((str, type(None)), "a string or null"),
    "json_allow_general_unicode_escapes": ((bool,), "true or false"),
}
_ALL_ESCAPES = frozenset('nrbtf\\"u')


def read_schema(value: Any, work: Work) -> SchemaResult:
    """The rules of a schema with its options."""
    options: Any = {}
    if isinstance(value, Mapping) and KEY in value:
        options = value[KEY]
        value = {name: inner for name, inner in value.items() if name != KEY}
    _check(options)
    rules = schema_rules(
        value,
        spelled=_spelling(options, work),
        on_unsupported="ignore" if options.get("lenient") else "error",
        limits=work,
    )
    return SchemaResult(ir.Module(rules.rules, rules.start, rules.sources, rules.places, marked=True), rules.report)


def _check(options: Any) -> None:
    if not isinstance(options, Mapping):
        raise GrammarError(f"{KEY} must be an object", code="schema_invalid", pointer=f"/{KEY}")
    for name, value in options.items():
        known = _KINDS.get(name)
        if known is None:
            raise GrammarError(
                f"unknown field `{str(name)[:64]}`",
                code="invalid_option",
                pointer=f"/{KEY}",
                hint=f"There are {', '.join(_KINDS)}",
            )
        if not isinstance(value, known[0]):
            raise GrammarError(f"{name} must be {known[1]}", code="invalid_option", pointer=f"/{KEY}/{name}")


def _spelling(options: Mapping[str, Any], work: Work) -> Spelling:
    escapes: Escapes = "all" if options.get("json_allow_general_unicode_escapes") else "controls"
    allowed = options.get("json_allowed_escapes")
    if allowed is not None and set(allowed) != _ALL_ESCAPES:
        _refuse("json_allowed_escapes", "leaves escapes out, so that some strings have no spelling", "Leave it out")
    pattern = options.get("whitespace_pattern")
    separators = options.get("item_separator", ","), options.get("key_separator", ":")
    flexible = pattern is not None or options.get("whitespace_flexible", True)
    if separators == (", ", ": ") and not flexible:
        return _made("json.dumps", escapes)
    if separators != (",", ":"):
        name = "item_separator" if separators[0] != "," else "key_separator"
        _refuse(name, "is none of those that narrows writes", 'Use "," and ":", or ", " and ": " without whitespace')
    if pattern is None:
        return _made("any" if flexible else "compact", escapes)
    return Spelling("any", escapes, f"json/{pattern}", gap=ir.optional(ir.Lexeme(_gap(pattern, work))))


@lru_cache(maxsize=8)
def _made(whitespace: Whitespace, escapes: Escapes) -> Spelling:
    return Spelling(whitespace, escapes)


def _gap(pattern: str, work: Work) -> ir.Node:
    try:
        return regex_node(pattern, "rust", limits=work)
    except InputError as error:
        error.pointer = f"/{KEY}/whitespace_pattern"
        raise


def _refuse(name: str, reason: str, hint: str) -> None:
    raise UnsupportedError(f"{name} {reason}", code="option_unsupported", pointer=f"/{KEY}/{name}", hint=hint)
