"""`JsonCompiler`, `LarkCompiler` and `RegexCompiler`: the older way to make the text of a grammar."""

from __future__ import annotations

import json
from typing import Any

from narrows.compat.llguidance.json_options import KEY
from narrows.compat.llguidance.matcher import LLMatcher, _json, _value
from narrows.compat.llguidance.reading import read
from narrows.errors import InputError
from narrows.limits import DEFAULT_LIMITS


class JsonCompiler:
    """The options are those of a JSON Schema (json_options.py)."""

    def __init__(
        self,
        separators: tuple[str, str] | None = None,
        whitespace_flexible: bool = False,
        coerce_one_of: bool = False,
        whitespace_pattern: str | None = None,
        json_allowed_escapes: str | None = None,
        json_allow_general_unicode_escapes: bool = False,
    ) -> None:
        item, key = separators or ((",", ":") if whitespace_flexible else (", ", ": "))
        self._options = {
            "item_separator": item,
            "key_separator": key,
            "whitespace_flexible": whitespace_flexible,
            "whitespace_pattern": whitespace_pattern,
            "coerce_one_of": coerce_one_of,
            "lenient": False,
            "json_allowed_escapes": json_allowed_escapes,
            "json_allow_general_unicode_escapes": json_allow_general_unicode_escapes,
        }

    def compile(self, schema: str, check: bool = True) -> str:
        """Raises a ValueError (narrows' InputError) for a schema that cannot be enforced, if `check`."""
        value = _value(schema)
        if not isinstance(value, dict):
            raise InputError("Expecting object schema to apply options", code="schema_invalid")
        entry = {"name": "json_schema", "json_schema": {**value, KEY: self._options}, "lark_grammar": None}
        return _checked(entry, check)


class LarkCompiler:
    """Writes a Lark grammar as llguidance's JSON."""

    def compile(self, lark: str, check: bool = True) -> str:
        """Raises a ValueError (narrows' InputError) for a text that cannot be read, if `check`."""
        return _checked({"name": "lark_grammar", "json_schema": None, "lark_grammar": lark}, check)


class RegexCompiler:
    """Writes a regular expression as llguidance's JSON."""

    def compile(self, regex: str, check: bool = True) -> str:
        """Raises a ValueError (narrows' InputError) for a pattern that cannot be read, if `check`."""
        text = LLMatcher.grammar_from_regex(regex)
        return _checked(json.loads(text)["grammars"][0], check)


def _checked(entry: dict[str, Any], check: bool) -> str:
    grammar = {"grammars": [entry], "max_tokens": None}
    if check:
        read(grammar, DEFAULT_LIMITS)
    return _json(grammar)
