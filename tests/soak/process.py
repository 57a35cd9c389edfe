"""The server under test: `narrows serve` as a process, watched every second."""

from __future__ import annotations

import http.client
import json
import resource
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil

PROBE_SECONDS = 0.5
PROBE_PATIENCE = 10.0
DESCRIPTORS = 1024
"""The limit that most systems give a process."""


class Server:
    """Starts the server, samples it, stops it. `samples`: (when, bytes of memory, CPU seconds so far, threads,
    descriptors). Memory and CPU include the processes that the server starts."""

    def __init__(self, program: Path, log: Path, options: list[str], *, most_bytes: int) -> None:
        self.log = log
        self.most_bytes = most_bytes
        self.samples: list[tuple[float, int, float, int, int]] = []
        self.killed = ""
        self.probes: list[tuple[float, float, str]] = []
        """(when /health was requested, seconds, what was wrong)."""
        self._ended = threading.Event()
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [str(program), "serve", "--port", "0", "--json", *options],
                stdout=subprocess.PIPE, stderr=stderr, preexec_fn=_few_descriptors,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the server did not start: {log.read_text()[-2000:]}")
        self.url = str(json.loads(line)["url"])
        self.host, self.port = "127.0.0.1", int(urlsplit(self.url).port or 0)
        self._watched = psutil.Process(self.process.pid)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._sample, self._probe)]
        for thread in self._threads:
            thread.start()

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    def cpu_seconds(self) -> float:
        return self.samples[-1][2] if self.samples else 0.0

    def get(self, path: str, patience: float = PROBE_PATIENCE) -> tuple[int, bytes]:
        """Status and body, over a connection of its own, as a probe has."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=patience)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def metrics(self) -> dict[str, float]:
        """Values by name with labels."""
        _, text = self.get("/metrics", 30)
        lines = [line.rpartition(" ") for line in text.decode().splitlines() if line and line[0] != "#"]
        return {name: float(value) for name, _, value in lines}

    def terminate(self, patience: float = 30) -> int | None:
        """Sends SIGTERM. Returns the exit code, or None if the server had to be killed."""
        self.stop_watching()
        if self.lives:
            self.process.terminate()
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None

    def stop_watching(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(PROBE_PATIENCE + 1)

    def _sample(self) -> None:
        while not self._ended.wait(1):
            try:
                held, spent = usage(self._watched)
                threads, descriptors = self._watched.num_threads(), self._watched.num_fds()
            except psutil.Error:
                return
            self.samples.append((time.monotonic(), held, spent, threads, descriptors))
            if held > self.most_bytes:
                self.killed = f"it held {held >> 20} MB, and was killed to spare the machine"
                self.process.kill()
                return

    def _probe(self) -> None:
        while not self._ended.wait(PROBE_SECONDS):
            begun, wrong = time.monotonic(), ""
            try:
                status, _ = self.get("/health")
                wrong = "" if status == 200 else f"status {status}"
            except (OSError, http.client.HTTPException) as error:
                wrong = f"{type(error).__name__}: {error}"
            self.probes.append((begun, time.monotonic() - begun, wrong))


def usage(process: psutil.Process) -> tuple[int, float]:
    """Bytes of memory and CPU seconds so far, of the process and of those that it started. Shared pages count for each.

    Raises psutil.Error where the process has ended.
    """
    own = process.cpu_times()
    held, spent = process.memory_info().rss, own.user + own.system + own.children_user + own.children_system
    for child in process.children(recursive=True):
        with suppress(psutil.Error):  # ended in between
            times = child.cpu_times()
            spent += times.user + times.system
            held += child.memory_info().rss
    return held, spent


def _few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
