"""The server's cache of compiled grammars: narrows.compile_cache, and compilations that requests share.

`GrammarCache.get` leases a grammar to a request, which releases it at its end. A grammar that is not in the cache is
compiled (compiler.py), unless the grammars that the client has in use already hold too much memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from narrows.compile_cache import CompileCache, Lease
from narrows.compiling.text import definition_text
from narrows.engines.api import TakesGrammars
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.server.compiler import Compiled, Compiler, Lanes

if TYPE_CHECKING:
    from narrows.formats import Format
    from narrows.vocabulary import Vocabulary


class GrammarCache:
    """Use from one event loop. `observe(seconds)` is called after each compilation. `taker`: an engine that has to see
    each grammar before it gets the constraint. `lanes`: the threads that compile, shared with other caches."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        fmt: Format,
        limits: Limits = DEFAULT_LIMITS,
        *,
        lanes: Lanes | None = None,
        taker: TakesGrammars | None = None,
        observe: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._kept: CompileCache[bytes, Compiled] = CompileCache(lambda compiled: compiled.constraint.bytes, limits)
        self.compiler: Compiler = Compiler(
            vocabulary, fmt, limits, keep=self._keep, observe=observe, taker=taker, lanes=lanes
        )
        self.hits: int = 0
        self.misses: int = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def bytes_held(self) -> int:
        """Bytes that the cached constraints hold now."""
        return self._kept.bytes_held

    @property
    def bytes_in_use(self) -> int:
        """Of these, the bytes of constraints that requests use."""
        return self._kept.bytes_in_use

    @property
    def reader_starts(self) -> int:
        """The number of child processes started so far."""
        return self.compiler.reader.starts if self.compiler.reader is not None else 0

    async def get(self, definition: list[Any], client: str = "", text: bytes | None = None) -> Lease[Compiled]:
        """The constraint for `definition` (compiling/definition.py), from the cache or compiled, for a request of
        `client`.

        `text` is the definition's `definition_text`, if it is known already; for a large definition it is made in a
        thread. Raises what `Compiler.compile` raises, and `LimitError` code `grammar_memory_full` where the client's
        grammars in use hold as much as is left of `grammar_cache_bytes`.
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
        # The cache may have dropped the constraint again before this request could lease it.
        return self._kept.keep_and_lease(key, compiled, _overhead(compiled), client)

    def close(self) -> None:
        """End the workers. Waiting requests get the error `server_stopping`."""
        self.compiler.close()

    def _keep(self, key: bytes, compiled: Compiled) -> None:
        self._kept.keep(key, compiled, _overhead(compiled))


def _overhead(compiled: Compiled) -> int:
    report = compiled.report.bytes if compiled.report is not None else 0
    return sum(map(len, compiled.loose)) + report + compiled.handed_bytes
