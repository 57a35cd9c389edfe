"""Responses that later requests may refer to: those of the Responses API, with the conversation up to them.

Bounded by their number and their bytes. Where there is no room, the client with the most bytes loses its oldest one, so
no client can push out those of the others. Nothing is written to disk: they end with the process. Thread-safe.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Response:
    """One answer that is kept, as JSON."""

    owner: str
    """The client that asked."""
    body: bytes
    """The response as it was sent."""
    items: bytes
    """The conversation: the items of all inputs and outputs, as a list."""
    outputs: int
    """How many of these, the last ones, are the response's output."""

    @property
    def size(self) -> int:
        return len(self.body) + len(self.items)


class Remembered:
    """At most `most` responses, and at most `most_bytes` of JSON together."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Response] = OrderedDict()
        self._bytes_of: Counter[str] = Counter()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, name: str, response: Response) -> None:
        """Keep a response under its id. One that is larger than all the room is not kept."""
        if not self._most or response.size > self._most_bytes:
            return
        with self._lock:
            self._kept[name] = response
            self._bytes_of[response.owner] += response.size
            self.bytes += response.size
            while len(self._kept) > self._most or self.bytes > self._most_bytes:
                largest, _ = self._bytes_of.most_common(1)[0]
                self._drop(next(key for key, kept in self._kept.items() if kept.owner == largest))

    def get(self, name: str, owner: str | None) -> Response | None:
        """The response, if there is one of this owner. None: of any owner."""
        with self._lock:
            kept = self._kept.get(name)
            return kept if kept is not None and owner in (None, kept.owner) else None

    def forget(self, name: str, owner: str | None) -> bool:
        """Whether there was such a response."""
        with self._lock:
            kept = self._kept.get(name)
            if kept is None or owner not in (None, kept.owner):
                return False
            self._drop(name)
            return True

    def _drop(self, name: str) -> None:
        dropped = self._kept.pop(name)
        self.bytes -= dropped.size
        self._bytes_of[dropped.owner] -= dropped.size
        if self._bytes_of[dropped.owner] <= 0:
            del self._bytes_of[dropped.owner]
