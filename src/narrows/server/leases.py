"""The compiled grammar that holds one answer, from the cache of its model. What it does not enforce is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from narrows.compile_cache import Lease
from narrows.compiling.text import definition_text
from narrows.errors import NarrowsError
from narrows.server import constraints, unenforced
from narrows.server.compiler import Compiled
from narrows.server.grammars import GrammarCache
from narrows.server.logs import log
from narrows.server.metrics import Metrics
from narrows.server.places import Places
from narrows.server.threads import LARGE, Threads

if TYPE_CHECKING:
    from narrows import Constraint


@dataclass(frozen=True, slots=True)
class LeasedGrammar:
    """The grammar that holds a request's answer. A `with` block releases it if the block raises."""

    constraint: Constraint | None = None
    loose: tuple[str, ...] = ()
    """Pointers into the request's body, to the keywords that the grammar does not enforce."""
    lease: Lease[Compiled] | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self.lease is not None:
            self.lease.release()


class Leasing:
    """Leases the grammars of one model, `name`."""

    def __init__(self, grammars: GrammarCache, threads: Threads, metrics: Metrics, name: str) -> None:
        self._grammars = grammars
        self._threads = threads
        self._metrics = metrics
        self._name = name

    async def lease(
        self, plan: constraints.Plan | None, places: Places, client: str, size: int, tools: Sequence[str] = ()
    ) -> LeasedGrammar:
        """The grammar of `plan`, for a request of `size` bytes; without a plan, none. `tools`: their names, for the
        log. Raises what `GrammarCache.get` raises, with pointers into the body."""
        if plan is None:
            return LeasedGrammar()
        text = await self._threads.in_thread(size, definition_text, plan.definition) if size > LARGE else None
        misses = self._grammars.misses
        try:
            lease = await self._grammars.get(plan.definition, client, text)
        except NarrowsError as error:
            raise plan.locate(error) from error
        loose = tuple(places.outer(plan.place(pointer)) for pointer in lease.value.loose)
        if loose:
            unenforced.count(self._metrics, self._name, loose)
            if self._grammars.misses > misses:
                log.warning("schemas are not wholly enforced: %s", unenforced.line(loose, tools))
        return LeasedGrammar(lease.value.constraint, loose, lease)
