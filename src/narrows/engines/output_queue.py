"""Carries outputs from a decode loop's thread to one reader, asynchronous or not.

Its size is bounded: outputs of one sequence that the reader has not taken are merged. A reader that closes the stream,
leaves its `with`, or drops it aborts what still runs, once. In a forked process the stream cannot be used: reading it
raises `EngineError` code `engine_forked`, and dropping it has no effect.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator

from narrows.engines.api import Output
from narrows.errors import EngineError


def forked(owned: str) -> EngineError:
    return EngineError(
        f"the {owned} belongs to the process that made it, and this is a forked process",
        code="engine_forked",
        hint="Make the engine after the fork, or start processes with the spawn method",
    )


class OutputQueue:
    """The engine's side. One thread calls `put`. Any thread may call the other methods."""

    def __init__(self, sequences: int, on_abandoned: Callable[[OutputQueue], None]) -> None:
        self._open = sequences
        """Number of sequences whose last output was not put yet."""
        self._pending: dict[int, Output] = {}
        self._changed = threading.Condition()
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self._on_abandoned = on_abandoned
        self._process = os.getpid()
        self.abandoned = False
        """Whether the reader has closed or dropped the stream."""
        self.aborted = False
        """Whether the engine has to end the sequences. Set once. The decode loop reads it at each turn."""

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
        """Wait for the next output. None at the end."""
        self._check_process()
        with self._changed:
            while True:
                output, ended = self.take()
                if output is not None or ended:
                    return output
                self._changed.wait()

    async def get_async(self) -> Output | None:
        """Wait for the next output without blocking the thread. None at the end. A cancelled wait loses no output."""
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
        if os.getpid() != self._process:  # threads that do not exist here may hold its locks
            raise forked("stream")

    def _wake(self) -> None:
        self._changed.notify_all()
        if self._waiter is None:
            return
        loop, waiter = self._waiter
        self._waiter = None
        try:
            loop.call_soon_threadsafe(_resolve, waiter)
        except RuntimeError:  # the reader's event loop is closed. Its stream aborts when it is dropped.
            return


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class QueueStream:
    """The reader's side: an `engines.api.OutputStream`. The engine holds no reference to it, so that a dropped stream
    is noticed."""

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
