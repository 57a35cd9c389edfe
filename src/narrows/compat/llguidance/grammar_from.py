"""`grammar_from`: the text of a grammar from one of several languages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from narrows.compat.llguidance.gbnf_to_lark import is_lark_syntax
from narrows.compat.llguidance.matcher import LLMatcher, _json
from narrows.errors import InputError
from narrows.grammar.grammar import Grammar

GrammarFormat = Literal[
    "lark", "gbnf", "ebnf", "cfg", "grammar", "json_schema", "json", "regex", "choice", "llguidance"
]


def grammar_from(format: GrammarFormat, text: str | Sequence[str]) -> str:
    """What `LLMatcher` takes.

    format: "lark"; "gbnf", "ebnf", "cfg" or "grammar" (GBNF, or Lark with a rule `start`); "json_schema" or "json";
    "regex"; "choice" (a list of str, or its JSON text); "llguidance" (JSON of grammars, as it is). GBNF is read by
    narrows itself, in all readings; llguidance turns it into Lark, whose terminals take the longest match.

    Raises InputError (a ValueError), code `format_unknown`, `gbnf_invalid` or `choice_invalid`.
    """
    if format == "choice":
        return LLMatcher.grammar_from_lark("start: " + " | ".join([_json(choice) for choice in _choices(text)]))
    if not isinstance(text, str):
        raise InputError(f"the text of a {format} grammar must be a str", code="wrong_type", pointer="/text")
    if format in ("json_schema", "json"):
        return LLMatcher.grammar_from_json_schema(text)
    if format == "regex":
        return LLMatcher.grammar_from_regex(text)
    if format in ("gbnf", "ebnf", "cfg", "grammar") and not is_lark_syntax(text):
        return _of_gbnf(text)
    if format in ("lark", "llguidance", "gbnf", "ebnf", "cfg", "grammar"):
        return text
    raise InputError(f"Unknown grammar type: {format}", code="format_unknown")


def _choices(text: str | Sequence[str]) -> Sequence[str]:
    value = text
    if isinstance(text, str):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"the choices are not valid JSON: {error}", code="choice_invalid") from None
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(item, str) for item in value):
        raise InputError("the choices must be a list of strings", code="choice_invalid")
    return value


def _of_gbnf(text: str) -> str:
    try:
        Grammar.from_gbnf(text)
    except InputError as error:
        error.message = f"the grammar cannot be read as GBNF: {error.message}"
        raise
    return _json({"grammars": [{"name": "gbnf", "gbnf_grammar": text}]})
