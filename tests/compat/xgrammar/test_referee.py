"""The same random sources with narrows' classes and with xgrammar itself: along random texts, equal masks, bit for bit, and equal
answers to everything else."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
import random_sources

import narrows.compat.xgrammar as ours
from narrows import Limits

theirs = pytest.importorskip("xgrammar", reason="make test-transformers installs xgrammar, to compare with")

SIZE = len(random_sources.TOKENS) + 3
SEEDS = range(100)


@pytest.fixture(scope="module")
def compilers() -> tuple[Any, Any]:
    made = []
    for xgr in (ours, theirs):
        info = xgr.TokenizerInfo(random_sources.TOKENS, vocab_size=SIZE, stop_token_ids=0)
        bounds = {"limits": Limits(step_work=10**9)} if xgr is ours else {}
        made.append(xgr.GrammarCompiler(info, cache_enabled=False, **bounds))
    return made[0], made[1]


def follow(rng: Random, compiled: tuple[Any, Any], what: Any) -> int:
    """Follows random texts on both sides. Returns the number of masks."""
    pair = [(ours, ours.GrammarMatcher(compiled[0])), (theirs, theirs.GrammarMatcher(compiled[1]))]
    count = 0
    for _ in range(6):
        text = ""
        for _, matcher in pair:
            matcher.reset()
        for _ in range(30):
            masks = []
            for _, matcher in pair:
                row = np.zeros((1, (SIZE + 31) // 32), np.int32)
                matcher.fill_next_token_bitmask(row)
                masks.append(np.unpackbits(row.view(np.uint8), bitorder="little")[:SIZE])
            count += 1
            for token in np.flatnonzero(masks[0] != masks[1]).tolist():
                # xgrammar's masks miss some tokens that it then accepts (test_differences.py): what it accepts counts.
                takes = pair[1][1].accept_token(token)
                pair[1][1].rollback(int(takes))
                assert takes == bool(masks[0][token]), (what, text, random_sources.TOKENS[token])
            states = [(matcher.is_completed(), matcher.is_terminated()) for _, matcher in pair]
            assert states[0] == states[1], (what, text)
            refused = np.flatnonzero(masks[0] == 0)
            if len(refused):
                token = int(rng.choice(list(refused)))
                assert [matcher.accept_token(token) for _, matcher in pair] == [False, False], (what, text, token)
            allowed = np.flatnonzero(masks[0])
            if not len(allowed):
                break
            token = int(rng.choice(list(allowed)))
            assert [matcher.accept_token(token) for _, matcher in pair] == [True, True], (what, text, token)
            if rng.random() < 0.1:
                for _, matcher in pair:
                    matcher.rollback(1)
                continue
            text += random_sources.TOKENS[token]
            if pair[0][1].is_terminated():
                assert pair[1][1].is_terminated()
                break
    return count


OPTIONS = (
    {},
    {"any_whitespace": False},
    {"any_whitespace": False, "separators": (",", ":")},
    {"max_whitespace_cnt": 2},
)


@pytest.mark.parametrize("seed", SEEDS)
def test_schemas(compilers: tuple[Any, Any], seed: int) -> None:
    rng = Random(seed)
    schema = random_sources.schema(rng)
    options = rng.choice(OPTIONS)
    compiled = [compiler.compile_json_schema(schema, **options) for compiler in compilers]
    assert follow(rng, (compiled[0], compiled[1]), (schema, options))


@pytest.mark.parametrize("seed", SEEDS)
def test_regular_expressions(compilers: tuple[Any, Any], seed: int) -> None:
    rng = Random(seed)
    pattern = random_sources.pattern(rng)
    compiled = [compiler.compile_regex(pattern) for compiler in compilers]
    assert follow(rng, (compiled[0], compiled[1]), pattern)


@pytest.mark.parametrize("seed", SEEDS)
def test_grammars(compilers: tuple[Any, Any], seed: int) -> None:
    rng = Random(seed)
    text = random_sources.ebnf(rng)
    compiled = [compiler.compile_grammar(text) for compiler in compilers]
    assert follow(rng, (compiled[0], compiled[1]), text)
