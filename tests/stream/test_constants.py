"""Numbers in calls as Python writes them: what is made of a word is JSON, and Python's own value of it."""

from __future__ import annotations

import ast
import json
import random
import warnings

import pytest

from narrows.stream.literals.constants import literal

PIECES = ["0", "00", "1", "7", "9", "_", ".", "-", "+", "e", "E", "x", "X", "o", "b", "B", "0x", "0b", "f", "A", "٢"]


@pytest.mark.parametrize("word", ["0x-1", "-0x-1", "0x+1", "-0b+1", "0x0x1", "0b0b1", "0x٢", "0x", "0b2", "0o8", "0xg"])
def test_what_only_int_takes_is_no_number(word: str) -> None:
    assert literal(word, 10, python=True) is None


def test_it_is_json_of_pythons_value() -> None:
    chance = random.Random(0)
    known = 0
    for _ in range(60_000):
        word = "".join(chance.choices(PIECES, k=chance.randint(1, 5)))
        made = literal(word, 10, python=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = ast.literal_eval(word)
        except (SyntaxError, ValueError):
            value = None
        if made is not None:
            written = json.loads(made)
            assert value is None or written in (value, word), word  # what JSON would make infinite is a string
            known += 1
        else:
            assert value is None or not isinstance(value, (int, float)), word
    assert known > 5_000
