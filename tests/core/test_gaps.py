"""Masks of languages with names and white space: a token is in a mask exactly if the matcher accepts it.

There, most tokens are white space and the beginning of a name, or a name and what comes after it. What they have in
common is made once, and names that may follow each other at once are read together.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import tomllib
from masks_and_steps import check, vocabulary

import narrows

CASES = tomllib.loads((Path(__file__).parents[1] / "cases" / "gaps.toml").read_text(encoding="utf-8"))["case"]


def tokens() -> list[bytes]:
    """All bytes, and two thousand pieces of programs: names, keywords, marks and white space, up to four in a row."""
    rng = Random(5)
    words = "in or if no not let ab cd ef x y int else of return In A OR".split()
    gaps = [" ", "  ", "\n", "\n ", "\t", "// or\n", "/*", ";", " ;"]
    marks = [",", ";", "=", "+", "(", ")", "'", '"', "!", ".", "12", "é", "_", "-", "))"]
    found = {bytes([b]) for b in range(256)}
    shapes = "gw wg gwg wgw gwm wm mw mg gm w ww gww g mgw wmw gwmw wwm gwwm".split()
    kinds = {"g": gaps, "w": words, "m": marks}
    for _ in range(140):
        for shape in shapes:
            found.add("".join(rng.choice(kinds[kind]) for kind in shape).encode())
    letters = "etaoinshrdlu"
    for _ in range(600):
        found.add((rng.choice(["", " ", "\n"]) + "".join(rng.choices(letters, k=rng.randint(2, 7)))).encode())
    return sorted(found)


TOKENS = tokens()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_mask_has_exactly_the_tokens_that_a_step_takes(case: dict[str, object]) -> None:
    constraint = vocabulary(TOKENS).compile(narrows.Grammar.from_gbnf(case["grammar"]))
    rng = Random(4)
    for text in case["texts"]:
        assert constraint.matcher().accept_bytes(text.encode()), text
        check(constraint, TOKENS, text.encode(), rng)
        check(constraint, TOKENS, text.encode(), rng)
