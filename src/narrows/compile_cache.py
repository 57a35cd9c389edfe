"""A cache of compiled grammars, by definition. The server and the plug-ins use it.

- Its size is bounded by the number of entries and by the bytes that the values hold (`Limits.grammar_cache_entries`,
  `grammar_cache_bytes`). A constraint grows as it is used. So the bytes of what is in use are read again whenever the
  bounds are checked: when a value is leased, kept or released.
- A value in use is never dropped: that would free no memory, and the next user would compile it again. Of the others,
  the least recently used is dropped first.
- Threads that want the same definition wait for one compilation. (Callers on an event loop may be cancelled. They share
  compilations through narrows.server.compiler.)
- Failures are not kept.

Thread-safe. Cost of a call: some 10 us, and 0.3 us for each entry in use.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from narrows.errors import LimitError
from narrows.limits import DEFAULT_LIMITS, Limits

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_ENTRY_BYTES = 1_000


class Lease(Generic[V]):
    """One use of a value. It ends with `release`, or when the lease is deleted. A second `release` has no effect."""

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
    size: int = 0
    """Bytes, as they were read last."""
    users: Counter[str] = field(default_factory=Counter)
    """Number of leases that have not ended, for each user."""


class CompileCache(Generic[K, V]):
    """Values by key. `size(value)`: the bytes that a value holds now."""

    def __init__(self, size: Callable[[V], int], limits: Limits = DEFAULT_LIMITS) -> None:
        self._size = size
        self._limits = limits
        self._lock = threading.Lock()
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._in_use: dict[int, _Entry[V]] = {}
        """The entries that have users, by their `id`. The others do not grow."""
        self._held = 0
        """The sizes of all entries."""
        self._compiling: dict[K, Future[V]] = {}
        self._released: deque[tuple[_Entry[V], str]] = deque()
        """Ended leases that are still counted in `users`. The garbage collector may end a lease at any moment, also
        while this thread holds the lock."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def bytes_held(self) -> int:
        """Bytes that the kept values hold now."""
        with self._lock:
            self._read_sizes(self._entries.values())
            return self._held

    @property
    def bytes_in_use(self) -> int:
        """Bytes of the values that are in use."""
        with self._lock:
            self._count_released()
            self._read_sizes(self._in_use.values())
            return sum(entry.size for entry in self._in_use.values())

    def lease(self, key: K, user: str = "") -> Lease[V] | None:
        """Lease the value for this key. None if there is none."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None else self._lease(key, entry, user)

    def keep(self, key: K, value: V, overhead: int = 0) -> None:
        """Keep a value, if the bounds allow it. `overhead`: bytes in addition to `size(value)`."""
        with self._lock:
            self._entry(key, value, overhead)
            self._trim()

    def keep_and_lease(self, key: K, value: V, overhead: int = 0, user: str = "") -> Lease[V]:
        """Keep a value and lease it. If another value is kept for this key, lease that one."""
        with self._lock:
            return self._lease(key, self._entry(key, value, overhead), user)

    def get(self, key: K, compile_it: Callable[[], V], overhead: int = 0, user: str = "") -> Lease[V]:
        """Lease the kept value, or the one that `compile_it` makes, in this thread or in another that has begun
        already. Raises what `compile_it` raises."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                return self._lease(key, entry, user)
            running = self._compiling.get(key)
            if running is None:
                future: Future[V] = Future()
                self._compiling[key] = future
        if running is not None:
            return self.keep_and_lease(key, running.result(), overhead, user)
        try:
            value = compile_it()
        except BaseException as error:
            with self._lock:
                del self._compiling[key]
            future.set_exception(error)
            raise
        with self._lock:
            del self._compiling[key]
            lease = self._lease(key, self._entry(key, value, overhead), user)
        future.set_result(value)
        return lease

    def check_room(self, user: str) -> None:
        """Raises `LimitError` code `grammar_memory_full` if the values that this user has in use hold at least as many
        bytes as are free."""
        used = own = 0
        with self._lock:
            self._count_released()
            self._read_sizes(self._in_use.values())
            for entry in self._in_use.values():
                used += entry.size
                own += entry.size // len(entry.users) if user in entry.users else 0
        left = self._limits.grammar_cache_bytes - used
        if left <= 0 or own >= left:
            raise LimitError(
                "the grammars in use hold too much memory",
                code="grammar_memory_full",
                limit="grammar_cache_bytes",
                hint="Try again when a request has ended",
            )

    def trim(self) -> None:
        """Drop values until the bounds hold."""
        with self._lock:
            self._read_sizes(self._entries.values())
            self._trim()

    # Called with the lock held:

    def _read_sizes(self, entries: Iterable[_Entry[V]]) -> None:
        for entry in entries:
            size = entry.overhead + self._size(entry.value)
            self._held += size - entry.size
            entry.size = size

    def _entry(self, key: K, value: V, overhead: int) -> _Entry[V]:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(value, _ENTRY_BYTES + overhead)
            self._read_sizes((entry,))
        return entry

    def _lease(self, key: K, entry: _Entry[V], user: str) -> Lease[V]:
        entry.users[user] += 1
        self._in_use[id(entry)] = entry
        self._entries.move_to_end(key)
        self._trim()
        return Lease(entry.value, lambda: self._release(entry, user))

    def _count_released(self) -> None:
        while self._released:
            entry, user = self._released.popleft()
            entry.users[user] -= 1
            if not entry.users[user]:
                del entry.users[user]
            if not entry.users:
                self._read_sizes((entry,))
                del self._in_use[id(entry)]

    def _trim(self) -> None:
        self._count_released()
        self._read_sizes(self._in_use.values())
        if self._is_within():
            return
        for key, entry in list(self._entries.items()):
            if not entry.users:
                del self._entries[key]
                self._held -= entry.size
                if self._is_within():
                    return

    def _is_within(self) -> bool:
        limits = self._limits
        return self._held <= limits.grammar_cache_bytes and len(self._entries) <= limits.grammar_cache_entries

    # Called without the lock:

    def _release(self, entry: _Entry[V], user: str) -> None:
        self._released.append((entry, user))
        if self._lock.acquire(blocking=False):
            try:
                self._trim()
            finally:
                self._lock.release()
