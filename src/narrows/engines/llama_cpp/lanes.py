"""The threads that do the work of the constraints beside the decode loop, heavy work apart from quick work.

Most masks take microseconds, but some take tenths of a second, and a client may ask for many of those. So there are
three lanes:

    quick   four threads, for most sequences
    slow    one thread, for sequences whose work was heavy (`Guide.is_heavy`), and for new sequences
    apart   one thread of low priority, for constraints that share no lock with others (`Constraint.is_apart`)

If a thread of low priority held a shared lock, all threads that wait for the lock would be as slow. So only the lane
`apart` has a low priority.

Inside a lane each job has a deadline, and the earliest deadline goes first. The more time a sequence took lately, the
later is its deadline. So sixteen heavy sequences of one client delay a lighter one of another client by a few jobs each
time, not by sixteen. A job goes before every job that arrives after its deadline.
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
"""Nice value of the lane `apart`. Its thread gets about a tenth of the time of a thread that competes with it."""
_HALF_LIFE = 1.0
"""Seconds after which the time that a sequence took counts half."""
_DELAY = 20.0
"""Seconds by which the deadline is later for each second that the sequence took lately."""

_log = logging.getLogger(__name__)


class Lanes:
    """The three lanes. Only the decode loop's thread may call `submit` and `wait`. Any thread may call `close`."""

    def __init__(self) -> None:
        self._done = threading.Condition()
        self._quick = _Lane("narrows-quick", _QUICK_THREADS, self._done)
        self._slow = _Lane("narrows-slow", 1, self._done)
        self._apart = _Lane("narrows-apart", 1, self._done, nice=_NICE)
        self._all = (self._quick, self._slow, self._apart)

    def submit(self, guide: Guide) -> None:
        """Queue the guide's work. The guide belongs to the lane until the work is done."""
        guide.state = "queued"
        if guide.is_apart:
            self._apart.put(guide)
        elif guide.is_heavy or guide.is_new:
            self._slow.put(guide)
        else:
            self._quick.put(guide)

    def wait(self, guides: Iterable[Guide], timeout: float, *, one: bool = False) -> None:
        """Wait until all of the guides are done (with `one`, any of them), at most `timeout` seconds."""
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
        """Start no more jobs, and wait for the running ones: at most one for each thread."""
        for lane in self._all:
            lane.close()


class _Lane:
    """Threads, and the guides that wait for them."""

    def __init__(self, name: str, threads: int, done: threading.Condition, *, nice: int = 0) -> None:
        self._done = done
        self._nice = nice
        self._changed = threading.Condition()
        self._waiting: list[tuple[float, int, Guide]] = []
        """A heap of (deadline, number of arrival, guide)."""
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
        lower_priority(self._nice)
        while (guide := self._next()) is not None:
            guide.work()
            del guide  # lest this thread hold it, and its constraint, until the next one comes
            with self._done:
                self._done.notify_all()

    def _next(self) -> Guide | None:
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            return heapq.heappop(self._waiting)[2]


def lower_priority(nice: int = _NICE) -> None:
    """Lower the priority of this thread alone, and of threads that it starts. Linux only."""
    if nice and sys.platform == "linux":
        thread = threading.get_native_id()
        try:
            os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + nice))
        except OSError:  # a sandbox may forbid it; then other threads are slower
            _log.debug("a thread keeps the priority of its process", exc_info=True)
