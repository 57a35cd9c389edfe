"""Masks where tokens end many levels at once: a token is in a mask exactly if the matcher accepts it.

Tokens that leave a terminal are looked for with the top of the stack alone, and those that reach further down once more
with more of it. So there are tokens here that reach down by one level to nine, in all mixtures.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import tomllib
from masks_and_steps import check, vocabulary

import narrows

CASES = tomllib.loads((Path(__file__).parents[1] / "cases" / "deep_tokens.toml").read_text(encoding="utf-8"))["case"]


def tokens(pieces: list[str], number: int) -> list[bytes]:
    """All bytes, and pieces that follow each other: most are ends, up to nine of them."""
    rng = Random(7)
    found = {bytes([b]) for b in range(256)}
    while len(found) < number:
        begin, end = rng.choice(["", "a", '"', "]", "}"]), rng.choice(["", "", *pieces])
        found.add((begin + "".join(rng.choices(pieces[:4], k=rng.randint(1, 9))) + end).encode())
        found.add("".join(rng.choices(pieces, k=rng.randint(2, 4))).encode())
    return sorted(found)


def members(number: int) -> list[bytes]:
    """Members of objects, whole or from within their names on, and ends after them."""
    rng = Random(8)
    begins, values, ends = ["", '"', ',"', '{"', "a"], ['":1', '":{}', '":[]', '":{"a', '"'], ["}", "]", "}}", ","]
    made = {
        rng.choice(begins)
        + rng.choice(["a", "b", "d", "dd"])
        + rng.choice(values)
        + "".join(rng.choices(ends, k=k % 7))
        for k in range(number)
    }
    return [token.encode() for token in made]


MARKS = tokens(["]", ")", "}", ";", ",", "[", "(", "{", "a", "bc", "d", ":", " ", "+", "\n"], 3_000)
PIECES = tokens(
    ["}", "]", "}}", '"', ",", '"a"', '"b":', '"c":1', "{", ":", "[", '"d', "1", " ", '":{"', '{"a":'], 3_000
)
JSON = sorted({*PIECES, *members(2_000)})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_mask_has_exactly_the_tokens_that_a_step_takes(case: dict[str, object]) -> None:
    read = narrows.Grammar.from_gbnf if case["kind"] == "gbnf" else narrows.Grammar.from_json_schema
    pieces = MARKS if case["kind"] == "gbnf" else JSON
    constraint = vocabulary(pieces).compile(read(case["source"]))
    rng = Random(2)
    for text in case["texts"]:
        assert constraint.matcher().accept_bytes(text.encode()), text
        check(constraint, pieces, text.encode(), rng)
        check(constraint, pieces, text.encode(), rng)
