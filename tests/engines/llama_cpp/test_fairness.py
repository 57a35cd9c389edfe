"""What one sequence may cost the others: the work of its constraint, a long prompt, a common beginning."""

from __future__ import annotations

import random
import threading
import time

import numpy as np
import pytest
from engine_fakes import EOS
from engine_rig import FakeConstraint, Rig, alone, collect, wait_until_idle

from narrows.errors import LimitError

# The work of constraints.


@pytest.mark.parametrize("dear", ["matcher", "accept", "fill_mask"])
def test_a_call_of_a_matcher_delays_its_own_sequence_alone(dear):
    """It does not come back before the others have ended."""
    over = threading.Event()
    given_up = []

    def pause(call):
        if call == dear and not over.wait(20):
            given_up.append(call)

    with Rig(end_chance=0.0) as rig:
        other = rig.generate([3, 4], seed=2, max_tokens=60, constraint=FakeConstraint())
        next(other)
        slow = rig.generate([1, 2], n=3, seed=1, max_tokens=8, constraint=FakeConstraint(pause=pause))
        assert len(collect(rig.generate([3, 4], seed=2, max_tokens=60))[0].token_ids) == 60
        collect(other)
        over.set()
        assert not given_up
        ids = [t for output in collect(slow, 3) for t in output.token_ids]
        assert len(ids) == 24
        assert set(ids) <= set(range(1, 6))


def test_the_decode_loop_calls_no_matcher():
    constraint = FakeConstraint()
    with Rig(end_chance=0.0) as rig:
        collect(rig.generate([1, 2], n=3, seed=1, max_tokens=20, constraint=constraint), 3)
    assert constraint.threads
    assert "narrows-decode" not in constraint.threads


def test_a_mask_that_disagrees_with_its_matcher_is_an_error():
    class Disagreeing(FakeConstraint):
        mask = -1

    with Rig(end_chance=0.0) as rig:
        good = rig.generate([1, 2], seed=1, max_tokens=30)
        (output,) = collect(rig.generate([1, 2], seed=1, max_tokens=30, constraint=Disagreeing()))
        assert (output.finish_reason, output.error.code) == ("error", "mask_disagrees")
        assert all(1 <= t <= 5 for t in output.token_ids[:-1]), "the last one is what it refused"
        assert collect(good)[0].finish_reason == "length"


def test_a_matcher_that_cannot_be_made_fails_alone():
    class Unmade(FakeConstraint):
        def matcher(self):
            raise LimitError("too much", limit="constraint_bytes")

    with Rig(end_chance=0.0) as rig:
        good = rig.generate([1, 2], seed=1, max_tokens=10)
        (output,) = collect(rig.generate([1, 2], seed=1, max_tokens=10, constraint=Unmade()))
        assert (output.finish_reason, output.error.limit, output.token_ids) == ("error", "constraint_bytes", [])
        assert len(collect(good)[0].token_ids) == 10


def test_a_whole_text_ends_where_nothing_may_follow():
    class Whole(FakeConstraint):
        def matcher(self):
            matcher = super().matcher()
            fill = matcher.fill_mask

            def fill_mask(row):
                fill(row)
                if matcher.taken == 4:
                    row[:] = 0
                    matcher.is_accepting = True

            matcher.fill_mask = fill_mask
            return matcher

    with Rig(end_chance=0.0) as rig:
        (output,) = collect(rig.generate([1, 2], seed=1, max_tokens=30, constraint=Whole()))
        assert (output.finish_reason, output.stop_reason, len(output.token_ids)) == ("stop", None, 4)


