"""How a server stops: nothing new is begun, what runs has so long to come to its end, and then is told why it does
not."""

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
        """Requests to the model that are under way, up to the last byte of the answer."""
        self.deadline: float | None = None
        """When what runs is ended, as of time.monotonic(). None: the server is not stopping."""
        self.over = asyncio.Event()
        """What still runs is to end now, and to say so."""

    def begin(self) -> None:
        """Take nothing new."""
        if self.deadline is None:
            self.deadline = time.monotonic() + self._seconds

    @property
    def begun(self) -> bool:
        return self.deadline is not None

    def tick(self) -> bool:
        """Call it several times a second once begun. True where the server may go."""
        if self.deadline is None:
            return False
        if time.monotonic() >= self.deadline:
            self.over.set()
        return self.running == 0

    async def by_itself(self) -> None:
        """`begin`, and all of it, where nobody ticks."""
        self.begin()
        assert self.deadline is not None
        await asyncio.sleep(max(0.0, self.deadline - time.monotonic()))
        self.over.set()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """For one request."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1


def stopping() -> EngineError:
    """What those are told that come too late, or do not end in time."""
    return EngineError("the server is stopping", code="server_stopping", hint="Try again in a moment")
