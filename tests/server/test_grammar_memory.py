"""The memory of hostile grammars on a real vocabulary: the cache's bound holds for the process, not only for its sum."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from real_vocabulary import llama3

from narrows import Constraint, Limits, Vocabulary, formats
from narrows.errors import NarrowsError
from narrows.server.grammars import GrammarCache

STATM = Path("/proc/self/statm")
BOUND = 24_000_000
ENOUGH = 8_000_000
"""The bytes that each grammar is made to hold."""
SLACK = 40_000_000
"""Bytes that a grammar in use holds before it is counted, that all grammars share, and that the allocator keeps."""


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return llama3()


def hostile(number: int) -> list[Any]:
    """2 KB of grammar under which every text has many readings."""
    parts = [f'"{chr(97 + k % 26)}{k}{number}" root [0-{k % 9 + 1}]{{2,9}} root' for k in range(80)]
    return ["text", "grammar", "root ::= " + " | ".join(parts) + ' | "z"', {}]


def use(constraint: Constraint, choose: random.Random) -> None:
    """Accepts sequences of any allowed tokens, until the constraint holds enough."""
    vocabulary = constraint.vocabulary
    row = np.zeros((vocabulary.size + 31) // 32, np.int32)
    while constraint.bytes < ENOUGH:
        matcher = constraint.matcher()
        try:
            for _ in range(200):
                matcher.fill_mask(row)
                fitting = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
                if not matcher.accept(int(fitting[choose.randrange(len(fitting))])) or matcher.is_finished:
                    break
        except NarrowsError:
            return


def resident() -> int:
    return int(STATM.read_text().split()[1]) * 4096


@pytest.mark.skipif(not STATM.exists(), reason="the system does not tell what a process holds")
def test_grammars_that_grow_stay_within_the_bound(vocabulary: Vocabulary) -> None:
    async def main() -> None:
        choose = random.Random(1)
        cache = GrammarCache(vocabulary, formats.get("hermes_json"), Limits(grammar_cache_bytes=BOUND))
        compiled_bytes = 0
        before = resident()
        for number in range(10):
            lease = await cache.get(hostile(number), "a stranger")
            use(lease.value.constraint, choose)
            compiled_bytes += lease.value.constraint.bytes
            lease.release()
            del lease
            assert cache.bytes_held <= BOUND
            assert resident() - before <= BOUND + SLACK
        assert compiled_bytes > BOUND + SLACK  # or the test shows nothing
        assert 1 < len(cache) < 10
        cache.close()

    asyncio.run(main())
