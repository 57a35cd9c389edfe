"""One child process that reads definitions, so that reading takes neither the caller's interpreter lock nor its memory.

It is started when it is first needed (0.2 s, 45 MB), stays for the next definition, and is started anew after it was
stopped or has died. It is no fork, and does not import the caller's main module, as multiprocessing's children do: a
script that starts a server needs no guard.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading

from narrows.compiling.definition import FlatGrammar, format_from
from narrows.compiling.messages import LAST, Setup, grammar_from, receive, send
from narrows.errors import NarrowsError

# Isolated: nothing is imported from where the caller happens to stand, but all from where it imports.
_START = """
import json, os, signal, sys
os.nice(10)
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
sys.path[:] = json.loads(sys.argv[1])
from narrows.compiling.child import main
main()
"""


class Stopped(Exception):
    """`Reader.stop` was called for what was being read."""


class Reader:
    """`read` is for one thread at a time; `stop` and `close` are for any."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._reading: object = None
        self._stopped = False
        self._closed = False
        self.starts = 0
        """Children so far."""

    @staticmethod
    def can_read(setup: Setup) -> bool:
        """A child would know this format by its source, and there is an interpreter to start: a frozen program has
        none."""
        if not sys.executable or getattr(sys, "frozen", False):
            return False
        try:
            return format_from(setup.fmt.source, setup.fmt.name) == setup.fmt
        except (NarrowsError, ValueError):
            return False

    def read(self, text: bytes, who: object) -> FlatGrammar:
        """What a definition's JSON text comes to. `who` is for `stop`.

        Raises what `read_definition` raises, `Stopped`, and `NarrowsError` code `reading_died` where the child was
        killed or could not be started.
        """
        with self._lock:
            if self._closed:
                raise Stopped
            self._reading, self._stopped = who, False
        try:
            answer = self._ask(text)
        finally:
            with self._lock:
                self._reading = None
                stopped = self._stopped
            if stopped:
                raise Stopped
        return grammar_from(answer)

    def stop(self, who: object) -> None:
        """End the child if this is what it reads."""
        with self._lock:
            if self._reading is who:
                self._stopped = True
                self._kill()

    def close(self) -> None:
        """End the child; nothing can be read after."""
        with self._lock:
            self._closed = self._stopped = True
            self._kill()
            idle = self._child if self._reading is None else None  # else its reader tidies up
        if idle is not None:
            self._reap(idle)

    def _ask(self, text: bytes) -> bytes:
        child = self._running()
        assert child.stdin is not None
        assert child.stdout is not None
        answer = None
        with contextlib.suppress(OSError):
            send(child.stdin, text)
            answer = receive(child.stdout)
        if answer is None:
            raise _died(self._reap(child))
        if answer[:1] == LAST:
            self._reap(child)
        return answer[1:]

    def _running(self) -> subprocess.Popen[bytes]:
        child = self._child
        if child is not None and child.poll() is None:
            return child
        if child is not None:
            self._reap(child)
        with self._lock:
            if self._stopped:
                raise Stopped
            try:
                child = self._child = subprocess.Popen(
                    [sys.executable, "-I", "-c", _START, json.dumps(sys.path)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                )
            except OSError as error:
                raise _died(None, error) from None
            self.starts += 1
        assert child.stdin is not None
        assert child.stdout is not None
        ready = None
        with contextlib.suppress(OSError):
            send(child.stdin, self._setup.to_bytes())
            ready = receive(child.stdout)
        if ready is None:
            raise _died(self._reap(child))
        return child

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()

    def _reap(self, child: subprocess.Popen[bytes]) -> int:
        """Its exit status; the child is gone then."""
        child.kill()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with self._lock:
            if self._child is child:
                self._child = None
        return child.wait()


def _died(status: int | None, error: OSError | None = None) -> NarrowsError:
    what = f"could not be started: {error}" if error is not None else f"has ended with status {status}"
    return NarrowsError(
        f"the process that reads long schemas and grammars {what}",
        code="reading_died",
        hint="The definition may need more memory than there is. Make it smaller",
    )