def test_an_end_token_that_the_constraint_allows_ends_even_where_ends_are_ignored():
    class OnlyTheEnd(FakeConstraint):
        mask = 1 << EOS

    with Rig() as rig:
        for options in ({"ignore_eos": True}, {"min_tokens": 5}, {}):
            (output,) = collect(rig.generate([1, 2], seed=1, max_tokens=30, constraint=OnlyTheEnd(), **options))
            assert (output.finish_reason, output.token_ids) == ("stop", [EOS])


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(s, marks=pytest.mark.soak) for s in range(2, 40))])
def test_random_constraints_arrivals_aborts_and_preemptions(seed):
    """Whatever the work takes and whoever leaves, each sequence gives what it gives alone, and no matcher meets two threads."""
    choose = random.Random(seed)
    failures: list[str] = []

    def pause(call):
        return choose.choice([0, 0, 0, 0, 0.0005, 0.003, 0.02])

    with Rig(cells=140, max_num_seqs=6, kept_tokens=30, abort_at_random=0.03) as rig:

        def read(stream, n, leave_after, expected):
            try:
                seen: list[list[int]] = [[] for _ in range(n)]
                for count, output in enumerate(stream):
                    assert output.error is None, output.error
                    seen[output.index] += output.token_ids
                    if count == leave_after:
                        stream.close()
                        break
                for ids, whole in zip(seen, expected, strict=True):
                    assert ids == whole[: len(ids)]
                    assert leave_after is not None or ids == whole
            except BaseException as error:
                failures.append(repr(error))

        threads = []
        for number in range(60):
            n, length = choose.choice([1, 1, 2, 3]), choose.choice([1, 6, 25])
            prompt = choose.choice([[1, 2, 3, 4, 5] * 4 + [7], [1, 2, 3, 4, 5] * 4, [7] * 40, [3]])
            constraint = FakeConstraint(choose.choice([2, 5, 15]), pause=pause) if choose.random() < 0.7 else None
            mask = np.array([constraint.mask], dtype=np.int32) if constraint else None
            expected = [alone(prompt, i, limit=140, mask=mask, seed=number, max_tokens=length) for i in range(n)]
            stream = rig.generate(prompt, n=n, seed=number, max_tokens=length, constraint=constraint)
            leave_after = choose.choice([None, None, 0, 3])
            threads.append(threading.Thread(target=read, args=(stream, n, leave_after, expected)))
            threads[-1].start()
            if choose.random() < 0.2:
                time.sleep(0.003)
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        wait_until_idle(rig)
        stats = rig.scheduler.stats()
        assert (stats.running, stats.waiting, stats.kv_used) == (0, 0, 0)
    assert not failures, failures[:3]


def test_leaving_and_closing_while_work_runs():
    constraint = FakeConstraint(pause=lambda call: 0.15)
    rig = Rig(end_chance=0.0)
    left = rig.generate([1, 2], seed=1, max_tokens=50, constraint=constraint)
    stays = rig.generate([1, 2], seed=1, max_tokens=50, constraint=constraint)
    time.sleep(0.05)
    left.close()
    start = time.monotonic()
    while rig.scheduler.stats().running > 1:
        assert time.monotonic() - start < 5
        time.sleep(0.005)
    rig.scheduler.close()
    assert time.monotonic() - start < 3
    assert list(stays)[-1].finish_reason == "abort"


# Places.


def test_one_client_with_many_does_not_keep_another_waiting():
    with Rig(max_num_seqs=4, end_chance=0.0, delay=0.002) as rig:
        crowd = [rig.generate([1, 2], n=4, seed=i, max_tokens=20, client="many") for i in range(10)]
        one = rig.generate([3, 4], seed=1, max_tokens=20, client="one")
        collect(one)
        ended = rig.scheduler.stats().finished_total["length"]
        assert ended <= 8, "it had the next place that came free"
        for stream in crowd:
            collect(stream, 4)


def test_one_client_leaves_places_in_the_queue():
    with Rig(max_num_seqs=2, max_queue=100, end_chance=0.0, delay=0.005) as rig:
        crowd, refused = [], None
        for i in range(200):
            try:
                crowd.append(rig.generate([1, 2], seed=i, max_tokens=4, client="many"))
            except LimitError as error:
                refused = error
                break
        assert refused is not None
        assert (refused.code, refused.limit) == ("queue_full", "max_queue")
        assert 60 <= len(crowd) <= 90
        other = [rig.generate([1, 2], seed=i, max_tokens=4, client="other") for i in range(10)]
        for stream in crowd + other:
            collect(stream)
        crowd = [rig.generate([1, 2], seed=i, max_tokens=4, client="many") for i in range(60)]  # nothing is remembered
        crowd += [rig.generate([1, 2], seed=i, max_tokens=4) for i in range(30)]  # nobody's
        for stream in crowd:
            collect(stream)


def test_a_short_queue_is_not_shared_out():
    with Rig(max_num_seqs=1, max_queue=8, end_chance=0.0, delay=0.005) as rig:
        for stream in [rig.generate([1, 2], seed=i, max_tokens=4, client="one") for i in range(8)]:
            collect(stream)


def test_of_one_client_the_first_comes_first():
    with Rig(max_num_seqs=1, end_chance=0.0, delay=0.003) as rig:
        streams = [rig.generate([1, 2], seed=i, max_tokens=5, client="one") for i in range(5)]
        for i, stream in enumerate(streams):
            collect(stream)
            assert rig.scheduler.stats().finished_total.get("length", 0) <= i + 2  # it counts a little later


