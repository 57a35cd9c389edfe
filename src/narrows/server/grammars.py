"""Compiled grammars, kept for the next request that brings the same definition.

What is kept is bounded by entries and by the bytes that the constraints hold (`Limits.grammar_cache_entries`, `grammar_cache_bytes`). A
constraint grows as it is used, so these are read again whenever a request comes, a grammar is compiled, and a request ends. Those that no
request uses go first, least recently used before others; those in use stay, for dropping them would free nothing and have
the next request make them twice. Failures are not kept.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from narrows.compiling.text import definition_text
from narrows.errors import LimitError
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.server.compiler import Compiled, Compiler

if TYPE_CHECKING:
    from narrows import Vocabulary
    from narrows.formats import Format


@dataclass(eq=False, slots=True)
class _Entry:
    compiled: Compiled
    overhead: int
    """Bytes of the places and the entry itself."""
    users: Counter[str] = field(default_factory=Counter)
    """Clients of requests that use it."""

    @property
    def bytes(self) -> int:
        return self.overhead + self.compiled.constraint.bytes


@dataclass(eq=False, slots=True)
class Lease:
    """A request's use of a compiled grammar. `release` when the request is over; again does nothing."""

    compiled: Compiled
    _release: Callable[[], None] | None

    def release(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()


class GrammarCache:
    """Use from one event loop. `observe(seconds)` is called after each compilation."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        fmt: Format,
        limits: Limits = DEFAULT_LIMITS,
        *,
        threads: int = 2,
        observe: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._limits = limits
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self.compiler = Compiler(vocabulary, fmt, limits, keep=self._keep, observe=observe, threads=threads)
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def bytes_held(self) -> int:
        """What the kept constraints hold now."""
        return sum(entry.bytes for entry in self._entries.values())

    @property
    def bytes_in_use(self) -> int:
        """Of these, what requests use."""
        return sum(entry.bytes for entry in self._entries.values() if entry.users)

    @property
    def reader_starts(self) -> int:
        """Processes that were started to read."""
        return self.compiler.reader.starts if self.compiler.reader is not None else 0

    async def get(self, definition: list[Any], client: str = "", text: bytes | None = None) -> Lease:
        """The constraint for `definition` (compiling/definition.py), compiled or remembered, for a request of this client. `text`: its
        `definition_text`, where that was made before; of a large one, in a thread.

        Raises what `Compiler.compile` does, and `LimitError` code `grammar_memory_full` where the client's grammars in use hold as much as
        is left of `grammar_cache_bytes`.
        """
        text = definition_text(definition) if text is None else text
        key = hashlib.blake2b(text, digest_size=32).digest()
        entry = self._entries.get(key)
        if entry is not None:
            self.hits += 1
            return self._lease(key, entry, client)
        self._check_room(client)
        self.misses += 1
        compiled = await self.compiler.compile(key, definition, text, client)
        return self._lease(key, self._entry(key, compiled), client)

    def trim(self) -> None:
        """Keep the bounds."""
        sizes = {key: entry.bytes for key, entry in self._entries.items()}
        total = sum(sizes.values())
        for key, size in sizes.items():
            if total <= self._limits.grammar_cache_bytes and len(self._entries) <= self._limits.grammar_cache_entries:
                return
            if not self._entries[key].users:
                del self._entries[key]
                total -= size

    def close(self) -> None:
        """Let the workers go. Whoever waits is told that the server stops."""
        self.compiler.close()

    def _keep(self, key: bytes, compiled: Compiled) -> None:
        self._entry(key, compiled)
        self.trim()

    def _entry(self, key: bytes, compiled: Compiled) -> _Entry:
        entry = self._entries.get(key)
        if entry is None:  # also where it has been dropped again before whoever wanted it could take it
            entry = self._entries[key] = _Entry(compiled, 1_000 + sum(map(len, compiled.loose)))
        return entry

    def _lease(self, key: bytes, entry: _Entry, client: str) -> Lease:
        entry.users[client] += 1
        self._entries.move_to_end(key)
        self.trim()

        def release() -> None:
            entry.users[client] -= 1
            if not entry.users[client]:
                del entry.users[client]
            self.trim()

        return Lease(entry.compiled, release)

    def _check_room(self, client: str) -> None:
        used = own = 0
        for entry in self._entries.values():
            if entry.users:
                size = entry.bytes
                used += size
                own += size // len(entry.users) if client in entry.users else 0
        left = self._limits.grammar_cache_bytes - used
        if left <= 0 or own >= left:
            raise LimitError(
                "the grammars in use hold too much memory",
                code="grammar_memory_full",
                limit="grammar_cache_bytes",
                hint="Try again when a request has ended",
            )
