"""The child process's program: it reads one definition after another until the parent closes the pipe.

It runs at a low priority (process.py). When memory runs out, the kernel ends it first. Its own memory has a bound
(`Limits.reading_bytes`, if the system supports it). A definition that meets the bound gets an error; the others do not.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from narrows.compiling.definition import read_definition
from narrows.compiling.messages import LAST, MORE, Setup, of_bug, of_error, of_grammar, receive, send
from narrows.errors import LimitError, NarrowsError

KEPT_BYTES = 256_000_000
"""A child that has held more than this ends, and a new one takes its place: Python returns little memory."""


def main() -> None:
    """Reads from stdin and writes to stdout. What a library prints goes to stderr."""
    _prefer_for_oom_kill()
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    first = receive(source)
    if first is None:
        return
    setup = Setup.from_bytes(first)
    bound = _Bound(setup.limits.reading_bytes)
    send(sink, b"ready")
    while (text := receive(source)) is not None:
        answer = _answer(text, setup, bound)
        last = answer is None or _peak_memory() > KEPT_BYTES
        send(sink, (LAST if last else MORE) + (answer or of_error(_too_much())))
        if last:
            return


def _answer(text: bytes, setup: Setup, bound: _Bound) -> bytes | None:
    """The answer to send. None where reading took too much memory: the child should end, as it keeps some of it."""
    try:
        with bound:
            return of_grammar(read_definition(json.loads(text), setup.fmt, setup.facts, setup.limits))
    except NarrowsError as error:
        return of_error(error)
    except MemoryError:
        return None
    except Exception:
        return of_bug(traceback.format_exc())


def _too_much() -> LimitError:
    return LimitError(
        "reading it takes more memory than the limit allows",
        limit="reading_bytes",
        hint="Make the schema or grammar smaller",
    )


def _prefer_for_oom_kill() -> None:
    """Ask the kernel to end this process first when memory runs out."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


class _Bound:
    """A bound on the process's memory while it is entered: `size` bytes of address space beyond what was mapped when
    this object was made. It has no effect where the kernel does not tell the mapped size (outside Linux).

    Messages are read and written outside of the bound. A child that ran out of memory there could not report it.
    """

    def __init__(self, size: int) -> None:
        self._set: Callable[[tuple[int, int]], None] | None = None
        try:
            import resource

            with open("/proc/self/statm") as file:
                mapped = int(file.read().split()[0]) * resource.getpagesize()
            self._outside = resource.getrlimit(resource.RLIMIT_AS)
            # Where the process has a bound already, that one holds if it is the smaller one.
            bounds = [bound for bound in self._outside if bound != resource.RLIM_INFINITY]
            self._inside = min([mapped + size, *bounds]), self._outside[1]
            self._set = lambda limits: resource.setrlimit(resource.RLIMIT_AS, limits)
        except (ImportError, OSError):
            return

    def __enter__(self) -> None:
        if self._set is not None:
            self._set(self._inside)

    def __exit__(self, *exc: object) -> None:
        if self._set is not None:
            self._set(self._outside)


def _peak_memory() -> int:
    """The most memory that this process has held, in bytes."""
    try:
        # getrusage is the fallback only: on Linux it begins with the parent's peak, also after an exec.
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
