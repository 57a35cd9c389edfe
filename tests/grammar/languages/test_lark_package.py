"""Random Lark grammars: narrows accepts the texts that Lark itself accepts with `lexer="dynamic_complete"`, which tries
all ways to cut a text into terminals."""

from __future__ import annotations

from itertools import product
from random import Random

import lark
import pytest
from random_lark import RandomLark

from narrows import Grammar
from narrows.errors import GrammarError
from narrows.reference import Reference

_TEXTS = 50


def differences(seed: int) -> list[str] | None:
    """Texts that only one of the two accepts. None where Lark refuses the grammar: it refuses rules that are written
    twice, and more."""
    made = RandomLark(seed)
    text = made.text()
    try:
        theirs = lark.Lark(text, parser="earley", lexer="dynamic_complete")
    except lark.exceptions.LarkError:
        return None
    try:
        ours = Reference(Grammar.from_lark(text).module)
    except GrammarError as error:
        return [f"refused: {error}\n{text}"]
    texts = ["".join(chars) for length in range(5) for chars in product("ab" + made.ignored, repeat=length)]
    chosen = Random(seed).sample(texts, min(_TEXTS, len(texts)))
    return [
        f"{one!r}, seed {seed}\n{text}" for one in chosen if ours.accepts(one.encode()) is not _accepts(theirs, one)
    ]


def _accepts(parser: lark.Lark, text: str) -> bool:
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_texts_agree(first: int) -> None:
    found = [differences(seed) for seed in range(first, first + 25)]
    assert sum(one is not None for one in found) > 15
    assert [text for one in found for text in one or ()] == []
