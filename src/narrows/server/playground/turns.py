"""Work of the playground: one piece at a time, in one thread, clients in turn.

So whatever is asked of the playground, the server has one busy thread more. A piece of work is bounded by
`Limits.sequence_work` (some 5 s). Most take milliseconds. A client may have as many waiting as there are free places.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from narrows.errors import LimitError
from narrows.server.compile_queue import CompileQueue

if TYPE_CHECKING:
    from narrows.server.threads import Threads

T = TypeVar("T")
MOST_WAITING = 32


class Turns:
    """Use from one event loop."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._queue: CompileQueue[asyncio.Future[str]] = CompileQueue()
        self._waiting: Counter[str] = Counter()
        self._is_busy = False

    async def run(self, client: str, work: Callable[[Callable[[], bool]], T]) -> T:
        """`work(given_up)` in a thread, when it is this client's turn. `given_up()` becomes true if this call is
        cancelled: the work should then end. Raises what it raises, and `LimitError` code `queue_full`."""
        if self._waiting[client] >= MOST_WAITING - self._waiting.total():
            raise LimitError(
                "too many requests of the playground wait", code="queue_full", hint="Try again in a moment"
            )
        ticket: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._queue.add(client, ticket)
        self._waiting[client] += 1
        self._begin_next()
        try:
            turn = await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled():
                self._end(ticket.result())
            else:
                self._queue.discard(client, ticket)
            raise
        finally:
            self._waiting[client] -= 1
            self._waiting += Counter()  # without those that are 0
        left = threading.Event()
        running = self._threads.begin_aside(work, left.is_set)
        running.task.add_done_callback(lambda _: self._end(turn))
        try:
            return await self._threads.result_of(running)
        except asyncio.CancelledError:
            left.set()
            raise

    def _begin_next(self) -> None:
        if not self._is_busy and (taken := self._queue.take()) is not None:
            ticket, turn = taken
            self._is_busy = True
            ticket.set_result(turn)

    def _end(self, turn: str) -> None:
        self._queue.done(turn)
        self._is_busy = False
        self._begin_next()
