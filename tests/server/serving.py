"""A server on a real socket: in a thread of the test's process, or as a process of its own that can be told to stop.

python serving.py DRAIN_SECONDS RELEASE_SECONDS    # a held engine, released that long after its first request; prints the port
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from narrows.server import Settings, create_app
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


def eventually(condition: Any, seconds: float = 5.0) -> bool:
    """Whether `condition()` becomes true in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


def main(drain: float, release: float) -> None:
    from scripted import ScriptedEngine

    engine = ScriptedEngine("Hello.")
    engine.hold()

    def release_later() -> None:
        eventually(lambda: engine.running == 1, 60)
        time.sleep(release)
        engine.release()

    threading.Thread(target=release_later, daemon=True).start()

    class Loud(Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            print(self.servers[0].sockets[0].getsockname()[1], flush=True)

    Loud(create_app(engine, Settings(shutdown_timeout=drain)), port=0).run()


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))
