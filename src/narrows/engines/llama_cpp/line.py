"""Who waits and who runs, and who of them is next to get a place or to lose one.

A place needs a slot and cells: those that the prompt lacks, beside all that the others were promised. The turn is that
of (priority, places that the client got for what it sent earlier, arrival). Who finds no room keeps those after it
waiting, but for small ones, which have an eighth of the cells together. Long sequences have half of the cells together,
or one of them alone all that it needs, and wait for each other.

- A sequence whose prompt begins like one that is being computed waits for it, so that a common prefix is computed once.
- A client without a place gets one, after some steps, from a client with several (`placing.py` says whose). All who
  have to yield for it do so at once, and it is placed in the same turn: what they give up goes to nobody else.

Nothing here touches the model's cells: the scheduler does what is decided here. Cost of `Line.next`: a sort of those
who wait, and a look for the longest prefix for the few of them who are looked at.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from narrows.decoding.processors import Logits
from narrows.engines.llama_cpp.cache import CellCache, common_prefix
from narrows.engines.llama_cpp.placing import Place, first_to_yield, is_long
from narrows.engines.llama_cpp.prefill import Filling
from narrows.engines.sequence import Sequence

WORTH_WAITING_FOR = 16
"""Tokens of a common prefix for which a sequence waits until another has computed them."""
_MOST_HOLDS = 4
"""How often a sequence waits for a prefix; those it waited for may have been aborted."""

_YIELD_AFTER = 16
"""Steps for which a client without a place waits until another, who has several, yields one."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A sequence without a place."""

    sequence: Sequence
    again: bool = False
    """It had a place before."""
    holder: Running | None = None
    """Who computes the beginning of its prompt, which it waits for."""
    common: int = 0
    """Tokens of that beginning."""
    holds: int = 0
    """How often it has waited so."""
    lacking_since: int | None = None
    """The step at which it first found no room while its client had no place, or at which another last yielded to
    it."""
    _ids: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    def ids(self) -> NDArray[np.int32]:
        """Its tokens, made once: they do not change while it waits."""
        if self._ids.size != len(self.sequence.tokens):
            self._ids = np.array(self.sequence.tokens, dtype=np.int32)
        return self._ids


Lack = Literal["place", "long", "cells"]
"""What keeps a sequence from its place: all are taken, the long ones have their half of the cells, or there are too few
cells."""


@dataclass(slots=True, eq=False)
class Running:
    """A sequence that has a place."""

    sequence: Sequence
    slot: int
    long: bool
    """When it was placed. What is short then and grows stays among the short ones."""
    fed_at: int
    """The step that last computed some of its prompt."""
    passed: Sequence | None = None
    """The sequence that it went before, as that one found no room."""
    logits: Logits | None = None
    """A row that waits for its mask."""


@dataclass(frozen=True, slots=True)
class Admission:
    """A sequence that gets a place, with the first `shared` tokens from the cells of slot `donor`."""

    waiting: Waiting
    donor: int | None
    shared: int
    long: bool
    passed: Sequence | None = None
    """The first of those that found no room and came before it."""


