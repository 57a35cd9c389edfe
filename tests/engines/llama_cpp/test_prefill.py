"""How prompts share the room of a step: nothing is lost, and neither the first nor the shortest waits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from narrows.engines.llama_cpp.prefill import Filling, Pace, share

fillings = st.lists(
    st.builds(Filling, st.integers(1, 100), st.integers(1, 120), st.integers(-1, 1), st.integers(1, 9)),
    max_size=8,
)


@given(fillings, st.integers(0, 70))
def test_the_room_is_used_and_no_prompt_gets_more_than_it_lacks(filling, room):
    given_ = share(filling, room)
    assert sum(given_) == min(room, sum(f.missing for f in filling))
    assert all(0 <= g <= f.missing for g, f in zip(given_, filling, strict=True))


@given(fillings.filter(bool), st.integers(2, 70))
def test_who_waits_for_most_gets_a_quarter_and_the_most_urgent_the_rest(filling, room):
    given_ = share(filling, room)
    best = min(f.priority for f in filling)
    same = [i for i, f in enumerate(filling) if f.priority == best]
    urgent = min(same, key=lambda i: filling[i].urgency)
    rested = max(same, key=lambda i: filling[i].rested * filling[i].missing)
    for i, part in ((rested, room // 4), (urgent, 3 * room // 4)):
        assert given_[i] >= min(filling[i].missing, part)


@given(fillings, st.integers(0, 70))
def test_a_lower_priority_gets_what_a_higher_one_leaves(filling, room):
    given_ = share(filling, room)
    for i, f in enumerate(filling):
        if given_[i]:
            assert all(given_[j] == g.missing for j, g in enumerate(filling) if g.priority < f.priority)


def test_who_waits_for_a_prompt_lends_it_its_urgency():
    first, long, other = Filling(2000, 2000, rested=1), Filling(1000, 1000, rested=1), Filling(500, 500, rested=1)
    assert share([first, long, other], 32) == [8, 0, 24]
    assert share([first, Filling(1000, 40, rested=1), other], 32) == [8, 24, 0]


@given(st.lists(st.integers(500, 8000), min_size=2, max_size=6))
def test_long_prompts_go_on_in_turn_beside_short_ones_without_end(lacking):
    fed_at = [0] * len(lacking)
    given_ = [0] * len(lacking)
    for step in range(1, 1001):
        filling = [Filling(m, m, rested=step - at) for m, at in zip(lacking, fed_at, strict=True)]
        parts = share([*filling, *[Filling(20, 20, rested=1 + step % 3)] * 3], 24)
        for i, part in enumerate(parts[: len(lacking)]):
            if part:
                fed_at[i], given_[i] = step, given_[i] + part
    assert sum(given_) >= 5_900, "a quarter"
    assert min(given_) >= 6_000 * min(lacking) / sum(lacking) / 2, "and each its part of it"


def stepped(pace: Pace, alone: float, each: float, steps: int) -> list[float]:
    """What steps take where streams alone take `alone` seconds and a token of a prompt adds `each`; a prompt always has more."""
    took = []
    for _ in range(steps):
        taken = pace.room(generating=True)
        took.append(alone + each * taken)
        pace.observe(taken, took[-1])
    return took


@given(st.floats(0.03, 0.5), st.floats(0.0005, 0.05))
def test_prompts_take_less_than_the_time_of_the_streams(alone, each):
    pace = Pace(32)
    pace.observe(0, alone)
    settled = stepped(pace, alone, each, 100)[20:]
    assert all(seconds <= 1.01 * max(1.8 * alone, alone + 4 * each) for seconds in settled)
    assert sum(seconds > alone for seconds in settled) >= 70, "and they go on"


@given(st.floats(0.03, 0.5), st.floats(0.0005, 0.05), st.floats(1, 8))
def test_it_follows_what_a_step_takes_by_now(alone, each, dearer):
    """As where the prompt gets long."""
    pace = Pace(32)
    pace.observe(0, alone)
    stepped(pace, alone, each, 30)
    settled = stepped(pace, alone * dearer, each * dearer, 400)[350:]
    assert all(seconds <= 1.01 * dearer * max(2 * alone, alone + 4 * each) for seconds in settled)


def test_steps_that_nobody_notices_take_all_that_they_may():
    pace = Pace(32)
    pace.observe(0, 0.001)
    pace.observe(32, 0.002)
    assert pace.room(generating=True) == 32


def test_streams_that_nothing_is_known_of_are_not_stopped_by_a_prompt():
    """First their own time is measured, and then that of a few tokens beside them."""
    pace = Pace(32)
    assert pace.room(generating=True) == 0
    assert pace.room(generating=False) == 32, "nobody waits in a step without streams"
    pace.observe(0, 0.05)
    assert pace.room(generating=True) == 8
    pace.observe(8, 0.13)
    assert pace.room(generating=True) == 4


def test_it_looks_at_streams_alone_now_and_then():
    pace = Pace(32)
    pace.observe(0, 0.05)
    for _ in range(16):
        assert pace.room(generating=True) > 0
        pace.observe(4, 0.3)
    assert pace.room(generating=True) == 0
