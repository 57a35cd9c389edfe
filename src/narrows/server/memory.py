"""Sets how glibc keeps freed memory, once, for a server process.

glibc keeps freed memory in up to eight arenas per core. It also learns from the largest body to keep pieces of that
size. A server that reads bodies and grammars of megabytes in many threads then holds several hundred megabytes more
than it uses. Measured in four minutes with attackers: at most 1,420 MB, and 1,150 MB with the settings here. The
settings: four arenas, and pieces of 4 MB and more go back to the system at once.

An arena shrinks by itself only at its end. What is freed among pieces that stay is returned by `trim`. The server calls
it after compilations, since these replace what the cache of grammars holds. Measured with 300 MB in pieces of which a
third was freed: 10 ms, then 1 to 8 ms, and 94 MB less where the pieces were larger than a page.

Environment variables come first: `MALLOC_ARENA_MAX`, `MALLOC_MMAP_THRESHOLD_`, `MALLOC_TRIM_THRESHOLD_`.
"""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import threading
import time

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""From glibc's malloc.h."""
_OPTIONS = (
    (_ARENA_MAX, 4, "MALLOC_ARENA_MAX"),
    (_MMAP_THRESHOLD, 4 << 20, "MALLOC_MMAP_THRESHOLD_"),  # larger than a row of logits, which each step allocates
    (_TRIM_THRESHOLD, 16 << 20, "MALLOC_TRIM_THRESHOLD_"),
)


def give_back_early() -> bool:
    """Make glibc return freed memory early. False under another C library, which is left as it is."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    global _may_trim
    _may_trim = "MALLOC_TRIM_THRESHOLD_" not in os.environ
    results = [mallopt(option, value) for option, value, name in _OPTIONS if name not in os.environ]
    return all(results)


TRIM_SECONDS = 20.0
_trimming = threading.Lock()
_may_trim = False
_trimmed = 0.0
_collected = 0.0
_pause = 0.0
"""Seconds that the last collection took."""
PAUSE_SHARE = 1_000
"""A collection comes at most after so many times what the last one took."""


def trim() -> None:
    """Collect garbage, and return freed pages among those in use to the system, at most every `TRIM_SECONDS`. Does
    nothing unless `give_back_early` was called.

    Each stream leaves reference cycles of asyncio's tasks and exceptions, some 150 objects. Python collects old ones
    when their number is a quarter of all objects, and does not know what else they hold. Cost: some 40 ns for each
    object of the process, with the interpreter's lock: 55 to 90 ms in a server under attack. So it comes more rarely
    where it takes longer. And the wait for the arenas' locks, 1 to 5 ms. It is for a thread that nobody waits for."""
    global _trimmed, _collected, _pause
    if not _may_trim or time.monotonic() - _trimmed < TRIM_SECONDS or not _trimming.acquire(blocking=False):
        return
    try:
        _trimmed = time.monotonic()
        if gc.isenabled() and _trimmed - _collected >= PAUSE_SHARE * _pause:
            _collected = _trimmed
            gc.collect()
            _pause = time.monotonic() - _collected
        ctypes.CDLL(None).malloc_trim(0)
    finally:
        _trimming.release()
