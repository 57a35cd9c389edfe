"""Random schemas and values against an independent validator (tests/support/schema_fuzz.py), the short form."""

from __future__ import annotations

from collections import Counter

import pytest
import schema_fuzz


@pytest.mark.parametrize("part", range(4))
def test_random_schemas_agree_with_the_judge(part: int) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(1 + part * 1_000, 1_001 + part * 1_000):
        outcome, differ = schema_fuzz.check(seed)
        assert not differ, f"seed {seed}: {differ[0]}"
        outcomes[outcome] += 1
    assert outcomes["taken"] > 500, outcomes


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_random_schemas_agree_with_the_judge_at_length() -> None:
    for seed in range(100_000, 400_000):
        _, differ = schema_fuzz.check(seed)
        assert not differ, f"seed {seed}: {differ[0]}"
