"""Repetition against the plain definition: the last tokens are a pattern that came so many times in a row."""

from __future__ import annotations

import random

import pytest

import narrows
from narrows.decoding.repetition import Repetition, RepetitionDetection
from narrows.errors import InputError

TEXTS = [b"a", b"7", b"12", b" ", b" \n", b"x1", b"1x", "é".encode(), b""]
VOCABULARY = narrows.Vocabulary([*TEXTS[:-1], b"<end>"], special={"<end>": 8}, eos=[8])


def repeats(tokens: list[int], wanted: RepetitionDetection) -> bool:
    for size in range(max(1, wanted.min_pattern_size), wanted.max_pattern_size + 1):
        last = tokens[len(tokens) - size * wanted.min_count :]
        if len(last) == size * wanted.min_count and last == last[:size] * wanted.min_count:
            return True
    return False


@pytest.mark.parametrize("seed", range(40))
def test_a_pattern_is_found_as_soon_as_it_has_come_often_enough(seed: int) -> None:
    choose = random.Random(seed)
    smallest = choose.randint(0, 3)
    wanted = RepetitionDetection(
        min_pattern_size=smallest,
        max_pattern_size=choose.randint(max(1, smallest), 6),
        min_count=choose.randint(2, 4),
        longest_run=None,
    )
    watch, tokens = Repetition(wanted, VOCABULARY), []
    while len(tokens) < 400:
        pattern = choose.choices(range(3), k=choose.randint(1, 8))
        for token in pattern * choose.randint(1, 5):
            tokens.append(token)
            watch.add(token)
            assert watch.found == repeats(tokens, wanted), tokens
            if watch.found:
                return


@pytest.mark.parametrize(
    ("ids", "longest"),
    [
        ([1, 2, 1], 4),  # 7 12 7
        ([5, 2], 3),  # x1 12
        ([1, 6, 1], 2),  # 7 1x 7
        ([3, 4, 3], 4),
        ([1, 3, 1, 3], 1),
        ([7, 7, 7], 0),
        ([1, 8, 2], 3),  # a control token between them has no text
    ],
)
def test_the_longest_run_of_digits_or_white_space(ids: list[int], longest: int) -> None:
    for most in (1, 2, 3, 4, 5):
        watch = Repetition(RepetitionDetection(max_pattern_size=0, min_pattern_size=0, longest_run=most), VOCABULARY)
        for token in ids:
            watch.add(token)
        assert watch.found == (longest > most)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"max_pattern_size": -1}, "max_pattern_size"),
        ({"max_pattern_size": 1_025}, "max_pattern_size"),
        ({"max_pattern_size": 3, "min_pattern_size": 4}, "min_pattern_size"),
        ({"min_pattern_size": -1}, "min_pattern_size"),
        ({"min_count": 1}, "min_count"),
        ({"longest_run": 0}, "longest_run"),
    ],
)
def test_what_means_nothing_is_refused(fields: dict[str, int], pointer: str) -> None:
    with pytest.raises(InputError) as raised:
        RepetitionDetection(**fields)
    assert raised.value.code == "strategy_invalid"
    assert raised.value.pointer == f"/repetition_detection/{pointer}"
