"""A child process that reads definitions. Reading then takes neither the caller's interpreter lock nor its memory.

It is started when it is first needed (0.2 s, 45 MB) and stays for the next definitions. After it was stopped or has
died, a new one is started at the next definition. Unlike multiprocessing's children, it is not a fork and does not
import the caller's main module. So a script that starts a server needs no `if __name__ == "__main__"`.
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

# -I: the child imports nothing from the working directory. It gets the parent's own import path.
_START = """
import json, os, signal, sys
os.nice(10)
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
sys.path[:] = json.loads(sys.argv[1])
from narrows.compiling.child import main
main()
"""


class Stopped(Exception):
    """`Reader.stop` was called for the definition that was being read."""


class Reader:
    """One child at a time. One thread at a time may call `read`; any thread may call `stop` and `close`."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._reading: object = None
        self._stopped = False
        self._closed = False
        self.starts = 0
        """The number of children started so far."""

    @staticmethod
    def can_read(setup: Setup) -> bool:
        """Whether a child can read definitions for this setup. It must be able to build the format from its source, and
        there must be a Python interpreter to start (a frozen program has none)."""
        if not sys.executable or getattr(sys, "frozen", False):
            return False
        try:
            return format_from(setup.fmt.source, setup.fmt.name) == setup.fmt
        except (NarrowsError, ValueError):
            return False

    def read(self, text: bytes, caller: object) -> FlatGrammar:
        """The grammar of a definition's JSON text. `caller` identifies this call for `stop`.

        Raises what `read_definition` raises, `Stopped`, and `NarrowsError` code `reading_died` where the child was
        killed or could not be started.
        """
        with self._lock:
            if self._closed:
                raise Stopped
            self._reading, self._stopped = caller, False
        try:
            answer = self._ask(text)
        finally:
            with self._lock:
                self._reading = None
                stopped = self._stopped
            if stopped:
                raise Stopped
        return grammar_from(answer)

    def stop(self, caller: object) -> None:
        """End the child if it is reading for `caller`."""
        with self._lock:
            if self._reading is caller:
                self._stopped = True
                self._kill()

    def close(self) -> None:
        """End the child. Nothing can be read after this."""
        with self._lock:
            self._closed = self._stopped = True
            self._kill()
            idle = self._child if self._reading is None else None  # a thread that reads reaps its child itself
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
        """End the child and wait for it. Returns its exit status."""
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
    event = f"could not be started: {error}" if error is not None else f"ended with status {status}"
    return NarrowsError(
        f"the process that reads long schemas and grammars {event}",
        code="reading_died",
        hint="The definition may need more memory than there is. Make it smaller",
    )
