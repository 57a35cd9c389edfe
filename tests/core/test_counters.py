"""Counters beside and within counters, held against Python's `re`: all texts of a few characters are read.

Alternatives that differ in their counters alone are made one by the core (`Terms::alt`), so such patterns are where it
could go wrong.
"""

from __future__ import annotations

import itertools
import random
import re

import pytest

from narrows import Grammar, Vocabulary

LETTERS = "abc"
LONGEST = 6
TEXTS = ["".join(text) for length in range(LONGEST + 1) for text in itertools.product(LETTERS, repeat=length)]
NAMED = [
    "a{2,3}b|a{1,2}b",
    "a{2,4}|a{1,3}",
    "b{1,3}c|ab{1,3}c|a?b{1,2}c",
    "a{0,2}b|a{0,2}ab|b",
    "(a{0,2}b){1,2}|(a{0,3}b){1,2}|a{0,1}b",
    "([ab]{0,3}a){2,4}",
    "(.{1,3}b){1,3}[ac]{0,2}",
    "(a{1,2}b{0,2}){1,2}|(a{1,2}b{0,2}){2,3}c{0,1}",
    "(a{0,2}b{1,3}|a{1,3}b{1,2}|a{0,3}b{2,2})c{0,2}",
    "((ab?){1,3}[ac]{0,2}){2}",
]


def random_pattern(rng: random.Random) -> str:
    def counter() -> str:
        least = rng.choice((0, 0, 1, 1, 2))
        return f"{{{least},{rng.randint(max(least, 1), 4)}}}"

    def item() -> str:
        return rng.choice(("a", "b", "[ab]", ".", "(ab?)", "(a|ba)", "[ac]"))

    def chain() -> str:
        kinds = (
            lambda: item() + counter(),
            item,
            lambda: f"({item()}{counter()}{rng.choice(('', 'b', 'c', '.'))}){counter()}",
            lambda: f"({item()}{counter()})?",
        )
        return "".join(rng.choice(kinds)() for _ in range(rng.randint(1, 3)))

    return "|".join(chain() for _ in range(rng.randint(1, 4)))


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary([*(bytes([byte]) for byte in range(256)), b""], special={"<end>": 256}, eos=[256])


def holds(pattern: str, vocabulary: Vocabulary) -> None:
    constraint, whole = vocabulary.compile(Grammar.from_regex(pattern)), re.compile(pattern)
    for text in TEXTS:
        matcher = constraint.matcher()
        found = matcher.accept_bytes(text.encode()) and matcher.is_accepting
        assert found == bool(whole.fullmatch(text)), (pattern, text)


@pytest.mark.parametrize("pattern", NAMED)
def test_counters(vocabulary: Vocabulary, pattern: str) -> None:
    holds(pattern, vocabulary)


@pytest.mark.parametrize("seed", range(100))
def test_random_counters(vocabulary: Vocabulary, seed: int) -> None:
    holds(random_pattern(random.Random(seed)), vocabulary)
