"""Objects whose declared keys come in any order (`key_order="any"`).

Every key is a name that comes once (`ir.Distinct`). Guards (`ir.Guard`) see to the rest: the object ends only where all
required keys have been read, and a comma comes only where a key is left that may follow it. So no text runs into a dead
end, and nothing multiplies: the set of keys so far is part of the position in the text, and not of the grammar.

Where the number of keys is bounded, the keys that are not required are counted, and those that are stand between them
in any number: the bounds are then about the rest alone.

Cost: each declared key is written twice, or four times for each key that is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from narrows.grammar import ir
from narrows.grammar.json_schema.families import values
from narrows.grammar.json_schema.families.presence import ANY_KEYS, MOST_COUNTED, Presence, impossible
from narrows.grammar.json_schema.families.special_pairs import Slot, SpecialPairs
from narrows.grammar.json_schema.report import invalid, over_limit
from narrows.grammar.json_schema.rules import Rules
from narrows.grammar.json_schema.spelling.spelling import seq

MOST_TOGETHER = 6
"""Keys that bring others with them where the number of keys is bounded: each may be there or not."""

Pair = tuple[str, ir.Node, bool]
"""A key, the node of it and its value, and whether it is required."""


def members(
    rules: Rules,
    name: str,
    pairs: Sequence[Pair],
    extra: ir.Node | None,
    presence: Presence,
    special: SpecialPairs | None = None,
) -> ir.Node:
    """What stands between the braces: these pairs and any number of others (`extra`), in any order. `special`: some of
    the others must come."""
    never = impossible({key for key, _, _ in pairs}, presence)
    pairs = [pair for pair in pairs if pair[0] not in never]
    brings = {key: sorted(presence.brings[key]) for key, _, _ in pairs if key in presence.brings}
    if presence.most is None or not brings:
        return _Builder(rules, name, extra, special).node(pairs, presence.least, presence.most, brings)
    builder = _Builder(rules, name, extra, special)
    ways = [builder.node(way, presence.least, presence.most, {}) for way in _ways(rules, name, pairs, brings)]
    ways = [way for way in ways if way is not ir.NEVER]
    return ir.alt(*ways) if ways else ir.NEVER


def _ways(rules: Rules, name: str, pairs: Sequence[Pair], brings: dict[str, list[str]]) -> Iterable[list[Pair]]:
    """Each choice of the keys that bring others: which of them are there, and what is required with them."""
    if len(brings) > MOST_TOGETHER:
        reason = f"{len(brings)} keys that bring others with them, beside maxProperties, in any order"
        raise over_limit("schema_branches", MOST_TOGETHER, reason, rules.sources.get(name, ""))
    required = {key for key, _, is_required in pairs if is_required}
    for chosen in product((True, False), repeat=len(brings)):
        there = {key for key, is_there in zip(brings, chosen, strict=True) if is_there}
        wanted = required.union(there, *[brings[key] for key in there])
        absent = brings.keys() - there
        if absent & wanted:
            continue
        rules.work.spend(len(pairs))
        yield [(key, node, key in wanted) for key, node, _ in pairs if key not in absent]


def literal(rules: Rules, root: Any, where: str) -> ir.Node:
    """One literal value, the keys of its objects in any order."""
    spelling = rules.spelling
    done: dict[int, ir.Node] = {}
    todo = [(root, False)]
    while todo:
        value, is_ready = todo.pop()
        inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        if inner and not is_ready:
            todo.append((value, True))
            todo += [(one, False) for one in inner]
        elif not inner:
            done[id(value)] = values.literal_node(value, spelling, where, rules.work)
        elif isinstance(value, dict):
            rules.work.spend(8 * len(value))
            if not all(isinstance(key, str) for key in value):
                raise invalid(where, "a key is a string")
            pairs = [
                (key, seq(spelling.key_once(key), done[id(one)], spelling.gap), True) for key, one in value.items()
            ]
            name = rules.prefix + where
            inside = members(rules, name, pairs, None, ANY_KEYS)
            node = rules.rule(name, seq(spelling.open_object, inside, spelling.close_object))
            rules.sources[node.name] = where
            done[id(value)] = node
        else:
            items = [seq(spelling.comma if k else ir.EMPTY, done[id(one)], spelling.gap) for k, one in enumerate(inner)]
            done[id(value)] = seq(spelling.open_array, *items, spelling.close_array)
    return done[id(root)]


class _Builder:
    def __init__(self, rules: Rules, name: str, extra: ir.Node | None, special: SpecialPairs | None) -> None:
        self._rules = rules
        self._name = name
        self._extra = extra
        self._special = special
        self._comma = rules.spelling.comma

    def node(self, pairs: Sequence[Pair], least: int, most: int | None, brings: dict[str, list[str]]) -> ir.Node:
        spelling = self._rules.spelling
        required = [pair for pair in pairs if pair[2]]
        optional = [pair for pair in pairs if not pair[2]]
        low = max(least - len(required), 0)
        high = None if most is None else most - len(required)
        if self._extra is None:
            if low > len(optional) or self._special is not None:
                return ir.NEVER
            high = None if high is None or high >= len(optional) else high
        if high is not None and high < 0:
            return ir.NEVER
        self._check(low, high)
        if low == 0 and high is None:  # nothing is counted
            required, optional = [], list(pairs)
        others = self._slot(optional, self._extra)
        end = [spelling.have_read(key for key, _, is_required in pairs if is_required)]
        for key, brought in brings.items():
            end.append(ir.alt(spelling.have_read((key,), negate=True), spelling.have_read(brought)))
        if self._special is not None:
            end.append(self._special.end)
        slots = self._slots(others, low, high)
        if slots is None:
            return ir.NEVER
        options = self._written(self._slot(required, None), slots, seq(*end))
        if not any(pair[2] for pair in pairs) and low == 0 and self._special is None:
            options.append(ir.EMPTY)
        return ir.alt(*options) if options else ir.NEVER

    def _check(self, low: int, high: int | None) -> None:
        bound, place = self._rules.limits.object_keys, self._rules.sources.get(self._name, "")
        if low > bound:  # a key may come twice after so many
            raise over_limit("object_keys", bound, f"{low:,} keys that must differ", f"{place}/minProperties")
        if high is not None and high > MOST_COUNTED:
            reason = f"{high:,} keys are too many to count"
            raise over_limit("object_keys", MOST_COUNTED, reason, f"{place}/maxProperties")

    def _slot(self, pairs: Sequence[Pair], extra: ir.Node | None) -> Slot | None:
        nodes = [node for _, node, _ in pairs]
        if extra is not None:
            return Slot(((ir.EMPTY, ir.alt(*nodes, extra)),))
        if not nodes:
            return None
        left = self._rules.spelling.have_read([key for key, _, _ in pairs], negate=True)
        return Slot(((left, ir.alt(*nodes)),))

    def _slots(self, others: Slot | None, low: int, high: int | None) -> list[Slot] | None:
        """The keys that are not required, in order; None where there is no way."""
        if self._special is None:
            return [replace(others, low=low, high=high)] if others is not None and high != 0 else []
        assert others is not None
        return self._special.slots(others.options[0], low, high)

    def _written(self, between: Slot | None, slots: list[Slot], end: ir.Node) -> list[ir.Node]:
        """Every way to begin, and what follows: the slots with keys of `between` in any number anywhere."""

        def more(guard: ir.Node) -> ir.Node:
            return ir.EMPTY if between is None else ir.Repeat(seq(guard, self._next(between)))

        def rest(slots: Sequence[Slot]) -> ir.Node:
            groups = [ir.Repeat(seq(more(slot.before), self._next(slot)), slot.low, slot.high) for slot in slots]
            if between is None or not slots or slots[-1].high is not None:
                return seq(*groups, more(ir.EMPTY if self._special is None else self._special.end), end)
            # In one loop, so that a key of `between` does not end the others.
            last = slots[-1]
            groups[-1] = ir.Repeat(seq(more(ir.EMPTY), self._next(last)), last.low, last.low)
            return seq(*groups, ir.Repeat(ir.alt(self._next(between), self._next(last))), end)

        self._rules.count(sum(4 + 2 * len(slot.options) * (slot.high or slot.low) for slot in slots))
        ways = [] if between is None else [seq(self._first(between), rest(slots))]
        for k, slot in enumerate(slots):
            if slot.high == 0:
                continue
            one_less = replace(slot, low=max(slot.low - 1, 0), high=None if slot.high is None else slot.high - 1)
            ways.append(seq(self._first(slot), rest([one_less, *slots[k + 1 :]])))
            if slot.low:
                break
        return ways

    def _first(self, slot: Slot) -> ir.Node:
        """Before which nothing has been read."""
        if len(slot.options) == 1:
            return slot.options[0][1]
        return ir.alt(*[seq(guard, pair) for guard, pair in slot.options])

    def _next(self, slot: Slot) -> ir.Node:
        return ir.alt(*[seq(guard, self._comma, pair) for guard, pair in slot.options])
