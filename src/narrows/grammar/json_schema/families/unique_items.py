"""`uniqueItems`: no two items of an array are the same value.

An item is read as a name that comes once (`ir.Distinct`), as the keys of an object are. Equal strings are known in all
their spellings. For all other values, equal ones must be spelled alike: in such an array a number has no exponent and
no needless zeros, and `-0` is `0`.

The array has at most `Limits.object_keys` items (128), because the matcher remembers no more. Where only a few values
are possible, it has at most as many items, so that another value is left at each comma.

Refused are items that may be arrays or objects, and places of a tuple that compete for a few values.

Cost: as many copies of the item as the array may have; the matcher keeps the values of each array that is open.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from narrows.grammar import ir
from narrows.grammar.json_schema import check
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.facts import Facts, Goal, Items, Text
from narrows.grammar.json_schema.families import numbers, strings
from narrows.grammar.json_schema.families.values import spell_plainly
from narrows.grammar.json_schema.reading import Family, Reading
from narrows.grammar.json_schema.report import Status, over_limit
from narrows.grammar.json_schema.rules import Rules
from narrows.grammar.json_schema.spelling import multiples, patterns
from narrows.grammar.json_schema.spelling.spelling import DIGIT, FRACTIONAL, NONZERO, Spelling, seq
from narrows.grammar.regular import Regular

_WITHOUT_ZEROS = ir.Alt(
    (
        ir.Bytes(b"0"),
        ir.Seq((ir.optional(ir.Bytes(b"-")), NONZERO, ir.Repeat(DIGIT))),
        ir.And((FRACTIONAL, ir.Seq((ir.Repeat(ir.ANY_BYTE), NONZERO)))),
    )
)
"""One spelling of each number."""
_PLAIN = Spelling("compact", "none")


def _read(reading: Reading) -> None:
    if reading.boolean("uniqueItems"):
        reading.add_items(Items(unique_at=reading.at("uniqueItems")))


@dataclass(slots=True)
class _Item:
    """What one place of the array may hold."""

    node: ir.Node
    types: int
    values: frozenset[Hashable] | None
    """All values; None: more than an array has items."""

    def may_equal(self, other: _Item) -> bool:
        if self.values is None or other.values is None:
            return bool(self.types & other.types)
        return not self.values.isdisjoint(other.values)


class _Unsupported(Exception):
    """Why items cannot be told apart here."""


def elements(rules: Rules, every: Sequence[Items], low: int, high: int | None) -> ir.Node | None:
    """What stands between the brackets of an array of `low` to `high` items, all different; `ir.NEVER` if there is no
    such array. None if it asserts nothing, or cannot be enforced, which has been reported."""
    if high is not None and high <= 1:
        return None
    where = next(items.unique_at for items in every if items.unique_at)
    most = rules.limits.object_keys
    if low > most:
        raise over_limit("object_keys", most, "items that are all different are asked for in such a number", where)
    try:
        if any(items.contained for items in every):
            raise _Unsupported("uniqueItems beside `contains` is not supported")
        return _elements(rules, every, low, high, where)
    except _Unsupported as reason:
        rules.goals.reporter.unsupported(where, str(reason))
        return None


def too_few(rules: Rules, every: Sequence[Items], low: int) -> Goal:
    """A goal that nothing satisfies, with the reason for which there is no such array."""
    where = next(items.min_at or items.unique_at for items in every if items.min == low)
    why = f"there are no {low} different items"
    goal = (rules.goals.document.derived(where, Facts(types=0, impossible=why, impossible_at=where)),)
    rules.node(goal)
    return goal


def _elements(rules: Rules, every: Sequence[Items], low: int, high: int | None, where: str) -> ir.Node:
    most, goals = rules.limits.object_keys, rules.goals
    last = most if high is None else min(high, most)
    places: list[_Item] = []
    for k in range(min(last, max(len(items.prefix) for items in every))):
        goal = goals.goal(items.prefix[k] if k < len(items.prefix) else items.rest for items in every)
        if rules.node(goal) is ir.NEVER:
            last = k
            break
        places.append(_item(rules, goal, most))
        rivals = sum([places[k].may_equal(before) for before in places[:k]])
        if _runs_out(places[k], rivals):
            raise _Unsupported("uniqueItems is not supported where places of a tuple compete for a few values")
    rest_goal = goals.goal(items.rest for items in every)
    rest: _Item | None = None
    if last > len(places) and rules.node(rest_goal) is not ir.NEVER:
        rest = _item(rules, rest_goal, most)
        rivals = sum([rest.may_equal(before) for before in places])
        if rest.values is not None and rivals and len(rest.values) < last - len(places) + rivals:
            raise _Unsupported("uniqueItems is not supported where places of a tuple compete for a few values")
        if rest.values is not None:
            last = min(last, len(places) + len(rest.values))
    else:
        last = min(last, len(places))
    if low > last:
        return ir.NEVER
    if last == most and (high is None or high > most):
        status = Status("under", f"at most {most} items, which is Limits.object_keys")
        goals.reporter.note(where, status)
    return _in_a_row(rules, places, rest, low, last)


def _runs_out(item: _Item, rivals: int) -> bool:
    return item.values is not None and len(item.values) <= rivals


def _in_a_row(rules: Rules, places: list[_Item], rest: _Item | None, low: int, last: int) -> ir.Node:
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


def _item(rules: Rules, goal: Goal, most: int) -> _Item:
    """The values of a goal, each as a name."""
    nodes: list[ir.Node] = []
    values: set[Hashable] | None = set()
    types = 0
    for facts in rules.goals.alternatives(goal):
        rules.work.spend(8)
        types |= facts.types
        if facts.values:
            listed = _listed(rules, facts)
            nodes += _literals(rules, listed, facts)
            found: set[Hashable] | None = {check.key_of(option, rules.work) for option in listed}
        elif facts.types & (f.ARRAY | f.OBJECT):
            raise _Unsupported("uniqueItems is only supported where no item is an array or an object")
        else:
            nodes += _scalars(rules, facts)
            found = _few(rules, facts, most)
        values = None if found is None or values is None else values | found
    if values is not None and len(values) > most:
        values = None
    return _Item(ir.alt(*nodes), types, None if values is None else frozenset(values))


def _listed(rules: Rules, facts: Facts) -> list[Any]:
    options = list(check.surviving(rules.goals, facts))
    if any(isinstance(option, (list, tuple, dict)) for option in options):
        raise _Unsupported("uniqueItems is only supported where no item is an array or an object")
    text = facts.text
    if text is None or not text.patterns:
        return options
    fits, reporter = patterns.fits, rules.goals.reporter
    return [o for o in options if not isinstance(o, str) or fits(text, o, reporter, rules.work)]


def _literals(rules: Rules, options: list[Any], facts: Facts) -> list[ir.Node]:
    texts: list[bytes] = []
    others: list[bytes] = []
    for option in options:
        rules.work.spend(2)
        if isinstance(option, str):
            texts += rules.spelling.literal(option)
        elif option is None or isinstance(option, bool):
            others.append(rules.spelling.constants[option][0])
        else:
            spelled = spell_plainly(option, facts.values[0].pointer)
            if spelled is None:
                raise _Unsupported("uniqueItems is not supported for numbers of so many digits")
            others.append(spelled)
    nodes: list[ir.Node] = []
    if texts:
        nodes.append(_name(rules.spelling.whole(ir.Literals(tuple(texts))), rules.spelling.names))
    if others:
        nodes.append(_name(ir.Lexeme(ir.Literals(tuple(others))), "bytes"))
    return nodes


def _scalars(rules: Rules, facts: Facts) -> list[ir.Node]:
    spelling, reporter, work = rules.spelling, rules.goals.reporter, rules.work
    nodes: list[ir.Node] = []
    if facts.types & f.STRING:
        nodes.append(_name(strings.lower(facts.text, spelling, reporter, work), spelling.names))
    if facts.types & f.NUMBER:
        number = numbers.lower(facts.types, facts.range, reporter, lambda states: ir.EMPTY, work)
        if not isinstance(number, ir.Lexeme):
            raise _Unsupported("uniqueItems is not supported with this multipleOf")
        nodes.append(_name(ir.Lexeme(ir.And((number.item, _WITHOUT_ZEROS))), "bytes"))
    constants = [True, False] if facts.types & f.BOOLEAN else []
    constants += [None] if facts.types & f.NULL else []  # type: ignore[list-item]
    if constants:
        forms = tuple([spelling.constants[constant][0] for constant in constants])
        nodes.append(_name(ir.Lexeme(ir.Literals(forms)), "bytes"))
    return nodes


def _name(node: ir.Node, names: ir.NameSpelling) -> ir.Node:
    if not isinstance(node, ir.Lexeme):
        raise _Unsupported("uniqueItems is not supported in this notation")
    return ir.Distinct(node, names)


def _few(rules: Rules, facts: Facts, most: int) -> set[Hashable] | None:
    """The values of these types, None if they are more than `most`."""
    work, found = rules.work, set[Hashable]()
    if facts.types & f.NULL:
        found.add(check.key_of(None, work))
    if facts.types & f.BOOLEAN:
        found.update((check.key_of(True, work), check.key_of(False, work)))
    if facts.types & f.NUMBER:
        range_, is_whole = facts.range, not facts.types & f.FRACTION
        step = None if range_ is None else multiples.step_of(range_, work, integer=is_whole)
        if range_ is None or (step is None and not is_whole):
            return None
        least, greatest = multiples.between(range_, step or multiples.ONE)
        if least is None or greatest is None or greatest - least >= most:
            return None
        work.spend(greatest - least)
        values = [n * (step or multiples.ONE) for n in range(least, greatest + 1)]
        excluded = [Fraction(other) for other, _ in range_.not_steps]
        work.spend(len(values) * len(excluded))
        found.update(
            value
            for value in values
            if facts.types & (f.INTEGER if value.denominator == 1 else f.FRACTION)
            and all((value / other).denominator > 1 for other in excluded)
        )
    if facts.types & f.STRING:
        texts = _few_texts(rules, facts.text, most)
        if texts is None:
            return None
        found.update(texts)
    return found


def _few_texts(rules: Rules, text: Text | None, most: int) -> list[str] | None:
    if text is None or not (text.patterns or text.max == 0):
        return None
    node = strings.body(text, _PLAIN, rules.goals.reporter, rules.work)
    if node is None:
        return None
    regular = Regular(rules.work)
    characters = regular.of(ir.Repeat(_PLAIN.character))
    texts = regular.texts(regular.both([regular.of(node), characters]), most)
    return None if texts is None else [text.decode("utf-8", "surrogatepass") for text in texts]


FAMILY = Family(("uniqueItems",), _read, types=f.ARRAY)
