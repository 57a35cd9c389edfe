"""The work of constraints: in one thread at a time, quick beside slow, and no client's sixteen before another's one."""

from __future__ import annotations

import os
import sys
import threading
import time

import numpy as np
import pytest

from narrows.engines.guide import Guide
from narrows.engines.llama_cpp import lanes
from narrows.engines.llama_cpp.lanes import Lanes
from narrows.errors import LimitError


class Timed:
    """A constraint whose matchers take so many seconds for each mask: of the processor's time, or asleep."""

    def __init__(self, busy=0.0, asleep=0.0, is_apart=False):
        self.busy, self.asleep, self.is_apart = busy, asleep, is_apart
        self.masks = 0
        self.threads = set()
        self.niceness = set()

    def matcher(self):
        return TimedMatcher(self)


class TimedMatcher:
    is_finished = False
    is_accepting = False

    def __init__(self, constraint):
        self.constraint = constraint

    def fill_mask(self, row):
        self.constraint.threads.add(threading.current_thread().name)
        if sys.platform == "linux":
            self.constraint.niceness.add(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        until = time.thread_time() + self.constraint.busy
        while time.thread_time() < until:
            pass
        time.sleep(self.constraint.asleep)
        self.constraint.masks += 1
        row[:] = -1

    def try_accept(self, token):
        return None

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


def test_the_heavy_the_unknown_and_those_apart_have_lanes_of_their_own():
    all_lanes = Lanes()
    try:
        constraints = dear, cheap, apart = Timed(busy=0.02), Timed(), Timed(is_apart=True)
        guides = [Guide(c, 1) for c in constraints]
        for _ in range(3):
            for guide in guides:
                all_lanes.submit(guide)
            all_lanes.wait(guides, 10)
            assert {guide.state for guide in guides} == {"ready"}
            for guide in guides:
                guide.take(1)
        assert dear.threads == {"narrows-slow-0"}
        assert apart.threads == {"narrows-apart-0"}
        if sys.platform == "linux":
            mine = os.getpriority(os.PRIO_PROCESS, 0)
            assert dear.niceness == cheap.niceness == {mine}
            assert apart.niceness == {min(19, mine + 10)}
        assert {name[:-1] for name in cheap.threads} == {"narrows-slow-", "narrows-quick-"}
    finally:
        all_lanes.close()


class Line:
    """A lane without threads, and a clock that goes on by what each job takes."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(lanes.time, "monotonic", lambda: self.now)
        self.lane = lanes._Lane("narrows-test", 0, threading.Condition())

    def put(self, seconds):
        guide = Guide(Timed(), 1)
        guide.costs = seconds
        self.lane.put(guide)
        return guide

    def serve(self):
        """Do the job whose turn it is."""
        guide = self.lane._next()
        self.now += guide.costs
        guide.seconds = guide.costs
        return guide


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3])
def test_sixteen_heavy_ones_delay_a_lighter_one_by_a_few_jobs_and_not_by_sixteen(monkeypatch, share):
    line = Line(monkeypatch)
    crowd = [line.put(0.1) for _ in range(16)]
    light = line.put(0.1 * share)
    turns = {id(g): 0 for g in (*crowd, light)}
    waits, waited = [], 0
    for _ in range(2000):
        guide = line.serve()
        turns[id(guide)] += 1
        if guide is light:
            waits.append(waited)
            waited = 0
        else:
            waited += 1
        line.lane.put(guide)
    heavy = [turns[id(g)] for g in crowd]
    assert max(heavy) <= min(heavy) + 2, "the crowd takes turns"
    assert sum(waits) / len(waits) <= 1 + 24 * share, "about the same time for each"


def test_newcomers_without_end_do_not_keep_one_waiting_for_ever(monkeypatch):
    line = Line(monkeypatch)
    old = line.put(0.1)
    for _ in range(20):
        assert line.serve() is old
        line.lane.put(old)
    for _ in range(16):
        line.put(0.1)
    served = 0
    while line.serve() is not old:
        line.put(0.1)
        served += 1
        assert served <= 400, "twenty times what it took lately, which is less than two seconds"


def test_closing_begins_nothing_more_and_a_closed_guide_does_nothing():
    all_lanes = Lanes()
    constraint = Timed(asleep=0.05)
    guides = [Guide(constraint, 1) for _ in range(5)]
    for guide in guides:
        all_lanes.submit(guide)
    guides[1].close()
    all_lanes.wait(guides[:1], 5)
    all_lanes.close()
    assert constraint.masks <= 2
    assert not any(
        thread.name.startswith("narrows-slow") and all_lanes.owns(thread) for thread in threading.enumerate()
    )


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
