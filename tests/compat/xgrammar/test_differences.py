"""Where narrows differs from xgrammar 0.2.8 on purpose, a case each (docs/compat_xgrammar.md has the same list). Both sides are run, so
that a difference that goes away is noticed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import narrows.compat.xgrammar as ours

REFUSED = "refused"


def schema(definition: Any, **options: Any) -> Any:
    return lambda xgr: xgr.Grammar.from_json_schema(definition, **options)


def regex(pattern: str) -> Any:
    return lambda xgr: xgr.Grammar.from_regex(pattern)


A = {"type": "object", "properties": {"a": {"type": "null"}}}
CASES: list[tuple[str, Any, str, Any, Any]] = [
    # name, grammar, text, narrows, xgrammar
    ("a negative zero", schema({"type": "integer"}), "-0", True, False),
    ("a number beyond binary64", schema({"type": "number"}), "1e999", False, True),
    ("half of a surrogate pair", schema({"type": "string"}), r'"\ud800"', False, True),
    ("a key twice", schema({"type": "object", "additionalProperties": True}), '{"x":1,"x":2}', False, True),
    ("a constant escaped", schema({"const": "é"}), r'"\u00e9"', True, False),
    ("a key escaped", schema({**A, "properties": {"é": {}}}), r'{"\u00e9":1}', True, False),
    ("spaces in a constant", schema({"const": [1, 2]}), "[1, 2]", True, False),
    ("a bounded string, escaped", schema({"type": "string", "maxLength": 1}), r'"\n"', True, False),
    ("a bounded string with a raw tab", schema({"type": "string", "maxLength": 1}), '"\t"', False, True),
    ("allOf of several", schema({"allOf": [A, {"required": ["a"]}]}), "3", False, True),
    (
        "keys of another branch",
        schema({"anyOf": [A, {"type": "object", "properties": {"b": {}}}]}),
        '{"a":1}',
        True,
        False,
    ),
    ("not", schema({"type": "string", "not": {"const": "a"}}), '"a"', False, True),
    ("multipleOf of numbers", schema({"type": "number", "multipleOf": 2}), "3", False, True),
    (
        "uniqueItems",
        schema({"type": "array", "items": {"type": "null"}, "uniqueItems": True}),
        "[null,null]",
        False,
        True,
    ),
    ("a pattern without anchors", schema({"type": "string", "pattern": "a+"}), '"bab"', True, False),
    ("a pattern beside a length", schema({"type": "string", "pattern": "^a+$", "maxLength": 1}), '"aa"', False, True),
    ("a day that does not exist", schema({"type": "string", "format": "date"}), '"2026-02-30"', False, True),
    ("any order, a key missing", schema({**A, "required": ["a"]}, any_order=True), "{}", False, False),
    ("any order, a key twice", schema(A, any_order=True), '{"a":null,"a":null}', False, True),
    ("a keyword that is misspelled", schema({"type": "array", "uniqueItemz": True}), "[]", REFUSED, True),
    ("indent", schema(A, any_whitespace=False, indent=2), '{\n  "a": null\n}', REFUSED, True),
    ("an anchor in the middle", regex("a$b"), "ab", REFUSED, True),
    ("look-ahead", regex("(?=a)[ab]"), "a", True, REFUSED),
    ("a word boundary", regex(r"a\b"), "a", True, REFUSED),
    ("properties of characters", regex(r"\p{L}"), "é", True, REFUSED),
]


def outcome(xgr: Any, grammar: Any, text: str) -> Any:
    try:
        return xgr.testing._is_grammar_accept_string(grammar(xgr), text)
    except RuntimeError:
        return REFUSED


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].replace(" ", "_"))
def test_a_difference(case: Any) -> None:
    _, grammar, text, narrows, xgrammar = case
    assert outcome(ours, grammar, text) == narrows
    if find_spec("xgrammar"):
        import xgrammar as theirs

        assert outcome(theirs, grammar, text) == xgrammar


def mask_and_answer(xgr: Any) -> tuple[bool, bool]:
    """Whether the mask has a token, and whether it is accepted."""
    info = xgr.TokenizerInfo(["</s>", '":', '"a":'], stop_token_ids=0)
    matcher = xgr.GrammarMatcher(xgr.GrammarCompiler(info).compile_json_schema({**A, "required": ["a"]}))
    matcher.accept_string("{")
    row = np.zeros((1, 1), np.int32)
    matcher.fill_next_token_bitmask(row)
    return bool(row[0, 0] >> 2 & 1), matcher.accept_token(2)


def test_a_token_that_xgrammar_accepts_and_does_not_allow() -> None:
    assert mask_and_answer(ours) == (True, True)
    theirs = pytest.importorskip("xgrammar", reason="make test-transformers installs xgrammar, to compare with")
    assert mask_and_answer(theirs) == (False, True)
