"""The waiting line of the llama.cpp engine: which sequences wait, which run, and which one gets or loses a place next.

A place is a slot and cells. A sequence needs cells for the tokens of its prompt that it cannot share. The cells that
were promised to the running sequences do not count as free. Waiting sequences are sorted by priority, then by how many
running sequences of the same client arrived earlier, then by arrival.

- A sequence that finds no room keeps the sequences after it waiting. Small ones may still pass it: together they may
  hold an eighth of the cells.
- Long sequences together may hold half of the cells. A long sequence that runs without other long ones may hold as
  many as it needs.
- A sequence waits while a running one computes the same beginning of a prompt, so that a common prefix is computed
  once.
- A client without a place gets one, after some steps, from a client with several (`placing.py` decides from which).
  All sequences that have to yield do so at once, and the waiting sequence is placed in the same turn. No other sequence
  gets what they give up.

Nothing here changes the model's cells: the scheduler carries out the decisions. Cost of `Line.next`: one sort of the
waiting sequences, and one search for the longest prefix for each of the few sequences that are examined.
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
from narrows.engines.llama_cpp.cache import CellCache
from narrows.engines.llama_cpp.placing import Place, first_to_yield, is_long
from narrows.engines.llama_cpp.prefill import Filling
from narrows.engines.llama_cpp.radix import common_prefix
from narrows.engines.sequence import Sequence

WORTH_WAITING_FOR = 16
"""Tokens of a common prefix for which a sequence waits until another has computed them."""
_MOST_HOLDS = 4
"""How often a sequence waits for a prefix at most: the sequences that it waits for may be aborted each time."""

_YIELD_AFTER = 16
"""Steps that a client without a place waits before a client with several places yields one."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A sequence without a place."""

    sequence: Sequence
    again: bool = False
    """Whether it had a place before."""
    holder: Running | None = None
    """The running sequence that computes the beginning of its prompt. It waits for that."""
    common: int = 0
    """Length of that beginning in tokens."""
    holds: int = 0
    """How often it has waited for such a beginning."""
    lacking_since: int | None = None
    """The step at which it first found no room while its client had no place, or the last step at which others were
    asked to yield to it."""
    _ids: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    def ids(self) -> NDArray[np.int32]:
        """Its tokens, made once: they do not change while it waits."""
        if self._ids.size != len(self.sequence.tokens):
            self._ids = np.array(self.sequence.tokens, dtype=np.int32)
        return self._ids


Lack = Literal["place", "long", "cells"]
"""Why a sequence gets no place: all places are taken, the long sequences hold their half of the cells, or there are
too few free cells."""


@dataclass(slots=True, eq=False)
class Running:
    """A sequence that has a place."""

    sequence: Sequence
    slot: int
    long: bool
    """Whether it was long when it was placed. A sequence that was short then stays short, however it grows."""
    fed_at: int
    """The step that last computed some of its prompt."""
    passed: Sequence | None = None
    """The sequence that it passed in the line, because that one found no room."""
    logits: Logits | None = None
    """A row of logits whose mask is not ready."""
    burst: int = 1
    """Most missing tokens with which it counts as generating: one, or a token and those that the grammar forces."""


@dataclass(frozen=True, slots=True)
class Admission:
    """A sequence that gets a place, with the first `shared` tokens from the cells of slot `donor`."""

    waiting: Waiting
    donor: int | None
    shared: int
    long: bool
    passed: Sequence | None = None
    """The first sequence before it in the line that found no room."""


