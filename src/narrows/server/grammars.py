"""The server's compiled grammars: narrows.compile_cache, with the compilations that requests on an event loop share.

`GrammarCache.get` leases a grammar to a request, which releases it when it is over. What is missing goes to the
compiler (compiler.py), unless the grammars that the request's client uses already hold too much.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from narrows.compile_cache import CompileCache, Lease
from narrows.compiling.text import definition_text
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.server.compiler import Compiled, Compiler

if TYPE_CHECKING:
    from narrows.formats import Format
    from narrows.vocabulary import Vocabulary


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
        self._kept: CompileCache[bytes, Compiled] = CompileCache(lambda compiled: compiled.constraint.bytes, limits)
        self.compiler = Compiler(vocabulary, fmt, limits, keep=self._keep, observe=observe, threads=threads)
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def bytes_held(self) -> int:
        """What the kept constraints hold now."""
        return self._kept.bytes_held

    @property
    def bytes_in_use(self) -> int:
        """Of these, what requests use."""
        return self._kept.bytes_in_use

    @property
    def reader_starts(self) -> int:
        """Processes that were started to read."""
        return self.compiler.reader.starts if self.compiler.reader is not None else 0

    async def get(self, definition: list[Any], client: str = "", text: bytes | None = None) -> Lease[Compiled]:
        """The constraint for `definition` (compiling/definition.py), compiled or remembered, for a request of this
        client.

        `text` is the definition's `definition_text`, where that was made before: for a large one, in a thread. Raises
        what `Compiler.compile` does, and `LimitError` code `grammar_memory_full` where the client's grammars in use
        hold as much as is left of `grammar_cache_bytes`.
        """
        text = definition_text(definition) if text is None else text
        key = hashlib.blake2b(text, digest_size=32).digest()
        lease = self._kept.lease(key, client)
        if lease is not None:
            self.hits += 1
            return lease
        self._kept.check_room(client)
        self.misses += 1
        compiled = await self.compiler.compile(key, definition, text, client)
        # What the compiler kept may have been dropped before whoever waited for it could take it.
        return self._kept.keep_and_lease(key, compiled, _overhead(compiled), client)

    def close(self) -> None:
        """Let the workers go. Whoever waits is told that the server stops."""
        self.compiler.close()

    def _keep(self, key: bytes, compiled: Compiled) -> None:
        self._kept.keep(key, compiled, _overhead(compiled))


def _overhead(compiled: Compiled) -> int:
    return sum(map(len, compiled.loose))
