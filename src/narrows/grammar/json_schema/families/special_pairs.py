"""Special keys among those that no schema names: which have come, and where there is still room for the others.

A pair of a key and its value may be special in several ways, which are bits. For each set of bits that some pair has,
its colon reads a name (`Spelling.marked_colon`). No two sets that overlap are read in one object, so that at each place
few readings of a text differ. From the names that have been read, guards tell which bits are missing.

Cost: for each place, a guard for each set and bit. Few places are guarded: only the last ones before a greatest number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from narrows.grammar import ir
from narrows.grammar.json_schema.spelling.spelling import seq


@dataclass(frozen=True, slots=True)
class Slot:
    """`low` to `high` pairs, each one of these."""

    options: tuple[tuple[ir.Node, ir.Node], ...]
    """What must have been read before a pair, and the pair."""
    low: int = 0
    high: int | None = None
    before: ir.Node = ir.EMPTY
    """What must have been read where other pairs stand before these, so that enough of the slots are left."""


def mark(bits: int) -> bytes:
    """The name of pairs that are special in these ways. Nothing that is read has such bytes, and no key."""
    return b"\xff%d" % bits


class SpecialPairs:
    def __init__(self, pairs: Mapping[int, ir.Node], missing: int | None = None) -> None:
        """`pairs`: by the ways in which they are special. `missing`: those that must still come; None: all."""
        self._missing = reduce(or_, pairs, 0) if missing is None else missing
        self._pairs = {bits: node for bits, node in pairs.items() if bits & ~self._missing == 0}
        self._fewest = _fewest(self._missing, list(self._pairs))
        """By set of missing ways: how many pairs it takes at least. A set that is not there cannot come."""

    @property
    def least(self) -> int | None:
        """How many pairs it takes at least; None where some cannot come."""
        return self._fewest.get(self._missing)

    @property
    def end(self) -> ir.Node:
        """Nothing, where all have come."""
        return self._have_come(self._missing)

    def slots(self, plain: tuple[ir.Node, ir.Node], low: int, high: int | None) -> list[Slot] | None:
        """`low` to `high` pairs, special ones among them; `end` follows. `plain`: what must have been read before any
        other pair, and that. None where there is no way. From each place in the slots, some way on is open."""
        least = self.least
        if least is None or (high is not None and high < max(low, least)):
            return None
        low = max(low, least)
        if high is None:
            return [Slot(self._options(plain, None), low)]
        free = high - least  # after so many pairs there is room for all that may be missing
        slots = [Slot(self._options(plain, None), min(low, free), free)]
        for k in range(least):
            room = least - k - 1
            slots.append(Slot(self._options(plain, room), int(free + k < low), 1, self._has_room(room + 1, 0)))
        return slots

    def _options(self, plain: tuple[ir.Node, ir.Node], room: int | None) -> tuple[tuple[ir.Node, ir.Node], ...]:
        """What may come where there is room for so many more pairs after it."""
        options = [(seq(plain[0], self._has_room(room, 0)), plain[1])]
        for bits, pair in self._pairs.items():
            overlapping = [ir.Guard((mark(other),), negate=True) for other in self._pairs if other & bits]
            options.append((seq(*overlapping, self._has_room(room, bits)), pair))
        return tuple(options)

    def _has_room(self, room: int | None, bits: int) -> ir.Node:
        """Nothing, where all that is missing besides these ways can come as so many pairs."""
        if room is None:
            return ir.EMPTY
        wanted = {self._missing & ~some & ~bits for some, count in self._fewest.items() if count <= room}
        fewest = [one for one in wanted if not any(other & ~one == 0 and other != one for other in wanted)]
        return ir.alt(*[self._have_come(one) for one in sorted(fewest)])

    def _have_come(self, bits: int) -> ir.Node:
        each = [1 << k for k in range(bits.bit_length()) if bits >> k & 1]
        return seq(*[ir.alt(*[ir.Guard((mark(one),)) for one in self._pairs if one & bit]) for bit in each])


def _fewest(missing: int, sets: list[int]) -> dict[int, int]:
    """By set of ways, also smaller ones than those that can be had: of how many of the sets it is made."""
    found = {0: 0}
    level = [0]
    while level:
        following: list[int] = []
        for made in level:
            for one in sets:
                if made | one not in found:
                    found[made | one] = found[made] + 1
                    following.append(made | one)
        level = following
    return {
        some: min([count for made, count in found.items() if some & ~made == 0])
        for some in range(missing + 1)
        if some & ~missing == 0 and any(some & ~made == 0 for made in found)
    }


def written(slots: list[Slot], comma: ir.Node, after_others: bool, end: ir.Node) -> list[ir.Node]:
    """The ways to write pairs one after the other, and what follows. `after_others`: something stands before them."""

    def following(slot: Slot) -> ir.Node:
        item = ir.alt(*[seq(guard, comma, pair) for guard, pair in slot.options])
        return ir.Repeat(item, slot.low, slot.high)

    def rest(slots: list[Slot]) -> ir.Node:
        return seq(*[following(slot) for slot in slots if slot.high != 0], end)

    if after_others:
        return [rest(slots)]
    ways: list[ir.Node] = []
    for k, slot in enumerate(slots):
        if slot.high == 0:
            continue
        less = Slot(slot.options, max(slot.low - 1, 0), None if slot.high is None else slot.high - 1)
        first = ir.alt(*[seq(guard, pair) for guard, pair in slot.options])
        ways.append(seq(first, rest([less, *slots[k + 1 :]])))
        if slot.low:
            break
    return ways
