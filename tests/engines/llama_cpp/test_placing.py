"""Who gets a place and who gives one up, where there are too few places or cells: nobody is overtaken for ever, nobody pays for another's many."""

from __future__ import annotations

import threading
import time

import pytest
from engine_rig import FakeConstraint, Rig, alone, collect, wait_until_idle
from hypothesis import given
from hypothesis import strategies as st

from narrows.engines.llama_cpp.placing import Place, first_to_go, first_to_yield

places = st.lists(
    st.builds(Place, st.sampled_from("abc"), st.tuples(st.integers(0, 1), st.integers(0, 99)), st.integers(1, 500)),
    min_size=1,
    max_size=8,
    unique_by=lambda place: place.order[1],
)


def all_held(crowd):
    return {client: held(crowd, client) for client in "abc"}


def held(crowd, client):
    return sum(place.cells for place in crowd if place.client == client)


@given(places)
def test_the_first_never_goes_and_who_holds_most_goes_first(crowd):
    index = first_to_go(crowd, all_held(crowd))
    if len(crowd) == 1:
        assert index is None
        return
    gone = crowd[index]
    assert gone.order != min(p.order for p in crowd)
    others = [p for p in crowd if p.order != min(p.order for p in crowd)]
    assert gone.order[0] == max(p.order[0] for p in others)
    same = [p for p in others if p.order[0] == gone.order[0]]
    assert held(crowd, gone.client) == max(held(crowd, p.client) for p in same)
    assert all(p.order <= gone.order for p in same if p.client == gone.client)


@given(places, st.integers(0, 1), st.one_of(st.none(), st.integers(1, 500)))
def test_nobody_yields_who_has_less_afterwards(crowd, priority, cells):
    index = first_to_yield(crowd, all_held(crowd), priority=priority, cells=cells)
    if index is None:
        return
    gone = crowd[index]
    assert gone.order != min(p.order for p in crowd)
    assert gone.order[0] >= priority
    assert sum(p.client == gone.client for p in crowd) >= 2
    assert cells is None or held(crowd, gone.client) - gone.cells >= cells


def ended(rig):
    """Sequences that have come to their end. The last may be counted a moment after its reader knows."""
    return sum(rig.scheduler.stats().finished_total.values())


def until_streaming(*streams):
    for stream in streams:
        next(stream)


