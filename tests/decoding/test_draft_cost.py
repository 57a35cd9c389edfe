"""What a guessed token costs is found from the times of steps, whatever disturbs some of them."""

from __future__ import annotations

import random

import pytest

from narrows.decoding.draft_cost import DraftCost, assumed


def learned(running: int, cost: float, steps: int, *, most: int = 4, seed: int = 0) -> DraftCost:
    """After steps of 20 ms, some of which take longer."""
    chance = random.Random(seed)
    made = DraftCost()
    for _ in range(steps):
        guessed = sum(chance.randint(0, most) for _ in range(running))
        seconds = 0.02 * (1 + cost * guessed / running) * chance.uniform(0.95, 1.1)
        made.observe(running, guessed, seconds * (10 if chance.random() < 0.02 else 1))
    return made


@pytest.mark.parametrize("running", [1, 2, 4, 8])
@pytest.mark.parametrize("cost", [0.1, 0.4, 0.8, 1.0])
def test_it_is_found(running: int, cost: float) -> None:
    found = sorted(learned(running, cost, 300, seed=seed).of(running) for seed in range(15))[7]
    assert found == pytest.approx(cost, abs=0.15)


@pytest.mark.parametrize("running", range(1, 9))
def test_before_any_step_it_is_assumed(running: int) -> None:
    assert DraftCost().of(running) == assumed(running)
    assert learned(1, 0.9, 100).of(running + 1) == assumed(running + 1), "each number of sequences learns for itself"


def test_steps_without_guesses_tell_nothing() -> None:
    assert learned(4, 0.1, 300, most=0).of(4) == pytest.approx(assumed(4), abs=0.02)


def test_it_goes_back_where_nothing_is_guessed_any_more() -> None:
    made = learned(1, 3.0, 100)
    assert made.of(1) == 1
    for _ in range(1_500):
        made.observe(1, 0, 0.02)
    assert made.of(1) == pytest.approx(assumed(1), abs=0.1)


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e9])
def test_no_time_breaks_it(seconds: float) -> None:
    made = learned(2, 0.5, 50)
    for guessed in (0, 3, 16, 0, 1):
        made.observe(2, guessed, seconds)
        assert 0.05 <= made.of(2) <= 1
    made = DraftCost()
    for guessed in (0, 3, 16, 0, 1):
        made.observe(2, guessed, seconds)
        assert 0.05 <= made.of(2) <= 1
