"""Compiled grammars, kept for whoever brings the same definition next. The server and the plug-ins build on this.

- What is kept is bounded by entries and by the bytes that the values hold (`Limits.grammar_cache_entries`,
  `grammar_cache_bytes`). A constraint grows as it is used, so its bytes are read anew whenever the bounds are looked
  at: when a value is asked for, kept or let go.
- A value that is in use stays. To drop it would free nothing, and the next who wants it would compile it again. Of the
  others, the least recently used goes first.
- Threads that want the same definition wait for one compilation. (Callers on an event loop, who may be cancelled, share
  compilations in their own way; see narrows.server.compiler.)
- Failures are not kept.

Any number of threads may use a cache. Cost: some 10 us, and 0.2 us for each entry.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from narrows.errors import LimitError
from narrows.limits import DEFAULT_LIMITS, Limits

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_ENTRY_BYTES = 1_000


class Lease(Generic[V]):
    """One use of a value. It ends with `release`, or with the lease itself. To release it again does nothing."""

    __slots__ = ("_release", "value")

    def __init__(self, value: V, release: Callable[[], None] | None = None) -> None:
        self.value = value
        self._release = release

    def release(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()

    def __del__(self) -> None:
        self.release()


@dataclass(eq=False, slots=True)
class _Entry(Generic[V]):
    value: V
    overhead: int
    users: Counter[str] = field(default_factory=Counter)
    """Leases that have not ended, by who took them."""


class CompileCache(Generic[K, V]):
    """`size(value)`: the bytes that a value holds now."""

    def __init__(self, size: Callable[[V], int], limits: Limits = DEFAULT_LIMITS) -> None:
        self._size = size
        self._limits = limits
        self._lock = threading.Lock()
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._under_way: dict[K, Future[V]] = {}
        self._released: deque[tuple[_Entry[V], str]] = deque()
        """Leases that have ended and are still counted. The garbage collector may end one at any moment, also while
        this thread holds the lock."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def bytes_held(self) -> int:
        """What the kept values hold now."""
        with self._lock:
            return sum(map(self._bytes, self._entries.values()))

    @property
    def bytes_in_use(self) -> int:
        """Of these, what is in use."""
        with self._lock:
            self._count_released()
            return sum(self._bytes(entry) for entry in self._entries.values() if entry.users)

    def lease(self, key: K, user: str = "") -> Lease[V] | None:
        """The value that is kept for this key, in use from now on; None where there is none."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None else self._lease(key, entry, user)

    def keep(self, key: K, value: V, overhead: int = 0) -> None:
        """Keep a value, if the bounds allow it. `overhead`: bytes that it holds besides."""
        with self._lock:
            self._entry(key, value, overhead)
            self._trim()

    def keep_and_lease(self, key: K, value: V, overhead: int = 0, user: str = "") -> Lease[V]:
        """Keep a value that is in use from now on. Where another is kept for this key, that one is leased."""
        with self._lock:
            return self._lease(key, self._entry(key, value, overhead), user)

    def get(self, key: K, compile_it: Callable[[], V], overhead: int = 0, user: str = "") -> Lease[V]:
        """The value that is kept, or that `compile_it` makes in this thread or in another one that has begun. Raises
        what it raises."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                return self._lease(key, entry, user)
            waiting = self._under_way.get(key)
            if waiting is None:
                mine: Future[V] = Future()
                self._under_way[key] = mine
        if waiting is not None:
            return self.keep_and_lease(key, waiting.result(), overhead, user)
        try:
            value = compile_it()
        except BaseException as error:
            with self._lock:
                del self._under_way[key]
            mine.set_exception(error)
            raise
        with self._lock:
            del self._under_way[key]
            lease = self._lease(key, self._entry(key, value, overhead), user)
        mine.set_result(value)
        return lease

    def check_room(self, user: str) -> None:
        """Raises `LimitError` code `grammar_memory_full` where what this user has in use holds as much as is left of
        the bytes."""
        used = own = 0
        with self._lock:
            self._count_released()
            for entry in self._entries.values():
                if entry.users:
                    size = self._bytes(entry)
                    used += size
                    own += size // len(entry.users) if user in entry.users else 0
        left = self._limits.grammar_cache_bytes - used
        if left <= 0 or own >= left:
            raise LimitError(
                "the grammars in use hold too much memory",
                code="grammar_memory_full",
                limit="grammar_cache_bytes",
                hint="Try again when a request has ended",
            )

    def trim(self) -> None:
        """Keep the bounds."""
        with self._lock:
            self._trim()

    def _bytes(self, entry: _Entry[V]) -> int:
        return entry.overhead + self._size(entry.value)

    # With the lock held:

    def _entry(self, key: K, value: V, overhead: int) -> _Entry[V]:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(value, _ENTRY_BYTES + overhead)
        return entry

    def _lease(self, key: K, entry: _Entry[V], user: str) -> Lease[V]:
        entry.users[user] += 1
        self._entries.move_to_end(key)
        self._trim()
        return Lease(entry.value, lambda: self._release(entry, user))

    def _count_released(self) -> None:
        while self._released:
            entry, user = self._released.popleft()
            entry.users[user] -= 1
            if not entry.users[user]:
                del entry.users[user]

    def _trim(self) -> None:
        self._count_released()
        sizes = {key: self._bytes(entry) for key, entry in self._entries.items()}
        total = sum(sizes.values())
        for key, size in sizes.items():
            if total <= self._limits.grammar_cache_bytes and len(self._entries) <= self._limits.grammar_cache_entries:
                return
            if not self._entries[key].users:
                del self._entries[key]
                total -= size

    # Without it:

    def _release(self, entry: _Entry[V], user: str) -> None:
        self._released.append((entry, user))
        if self._lock.acquire(blocking=False):
            try:
                self._trim()
            finally:
                self._lock.release()
