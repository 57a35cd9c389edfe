"""Random schemas and values against an independent validator (tests/support/schema_fuzz.py): the short form, and a long
one for each keyword family."""

from __future__ import annotations

from collections import Counter

import pytest
import schema_fuzz

from narrows.grammar.json_schema.keywords import FAMILIES


def name_of(number: int) -> str:
    return FAMILIES[number].keywords[0]


@pytest.mark.parametrize("part", range(4))
def test_random_schemas_agree_with_the_judge(part: int) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(1 + part * 1_000, 1_001 + part * 1_000):
        outcome, differ, _ = schema_fuzz.check(seed)
        assert not differ, f"seed {seed}: {differ[0]}"
        outcomes[outcome] += 1
    assert outcomes["taken"] > 500, outcomes


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("key_order", ["any", "declared"])
@pytest.mark.parametrize("number", [n for n, family in enumerate(FAMILIES) if family.read], ids=name_of)
def test_half_a_million_texts_of_each_keyword_family_agree_with_the_judge(number: int, key_order: str) -> None:
    keywords = frozenset(FAMILIES[number].keywords)
    seed = 100_000_000 * (1 + number)
    texts = 0
    while texts < 500_000:
        _, differ, more = schema_fuzz.check(seed, key_order=key_order, keywords=keywords)
        assert not differ, f"seed {seed}: {differ[0]}"
        texts += more
        seed += 1
