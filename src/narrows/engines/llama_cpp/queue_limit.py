"""How many sequences may wait, in all and of one client. Whoever comes beyond that is refused at once.

The queue has `max_queue` places, and one more for each place in the batch that is free. One client may hold at most
three times as much of it as it leaves, so that there is room for the next client. Cost: a few microseconds for a
request.
"""

from __future__ import annotations

from collections import Counter

from narrows.errors import LimitError

_FEW = 16
"""Waiting sequences that one client may have in addition to `max_num_seqs`, however short the queue is."""


class QueueLimit:
    """Counts the sequences that wait. The caller holds its lock."""

    def __init__(self, *, max_num_seqs: int, max_queue: int) -> None:
        self._max_num_seqs = max_num_seqs
        self._max_queue = max_queue
        self.waiting = 0
        self._of: Counter[str] = Counter()
        """The number for each client. Clients without a name share the queue as they come."""

    def check(self, client: str, count: int, *, running: int) -> None:
        """Raises `LimitError` code `queue_full` if `count` more sequences of this client are too many."""
        room = self._max_queue + max(0, self._max_num_seqs - running)
        if self.waiting + count > room:
            raise LimitError(
                f"{self.waiting} sequences are waiting, and {count} more would exceed {room}: max_queue "
                f"({self._max_queue}) and the places that are free",
                code="queue_full",
                limit="max_queue",
                hint="Try again later, or ask for fewer sequences at once",
            )
        left = room - self.waiting - count
        if client and self._of[client] + count > max(3 * left, self._max_num_seqs + _FEW):
            raise LimitError(
                f"{self._of[client]} sequences of this client are waiting, and {count} more would "
                "leave too little room for other clients",
                code="queue_full",
                limit="max_queue",
                hint="Try again later, or ask for fewer sequences at once",
            )

    def add(self, client: str, count: int) -> None:
        """Count sequences that wait now. Negative: that wait no longer."""
        self.waiting += count
        self._of[client] += count
        if not self._of[client]:
            del self._of[client]

    def clear(self) -> None:
        """Nobody waits."""
        self.waiting = 0
        self._of.clear()
