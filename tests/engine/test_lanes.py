"""The work of constraints: in one thread at a time, quick beside slow, and no client's sixteen before another's one."""

from __future__ import annotations

import threading
import time

import numpy as np

from narrows.engines.guide import Guide
from narrows.engines.llama_cpp.lanes import Lanes
from narrows.errors import LimitError


class Timed:
    """A constraint whose matchers take so many seconds for each mask: of the processor's time, or asleep."""

    def __init__(self, busy=0.0, asleep=0.0):
        self.busy, self.asleep = busy, asleep
        self.masks = 0
        self.threads = set()

    def matcher(self):
        return TimedMatcher(self)


class TimedMatcher:
    is_finished = False
    is_accepting = False

    def __init__(self, constraint):
        self.constraint = constraint

    def fill_mask(self, row):
        self.constraint.threads.add(threading.current_thread().name)
        until = time.thread_time() + self.constraint.busy
        while time.thread_time() < until:
            pass
        time.sleep(self.constraint.asleep)
        self.constraint.masks += 1
        row[:] = -1

    def accept(self, token):
        return True


def test_a_guide_is_heavy_where_its_work_is_and_while_it_lasts():
    guide = Guide(constraint := Timed(busy=0.03), 1)
    assert guide.is_new
    assert not guide.is_heavy
    guide.work()
    assert (guide.state, guide.is_new, guide.is_heavy) == ("ready", False, True)
    constraint.busy = 0.0
    steps = 0
    while guide.is_heavy:
        guide.take(1)
        guide.work()
        steps += 1
    assert 4 <= steps <= 8, "5 ms a step pay off 30"


def test_one_long_mask_among_many_short_ones_is_not_heavy():
    guide = Guide(constraint := Timed(), 1)
    for _ in range(10):
        guide.take(1)
        guide.work()
    constraint.busy = 0.01
    guide.take(1)
    guide.work()
    assert not guide.is_heavy


def test_waiting_is_not_work():
    guide = Guide(Timed(asleep=0.05), 1)
    guide.work()
    assert not guide.is_heavy, "it waited for others: for a lock, say"


def test_what_the_work_raises_is_kept_for_the_sequence():
    class Failing(Timed):
        def matcher(self):
            raise LimitError("too much", limit="step_work")

    guide = Guide(Failing(), 1)
    guide.work()
    assert (guide.state, guide.error.limit) == ("ready", "step_work")


def test_the_heavy_and_the_unknown_work_apart_from_the_quick():
    lanes = Lanes()
    try:
        heavy, quick = Guide(dear := Timed(busy=0.02), 1), Guide(cheap := Timed(), 1)
        for _ in range(3):
            lanes.submit(heavy)
            lanes.submit(quick)
            lanes.wait([heavy, quick], 10)
            assert heavy.state == quick.state == "ready"
            heavy.take(1)
            quick.take(1)
        assert dear.threads == {"narrows-slow-0"}
        assert {name[:-1] for name in cheap.threads} == {"narrows-slow-", "narrows-quick-"}
    finally:
        lanes.close()


def test_sixteen_heavy_ones_delay_a_lighter_one_by_one_job_and_not_by_sixteen():
    """The lane gives each about the same time, and so the one with short jobs more turns."""
    lanes = Lanes()
    try:
        crowd = [Timed(asleep=0.008) for _ in range(16)]
        light = Timed(asleep=0.0004)
        guides = [Guide(c, 1) for c in (*crowd, light)]
        for guide in guides:
            guide.work()  # none is new
            guide._allowance = -1e9  # all belong into the slow lane, for ever
            # What a job takes is what the lane is told; asleep it is no thread's time, so it is told here.
            guide.work = _told(guide)
        begin = {id(g): g._constraint.masks for g in guides}
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            for guide in guides:
                if guide.state == "ready":
                    guide.take(1)
                    lanes.submit(guide)
            lanes.wait([g for g in guides if g.state == "queued"], 0.1, one=True)
        turns = [g._constraint.masks - begin[id(g)] for g in guides]
        assert max(turns[:16]) <= 2 * min(turns[:16]), f"the crowd takes turns: {turns}"
        assert turns[16] >= 3 * max(turns[:16]), turns
    finally:
        lanes.close()


def _told(guide):
    def work():
        Guide.work(guide)
        guide.seconds = guide._constraint.asleep

    return work


def test_closing_begins_nothing_more_and_a_closed_guide_does_nothing():
    lanes = Lanes()
    constraint = Timed(asleep=0.05)
    guides = [Guide(constraint, 1) for _ in range(5)]
    for guide in guides:
        lanes.submit(guide)
    guides[1].close()
    lanes.wait(guides[:1], 5)
    lanes.close()
    assert constraint.masks <= 2
    assert not any(thread.name.startswith("narrows-slow") and lanes.owns(thread) for thread in threading.enumerate())


def test_a_text_that_is_whole_has_ended():
    class Whole(TimedMatcher):
        is_accepting = True

        def fill_mask(self, row):
            row[:] = 0

    constraint = Timed()
    constraint.matcher = lambda: Whole(constraint)
    guide = Guide(constraint, 2)
    guide.mask[:] = -1
    guide.work()
    assert guide.ended
    assert not np.any(guide.mask)
