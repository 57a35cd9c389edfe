"""`uniqueItems`: no two items of an array are the same value.

An item is read as a name that comes once (`ir.Distinct`), as the keys of an object are. unique_scalars.py does that for
scalars, unique_nested.py where items may be arrays or objects: these are written in one spelling, all items of the
array either without whitespace or as `json.dumps` writes it.

The array has at most `Limits.object_keys` items (128), because the matcher remembers no more. Where only a few names
are possible, it has at most as many items, so that another one is left at each comma. Refused are places of a tuple
that compete for a few names.

Cost: as many copies of the item as the array may have; the matcher keeps the names of each array that is open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from narrows.grammar import ir
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.facts import Facts, Goal, Items
from narrows.grammar.json_schema.families import unique_contains, unique_nested
from narrows.grammar.json_schema.families.unique_contains import Counted
from narrows.grammar.json_schema.families.unique_scalars import Item, Unsupported, scalar
from narrows.grammar.json_schema.finite import Need
from narrows.grammar.json_schema.one_spelling import OneSpelling
from narrows.grammar.json_schema.reading import Family, Reading
from narrows.grammar.json_schema.report import over_limit
from narrows.grammar.json_schema.rules import Rules
from narrows.grammar.json_schema.spelling.spelling import Spelling, seq
from narrows.grammar.options import Whitespace

_FIXED: tuple[Whitespace, ...] = ("json.dumps", "compact")
"""What leaves no choice."""


def _read(reading: Reading) -> None:
    if reading.boolean("uniqueItems"):
        reading.add_items(Items(unique_at=reading.at("uniqueItems")))


def compares(facts: Facts) -> bool:
    """Whether there may be two items that must not be equal."""
    return any(items.unique_at for items in facts.items) and not any(
        items.max is not None and items.max <= 1 for items in facts.items
    )


def elements(
    rules: Rules, name: str, every: Sequence[Items], low: int, high: int | None, needs: list[Need]
) -> ir.Node | None:
    """What stands between the brackets of an array of `low` to `high` items, all different, which is the rule `name`;
    `ir.NEVER` if there is no such array. None if it asserts nothing, or cannot be enforced, which has been reported.
    Appends to `needs` the goals of items that every such array has."""
    if high is not None and high <= 1:
        return None
    where = next(items.unique_at for items in every if items.unique_at)
    most = rules.limits.object_keys
    if low > most:
        raise over_limit("object_keys", most, "items that are all different are asked for in such a number", where)
    try:
        counted = Counted(every, low, high)
        if any(items.contained for items in every):
            settled = unique_contains.settled(rules, every, low, high)
            if settled is None:
                return ir.NEVER
            counted = settled
        node = _Elements(rules, name, counted, where).node()
    except Unsupported as reason:
        rules.goals.reporter.unsupported(where, str(reason))
        return None
    if node is not ir.NEVER:
        needs += _first(rules, counted)
    return node


def _first(rules: Rules, counted: Counted) -> Iterator[Goal]:
    """The goals of the items that must be there."""
    length = max(len(items.prefix) for items in counted.every)
    for k in range(min(counted.low, length + 1)):
        yield rules.goals.goal(items.prefix[k] if k < len(items.prefix) else items.rest for items in counted.every)


def too_few(rules: Rules, every: Sequence[Items], low: int) -> Goal:
    """A goal that nothing satisfies, with the reason for which there is no such array."""
    where = next(items.min_at or items.unique_at for items in every if items.min == low)
    counted = any(items.contained for items in every)
    why = "there are not enough different items" if counted else f"there are no {low} different items"
    goal = (rules.goals.document.derived(where, Facts(types=0, impossible=why, impossible_at=where)),)
    rules.node(goal)
    return goal


class _Elements:
    def __init__(self, rules: Rules, name: str, counted: Counted, where: str) -> None:
        every, low, high = counted.every, counted.low, counted.high
        self._rules = rules
        self._name = name
        self._low, self._high = low, high
        self._where = where
        self._most = rules.limits.object_keys
        self._rest = rules.goals.goal(items.rest for items in every)
        self._places: list[Goal] = []
        """The goals of the first items, before the first place that has no value."""
        self._last = self._most if high is None else min(high, self._most)
        for k in range(min(self._last, max(len(items.prefix) for items in every))):
            goal = rules.goals.goal(items.prefix[k] if k < len(items.prefix) else items.rest for items in every)
            if rules.node(goal) is ir.NEVER:
                self._last = k
                break
            self._places.append(goal)
        self._goals = list(self._places)
        if self._last > len(self._places) and rules.node(self._rest) is not ir.NEVER:
            self._goals.append(self._rest)
        self._sets: list[int] = []
        """Sets of schemas that count, and that one item may satisfy. Their goals are the last ones."""
        self._counted = len(counted.sites)
        if counted.sites and self._goals:
            sets = unique_contains.sets(rules, self._rest, counted.sites)
            self._sets = [bits for bits, _ in sets]
            self._goals += [goal for _, goal in sets]
        self._as_texts = any(unique_nested.may_be_nested(rules, goal) for goal in self._goals)

    def node(self) -> ir.Node:
        """In each way to write the items."""
        rules = self._rules
        if self._counted and type(rules.spelling) not in (Spelling, OneSpelling):
            raise Unsupported("uniqueItems beside `contains` is not supported in this notation")
        if not self._as_texts:
            return self._written([scalar(rules, goal, self._most) for goal in self._goals])
        if type(rules.spelling) not in (Spelling, OneSpelling):
            raise Unsupported("uniqueItems is not supported in this notation where items may be arrays or objects")
        asked = rules.spelling.whitespace
        ways: tuple[Whitespace, ...] = (asked,) if asked in _FIXED else _FIXED
        nodes = [self._written(unique_nested.items(rules, way, self._goals, self._most)) for way in ways]
        nodes = [node for node in nodes if node is not ir.NEVER]
        return ir.alt(*nodes) if nodes else ir.NEVER

    def _written(self, items: Sequence[Item | None]) -> ir.Node:
        """`items`: of each goal; None where it has no value."""
        if self._counted:
            return self._with_counted(items)
        places: list[Item] = []
        most = self._last
        for item in items[: len(self._places)]:
            if item is None:
                most = len(places)
                break
            if _runs_out(item, sum([item.may_equal(before) for before in places])):
                raise Unsupported("uniqueItems is not supported where places of a tuple compete for a few values")
            places.append(item)
        rest = items[-1] if most > len(places) and len(items) > len(self._places) else None
        if rest is None:
            most = min(most, len(places))
        elif rest.values is not None:
            rivals = sum([rest.may_equal(before) for before in places])
            if rivals and len(rest.values) < most - len(places) + rivals:
                raise Unsupported("uniqueItems is not supported where places of a tuple compete for a few values")
            most = min(most, len(places) + len(rest.values))
        kept = [*places, *([] if rest is None else [rest])]
        if self._low > most:
            if any(item.heads for item in kept):
                raise Unsupported("uniqueItems is not supported where so many items cannot be told apart")
            return ir.NEVER
        self._note(kept, most, self._most)
        self._require(places, rest, most)
        return _in_a_row(self._rules, places, rest, self._low, most)

    def _with_counted(self, items: Sequence[Item | None]) -> ir.Node:
        if not items or items[0] is None:
            return ir.NEVER
        found = zip(self._sets, items[1:], strict=True)
        by_set = {bits: item for bits, item in found if item is not None and item.values != frozenset()}
        most = min(self._last, self._most - len(by_set))
        if items[0].values is not None:
            most = min(most, len(items[0].values))
        if self._low > most:
            if self._low > self._most - len(by_set):
                raise Unsupported("uniqueItems beside `contains` is not supported for so many items")
            return ir.NEVER
        self._note([items[0]], most, self._most - len(by_set))
        self._require([], items[0], most)
        return unique_contains.in_a_row(self._rules, items[0], by_set, self._counted, self._low, most)

    def _require(self, places: list[Item], rest: Item | None, most: int) -> None:
        """What follows a head may turn out to match nothing, so it is looked at once all rules are there."""
        by_heads = [item for item in (*places, *([] if rest is None else [rest])) if item.heads]
        if not by_heads:
            return
        if most > 1:
            self._recount(by_heads)
        wanted = [(item, 1 + sum([item.may_equal(before) for before in places[:k]])) for k, item in enumerate(places)]
        wanted = wanted[: self._low]
        if rest is not None and self._low > len(places):
            rivals = sum([rest.may_equal(before) for before in places])
            wanted.append((rest, self._low - len(places) + rivals))
        if all(count < 2 for _, count in wanted):
            return
        before = self._rules.requirements.get(self._name)

        def holds(rules: Collection[str], known: Collection[str]) -> bool:
            if before is not None and before(rules, known):  # written in another way
                return True
            return all(unique_nested.has_names(self._rules, item, count, rules, known) for item, count in wanted)

        self._rules.requirements[self._name] = holds

    def _recount(self, items: list[Item]) -> None:
        before = self._rules.recounts.get(self._name)

        def are_fewer(rules: Collection[str], known: Collection[str]) -> bool:
            found = [unique_nested.recount(self._rules, item, self._most, rules, known) for item in items]
            return any(found) or (before is not None and before(rules, known))

        self._rules.recounts[self._name] = are_fewer

    def _note(self, items: list[Item], most: int, bound: int) -> None:
        """`bound`: as many items as can be remembered."""
        notes = list(dict.fromkeys(note for item in items for note in item.notes))
        if most == bound and (self._high is None or self._high > bound):
            which = "which is" if bound == self._most else "because of"
            notes.append(f"at most {bound} items, {which} Limits.object_keys")
        elif any(item.heads for item in items) and most < self._last:
            notes.append(f"so at most {most} items")
        if notes:
            self._rules.under(self._where, "; ".join(notes))


def _runs_out(item: Item, rivals: int) -> bool:
    return item.values is not None and len(item.values) <= rivals


def _in_a_row(rules: Rules, places: list[Item], rest: Item | None, low: int, last: int) -> ir.Node:
    """All in one rule: what has been read is remembered for one run of a rule."""
    comma, gap = rules.spelling.comma, rules.spelling.gap
    rules.count(4 * last)
    if last == 0:
        return ir.EMPTY
    n = len(places)
    after: ir.Node = ir.EMPTY
    if rest is not None and last > n:
        element = seq(rest.node, gap)
        if n == 0:
            body = seq(element, ir.Repeat(seq(comma, element), max(low - 1, 0), last - 1))
            return body if low else ir.optional(body)
        after = ir.Repeat(seq(comma, element), max(low - n, 0), last - n)
    for k in range(n - 1, -1, -1):
        after = seq(comma if k else ir.EMPTY, places[k].node, gap, after)
        if k >= low:
            after = ir.optional(after)
    return after


FAMILY = Family(("uniqueItems",), _read, types=f.ARRAY)
