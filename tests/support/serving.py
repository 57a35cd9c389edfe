"""A server on a real socket: in a thread of the test's process, or as a process that a test can stop."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from narrows.server import Settings, create_app, logs
from narrows.server.run import Server


@contextmanager
def serving(engine: Any, settings: Settings | None = None) -> Iterator[str]:
    """The URL of `engine`, served until the block ends. The engine is not closed."""
    server = Server(create_app(engine, settings), port=0, raise_limit=False)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


def metric(url: str, name: str, model: str | None = None) -> float:
    """The value of a metric whose only label is the model's name; of all models together, unless one is named."""
    found = 0.0
    for family in text_string_to_metric_families(httpx.get(f"{url}/metrics", timeout=30).text):
        for sample in family.samples:
            if sample.name == name and model in (None, sample.labels.get("model_name")):
                found += sample.value
    return found


def eventually(condition: Any, seconds: float = 5.0) -> bool:
    """Whether `condition()` becomes true in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


@contextmanager
def process(log: Path | None = None, **options: Any) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server process and its URL. Options: see `main`. Its log goes to the file `log`. It is killed if it still runs
    at the end."""
    command = [sys.executable, __file__, json.dumps(options)]
    with (
        open(log or os.devnull, "w") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as started,
    ):
        try:
            assert started.stdout is not None
            yield started, f"http://127.0.0.1:{started.stdout.readline().strip()}"
        finally:
            started.kill()


def connect(url: str, data: bytes = b"", timeout: float = 10) -> socket.socket:
    """A bare connection that has sent `data`."""
    host, _, port = url.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)), timeout=timeout)
    if data:
        connection.sendall(data)
    return connection


def rest_of(connection: socket.socket) -> bytes:
    """All bytes until the end of the connection. Raises TimeoutError if it does not end."""
    seen = b""
    try:
        while piece := connection.recv(65536):
            seen += piece
    except ConnectionResetError:
        pass
    return seen


def main(
    settings: dict[str, Any], descriptors: int | None = None, hold: bool = False, release: float | None = None
) -> None:
    """`settings`: of `Settings`. `descriptors`: their limit. `hold`: the engine answers nothing until `release` seconds
    after its first request. SIGUSR1 uses up the descriptors, SIGUSR2 frees them."""
    from scripted import ScriptedEngine

    engine = ScriptedEngine("Hello.")
    if hold:
        engine.hold()

    def release_later() -> None:
        eventually(lambda: engine.running == 1, 60)
        time.sleep(release or 0)
        engine.release()

    if release is not None:
        threading.Thread(target=release_later, daemon=True).start()
    taken: list[int] = []

    def take(*_: Any) -> None:
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass

    def free(*_: Any) -> None:
        while taken:
            os.close(taken.pop())

    signal.signal(signal.SIGUSR1, take)
    signal.signal(signal.SIGUSR2, free)
    if descriptors is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    class Loud(Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            print(self.servers[0].sockets[0].getsockname()[1], flush=True)

    logs.configure("warning")
    Loud(create_app(engine, Settings(**settings)), port=0).run()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