class Line:
    """`shares_prefixes`: whether a sequence may begin from another's cells."""

    def __init__(self, cache: CellCache, *, max_num_seqs: int, shares_prefixes: bool) -> None:
        self._cache = cache
        self._max_num_seqs = max_num_seqs
        self._shares_prefixes = shares_prefixes
        self.waiting: list[Waiting] = []
        self.running: list[Running] = []
        """In the order of (priority, arrival)."""
        self._making_way: tuple[Waiting, list[Running]] | None = None
        """Who is to be placed next, and who yields for it."""

    def next(self, steps: int) -> Admission | Running | None:
        """Who gets a place now, and leaves the line; or who gives one up for another, and is still running; or nobody.
        `steps`: those so far."""
        if self._making_way is None:
            short: list[Waiting] = []
            admission = self._first(short)
            if admission is not None:
                return admission
            if not any(self._make_way(waiting, steps) for waiting in short):
                return None
        assert self._making_way is not None
        waiting, yielding = self._making_way
        if yielding:
            return yielding.pop()
        self._making_way = None
        return self._admission(waiting) or self.next(steps)

    def _first(self, short: list[Waiting]) -> Admission | None:
        """The first who may go. Where nobody may, `short` gets those who are short of room and whose client has no
        place that came before."""
        arrivals: defaultdict[str, list[int]] = defaultdict(list)
        for arrival, client in sorted((r.sequence.order[1], r.sequence.request.client) for r in self.running):
            arrivals[client].append(arrival)

        def places(waiting: Waiting) -> int:
            # Not those that came later: else a client's later ones, let through, would keep its first waiting for ever.
            return bisect_left(arrivals[waiting.sequence.request.client], waiting.sequence.order[1])

        def turn(waiting: Waiting) -> tuple[int, int, int]:
            priority, arrival = waiting.sequence.order
            return priority, places(waiting), arrival

        most = dict.fromkeys((False, True), self._cache.total)  # tokens of one that may go before those who lack room
        blocked: Waiting | None = None
        for waiting in sorted(self.waiting, key=turn):
            if self._is_held(waiting):
                continue
            has_none = not places(waiting)
            if not has_none:
                waiting.lacking_since = None
            tokens = waiting.ids()
            long = is_long(tokens.size, self._cache.total)
            if tokens.size > most[long] or self._hold(waiting, tokens):
                continue
            donor, shared = self._cache.longest_prefix(tokens[:-1])  # the last token is computed for its logits
            lack = self._lack(tokens.size, donor, shared, self.running)
            if lack is None:
                return self._take(waiting, donor, shared, passed=blocked)
            if has_none:
                short.append(waiting)
            if lack == "long":
                most[True] = 0
            elif lack == "place" or blocked is not None:
                return None
            else:
                need = tokens.size - shared
                most = {kind: min(most[kind], self._room_after(waiting, need, long, kind)) for kind in most}
            blocked = blocked or waiting
        return None

    def _admission(self, waiting: Waiting) -> Admission | None:
        """Its place, if there is room for it."""
        tokens = waiting.ids()
        donor, shared = self._cache.longest_prefix(tokens[:-1])
        if waiting not in self.waiting or self._lack(tokens.size, donor, shared, self.running) is not None:
            return None
        return self._take(waiting, donor, shared)

    def _take(self, waiting: Waiting, donor: int | None, shared: int, passed: Waiting | None = None) -> Admission:
        self.waiting.remove(waiting)
        long = is_long(waiting.ids().size, self._cache.total)
        return Admission(waiting, donor, shared, long, None if passed is None else passed.sequence)

    def _lack(self, tokens: int, donor: int | None, shared: int, running: list[Running]) -> Lack | None:
        """What a sequence of so many tokens, `shared` of them in `donor`'s cells, is short of beside those that run,
        and all that they were promised."""
        if len(running) >= self._max_num_seqs:
            return "place"
        slots = {r.slot for r in running}
        long = [r for r in running if r.long]
        if is_long(tokens, self._cache.total) and long:
            need = tokens - (shared if donor in slots else 0)
            if 2 * (self._taken(long) + need) > self._cache.total:
                return "long"
        promised = sum(self.missing(r) for r in running)
        if running and not self._cache.room_for(tokens + promised, donor, shared, beside=slots):
            return "cells"
        return None

    def _room_after(self, waiting: Waiting, need: int, long: bool, kind: bool) -> int:
        """Tokens of one of a kind that may go before `waiting`, which needs `need` cells and lacks them. Those who do
        so have an eighth of the cells together; and before a long one, the short ones have what it leaves of their
        half."""
        left = self._cache.total - need
        first = waiting.sequence
        before = [r for r in self.running if r.passed is first or r.sequence.order[1] > first.order[1]]
        room = min(self._cache.total // 8, left) - self._taken(before)
        if long and not kind:
            room = max(room, min(self._cache.total // 2, left) - self._taken([r for r in self.running if not r.long]))
        return room

    def _taken(self, running: Collection[Running]) -> int:
        """Cells that these have, or were promised."""
        return self._cache.held(r.slot for r in running) + sum(self.missing(r) for r in running)

    def _make_way(self, waiting: Waiting, steps: int) -> bool:
        """Let others yield to a client without a place that has waited for some steps, if those who may can give what
        it lacks."""
        if waiting.lacking_since is None:
            waiting.lacking_since = steps
        if steps - waiting.lacking_since < _YIELD_AFTER:
            return False
        waiting.lacking_since = steps
        tokens = waiting.ids()
        donor, shared = self._cache.longest_prefix(tokens[:-1])
        left, yielding = list(self.running), list[Running]()
        while (lack := self._lack(tokens.size, donor, shared, left)) is not None:
            index = first_to_yield(
                self.places(left),
                self.held(left),
                priority=waiting.sequence.request.priority,
                cells=None if lack == "place" else tokens.size - shared,
                long=lack == "long",
            )
            if index is None:
                return False
            gone = left.pop(index)
            yielding.append(gone)
            if gone.slot == donor:
                donor, shared = None, 0  # what is kept of it is not sure
        self._making_way = waiting, yielding
        return True

    def places(self, running: list[Running]) -> list[Place]:
        own = self._cache.own([r.slot for r in running])
        return [
            Place(r.sequence.request.client, r.sequence.order, cells + self.missing(r), r.long)
            for r, cells in zip(running, own, strict=True)
        ]

    def held(self, running: list[Running]) -> dict[str, int]:
        """Cells that each client's sequences have, or were promised."""
        of_client: defaultdict[str, list[Running]] = defaultdict(list)
        for r in running:
            of_client[r.sequence.request.client].append(r)
        return {client: self._taken(those) for client, those in of_client.items()}

    def _is_held(self, waiting: Waiting) -> bool:
        """Whether the one that computes the beginning of its prompt is still at it. Costs nothing, as each turn asks it
        of many."""
        holder = waiting.holder
        if holder is not None and holder in self.running and self._cache.length(holder.slot) < waiting.common:
            return True
        waiting.holder = None
        return False

    def _hold(self, waiting: Waiting, tokens: NDArray[np.int32]) -> bool:
        """Let it wait where a running sequence is about to compute much of the beginning of `tokens` that no other
        has."""
        if not self._shares_prefixes or waiting.holds == _MOST_HOLDS:
            return False
        filling = {r.slot: r for r in self.running if self.missing(r) > 1}
        if not filling:
            return False
        _, elsewhere = self._cache.longest_prefix(tokens[:-1], without=filling.keys())
        for slot, running in filling.items():
            common = common_prefix(running.sequence.prompt, tokens[:-1])
            if common >= elsewhere + WORTH_WAITING_FOR and common > self._cache.length(slot):
                waiting.holder, waiting.common = running, common
                waiting.holds += 1
                return True
        return False

    def missing(self, running: Running) -> int:
        """Tokens that are not in the cells: one where it is generating."""
        return len(running.sequence.tokens) - self._cache.length(running.slot)

    def fillings(self, filling: list[Running], steps: int) -> list[Filling]:
        """What is missing of each prompt. One that others wait for is as urgent as they are."""
        held: dict[Running | None, list[Sequence]] = {r: [r.sequence] for r in filling}
        for waiting in self.waiting if filling else ():
            if waiting.holder in held and self._is_held(waiting):
                held[waiting.holder].append(waiting.sequence)
        return [
            Filling(
                self.missing(r),
                urgency=min(len(s.tokens) for s in held[r]) - self._cache.length(r.slot),
                priority=min(s.request.priority for s in held[r]),
                rested=steps - r.fed_at,
            )
            for r in filling
        ]
