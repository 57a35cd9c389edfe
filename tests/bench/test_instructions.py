"""What `make instructions` says about numbers. That it counts them is not tested here: that takes valgrind and a build."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "instructions"))
import instructions


def test_a_number_that_grew_by_more_than_five_percent_fails() -> None:
    lines, good = instructions.verdict({"known_mask": 1_051}, {"known_mask": 1_000})
    assert not good
    assert "GREW" in lines[0]
    assert instructions.verdict({"known_mask": 1_049}, {"known_mask": 1_000})[1]


def test_a_number_that_fell_passes_and_is_named() -> None:
    lines, good = instructions.verdict({"known_mask": 900}, {"known_mask": 1_000})
    assert good
    assert "fell" in lines[0]


def test_a_number_that_nobody_wrote_down_fails() -> None:
    assert not instructions.verdict({"known_mask": 1}, {})[1]


def test_the_file_has_what_is_counted() -> None:
    known = instructions.tomllib.loads(instructions.NUMBERS.read_text())
    assert set(known["instructions"]) == set(instructions.SCENARIOS)
    assert (
        instructions.tomllib.loads(instructions.written(known["instructions"], {"machine": "x"}))["instructions"]
        == known["instructions"]
    )


def test_the_made_up_vocabulary_is_always_the_same_and_writes_every_text() -> None:
    pieces = instructions.tokens()
    assert len(set(pieces)) == len(pieces) == 50_000
    assert pieces == instructions.tokens()
    ids = {piece: token for token, piece in enumerate(pieces) if piece}
    for _, text in instructions.DEFINITIONS:
        assert b"".join(pieces[token] for token in instructions.cut(text.encode(), ids)) == text.encode()
