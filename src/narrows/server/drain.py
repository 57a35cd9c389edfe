"""How a server stops: it takes no new requests, and ends running ones with an error after a number of seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from narrows.errors import EngineError


class Drain:
    """Use from one event loop; `begin` from any thread, and from signal handlers."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.running = 0
        """Requests to the model that are under way, until the last byte of the answer is sent."""
        self.deadline: float | None = None
        """When running requests are ended, in time.monotonic(). None: the server is not stopping."""
        self.over = asyncio.Event()
        """Set when requests that still run must end now, with an error."""

    def begin(self) -> None:
        """Take no new requests."""
        if self.deadline is None:
            self.deadline = time.monotonic() + self._seconds

    @property
    def begun(self) -> bool:
        return self.deadline is not None

    def tick(self) -> bool:
        """Call it several times a second after `begin`. True once the server may exit."""
        if self.deadline is None:
            return False
        if time.monotonic() >= self.deadline:
            self.over.set()
        return self.running == 0

    async def by_itself(self) -> None:
        """`begin`, and end running requests in time, under a server that does not call `tick`."""
        self.begin()
        assert self.deadline is not None
        await asyncio.sleep(max(0.0, self.deadline - time.monotonic()))
        self.over.set()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count one request as running."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1


def stopping() -> EngineError:
    """The error for requests that come after `begin`, or do not end in time."""
    return EngineError("the server is stopping", code="server_stopping", hint="Try again in a moment")
