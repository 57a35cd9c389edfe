"""Objects with keys in any order: the engine's masks equal the oracle's, and every text has an end, where tokens hold
whole members, ends of objects, halves of keys."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
import random_grammars
from test_masks import Oracle, Walk

import narrows
from narrows.errors import GrammarError
from narrows.grammar.json_schema import schema_module
from narrows.limits import DEFAULT_LIMITS
from narrows.reference import Reference

PIECES = [
    *(bytes((b,)) for b in b'"abcx10{}:,n\\u6 !#$%'),
    *(b'"a":1', b'"b":1', b',"', b'{"', b"1}", b'1,"', b'"}', b'":', b'":1,"', b"}}", b'},"', b'1,"a":1', b'1,"b":1}'),
    *(b'":1}', b',"c":1}', b'","', b"{}", b'{"a":1}', b'{"b":1,"a":1}', b'ab":1', b"1,", b'1,"c', b"\\u0061"),
]
KEYS = ["a", "b", "c", "ab"]


def schema(rng: Random, depth: int = 2) -> dict[str, Any]:
    one: dict[str, Any] = {"const": 1}
    inner = schema(rng, depth - 1) if depth else one
    keys = rng.sample(KEYS, rng.randint(1, 4))
    made: dict[str, Any] = {"type": "object", "properties": {key: rng.choice((one, one, inner, False)) for key in keys}}
    made["additionalProperties"] = rng.choice((False, False, one, one, inner))
    possible = [key for key in keys if made["properties"][key] is not False]
    if rng.random() < 0.6:
        made["required"] = [key for key in possible if rng.random() < 0.5]
    if rng.random() < 0.4:
        made["minProperties"] = rng.randint(0, 3)
    if rng.random() < 0.4:
        made["maxProperties"] = rng.randint(1, 3)
    if rng.random() < 0.3:
        made["dependentRequired"] = {rng.choice(KEYS): rng.sample(KEYS, rng.randint(1, 2))}
    if rng.random() < 0.15:
        made["not"] = {"additionalProperties": False, "properties": dict.fromkeys(keys, True)}
    if rng.random() < 0.1:
        made = {"enum": [{"a": 1, "b": {"a": 1, "c": 1}}, {"b": 1, "ab": 1, "c": 1}]}
    return made


def walk(seed: int) -> int:
    rng = Random(seed)
    pieces: list[bytes | None] = [piece for piece in PIECES if len(piece) == 1 or rng.random() < 0.7]
    vocab = random_grammars.Vocabulary([*pieces, b""], {}, [len(pieces)])
    escapes = rng.choice(("all", "minimal", "minimal"))
    try:
        made = schema_module(schema(rng), key_order="any", whitespace="compact", escapes=escapes).module
    except GrammarError:
        return 0
    limits = replace(DEFAULT_LIMITS, object_keys=rng.choice((2, 128, 128)))
    oracle = Oracle(made, vocab)
    oracle.reference = Reference(made, eos=vocab.eos, object_keys=limits.object_keys)
    oracle.places = {(): oracle.reference.start}
    compiled = narrows.Vocabulary(vocab.tokens, eos=vocab.eos, limits=limits)
    return Walk(compiled.compile(narrows.Grammar(made), limits), oracle, rng).go(12)


def test_masks_equal_the_oracle() -> None:
    depths = []
    for seed in (*range(120), 1017, 1495):  # in the last two, a guard decides about a token that reads a whole name
        try:
            depths.append(walk(seed))
        except AssertionError as error:
            raise AssertionError(f"walk({seed}): {error}") from error
    assert sum(depth >= 6 for depth in depths) > 42


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_masks_equal_the_oracle_at_length() -> None:
    for seed in range(1_000, 3_000):
        walk(seed)