def prompt(number, length):
    """Prompts of different numbers have no beginning in common."""
    return [number % 13 + 1, number // 13 + 1] * (length // 2)


def test_a_client_with_all_places_yields_one():
    with Rig(max_num_seqs=4, end_chance=0.0, delay=0.002, cells=4000) as rig:
        crowd = rig.generate([1, 2], n=4, seed=1, max_tokens=400, client="many")
        while rig.scheduler.stats().running < 4:
            time.sleep(0.001)
        one = collect(rig.generate([3, 4], seed=1, max_tokens=5, client="one"))
        assert ended(rig) <= 1
        assert one[0].token_ids == alone([3, 4], seed=1, max_tokens=5)
        for output in collect(crowd, 4):
            right = alone([1, 2], output.index, limit=4000, seed=1, max_tokens=400)[:-1]  # up to where it may end
            assert (len(output.token_ids), output.token_ids[: len(right)]) == (400, right)
        assert rig.scheduler.stats().preemptions_total == 1


def test_clients_with_one_place_each_keep_it():
    with Rig(max_num_seqs=3, end_chance=0.0, delay=0.002) as rig:
        streams = [rig.generate([1, 2], seed=i, max_tokens=60, client=f"{i}") for i in range(5)]
        for stream in streams:
            collect(stream)
        assert rig.scheduler.stats().preemptions_total == 0


def test_cells_are_yielded_too():
    with Rig(cells=1000, end_chance=0.0, batch_tokens=1000, prefill_chunk=1000, delay=0.002) as rig:
        crowd = [rig.generate(prompt(i, 230), seed=1, max_tokens=200, client="many") for i in range(4)]
        until_streaming(*crowd)
        collect(rig.generate(prompt(9, 200), seed=1, max_tokens=2, client="one"))
        assert ended(rig) <= 1
        for stream in crowd:
            collect(stream)


def test_who_holds_most_is_preempted_not_who_came_last():
    with Rig(cells=400, end_chance=0.0, delay=0.001) as rig:
        crowd = [rig.generate(prompt(i, 60), seed=1, max_tokens=120, client="many") for i in range(4)]
        until_streaming(*crowd)
        collect(rig.generate(prompt(9, 60), seed=1, max_tokens=115, client="one"))
        assert ended(rig) <= 3
        computed = rig.model.computed
        assert computed < 5 * 180 + 600
        for stream in crowd:
            collect(stream)
        assert rig.scheduler.stats().preemptions_total > 0


def test_prompts_that_are_placed_are_promised_their_cells():
    with Rig(cells=1000, end_chance=0.0, batch_tokens=24) as rig:
        streams = [rig.generate(prompt(i, 400), seed=1, max_tokens=90, client=f"{i}") for i in range(6)]
        for stream in streams:
            collect(stream)
        assert rig.scheduler.stats().preemptions_total == 0
        assert rig.model.computed == 6 * 489


def test_the_first_prompt_is_not_lost_to_streams_that_grow():
    """Those who stream take their cells first; the oldest still goes on."""
    with Rig(cells=1000, end_chance=0.0, batch_tokens=24, prefill_chunk=6, kept_tokens=0) as rig:
        first = rig.generate(prompt(0, 480), seed=1, max_tokens=2, client="first")
        crowd = [rig.generate(prompt(i, 80), seed=1, max_tokens=400, client="many") for i in range(1, 6)]
        (output,) = collect(first)
        assert output.token_ids == alone(prompt(0, 480), limit=1000, seed=1, max_tokens=2)
        assert ended(rig) <= 1
        for stream in crowd:
            collect(stream)


def test_a_long_one_is_not_overtaken_by_later_long_ones():
    """They share their beginning with one that runs, so that they need few cells of their own."""
    with Rig(cells=2000, end_chance=0.0, batch_tokens=200, delay=0.002) as rig:
        shared = prompt(1, 600)
        first = rig.generate(shared, seed=1, max_tokens=100, client="a")
        next(first)
        second = rig.generate(prompt(2, 700), seed=1, max_tokens=2, client="b")
        time.sleep(0.02)
        later = [rig.generate([*shared, i], seed=1, max_tokens=100, client=f"c{i}") for i in range(3)]
        collect(second)
        assert ended(rig) <= 2
        for stream in [first, *later]:
            collect(stream)


def test_small_ones_go_before_a_long_one_without_room():
    with Rig(cells=2000, end_chance=0.0, batch_tokens=2000, prefill_chunk=2000, delay=0.003) as rig:
        crowd = [rig.generate(prompt(i, 400), seed=1, max_tokens=60, client=f"{i}") for i in range(4)]
        until_streaming(*crowd)
        long = rig.generate(prompt(8, 900), seed=1, max_tokens=2, client="long")
        time.sleep(0.02)
        for i in range(3):
            collect(rig.generate(prompt(10 + i, 20), seed=1, max_tokens=3, client="small"))
        assert ended(rig) <= 3
        for stream in [*crowd, long]:
            collect(stream)
        assert rig.scheduler.stats().preemptions_total == 0


def test_small_ones_without_end_do_not_keep_a_long_one_waiting():
    with Rig(cells=2000, max_num_seqs=8, end_chance=0.0, batch_tokens=2000, prefill_chunk=2000, delay=0.001) as rig:
        streams = [rig.generate(prompt(i, 300), seed=1, max_tokens=20, client=f"{i}") for i in range(5)]
        until_streaming(*streams)
        long = rig.generate(prompt(8, 1000), seed=1, max_tokens=2, client="long")
        streams += [rig.generate(prompt(20 + i, 300), seed=1, max_tokens=20, client=f"{i}") for i in range(40)]
        collect(long)
        assert ended(rig) <= 12
        for stream in streams:
            collect(stream)


def test_whose_client_leaves_keeps_nobody_waiting():
    with Rig(cells=2000, end_chance=0.0, batch_tokens=2000, prefill_chunk=2000, delay=0.003) as rig:
        crowd = [rig.generate(prompt(i, 450), seed=1, max_tokens=100, client="many") for i in range(4)]
        until_streaming(*crowd)
        head = rig.generate(prompt(8, 400), seed=1, max_tokens=2, client="many")
        behind = rig.generate(prompt(9, 100), seed=1, max_tokens=2, client="many")
        time.sleep(0.03)
        head.close()
        collect(behind)
        assert ended(rig) <= 2, "with the one that has left"
        for stream in crowd:
            collect(stream)
        wait_until_idle(rig)


def test_what_is_yielded_goes_to_whom_it_was_yielded_for():
    """A place alone would not do, for the cells are short as well: then one yields after the other, and each comes back at once."""
    with Rig(cells=2000, max_num_seqs=8, end_chance=0.0, batch_tokens=2000, prefill_chunk=2000, delay=0.003) as rig:
        crowd = [rig.generate(prompt(i, 200), seed=1, max_tokens=48, client="many") for i in range(8)]
        until_streaming(*crowd)
        collect(rig.generate(prompt(9, 500), seed=1, max_tokens=2, client="one"))
        assert ended(rig) <= 1
        assert rig.scheduler.stats().preemptions_total <= 3
        for stream in crowd:
            collect(stream)


def test_a_long_line_of_one_client_does_not_keep_another_waiting():
    """Of those that came earlier, as of those that come later, an eighth of the cells may go first."""
    with Rig(cells=2000, max_num_seqs=40, end_chance=0.0, batch_tokens=2000, prefill_chunk=2000, delay=0.002) as rig:
        crowd = [rig.generate(prompt(i, 150), seed=1, max_tokens=20 + i % 17, client="many") for i in range(40)]
        until_streaming(*crowd[:10])
        collect(rig.generate(prompt(70, 500), seed=1, max_tokens=2, client="one"))
        assert ended(rig) <= 16
        for stream in crowd:
            collect(stream)


def test_a_clients_later_ones_do_not_keep_its_first_waiting():
    """Who has no place comes before who has some: those that came later do not count, or others' would come before it for ever."""
    with Rig(cells=2000, max_num_seqs=8, end_chance=0.0, batch_tokens=2000, prefill_chunk=2000, delay=0.002) as rig:
        before = rig.generate(prompt(0, 800), seed=1, max_tokens=60, client="a")
        until_streaming(before)
        first = rig.generate(prompt(1, 900), seed=1, max_tokens=2, client="m")
        time.sleep(0.01)
        small = rig.generate(prompt(2, 20), seed=1, max_tokens=200, client="m")
        until_streaming(small)
        later = [rig.generate(prompt(3 + i, 800), seed=1, max_tokens=20, client=f"c{i}") for i in range(8)]
        collect(first)
        assert ended(rig) <= 3
        for stream in [before, small, *later]:
            collect(stream)


def test_who_frees_nothing_is_not_preempted():
    """Answers of one request share their prompt's cells: a client that has many of them does not hold the most for it."""
    with Rig(cells=1000, end_chance=0.0, batch_tokens=1000, prefill_chunk=1000, max_num_seqs=9, delay=0.002) as rig:
        shared = rig.generate(prompt(1, 300), n=5, seed=1, max_tokens=60, client="shares")
        crowd = [rig.generate(prompt(2 + i, 150), seed=1, max_tokens=120, client="many") for i in range(3)]
        collect(shared, 5)
        assert ended(rig) <= 5
        for stream in crowd:
            collect(stream)
        assert rig.scheduler.stats().preemptions_total <= 2


def test_a_prompt_that_yielded_is_counted_once():
    with Rig(max_num_seqs=2, cells=4000, end_chance=0.0, batch_tokens=40, prefill_chunk=8, delay=0.002) as rig:
        crowd = [rig.generate(prompt(i, 900), seed=1, max_tokens=3, client="many") for i in range(2)]
        while rig.scheduler.stats().running < 2:
            time.sleep(0.001)
        collect(rig.generate(prompt(9, 40), seed=1, max_tokens=2, client="one"))
        for stream in crowd:
            assert collect(stream)[0].cached_tokens == 0
        stats = rig.scheduler.stats()
        assert stats.preemptions_total == 1
        assert (stats.prompt_tokens_total, stats.cached_tokens_total) == (1840, 0)


@pytest.mark.parametrize("late", range(14, 21))
def test_prompts_go_on_while_the_masks_of_all_streams_are_late(late):
    """After some mixed steps one of streams alone is measured; where no stream can go on, there is none to wait for."""
    ready = threading.Event()
    calls, waited_in_vain = [], []

    def pause(call):
        calls.append(call)
        if call == "fill_mask" and calls.count(call) > late:
            waited_in_vain.extend([call] * (not ready.wait(2)))
        return 0.0

    constraint = FakeConstraint(pause=pause)
    with Rig(max_num_seqs=2, cells=2000, end_chance=0.0, batch_tokens=40, prefill_chunk=8, delay=0.002) as rig:
        held = rig.generate([1, 2], seed=1, max_tokens=40, constraint=constraint)
        next(held)
        collect(rig.generate(prompt(1, 800), seed=1, max_tokens=2))
        assert not waited_in_vain
        ready.set()
        collect(held)
