"""Compiled grammars, kept for the next request that brings the same definition.

Compiling, and making the first mask, happens in worker threads: no stream waits for another request's schema. Two requests with the same definition share one
compilation. What is kept is bounded by entries and by the bytes of the definitions (`Limits.grammar_cache_entries`,
`grammar_cache_bytes`), least recently used first out; what waits is bounded by `compile_queue`. Failures are not kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from narrows.errors import LimitError
from narrows.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from narrows import Constraint, Grammar, Vocabulary


LOOSE = ("ignored", "over")
"""Statuses of keywords that are not enforced, or not wholly."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A constraint, and what of its definition it does not enforce."""

    constraint: Constraint
    loose: tuple[str, ...]
    """Places in the definition of keywords that are left out."""


class GrammarCache:
    """Use from one event loop. `observe(seconds)` is called after each compilation."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        limits: Limits = DEFAULT_LIMITS,
        *,
        threads: int = 2,
        observe: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._vocabulary = vocabulary
        self._limits = limits
        self._observe = observe
        self._kept: OrderedDict[bytes, tuple[Compiled, int]] = OrderedDict()
        self._under_way: dict[bytes, asyncio.Future[Compiled]] = {}
        self._workers = ThreadPoolExecutor(threads, thread_name_prefix="narrows-compile")
        self.bytes = 0
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, definition: Any, build: Callable[[Limits], Grammar]) -> Compiled:
        """The constraint for `definition` (a JSON value that says all that `build` depends on), compiled or remembered.

        Raises what `build` and the compilation raise, and `LimitError` code `compile_queue_full`. Being cancelled here leaves
        the compilation running for others.
        """
        text = json.dumps(definition, ensure_ascii=True, separators=(",", ":")).encode()
        key = hashlib.blake2b(text, digest_size=32).digest()
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            self.hits += 1
            return found[0]
        under_way = self._under_way.get(key)
        if under_way is None:
            if len(self._under_way) >= self._limits.compile_queue:
                raise LimitError(
                    "too many grammars wait to be compiled",
                    code="compile_queue_full",
                    limit="compile_queue",
                    hint="Try again in a moment",
                )
            self.misses += 1
            under_way = asyncio.get_running_loop().run_in_executor(self._workers, self._compile, build)
            self._under_way[key] = under_way
            under_way.add_done_callback(lambda done: self._keep(key, len(text), done))
        return await asyncio.shield(under_way)

    def _compile(self, build: Callable[[Limits], Grammar]) -> Compiled:
        started = time.perf_counter()
        try:
            grammar = build(self._limits)
            constraint = self._vocabulary.compile(grammar, limits=self._limits)
            # The first mask is needed anyway, and a limit that it meets is better met before the answer has begun.
            constraint.matcher().fill_mask(np.zeros((self._vocabulary.size + 31) // 32, dtype=np.int32))
            return Compiled(constraint, tuple(at for at, status in grammar.report.items() if status in LOOSE))
        finally:
            self._observe(time.perf_counter() - started)

    def _keep(self, key: bytes, size: int, done: asyncio.Future[Compiled]) -> None:
        del self._under_way[key]
        if done.cancelled() or done.exception() is not None or size > self._limits.grammar_cache_bytes:
            return
        self._kept[key] = (done.result(), size)
        self.bytes += size
        while len(self._kept) > self._limits.grammar_cache_entries or self.bytes > self._limits.grammar_cache_bytes:
            _, (_, freed) = self._kept.popitem(last=False)
            self.bytes -= freed

    def close(self) -> None:
        """Let the workers go. Compilations under way end first, those waiting are dropped."""
        self._workers.shutdown(wait=False, cancel_futures=True)