def test_long_sequences_leave_cells_to_short_ones():
    with Rig(cells=2000, end_chance=0.0, batch_tokens=24, delay=0.001) as rig:
        longs = [rig.generate([i, 6] * 400, seed=1, max_tokens=100, client=f"long {i}") for i in range(1, 4)]
        until_computed(rig, 24)
        for i in range(10):
            collect(rig.generate([7, i + 1] * 20, seed=i, max_tokens=5, client="short"))
        assert rig.scheduler.stats().finished_total["length"] in (9, 10), "and no long one yet"
        assert rig.scheduler.stats().preemptions_total == 0
        for stream in longs:
            collect(stream)


def test_a_sequence_that_needs_more_than_half_runs_too():
    with Rig(cells=2000, end_chance=0.0, batch_tokens=200) as rig:
        streams = [rig.generate([i, 6] * 900, seed=1, max_tokens=3) for i in range(1, 4)]
        for stream in streams:
            collect(stream)


# Prompts.


def computed_when_first_given(rig, stream):
    """How many tokens the model had computed when the stream gave its first."""
    next(stream)
    return rig.model.computed


def test_a_short_prompt_does_not_wait_for_a_long_one():
    with Rig(cells=2000, end_chance=0.0, batch_tokens=24, prefill_chunk=6, delay=0.002) as rig:
        long = rig.generate([5, 6] * 600, seed=1, max_tokens=1)
        until_computed(rig, 24)
        before = rig.model.computed
        assert computed_when_first_given(rig, rig.generate([3] * 30, seed=1, max_tokens=1)) - before <= 150
        (output,) = collect(long)
        assert output.token_ids == alone([5, 6] * 600, limit=2000, seed=1, max_tokens=1)


def test_a_long_prompt_goes_on_beside_short_ones_without_end():
    with Rig(cells=2000, end_chance=0.0, batch_tokens=24, prefill_chunk=6, delay=0.0005) as rig:
        long = rig.generate([5, 6] * 200, seed=1, max_tokens=1)
        done = threading.Event()

        def crowd(number):
            while not done.is_set():
                number += 5
                collect(rig.generate([1, 2, 3, number % 15 + 1] * 5 + [number % 13 + 1], seed=number, max_tokens=1))

        threads = [threading.Thread(target=crowd, args=(i,)) for i in range(5)]
        for thread in threads:
            thread.start()
        computed_when_first_given(rig, long)
        total = rig.model.computed
        done.set()
        for thread in threads:
            thread.join()
        assert total <= 400 * 5, "a quarter of the room is the first one's"


def test_a_long_prompt_with_many_siblings_leaves_places_for_others():
    """Those who wait for its beginning hold no places meanwhile."""
    with Rig(cells=2000, max_num_seqs=4, end_chance=0.0, batch_tokens=24, delay=0.002) as rig:
        crowd = rig.generate([5, 6] * 400, n=8, seed=1, max_tokens=3)
        until_computed(rig, 24)
        before = rig.model.computed
        assert computed_when_first_given(rig, rig.generate([3] * 20, seed=1, max_tokens=1)) - before <= 120
        for output in collect(crowd, 8):
            assert output.token_ids == alone([5, 6] * 400, output.index, limit=2000, seed=1, max_tokens=3)
        assert rig.model.computed <= 800 + 8 * 3 + 20 + 24, "and the beginning is computed once"


def test_who_waits_for_a_common_beginning_does_not_wait_for_the_rest_of_the_line():
    """It shares forty tokens with the long prompt that has come second of three, and would get no room by itself."""
    with Rig(cells=4000, end_chance=0.0, batch_tokens=24, delay=0.002) as rig:
        longs = [rig.generate([first] * 40 + [5, 6] * 250, seed=1, max_tokens=1) for first in (1, 2)]
        longs.append(rig.generate([3, 4] * 120, seed=1, max_tokens=1))
        until_computed(rig, 24)
        before = rig.model.computed
        assert computed_when_first_given(rig, rig.generate([2] * 40 + [7] * 4, seed=1, max_tokens=1)) - before <= 200
        for stream in longs:
            collect(stream)


def test_a_prompt_of_a_higher_priority_goes_first():
    with Rig(cells=2000, end_chance=0.0, batch_tokens=24, delay=0.002) as rig:
        late = rig.generate([5, 6] * 30, seed=1, max_tokens=1)
        until_computed(rig, 24)
        before = rig.model.computed
        urgent = rig.generate([3, 4, 9] * 100, seed=1, max_tokens=1, priority=-1)
        assert computed_when_first_given(rig, urgent) - before <= 300 + 48
        collect(late)


def until_computed(rig, tokens):
    deadline = time.monotonic() + 10
    while rig.model.computed < tokens:
        assert time.monotonic() < deadline
        time.sleep(0.001)