class Line:
    """The waiting and the running sequences. `shares_prefixes`: whether a sequence may begin from another's cells."""

    def __init__(self, cache: CellCache, *, max_num_seqs: int, shares_prefixes: bool) -> None:
        self._cache = cache
        self._max_num_seqs = max_num_seqs
        self._shares_prefixes = shares_prefixes
        self.waiting: list[Waiting] = []
        self.running: list[Running] = []
        """In the order of (priority, arrival)."""
        self._making_way: tuple[Waiting, list[Running]] | None = None
        """The sequence to place next, and the running sequences that still have to yield for it."""

    def next(self, steps: int) -> Admission | Running | None:
        """The next decision: a sequence that gets a place and has left the line, a running sequence that must give up
        its place, or None. `steps`: number of steps so far."""
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
        """The first sequence that may get a place. If there is none, `short` gets the sequences that found no room and
        whose client has no running sequence that arrived earlier."""
        arrivals: defaultdict[str, list[int]] = defaultdict(list)
        for arrival, client in sorted((r.sequence.order[1], r.sequence.request.client) for r in self.running):
            arrivals[client].append(arrival)

        def places(waiting: Waiting) -> int:
            # Later arrivals do not count. Otherwise later sequences that passed it would keep it waiting for ever.
            return bisect_left(arrivals[waiting.sequence.request.client], waiting.sequence.order[1])

        def turn(waiting: Waiting) -> tuple[int, int, int]:
            priority, arrival = waiting.sequence.order
            return priority, places(waiting), arrival

        # By whether a sequence is long: most tokens that it may have to pass the blocked ones.
        most = dict.fromkeys((False, True), self._cache.total)
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
                most = {kind: min(room, self._room_after(waiting, need, long, kind)) for kind, room in most.items()}
            blocked = blocked or waiting
        return None

    def _admission(self, waiting: Waiting) -> Admission | None:
        """A place for `waiting`, if there is room for it."""
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
        """What a sequence of `tokens` tokens lacks beside `running` and the cells promised to them; None if nothing.
        `shared` of its tokens are in the cells of slot `donor`."""
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

    def _room_after(self, waiting: Waiting, need: int, long: bool, passing_long: bool) -> int:
        """Most tokens of a sequence that may pass `waiting`, which needs `need` cells and lacks them.

        `long`: whether `waiting` is long. `passing_long`: whether the passing sequence is. All that pass may hold an
        eighth of the cells together. Short sequences that pass a long one may hold more: half of the cells, or what
        `waiting` leaves if that is less.
        """
        left = self._cache.total - need
        first = waiting.sequence
        before = [r for r in self.running if r.passed is first or r.sequence.order[1] > first.order[1]]
        room = min(self._cache.total // 8, left) - self._taken(before)
        if long and not passing_long:
            room = max(room, min(self._cache.total // 2, left) - self._taken([r for r in self.running if not r.long]))
        return room

    def _taken(self, running: Collection[Running]) -> int:
        """Cells that these sequences hold or were promised."""
        return self._cache.held(r.slot for r in running) + sum(self.missing(r) for r in running)

    def _make_way(self, waiting: Waiting, steps: int) -> bool:
        """Choose running sequences that yield to `waiting`, whose client has no place. False, and nothing is chosen,
        if it has not waited `_YIELD_AFTER` steps, or if the sequences that may yield cannot give it what it lacks."""
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
            yielded = left.pop(index)
            yielding.append(yielded)
            if yielded.slot == donor:
                donor, shared = None, 0  # its cells may be given up
        self._making_way = waiting, yielding
        return True

    def places(self, running: list[Running]) -> list[Place]:
        own = self._cache.own([r.slot for r in running])
        return [
            Place(r.sequence.request.client, r.sequence.order, cells + self.missing(r), r.long)
            for r, cells in zip(running, own, strict=True)
        ]

    def held(self, running: list[Running]) -> dict[str, int]:
        """Cells that each client's sequences hold or were promised."""
        of_client: defaultdict[str, list[Running]] = defaultdict(list)
        for r in running:
            of_client[r.sequence.request.client].append(r)
        return {client: self._taken(those) for client, those in of_client.items()}

    def _is_held(self, waiting: Waiting) -> bool:
        """Whether another sequence is still computing the beginning of its prompt. Cheap, because each turn calls it
        for many sequences."""
        holder = waiting.holder
        if holder is not None and holder in self.running and self._cache.length(holder.slot) < waiting.common:
            return True
        waiting.holder = None
        return False

    def _hold(self, waiting: Waiting, tokens: NDArray[np.int32]) -> bool:
        """Make `waiting` wait if a running sequence will compute at least `WORTH_WAITING_FOR` leading tokens of
        `tokens` that no other slot holds and that are not kept. True if it has to wait."""
        if not self._shares_prefixes or waiting.holds == _MOST_HOLDS:
            return False
        filling = {r.slot: r for r in self.running if self.missing(r) > 1}
        if not filling:
            return False
        _, elsewhere = self._cache.longest_prefix(tokens[:-1], without=filling.keys())
        elsewhere = max(elsewhere, self._cache.kept_prefix(tokens[:-1]))
        for slot, running in filling.items():
            common = common_prefix(running.sequence.prompt, tokens[:-1])
            if common >= elsewhere + WORTH_WAITING_FOR and common > self._cache.length(slot):
                waiting.holder, waiting.common = running, common
                waiting.holds += 1
                return True
        return False

    def missing(self, running: Running) -> int:
        """Number of its tokens that are not in the cells. A generating sequence misses one, and those that are
        forced."""
        return len(running.sequence.tokens) - self._cache.length(running.slot)

    def generates(self, running: Running) -> bool:
        """Whether its prompt is computed."""
        return self.missing(running) <= running.burst

    def fillings(self, filling: list[Running], steps: int) -> list[Filling]:
        """The missing part of each prompt. A prompt that others wait for is as urgent as the most urgent of them."""
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
