"""Work that waits its turn: clients take turns, whoever asks for much.

    next: of the clients with the fewest jobs under way, the one that was served longest ago

So a client with sixty jobs keeps another one waiting for what is being worked on, and for nothing that waits. A job
that several clients want waits in the line of each.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class CompileQueue(Generic[T]):
    """Jobs by client. The cost of each call grows with the number of clients that wait, at most."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, dict[T, None]] = OrderedDict()
        self._under_way: Counter[str] = Counter()

    def add(self, client: str, job: T) -> None:
        """At the end of the client's line; a job that stands there keeps its place."""
        self._lines.setdefault(client, {}).setdefault(job)

    def discard(self, client: str, job: T) -> None:
        """The client no longer waits for it."""
        line = self._lines.get(client, {})
        line.pop(job, None)
        if not line:
            self._lines.pop(client, None)

    def take(self) -> tuple[T, str] | None:
        """The next job, and the client whose turn it is; say `done(client)` when it is over. None: nothing waits."""
        if not self._lines:
            return None
        client = min(self._lines, key=self._under_way.__getitem__)  # the first of equals
        job = next(iter(self._lines[client]))
        for waiting in [name for name, line in self._lines.items() if job in line]:
            self.discard(waiting, job)
        self._under_way[client] += 1
        return job, client

    def done(self, client: str) -> None:
        """A job that was taken in this client's turn is over: others come first now."""
        self._under_way[client] -= 1
        if not self._under_way[client]:
            del self._under_way[client]
        if client in self._lines:
            self._lines.move_to_end(client)
