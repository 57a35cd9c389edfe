"""Who waits and who runs, and who of them is next to get a place or to lose one.

A place needs a slot and cells: those that the prompt lacks, beside all that the others were promised. The turn is that of (priority, places that
the client has, arrival). Who finds no room keeps those behind it waiting, but for small ones, which have an eighth of the cells together.
Long sequences have half of the cells together, or one of them alone all that it needs, and wait for each other.

- A sequence whose prompt begins like one that is being computed waits for it, so that a common prefix is computed once.
- A client without a place gets one, after some steps, from a client with several (`placing.py` says whose).

Nothing here touches the model's cells: the scheduler does what is decided here. Cost of `Line.next`: a sort of those who wait, and a look for
the longest prefix for the few of them who are looked at.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

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
    holder: Running | None = None
    """Who computes the beginning of its prompt, which it waits for."""
    common: int = 0
    """Tokens of that beginning."""
    holds: int = 0
    """How often it has waited so."""
    lacking_since: int | None = None
    """The step at which it first found no room while its client had no place, or at which another last yielded to it."""
    _ids: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    def ids(self) -> NDArray[np.int32]:
        """Its tokens, made once: they do not change while it waits."""
        if self._ids.size != len(self.sequence.tokens):
            self._ids = np.array(self.sequence.tokens, dtype=np.int32)
        return self._ids


@dataclass(frozen=True, slots=True)
class _Lack:
    """What a sequence of a client without a place is short of: a place, or cells."""

    waiting: Waiting
    tokens: int | None = None
    """Cells that it needs; None where all places are taken."""
    long: bool = False
    """Those that long sequences may have."""


@dataclass(slots=True, eq=False)
class Running:
    """A sequence that has a place."""

    sequence: Sequence
    slot: int
    long: bool
    """When it was placed. What is short then and grows stays among the short ones."""
    fed_at: int
    """The step that last computed some of its prompt."""
    logits: Logits | None = None
    """A row that waits for its mask."""


@dataclass(frozen=True, slots=True)
class Admission:
    """A sequence that gets a place, with the first `shared` tokens from the cells of slot `donor`."""

    sequence: Sequence
    donor: int | None
    shared: int
    long: bool


class Line:
    """`shares_prefixes`: whether a sequence may begin from another's cells."""

    def __init__(self, cache: CellCache, *, max_num_seqs: int, shares_prefixes: bool) -> None:
        self._cache = cache
        self._max_num_seqs = max_num_seqs
        self._shares_prefixes = shares_prefixes
        self.waiting: list[Waiting] = []
        self.running: list[Running] = []
        """In the order of (priority, arrival)."""

    def next(self, steps: int) -> Admission | Running | None:
        """Who gets a place now, and leaves the line; or who gives one up for another, and is still running; or nobody. `steps`: those so far."""
        if not self.waiting:
            return None
        lacks: list[_Lack] = []
        found: Admission | Running | None = self._first(lacks)
        for lack in lacks:
            found = found or self._make_way(lack, steps)
        return found

    def _first(self, lacks: list[_Lack]) -> Admission | None:
        """The first who may go, whose client has the fewest places among those of its priority. Where nobody may, `lacks` says what clients
        without a place are short of."""
        places = Counter(r.sequence.request.client for r in self.running)

        def turn(waiting: Waiting) -> tuple[int, int, int]:
            request = waiting.sequence.request
            return request.priority, places[request.client], waiting.sequence.order[1]

        full = len(self.running) >= self._max_num_seqs
        most = dict.fromkeys((False, True), self._cache.total)  # tokens of one that may go before those who lack room
        blocked = False
        for waiting in sorted(self.waiting, key=turn):
            if self._is_held(waiting):
                continue
            has_none = not places[waiting.sequence.request.client]
            if not has_none:
                waiting.lacking_since = None
            if full:
                lacks += [_Lack(waiting)] * has_none
                return None
            tokens = waiting.ids()
            long = is_long(tokens.size, self._cache.total)
            if tokens.size > most[long] or self._hold(waiting, tokens):
                continue
            donor, shared = self._cache.longest_prefix(tokens[:-1])  # the last token is computed for its logits
            need = tokens.size - shared
            crowded = long and self._is_crowded_by(need)
            if not crowded and self._has_room(tokens.size, donor, shared):
                self.waiting.remove(waiting)
                return Admission(waiting.sequence, donor, shared, long)
            if has_none:
                lacks.append(_Lack(waiting, tokens=need, long=crowded))
            if crowded:
                most[True] = 0
            elif blocked:
                return None
            else:
                blocked = True
                most = {kind: min(most[kind], self._room_behind(waiting, need, long, kind)) for kind in most}
        return None

    def _has_room(self, tokens: int, donor: int | None, shared: int) -> bool:
        """Whether so many tokens, `shared` of them in `donor`'s cells, fit beside all that the others were promised."""
        promised = sum(self.missing(r) for r in self.running)
        return not self.running or self._cache.room_for(tokens + promised, donor, shared)

    def _room_behind(self, waiting: Waiting, need: int, long: bool, kind: bool) -> int:
        """Tokens of one of a kind that may go before `waiting`, which needs `need` cells and lacks them. Those who do so have an eighth of the cells
        together; and before a long one, the short ones have what it leaves of their half."""
        left = self._cache.total - need
        behind = [r for r in self.running if r.sequence.order[1] > waiting.sequence.order[1]]
        room = min(self._cache.total // 8, left) - self._taken(behind)
        if long and not kind:
            room = max(room, min(self._cache.total // 2, left) - self._taken([r for r in self.running if not r.long]))
        return room

    def _taken(self, running: list[Running]) -> int:
        """Cells that these have, or were promised."""
        return self._cache.held(r.slot for r in running) + sum(self.missing(r) for r in running)

    def _is_crowded_by(self, need: int) -> bool:
        """Whether a long one that needs so many cells would leave the short ones too few: the long ones have half of all cells together, or one
        alone."""
        long = [r for r in self.running if r.long]
        return bool(long) and 2 * (self._taken(long) + need) > self._cache.total

    def _make_way(self, lack: _Lack, steps: int) -> Running | None:
        """Who yields to a client without a place that has waited for some steps."""
        waiting = lack.waiting
        if waiting.lacking_since is None:
            waiting.lacking_since = steps
        if steps - waiting.lacking_since < _YIELD_AFTER:
            return None
        waiting.lacking_since = steps
        priority = waiting.sequence.request.priority
        index = first_to_yield(self.places(), priority=priority, tokens=lack.tokens, long=lack.long)
        return None if index is None else self.running[index]

    def places(self) -> list[Place]:
        return [
            Place(r.sequence.request.client, r.sequence.order, len(r.sequence.tokens), r.long) for r in self.running
        ]

    def _is_held(self, waiting: Waiting) -> bool:
        """Whether the one that computes the beginning of its prompt is still at it. Costs nothing, as each turn asks it of many."""
        holder = waiting.holder
        if holder is not None and holder in self.running and self._cache.length(holder.slot) < waiting.common:
            return True
        waiting.holder = None
        return False

    def _hold(self, waiting: Waiting, tokens: NDArray[np.int32]) -> bool:
        """Let it wait where a running sequence is about to compute much of the beginning of `tokens` that no other has."""
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
