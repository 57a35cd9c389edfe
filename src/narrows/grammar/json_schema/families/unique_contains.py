"""`uniqueItems` beside `contains`: all items differ, and some of them satisfy schemas that count.

Most of it needs no counting. A schema that no item may satisfy is one more schema for all items. One that every item
satisfies counts the items themselves. What is left are schemas that at least one item satisfies. An item that is the
first to satisfy some of these is read after a comma that is a name of its own, so guards tell which are still missing
(special_pairs.py). Any item may also be read as one that counts for nothing: it is among other readings of the text.

From each comma, some item is possible: as long as a schema is missing, no value that satisfies it has been read.

Cost: two copies of the item for each set of missing schemas, and a third for each place at the end of the array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from narrows.grammar import ir
from narrows.grammar.json_schema import check
from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.facts import Contained, Goal, Items
from narrows.grammar.json_schema.families import contains
from narrows.grammar.json_schema.families.special_pairs import SpecialPairs, mark
from narrows.grammar.json_schema.families.unique_scalars import Item, Unsupported
from narrows.grammar.json_schema.rules import Rules
from narrows.grammar.json_schema.spelling.spelling import seq

MOST_AT_ONCE = 4
"""Schemas that at least one item satisfies: each set of them is written."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What is left of an array where some items count."""

    every: Sequence[Items]
    low: int
    high: int | None
    sites: tuple[Site, ...] = ()
    """Schemas that at least one item satisfies each."""


def settled(rules: Rules, every: Sequence[Items], low: int, high: int | None) -> Counted | None:
    """The same array with as few schemas that count as can be; None where there is none. Raises Unsupported."""
    kept = list(every)
    left: list[Contained] = []
    for one in contains.merged([contained for items in every for contained in items.contained]):
        if one.most is not None and one.most < one.least:
            return None
        if one.most == 0:
            before = (Site(one.pointer, True),) * one.start
            kept.append(Items(before, rest=rules.goals.document.negation(one.site)))
        elif one.least or one.most is not None:
            left.append(one)
    sites: list[Site] = []
    for one in left:
        if all(_satisfy(rules, goal, one.site) for goal in _goals(rules, kept, one.start)):
            low = max(low, one.start + one.least) if one.least else low
            if one.most is not None:
                high = one.start + one.most if high is None else min(high, one.start + one.most)
        elif one.most is not None or one.least > 1:
            raise Unsupported("uniqueItems beside `contains` is not supported where more than one item is counted")
        elif one.start or any(items.prefix for items in kept):
            raise Unsupported("uniqueItems beside `contains` is not supported where places have schemas of their own")
        else:
            sites.append(one.site)
    if len(sites) > MOST_AT_ONCE:
        raise Unsupported(f"uniqueItems beside more than {MOST_AT_ONCE} different `contains` is not supported")
    return Counted(kept, max(low, 1) if sites else low, high, tuple(sites))


def _goals(rules: Rules, every: Sequence[Items], start: int) -> Iterator[Goal]:
    """What the items satisfy from a place on."""
    for k in range(start, max(len(items.prefix) for items in every)):
        yield rules.goals.goal(items.prefix[k] if k < len(items.prefix) else items.rest for items in every)
    yield rules.goals.goal(items.rest for items in every)


def _satisfy(rules: Rules, goal: Goal, site: Site) -> bool:
    """Whether all values of a goal plainly satisfy a schema. Of other schemas than negations, the negation is not asked
    for, because it may not be known exactly."""
    if frozenset(rules.goals.goal([*goal, site])) == frozenset(goal):
        return True
    said = rules.goals.goal([site])
    negated = said[0].negates if len(said) == 1 else None
    return negated is not None and not may_hold(rules, rules.goals.goal([*goal, negated]))


def may_hold(rules: Rules, goal: Goal) -> bool:
    """False if plainly nothing satisfies a goal."""
    for facts in rules.goals.alternatives(goal):
        rules.work.spend(4)
        if not facts.values or any(True for _ in check.surviving(rules.goals, facts)):
            return True
    return False


def sets(rules: Rules, goal: Goal, sites: Sequence[Site]) -> list[tuple[int, Goal]]:
    """The sets of these schemas that an item may satisfy together, as bits, and what it satisfies then."""
    found: list[tuple[int, Goal]] = []
    for bits in range(1, 1 << len(sites)):
        both = rules.goals.goal([*goal, *[site for k, site in enumerate(sites) if bits >> k & 1]])
        if may_hold(rules, both):
            found.append((bits, both))
    return found


def in_a_row(rules: Rules, item: Item, by_set: dict[int, Item], count: int, low: int, high: int) -> ir.Node:
    """What stands between the brackets. `by_set`: what the items are that satisfy sets of `count` schemas."""
    spelling = rules.spelling
    for one in by_set.values():
        if one.heads or any(note not in item.notes for note in one.notes):
            raise Unsupported("uniqueItems is not supported where `contains` asks for items that cannot be compared")
    if item.heads and item.values is not None:
        raise Unsupported("uniqueItems beside `contains` is not supported for so few items that can be compared")
    plain = seq(spelling.comma, item.node, spelling.gap)
    pairs: dict[int, ir.Node] = {}
    for bits, one in by_set.items():
        comma = ir.Distinct(ir.Lexeme(ir.Bytes(spelling.comma_bytes)), name=mark(bits))
        pairs[bits] = seq(comma, spelling.gap, one.node, spelling.gap)
    missing = (1 << count) - 1
    ways: list[ir.Node] = []
    for bits, one in ((0, item), *by_set.items()):
        special = SpecialPairs(pairs, missing & ~bits)
        slots = special.slots((ir.EMPTY, plain), max(low - 1, 0), high - 1)
        if slots is None:
            continue
        rules.count(sum([8 * len(slot.options) * (slot.high or 0) for slot in slots]))
        rest = [
            ir.Repeat(ir.alt(*[seq(guard, pair) for guard, pair in slot.options]), slot.low, slot.high)
            for slot in slots
            if slot.high != 0
        ]
        ways.append(seq(one.node, spelling.gap, *rest, special.end))
    return ir.alt(*ways) if ways else ir.NEVER
