"""Sequences that run at the upstream, and those that wait for a place.

The lowest priority goes first, then the client with the fewest that run, then the first that arrived: as in the
embedded engine. Cost: linear in the waiting ones for each place.
"""

from __future__ import annotations

from collections import Counter

from narrows.engines.sequence import Sequence


class Places:
    """Use from one thread. `most`: sequences that run at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: list[Sequence] = []
        self._running: Counter[str] = Counter()

    @property
    def running(self) -> int:
        return self._running.total()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def add(self, sequence: Sequence) -> None:
        self._waiting.append(sequence)

    def discard(self, sequence: Sequence) -> bool:
        """Whether the sequence was waiting, and waits no more."""
        if sequence not in self._waiting:
            return False
        self._waiting.remove(sequence)
        return True

    def next(self) -> Sequence | None:
        """The sequence that gets a place now, which it has from here on. None if there is no place, or none waits."""
        if not self._waiting or self.running >= self._most:
            return None

        def turn(sequence: Sequence) -> tuple[int, int, int]:
            priority, arrival = sequence.order
            return priority, self._running[sequence.request.client], arrival

        chosen = min(self._waiting, key=turn)
        self._waiting.remove(chosen)
        self._running[chosen.request.client] += 1
        return chosen

    def leave(self, sequence: Sequence) -> None:
        """A sequence gives its place back."""
        client = sequence.request.client
        self._running[client] -= 1
        if not self._running[client]:
            del self._running[client]
