"""A queue of jobs in which clients take turns, however many jobs one of them adds.

    next: of the clients with the fewest jobs under way, the one that was served longest ago

So a client waits for the jobs that are being worked on, but not for another client's queue of sixty. A job that several
clients want waits in the queue of each.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class CompileQueue(Generic[T]):
    """Jobs by client. Each call costs at most time linear in the number of clients that wait."""

    def __init__(self) -> None:
        self._queues: OrderedDict[str, dict[T, None]] = OrderedDict()
        self._under_way: Counter[str] = Counter()

    def add(self, client: str, job: T) -> None:
        """Add the job at the end of the client's queue. A job that is in it already keeps its place."""
        self._queues.setdefault(client, {}).setdefault(job)

    def discard(self, client: str, job: T) -> None:
        """The client no longer waits for it."""
        queue = self._queues.get(client, {})
        queue.pop(job, None)
        if not queue:
            self._queues.pop(client, None)

    def take(self) -> tuple[T, str] | None:
        """The next job, and the client whose turn it is. None where nothing waits. Call `done(client)` after the
        job."""
        if not self._queues:
            return None
        client = min(self._queues, key=self._under_way.__getitem__)  # the first of equals
        job = next(iter(self._queues[client]))
        for waiting in [name for name, queue in self._queues.items() if job in queue]:
            self.discard(waiting, job)
        self._under_way[client] += 1
        return job, client

    def done(self, client: str) -> None:
        """A job that was taken in this client's turn is over. The client's next turn comes after the others'."""
        self._under_way[client] -= 1
        if not self._under_way[client]:
            del self._under_way[client]
        if client in self._queues:
            self._queues.move_to_end(client)
