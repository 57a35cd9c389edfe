"""Worker threads of the server: few at a time, with lanes by the size of the request that the work is for.

Each thread may hold the interpreter for a moment, and the event loop would wait for all of them. Small requests do not
wait for large ones, nor large ones for huge ones. All models of a server share these lanes.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import anyio
import anyio.to_thread

from narrows.errors import NarrowsError

T = TypeVar("T")

LARGE, HUGE = 65_536, 1_048_576
"""Bytes. Requests above each bound have threads of their own."""
_ANY_NUMBER = anyio.CapacityLimiter(math.inf)


class InThread(Generic[T]):
    """Work in a thread. It holds its place in `limiter` until the thread ends: cancelling the asyncio task does not
    stop the thread."""

    def __init__(self, limiter: anyio.CapacityLimiter, work: Callable[..., T], args: tuple[Any, ...]) -> None:
        self.begun = False
        self.task: asyncio.Task[T | _Refusal] = asyncio.ensure_future(self._run(limiter, work, args))
        self.task.add_done_callback(_read_error)

    async def _run(self, limiter: anyio.CapacityLimiter, work: Callable[..., T], args: tuple[Any, ...]) -> T | _Refusal:
        try:
            async with limiter:
                self.begun = True
                return await anyio.to_thread.run_sync(_result_or_refusal, work, args, limiter=_ANY_NUMBER)
        finally:
            del work, args  # a cancellation would hold this frame, and it would hold these


class _Refusal:
    """A request's error without the frames it was raised in. Those frames hold megabytes of the request, and an error
    in a task holds its own frame. That is a reference cycle, which stays until the garbage collector looks at old
    objects."""

    def __init__(self, error: NarrowsError) -> None:
        self._error: NarrowsError | None = error
        link: BaseException | None = error
        while link is not None:
            link.__traceback__ = None
            link = link.__cause__ or link.__context__

    def taken(self) -> NarrowsError:
        """The error, once. This object forgets it, so that raising it makes no reference cycle."""
        error, self._error = self._error, None
        assert error is not None
        return error


def _result_or_refusal(work: Callable[..., T], args: tuple[Any, ...]) -> T | _Refusal:
    try:
        return work(*args)
    except NarrowsError as error:
        return _Refusal(error)


def _read_error(task: asyncio.Task[Any]) -> None:
    """Read the task's error, so that asyncio does not log it as never retrieved when nobody waits for the task."""
    if not task.cancelled():
        task.exception()


class Threads:
    """Use from one event loop."""

    def __init__(self) -> None:
        self._small = anyio.CapacityLimiter(max(2, min(4, os.cpu_count() or 2)))
        self._large = anyio.CapacityLimiter(1)
        self._huge = anyio.CapacityLimiter(1)
        self._aside = anyio.CapacityLimiter(1)

    async def in_thread(self, size: int, work: Callable[..., T], *args: Any) -> T:
        """`work(*args)` in a worker thread, for a request of `size` bytes."""
        return await self.result_of(self.begin_in_thread(size, work, *args))

    def begin_in_thread(self, size: int, work: Callable[..., T], *args: Any) -> InThread[T]:
        """Begin what `in_thread` does. The work counts as running until its thread ends, also if nobody waits any
        more."""
        limiter = self._huge if size > HUGE else self._large if size > LARGE else self._small
        return InThread(limiter, work, args)

    def begin_aside(self, work: Callable[..., T], *args: Any) -> InThread[T]:
        """The same in the one thread for work that is long and can wait, such as the playground's."""
        return InThread(self._aside, work, args)

    async def result_of(self, running: InThread[T]) -> T:
        """What the work returned. If this call is cancelled, work that has not begun is cancelled too; other work runs
        to its end."""
        try:
            result = await asyncio.shield(running.task)
        except asyncio.CancelledError:
            if not running.begun:
                running.task.cancel()
            raise
        if isinstance(result, _Refusal):
            raise result.taken()
        return result
