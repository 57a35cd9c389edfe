"""`uniqueItems`: no two items of an array are the same value.

An item is read as a name that comes once (`ir.Distinct`), as the keys of an object are. Equal strings are known in all
their spellings. For all other values, equal ones must be spelled alike: in such an array a number has no exponent and
no needless zeros, and `-0` is `0`.

Where items may be arrays or objects, each item is one text, which is compared as a whole. So it is written in one
spelling: keys as declared, no needless escapes, and all items of the array either without whitespace or as `json.dumps`
writes it. Such an object has no keys but those that the schema names. Refused are items that are nested without end or
hold such arrays themselves.

The array has at most `Limits.object_keys` items (128), because the matcher remembers no more. Where only a few values
are possible, it has at most as many items, so that another value is left at each comma. Refused are places of a tuple
that compete for a few values.

Cost: as many copies of the item as the array may have; the matcher keeps the values of each array that is open.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from narrows.grammar import ir
from narrows.grammar.json_schema import check, equality
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.facts import Facts, Goal, Items, Text
from narrows.grammar.json_schema.families import numbers, strings
from narrows.grammar.json_schema.families.values import spell_plainly
from narrows.grammar.json_schema.one_spelling import WITHOUT_ZEROS
from narrows.grammar.json_schema.reading import Family, Reading
from narrows.grammar.json_schema.report import Status, over_limit
from narrows.grammar.json_schema.rules import Rules
from narrows.grammar.json_schema.spelling import multiples, patterns
from narrows.grammar.json_schema.spelling.spelling import Spelling, Whitespace, seq
from narrows.grammar.regular import Regular

_PLAIN = Spelling("compact", "none")
_FIXED: tuple[Whitespace, ...] = ("json.dumps", "compact")
"""What leaves no choice."""


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
    leaves_out: bool = False
    """Objects with keys that the schema does not name."""

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
        if rules.closed:
            raise _Unsupported("uniqueItems in items that are compared themselves is not supported")
        return _Elements(rules, every, low, high, where).node()
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


class _Elements:
    def __init__(self, rules: Rules, every: Sequence[Items], low: int, high: int | None, where: str) -> None:
        self._rules = rules
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
        goals = [*self._places, *([self._rest] if self._last > len(self._places) else [])]
        self._as_texts = any(_may_be_nested(rules, goal) for goal in goals)

    def node(self) -> ir.Node:
        """In each way to write the items."""
        if not self._as_texts:
            return self._written(_item)
        if type(self._rules.spelling) is not Spelling:
            raise _Unsupported("uniqueItems is not supported in this notation where items may be arrays or objects")
        asked = self._rules.spelling.whitespace
        ways: tuple[Whitespace, ...] = (asked,) if asked in _FIXED else _FIXED
        nodes = [self._written(partial(_nested, whitespace)) for whitespace in ways]
        nodes = [node for node in nodes if node is not ir.NEVER]
        return ir.alt(*nodes) if nodes else ir.NEVER

    def _written(self, item_of: Callable[[Rules, Goal, int], _Item | None]) -> ir.Node:
        """`item_of`: the values of a goal, each as a name; None where there is none."""
        places: list[_Item] = []
        most = self._last
        for goal in self._places:
            item = item_of(self._rules, goal, self._most)
            if item is None:
                most = len(places)
                break
            if _runs_out(item, sum([item.may_equal(before) for before in places])):
                raise _Unsupported("uniqueItems is not supported where places of a tuple compete for a few values")
            places.append(item)
        rest: _Item | None = None
        if most > len(places) and self._rules.node(self._rest) is not ir.NEVER:
            rest = item_of(self._rules, self._rest, self._most)
        if rest is None:
            most = min(most, len(places))
        elif rest.values is not None:
            rivals = sum([rest.may_equal(before) for before in places])
            if rivals and len(rest.values) < most - len(places) + rivals:
                raise _Unsupported("uniqueItems is not supported where places of a tuple compete for a few values")
            most = min(most, len(places) + len(rest.values))
        if self._low > most:
            return ir.NEVER
        self._note([*places, *([] if rest is None else [rest])], most)
        return _in_a_row(self._rules, places, rest, self._low, most)

    def _note(self, items: list[_Item], most: int) -> None:
        notes: list[str] = []
        if self._as_texts:
            notes.append("an item is written in one spelling")
        if any(item.leaves_out for item in items):
            notes.append("objects in them have no keys but those that the schema names")
        if most == self._most and (self._high is None or self._high > self._most):
            notes.append(f"at most {self._most} items, which is Limits.object_keys")
        if notes:
            self._rules.goals.reporter.note(self._where, Status("under", "; ".join(notes)))


def _may_be_nested(rules: Rules, goal: Goal) -> bool:
    """Whether a value may be an array or an object."""
    for facts in rules.goals.alternatives(goal):
        rules.work.spend(4)
        if facts.values:
            rules.work.spend(len(facts.values[0].options) // 8)
            if any(isinstance(option, (list, tuple, dict)) for option in check.surviving(rules.goals, facts)):
                return True
        elif facts.types & (f.ARRAY | f.OBJECT):
            return True
    return False


def _nested(whitespace: Whitespace, rules: Rules, goal: Goal, most: int) -> _Item | None:
    """The values of a goal, each as one text; None where there is none."""
    written = rules.in_one_spelling(goal, whitespace)
    if written is None:
        raise _Unsupported(
            "uniqueItems is not supported where items are nested without end, or may have any keys, or are too large"
        )
    node, leaves_out = written
    if leaves_out and rules.goals.reporter.on_unsupported != "error":
        raise _Unsupported("uniqueItems is not supported where items may have keys that the schema does not name")
    regular = Regular.of_reading(rules.work)
    term = regular.of(node)
    if regular.is_never(term):
        return None
    texts = regular.texts(term, most)
    return _Item(ir.Distinct(ir.Lexeme(node)), f.ANY, None if texts is None else frozenset[Hashable](texts), leaves_out)


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
            found: set[Hashable] | None = {equality.key_of(option, rules.work) for option in listed}
        else:
            nodes += _scalars(rules, facts)
            found = _few(rules, facts, most)
        values = None if found is None or values is None else values | found
    if values is not None and len(values) > most:
        values = None
    return _Item(ir.alt(*nodes), types, None if values is None else frozenset(values))


def _listed(rules: Rules, facts: Facts) -> list[Any]:
    options = list(check.surviving(rules.goals, facts))
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
        nodes.append(_name(ir.Lexeme(ir.And((number.item, WITHOUT_ZEROS))), "bytes"))
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
        found.add(equality.key_of(None, work))
    if facts.types & f.BOOLEAN:
        found.update((equality.key_of(True, work), equality.key_of(False, work)))
    if facts.types & f.NUMBER:
        range_, is_whole = facts.range, not facts.types & f.FRACTION
        step = None if range_ is None else multiples.step_of(range_, work, integer=is_whole)
        if range_ is None:
            return None
        if range_.low is not None and range_.low == range_.high:
            values = [Fraction(range_.low)]
        elif step is None and not is_whole:
            return None
        else:
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
    regular = Regular.of_reading(rules.work)
    characters = regular.of(ir.Repeat(_PLAIN.character))
    texts = regular.texts(regular.both([regular.of(node), characters]), most)
    return None if texts is None else [text.decode("utf-8", "surrogatepass") for text in texts]


FAMILY = Family(("uniqueItems",), _read, types=f.ARRAY)
