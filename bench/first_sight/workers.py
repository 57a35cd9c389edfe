"""The other side of worker.py: starts the processes, asks them, and ends those that take too long.

An engine that does not answer in time, or whose process ends, loses that one request. Its process is started again, and
loads its vocabulary again, which nobody counts. Cost: one process with one vocabulary per engine.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("worker.py")
LOADING_SECONDS = 600
WAITING = 4
"""The limit is of CPU time, so that a busy machine loses nothing. In so many times as much real time all ends."""


class Lost(Exception):
    """No answer; the message says why."""


class Worker:
    """One engine. Raises Lost at once if the engine cannot be loaded, as when it is not installed."""

    def __init__(self, name: str, folder: Path, seconds: float = 60, gigabytes: float = 8) -> None:
        self.name = name
        self.seconds = seconds
        self.restarts = 0
        self._command = [sys.executable, str(WORKER), name, str(folder), str(gigabytes)]
        self.loading = self._start()

    def renew(self) -> None:
        """Makes the engine's vocabulary anew, so that nothing is left of the definitions before."""
        self.ask("renew", LOADING_SECONDS)

    def ask(self, do: str, limit: float | None = None, **request: Any) -> dict[str, Any]:
        """The answer, or `{"lost": why}`. The engine is ready again afterwards."""
        try:
            self._send({"do": do, **request})
            return self._answer(self.seconds if limit is None else limit)
        except Lost as lost:
            self.close()
            self.restarts += 1
            self._start()
            return {"lost": str(lost)}

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                with contextlib.suppress(OSError):  # what was still to be written has no reader any more
                    pipe.close()

    def _start(self) -> dict[str, Any]:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._process.stderr
        os.set_blocking(self._process.stderr.fileno(), False)
        self._said = b""
        self._held = b""
        try:
            return self._answer(LOADING_SECONDS)
        except Lost:
            self.close()
            raise

    def _send(self, request: dict[str, Any]) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise Lost("the process ended") from error

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout
        assert self._process.stderr
        out, err = self._process.stdout.fileno(), self._process.stderr.fileno()
        start, before = time.monotonic(), self._spent()
        open_pipes = [out, err]
        while b"\n" not in self._held:
            waited, spent = time.monotonic() - start, self._spent() - before
            if spent >= seconds or waited >= WAITING * seconds:
                raise Lost(f"not done after {seconds:g} s")
            for pipe in select.select(open_pipes, [], [], 0.5)[0]:
                piece = os.read(pipe, 1 << 16)
                if pipe == err:
                    self._said = (self._said + piece)[-2_000:]
                    open_pipes = open_pipes if piece else [out]
                elif not piece:
                    raise Lost(f"the process ended: {self._last_words(err)}")
                else:
                    self._held += piece
        line, _, self._held = self._held.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _spent(self) -> float:
        """Seconds of CPU time of the process; 0 where the system does not say."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _last_words(self, err: int) -> str:
        try:
            while piece := os.read(err, 1 << 16):
                self._said = (self._said + piece)[-2_000:]
        except BlockingIOError:
            pass
        lines = self._said.decode(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "without a word"


def start_all(
    names: list[str], folder: Path, seconds: float, gigabytes: float, required: tuple[str, ...] = ("narrows",)
) -> dict[str, Worker]:
    """A worker per engine. Engines that cannot be loaded are left out aloud, unless they are required."""
    workers: dict[str, Worker] = {}
    for name in names:
        try:
            workers[name] = Worker(name, folder, seconds, gigabytes)
        except Lost as lost:
            if name in required:
                raise SystemExit(f"{name} cannot be loaded: {lost}") from lost
            print(f"{name} is left out: {lost}", file=sys.stderr)
    return workers
