"""The way of outputs from a decode loop's thread to one reader, asynchronous or not.

Bounded by construction: outputs of one sequence that nobody took yet are merged. A reader that goes away (closes the
stream, leaves its `with`, or drops it) aborts what still runs, once. In a fork of the process a stream is over: reading
it raises `EngineError` code `engine_forked`, and dropping it does nothing.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator

from narrows.engines.api import Output
from narrows.errors import EngineError


def forked(what: str) -> EngineError:
    return EngineError(
        f"the {what} belongs to the process that made it, and this is a fork of that",
        code="engine_forked",
        hint="Make the engine after the fork, or start processes by spawn",
    )


class OutputQueue:
    """The engine's side. `put` is called by one thread; the rest from any."""

    def __init__(self, sequences: int, on_abandoned: Callable[[OutputQueue], None]) -> None:
        self._open = sequences
        """Sequences whose last output was not put yet."""
        self._pending: dict[int, Output] = {}
        self._changed = threading.Condition()
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self._on_abandoned = on_abandoned
        self._process = os.getpid()
        self.abandoned = False
        """The reader is gone: there is nobody to generate for."""
        self.aborted = False
        """The engine is to end the sequences. Set once, read by the decode loop at each turn."""

    def put(self, output: Output) -> None:
        with self._changed:
            if output.finish_reason is not None:
                self._open -= 1
            if self.abandoned:
                return
            earlier = self._pending.get(output.index)
            if earlier is None:
                self._pending[output.index] = output
            else:
                earlier.merge(output)
            self._wake()

    @property
    def unfinished(self) -> bool:
        return self._open > 0

    def take(self) -> tuple[Output | None, bool]:
        """(the oldest output, whether the stream has ended). Call with the lock held."""
        if self._pending:
            return self._pending.pop(next(iter(self._pending))), False
        return None, self._open == 0 or self.abandoned

    def abandon(self) -> None:
        if os.getpid() != self._process:
            return
        with self._changed:
            if self.abandoned:
                return
            self.abandoned = True
            unfinished = self._open > 0
            self._pending.clear()
            self._wake()
        if unfinished:
            self._on_abandoned(self)

    def get(self) -> Output | None:
        """The next output; waits. None at the end."""
        self._check_process()
        with self._changed:
            while True:
                output, ended = self.take()
                if output is not None or ended:
                    return output
                self._changed.wait()

    async def get_async(self) -> Output | None:
        """The next output; waits without holding a thread. None at the end. Cancelling the wait loses nothing."""
        self._check_process()
        while True:
            with self._changed:
                output, ended = self.take()
                if output is not None or ended:
                    return output
                loop = asyncio.get_running_loop()
                waiter: asyncio.Future[None] = loop.create_future()
                self._waiter = (loop, waiter)
            await waiter

    def _check_process(self) -> None:
        if os.getpid() != self._process:  # its locks may be held by threads that are not here
            raise forked("stream")

    def _wake(self) -> None:
        self._changed.notify_all()
        if self._waiter is None:
            return
        loop, waiter = self._waiter
        self._waiter = None
        try:
            loop.call_soon_threadsafe(_resolve, waiter)
        except (
            RuntimeError
        ):  # the reader's event loop is closed: it will not come back, and its stream aborts when dropped
            return


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class QueueStream:
    """The reader's side: `engines.api.OutputStream`. The engine holds no reference to it, so that dropping it is
    noticed."""

    def __init__(self, queue: OutputQueue) -> None:
        self._queue = queue
        self._finalizer = weakref.finalize(self, queue.abandon)
        self._finalizer.atexit = False

    def __aiter__(self) -> AsyncIterator[Output]:
        return self

    async def __anext__(self) -> Output:
        output = await self._queue.get_async()
        if output is None:
            raise StopAsyncIteration
        return output

    def __iter__(self) -> Iterator[Output]:
        return self

    def __next__(self) -> Output:
        output = self._queue.get()
        if output is None:
            raise StopIteration
        return output

    def close(self) -> None:
        self._finalizer()

    async def aclose(self) -> None:
        self.close()

    async def __aenter__(self) -> QueueStream:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    def __enter__(self) -> QueueStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
