"""`contains`, `minContains`, `maxContains`: how many items of an array satisfy a schema.

Each item is one that counts, or one that does not. What is counted of the items before, as far as a bound depends on
it, is a state; each state is a rule. Where there is no greatest number, an item that counts may be taken for one that
does not, so that nothing needs to be known of these; else they satisfy the schema's negation (negation.py).

Cost: a rule for each state: the greatest bound on the array's length, times those on the items that count;
`Limits.ir_nodes` bounds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from narrows.grammar import ir
from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.facts import Contained, Goal, Items
from narrows.grammar.json_schema.finite import Enough, Need
from narrows.grammar.json_schema.reading import Family, Reading
from narrows.grammar.json_schema.report import Status, over_limit
from narrows.grammar.json_schema.rules import Rules
from narrows.grammar.json_schema.spelling.spelling import seq

MOST_AT_ONCE = 6
"""Schemas whose items are counted in one array: each item is one of two kinds for each."""
_ALONE = Status("exact", "asserts nothing without `contains`")


def _read(reading: Reading) -> None:
    if "contains" not in reading.schema:
        for keyword in ("minContains", "maxContains"):
            if keyword in reading.schema:
                reading.reporter.note(reading.at(keyword), _ALONE)
        return
    site = reading.schema_at("contains", schema=reading.schema["contains"])
    counts = reading.draft.counts_contained
    least, most = (reading.count("minContains"), reading.count("maxContains")) if counts else (None, None)
    contained = Contained(site, 0, 1 if least is None else least, most, reading.at("contains"))
    counts_any = not contained.least and contained.most is None
    reading.add_items(Items(contained=() if counts_any else (contained,), spoken_of=(site,)))


def merged(every: list[Contained]) -> list[Contained]:
    """Each schema that counts once, with the bounds of all that say so."""
    merged: dict[tuple[Site, int], Contained] = {}
    for one in every:
        known = merged.setdefault((one.site, one.start), one)
        most = min([bound for bound in (known.most, one.most) if bound is not None], default=None)
        merged[one.site, one.start] = replace(known, least=max(known.least, one.least), most=most)
    return list(merged.values())


_State = tuple[int, tuple[int, ...]]
"""How many items there were, and how many of them counted, for each schema; as far as a bound depends on it."""


def elements(rules: Rules, name: str, every: Sequence[Items], low: int, high: int | None, needs: list[Need]) -> ir.Node:
    """What stands between the brackets of an array of `low` to `high` items, where some are counted. Appends to `needs`
    what must have a value for there to be such an array."""
    made = _Elements(rules, name, every, low, high)
    node = made.node()
    needs.append(made.needed())
    return node


class _Elements:
    def __init__(self, rules: Rules, name: str, every: Sequence[Items], low: int, high: int | None) -> None:
        self._rules = rules
        self._every = every
        self._low, self._high = low, high
        self._counted = merged([contained for items in every for contained in items.contained])
        if len(self._counted) > MOST_AT_ONCE:
            raise over_limit("schema_branches", MOST_AT_ONCE, "too many schemas count items", self._counted[0].pointer)
        starts = [contained.start for contained in self._counted]
        self._last = max(1, low, high or 0, *(len(items.prefix) for items in every), *starts)
        """Items after so many are alike."""
        self._caps = [max(one.least, 0 if one.most is None else one.most + 1) for one in self._counted]
        self._name = name
        self._refs: dict[_State, ir.Ref] = {}
        self._todo: list[_State] = []
        self._items: dict[tuple[int, tuple[bool, ...]], Goal] = {}
        """By place, and for each schema whether the item counts: what it may be."""
        self._following: dict[_State, list[tuple[Goal, _State]]] = {}
        """By state: what the next item may be, and the state after it."""
        self._ends: set[_State] = set()
        """Where the array may end."""

    def node(self) -> ir.Node:
        start = self._ref((0, (0,) * len(self._counted)))
        while self._todo:
            state = self._todo.pop()
            self._rules.rules[self._refs[state].name] = self._after(state)
        return start

    def needed(self) -> Need:
        """The array may end, or there is an item after which the array can be ended."""
        made: dict[_State, Enough] = {}
        for state in sorted(self._refs, reverse=True):  # what follows comes first
            ways = [(1, (item, made[after])) for item, after in self._following[state] if after != state]
            made[state] = Enough(1, ((1, ()),) if state in self._ends else tuple(ways))
        return made[0, (0,) * len(self._counted)]

    def _ref(self, state: _State) -> ir.Ref:
        known = self._refs.get(state)
        if known is None:
            self._rules.work.spend(8)
            self._rules.count(6)
            known = self._refs[state] = self._rules.rule(f"{self._name}#{state[0]}", ir.NEVER)
            self._todo.append(state)
        return known

    def _after(self, state: _State) -> ir.Node:
        """What may follow, from the comma before the next item on."""
        length, counts = state
        options: list[ir.Node] = []
        enough = all(count >= one.least for count, one in zip(counts, self._counted, strict=True))
        items_after = self._following[state] = []
        if length >= self._low and enough:
            options.append(ir.EMPTY)
            self._ends.add(state)
        if self._high is not None and length >= self._high:
            return ir.alt(*options)
        spelling = self._rules.spelling
        kinds = [
            # Where enough have come and more may, an item that counts is like one that does not.
            (False,) if length < one.start or (one.most is None and count >= one.least) else (False, True)
            for count, one in zip(counts, self._counted, strict=True)
        ]
        for counting in product(*kinds):
            following = tuple(
                [min(count + new, cap) for count, new, cap in zip(counts, counting, self._caps, strict=True)]
            )
            if any(
                one.most is not None and count > one.most for count, one in zip(following, self._counted, strict=True)
            ):
                continue
            goal = self._items.get((length, counting))
            if goal is None:
                goal = self._items[length, counting] = self._goal(length, counting)
            item = self._rules.node(goal)
            self._rules.work.spend(3)
            if item is not ir.NEVER:
                comma = spelling.comma if length else ir.EMPTY
                after = min(length + 1, self._last), following
                items_after.append((goal, after))
                options.append(seq(comma, item, spelling.gap, self._ref(after)))
        return ir.alt(*options)

    def _goal(self, place: int, counting: tuple[bool, ...]) -> Goal:
        negation = self._rules.goals.document.negation
        sites = [items.prefix[place] if place < len(items.prefix) else items.rest for items in self._every]
        for one, counts in zip(self._counted, counting, strict=True):
            if counts:
                sites.append(one.site)
            elif one.most is not None and place >= one.start:
                sites.append(negation(one.site))
        return self._rules.goals.goal(sites)


FAMILY = Family(("contains", "minContains", "maxContains"), _read)
