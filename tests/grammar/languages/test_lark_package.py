"""narrows accepts the texts that Lark itself accepts with `lexer="dynamic_complete"`, which tries all ways to cut a text
into terminals: on random grammars, and on the cases, where each difference is named."""

from __future__ import annotations

import warnings
from itertools import product
from random import Random
from typing import Any

import pytest
from lark_cases import READ, name
from lark_peers import OF_LLGUIDANCE, by_lark, lark_accepts, lark_differs
from random_lark import RandomLark

from narrows import Grammar
from narrows.errors import GrammarError
from narrows.reference import Reference

pytest.importorskip("lark")
_TEXTS = 50


def differences(seed: int) -> list[str] | None:
    """Texts that only one of the two accepts. None where Lark refuses the grammar: it refuses rules that are written
    twice, and more."""
    made = RandomLark(seed)
    text = made.text()
    theirs = by_lark(text)
    if theirs is None:
        return None
    try:
        ours = Reference(Grammar.from_lark(text).module)
    except GrammarError as error:
        return [f"refused: {error}\n{text}"]
    texts = ["".join(chars) for length in range(5) for chars in product("ab" + made.ignored, repeat=length)]
    chosen = Random(seed).sample(texts, min(_TEXTS, len(texts)))
    return [
        f"{one!r}, seed {seed}\n{text}" for one in chosen if ours.accepts(one.encode()) is not lark_accepts(theirs, one)
    ]


@pytest.mark.parametrize("first", [0, 20, 40, *(pytest.param(k, marks=pytest.mark.soak) for k in range(60, 400, 20))])
def test_texts_agree(first: int) -> None:
    found = [differences(seed) for seed in range(first, first + 20)]
    assert sum(one is not None for one in found) > 12
    assert [text for one in found for text in one or ()] == []


@pytest.mark.parametrize("case", [case for case in READ if case["file"] not in OF_LLGUIDANCE], ids=name)
def test_differences_are_named(case: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        assert sorted(lark_differs(case)) == sorted(case.get("lark", []))
