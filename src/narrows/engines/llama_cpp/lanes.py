"""Where the work of constraints is done: beside the decode loop, and the heavy apart from the quick.

Most masks take microseconds, some a tenth of a second, and a stranger may ask for many of those. So there are three
lanes:

    quick   four threads, for most
    slow    one, for a sequence whose work was heavy (`Guide.is_heavy`), and one that has not shown yet what it takes
    apart   one that the system runs last, for constraints that share no lock with others (`Constraint.is_apart`)

Where a lock is shared, a thread that the system runs last would keep all who wait for the lock as long; so only the
last lane is that.

Inside a lane each job has a deadline, the later the more time its sequence took lately, and the earliest goes first. So
sixteen heavy sequences of one client delay a lighter one of another by a few jobs each time, and not by sixteen; and
who has waited for its deadline goes before all that came later, however many.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import sys
import threading
import time
from collections.abc import Iterable

from narrows.engines.guide import Guide

_QUICK_THREADS = 4
_NICE = 10
"""Lower priority of the lane `apart`, as the system counts it: about a tenth of the share of a thread that competes
with it."""
_HALF_LIFE = 1.0
"""Seconds after which half of the time that a sequence took is forgotten."""
_DELAY = 20.0
"""Seconds that a sequence may wait for each second that it took lately."""

_log = logging.getLogger(__name__)


class Lanes:
    """All of them. `submit` and `wait` are for one thread, the decode loop's; `close` is for any."""

    def __init__(self) -> None:
        self._done = threading.Condition()
        self._quick = _Lane("narrows-quick", _QUICK_THREADS, self._done)
        self._slow = _Lane("narrows-slow", 1, self._done)
        self._apart = _Lane("narrows-apart", 1, self._done, nice=_NICE)
        self._all = (self._quick, self._slow, self._apart)

    def submit(self, guide: Guide) -> None:
        """Have the guide's work done. It belongs to the lane until it is ready."""
        guide.state = "queued"
        if guide.is_apart:
            self._apart.put(guide)
        elif guide.is_heavy or guide.is_new:
            self._slow.put(guide)
        else:
            self._quick.put(guide)

    def wait(self, guides: Iterable[Guide], timeout: float, *, one: bool = False) -> None:
        """Until all of the guides, or `one` of them, are done, or the seconds are over."""
        guides = list(guides)
        enough = any if one else all
        until = time.monotonic() + timeout
        with self._done:
            while guides and not enough(g.state != "queued" for g in guides):
                left = until - time.monotonic()
                if left <= 0 or not self._done.wait(left):
                    return

    def owns(self, thread: threading.Thread) -> bool:
        return any(thread in lane.threads for lane in self._all)

    def close(self) -> None:
        """Begin nothing more, and wait for what runs: at most a job for each thread."""
        for lane in self._all:
            lane.close()


class _Lane:
    """Threads, and the guides that wait for them."""

    def __init__(self, name: str, threads: int, done: threading.Condition, *, nice: int = 0) -> None:
        self._done = done
        self._nice = nice
        self._changed = threading.Condition()
        self._waiting: list[tuple[float, int, Guide]] = []
        """By deadline, and in order of arrival where that is the same."""
        self._count = itertools.count()
        self._closed = False
        self.threads = [threading.Thread(target=self._run, name=f"{name}-{i}", daemon=True) for i in range(threads)]
        for thread in self.threads:
            thread.start()

    def put(self, guide: Guide) -> None:
        with self._changed:
            now = time.monotonic()
            guide.used_lately = guide.used_lately * 0.5 ** ((now - guide.queued_at) / _HALF_LIFE) + guide.seconds
            guide.queued_at = now
            heapq.heappush(self._waiting, (now + _DELAY * guide.used_lately, next(self._count), guide))
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
        for thread in self.threads:
            thread.join()

    def _run(self) -> None:
        _lower_priority(self._nice)
        while (guide := self._next()) is not None:
            guide.work()
            with self._done:
                self._done.notify_all()

    def _next(self) -> Guide | None:
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            return heapq.heappop(self._waiting)[2]


def _lower_priority(nice: int) -> None:
    """Of this thread alone, where the system can do that."""
    if nice and sys.platform == "linux":
        thread = threading.get_native_id()
        try:
            os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + nice))
        except OSError:  # a sandbox may forbid it: slower for others, and right all the same
            _log.debug("a thread keeps the priority of its process", exc_info=True)
