"""Masks against steps, for counters beside look-arounds: a token is in a mask exactly if the matcher accepts it.

Far from its greatest numbers, such a text is read without them (`automata/bounds`). How far that is depends on the
longest token and on the longest way to an end. A step reads bytes, and leaves out no number.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from narrows import Constraint, Grammar, NarrowsError, Vocabulary

LETTERS = b"ab.-1"
NAMED: dict[str, dict[str, Any]] = {
    "a long way to the end": {"pattern": "^[a-z]*(-[ab]*)*-the-long-end$", "not": {"pattern": "bb"}, "maxLength": 60},
    "a long way, and a least length": {
        "pattern": "[a-z]{12}$",
        "not": {"pattern": "^b"},
        "minLength": 9,
        "maxLength": 50,
    },
    "a long way within each item": {"pattern": r"^(?!.*bb)([ab.]{1,30}-abababab-){1,9}$"},
    "items that are counted themselves": {"pattern": r"^(?!.*11)([ab]{1,20}\.){1,60}$"},
    "a host's name": {"pattern": r"^(?!.*://)(?=.{1,90}$)((.{1,30}\.){1,40}(?![0-9]*$)[a-z0-9-]+\.?)$"},
    "a password": {"pattern": r"^(?=.*[-.])(?=.*[0-9])(?=.*[a-z])(?!.*\s).{8,40}$"},
    "a number that is left out": {"pattern": "^(?!.{30}$).{0,60}$"},
    "either of two": {"pattern": "^(?!b)(a{0,30}|(ab){0,30}|[ab.]{0,20}-)$"},
}


@pytest.fixture(scope="module")
def tokens() -> list[bytes]:
    """All bytes, and pieces and runs of a few letters, of up to 24 bytes."""
    rng = Random(5)
    found = {bytes([byte]) for byte in range(256)} | {b"\\u00", b'61"', b"\\u002e", b'-"', b'."'}
    for length in range(2, 25):
        found |= {bytes([letter]) * length for letter in LETTERS}
        found |= {bytes(rng.choices(LETTERS, k=length)) for _ in range(6)}
        found.add(bytes(rng.choices(b"ab", k=length)) + b'"')
    return sorted(found)


@pytest.fixture(scope="module")
def vocabulary(tokens: list[bytes]) -> Vocabulary:
    return Vocabulary([*tokens, b""], special={"<end>": len(tokens)}, eos=[len(tokens)])


def check(constraint: Constraint, tokens: list[bytes], rng: Random) -> None:
    """Along a text of tokens that fit, mostly of the letters."""
    row = np.zeros((len(tokens) + 32) // 32, np.int32)
    matcher, text = constraint.matcher(), b'"'
    assert matcher.accept_bytes(text)
    for step in range(40):
        matcher.fill_mask(row)
        allowed = np.unpackbits(row.view(np.uint8), bitorder="little")[: len(tokens)]
        if step % 3 == 0:
            wrong = [
                token for token, bit in zip(tokens, allowed, strict=True) if bit != matcher.fork().accept_bytes(token)
            ]
            assert not wrong, (text, wrong[:5])
        fitting = [token for token, bit in zip(tokens, allowed, strict=True) if bit]
        ordinary = [token for token in fitting if set(token) <= {*LETTERS, *b'"'} and not token.endswith(b'"')]
        token = rng.choice(ordinary or fitting)
        text += token
        assert matcher.accept_bytes(token)
        if matcher.is_finished or not ordinary:
            return


@pytest.mark.parametrize("name", NAMED)
def test_named(vocabulary: Vocabulary, tokens: list[bytes], name: str) -> None:
    constraint = vocabulary.compile(Grammar.from_json_schema({"type": "string", **NAMED[name]}))
    for seed in range(6):
        check(constraint, tokens, Random(seed))


def random_schema(rng: Random) -> dict[str, Any]:
    def counter() -> str:
        least = rng.choice((0, 1, 1, 2))
        return f"{{{least},{rng.choice((rng.randint(max(least, 1), 9), rng.randint(10, 60)))}}}"

    def item() -> str:
        return rng.choice((".", "[ab]", "[^c]", "[a-z0-9-]", "(ab?)", "[ab.]"))

    ends = (r"\.", "-", "a", "")

    def chain() -> str:
        kinds = (
            lambda: item() + counter(),
            lambda: f"({item()}{counter()}{rng.choice(ends)}){counter()}",
            lambda: f"({item()}{counter()}(-{item()}{counter()})*)",
            lambda: rng.choice(("(?![0-9]*$)", "(?!a)")) + item() + "+",
        )
        return "".join(rng.choice(kinds)() for _ in range(rng.randint(1, 2)))

    around = (
        "(?!.*aa)",
        "(?!a)",
        r"(?!.*\.\.)",
        "(?=.*b)",
        "(?!.*1$)",
        f"(?=.{{1,{rng.randint(16, 60)}}}$)",
        "(?!.{20}$)",
    )
    schema: dict[str, Any] = {
        "type": "string",
        "pattern": f"^{''.join(rng.sample(around, rng.randint(0, 2)))}({chain()})$",
    }
    if rng.random() < 0.5:
        schema["maxLength"] = rng.randint(16, 70)
    if rng.random() < 0.4:
        schema["not"] = {"pattern": rng.choice(("aa", "b$", "^a.b", r"\.1", "^[ab]*$", "a.{3,30}b"))}
    return schema


@pytest.mark.parametrize("seed", range(60))
def test_random(vocabulary: Vocabulary, tokens: list[bytes], seed: int) -> None:
    rng = Random(seed)
    while True:
        try:
            constraint = vocabulary.compile(Grammar.from_json_schema(random_schema(rng)))
            break
        except NarrowsError:  # no text fits, or the patterns together are beyond a limit
            continue
    check(constraint, tokens, rng)
