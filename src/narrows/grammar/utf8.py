"""Sets of code points, and the IR that matches one character of such a set in UTF-8.

A set is a tuple of sorted inclusive ranges that neither touch nor overlap: `((48, 57), (97, 102))`. Surrogates
(D800..DFFF) are not characters, and are never in a set. Equal sets give equal nodes, and so equal lexemes.

Cost: a set operation is linear in the ranges, about 0.4 us each. `node` is linear in the ranges and the distinct lead
bytes: about 50 us for a script and 5 ms for all letters. Its results are kept (100,000 ranges). A result has a few
nodes per distinct set of last bytes: 33 nodes for all characters, 971 for all letters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from narrows.grammar import ir
from narrows.grammar.work import Kept

Ranges = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)
ANY: Ranges = ((0, 0xD7FF), (0xE000, LAST))
EMPTY: Ranges = ()


def code_points(*parts: int | str | tuple[int, int]) -> Ranges:
    """A set from code points, the characters of strings, and inclusive ranges, in any order. Surrogates are left
    out."""
    pairs: list[tuple[int, int]] = []
    for part in parts:
        if isinstance(part, int):
            pairs.append((part, part))
        elif isinstance(part, str):
            pairs.extend((ord(c), ord(c)) for c in part)
        else:
            pairs.append(part)
    if len(pairs) == 1 and 0 <= pairs[0][0] <= pairs[0][1] < SURROGATES[0]:  # as mostly
        return (pairs[0],)
    merged: list[tuple[int, int]] = []
    for low, high in sorted(_without_surrogates(pairs)):
        if merged and low <= merged[-1][1] + 1:
            if high > merged[-1][1]:
                merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def _without_surrogates(pairs: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    for low, high in pairs:
        if low < SURROGATES[0] and low <= high:
            yield (low, min(high, SURROGATES[0] - 1))
        if high > SURROGATES[1] and low <= high:
            yield (max(low, SURROGATES[1] + 1), min(high, LAST))


def union(*sets: Ranges) -> Ranges:
    return sets[0] if len(sets) == 1 else code_points(*[pair for ranges in sets for pair in ranges])


def complement(ranges: Ranges) -> Ranges:
    """All characters but these."""
    gaps = []
    start = 0
    for low, high in ranges:
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        gaps.append((start, LAST))
    return code_points(*gaps)


def intersection(left: Ranges, right: Ranges) -> Ranges:
    common = []
    i = j = 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low <= high:
            common.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


def difference(left: Ranges, right: Ranges) -> Ranges:
    return intersection(left, complement(right))


def contains(ranges: Ranges, code_point: int) -> bool:
    before = bisect_right(ranges, (code_point, LAST + 1))
    return before > 0 and ranges[before - 1][1] >= code_point


@dataclass(frozen=True, slots=True)
class Place:
    """One digit of a number written place by place: `spell[d]` is the set of bytes (as bits) that may stand for
    digit d, and `before` comes directly before that byte."""

    spell: tuple[int, ...]
    before: ir.Node = ir.EMPTY


def positional(ranges: Iterable[tuple[int, int]], places: tuple[Place, ...]) -> ir.Node:
    """The numbers in the ranges, each written with exactly one digit per place, most significant first. The result is
    deterministic, and equal tails are one node. The ranges must be sorted, be disjoint, and fit the places."""
    sizes = [1]
    for place in reversed(places):
        sizes.append(sizes[-1] * len(place.spell))
    sizes.reverse()  # sizes[k]: how many numbers the places from k on can write
    nodes: dict[tuple[int, Ranges], ir.Node] = {}

    def tail(level: int, within: Ranges) -> ir.Node:  # as deep as there are places: at most 6
        if level == len(places):
            return ir.EMPTY
        if (level, within) not in nodes:
            nodes[level, within] = branch(level, within)
        return nodes[level, within]

    def branch(level: int, within: Ranges) -> ir.Node:
        size = sizes[level + 1]
        below: dict[int, list[tuple[int, int]]] = {}
        digits_by_tail: dict[Ranges, int] = {}
        full: Ranges = ((0, size - 1),)
        for low, high in within:
            for digit in range(low // size, high // size + 1):
                base = digit * size
                below.setdefault(digit, []).append((max(low - base, 0), min(high - base, size - 1)))
        for digit, rest in below.items():
            key = full if rest == list(full) else tuple(rest)
            digits_by_tail[key] = digits_by_tail.get(key, 0) | places[level].spell[digit]
        return ir.alt(
            *(
                ir.seq(places[level].before, ir.ByteSet(bits), tail(level + 1, rest))
                for rest, bits in digits_by_tail.items()
            )
        )

    return tail(0, tuple(ranges))


def _bytes(first: int, count: int) -> tuple[int, ...]:
    return tuple(1 << byte for byte in range(first, first + count))


_CONTINUATION = Place(_bytes(0x80, 64))
_FORMS = (  # first and last code point of each length, and its bytes; RFC 3629
    (0x80, 0x7FF, (Place(_bytes(0xC0, 32)), _CONTINUATION)),
    (0x800, 0xFFFF, (Place(_bytes(0xE0, 16)), _CONTINUATION, _CONTINUATION)),
    (0x10000, LAST, (Place(_bytes(0xF0, 8)), _CONTINUATION, _CONTINUATION, _CONTINUATION)),
)


_nodes: Kept[ir.Node] = Kept(100_000)


def node(ranges: Ranges) -> ir.Node:
    """One character of the set, in UTF-8."""
    known = _nodes.get(ranges)
    if known is None:
        known = _node(ranges)
        _nodes.put(ranges, known, 1 + len(ranges))
    return known


def cost(ranges: Ranges, known: bool) -> int:
    """The charge for `node(ranges)`, in units of work: the hash of the set and, unless it is known, its nodes."""
    if known or ranges == ANY:
        return 1 + len(ranges) // 16
    if ranges and ranges[-1][1] < 0x80:
        return 8 + 4 * len(ranges)
    return 8 + sum(
        [16 + min(150, (high - low) >> 3) for low, high in ranges]
    )  # a wide range ends in up to three partial blocks


def _node(ranges: Ranges) -> ir.Node:
    branches: list[ir.Node] = []
    ascii_bits = 0
    for low, high in clip(ranges, 0, 0x7F):
        ascii_bits |= (1 << (high + 1)) - (1 << low)
    if ascii_bits:
        branches.append(ir.ByteSet(ascii_bits))
    for first, last, places in _FORMS:
        if part := clip(ranges, first, last):
            branch = positional(part, places)
            branches.extend(branch.items if isinstance(branch, ir.Alt) else (branch,))
    return ir.alt(*branches)


def clip(ranges: Ranges, first: int, last: int) -> Ranges:
    """The part of the set from first to last."""
    return tuple((max(low, first), min(high, last)) for low, high in ranges if low <= last and high >= first)
