"""What tells scalars apart under `uniqueItems`: each is a name that comes once (`ir.Distinct`), known in all spellings
of a string, and in one spelling of any other value.

Cost: linear in the schema of an item; where the values are few, they are counted.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from narrows.grammar import ir
from narrows.grammar.json_schema import check, equality
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.facts import Facts, Goal, Text
from narrows.grammar.json_schema.families import numbers, strings
from narrows.grammar.json_schema.families.values import spell_plainly
from narrows.grammar.json_schema.one_spelling import WITHOUT_ZEROS
from narrows.grammar.json_schema.rules import Rules
from narrows.grammar.json_schema.spelling import multiples, patterns
from narrows.grammar.json_schema.spelling.spelling import Spelling
from narrows.grammar.regular import Regular

_PLAIN = Spelling("compact", "none")


@dataclass(slots=True)
class Item:
    """What one place of an array may hold, each value as a name."""

    node: ir.Node
    types: int
    values: frozenset[Hashable] | None
    """All names; None: more than an array has items."""
    notes: tuple[str, ...] = ()
    """How this is less than the schema allows."""
    heads: tuple[tuple[ir.Node, ir.Node], ...] = ()
    """Names that values which are different may share, as regular nodes, and what follows each."""
    others: frozenset[Hashable] | None = frozenset()
    """The names besides those."""
    key: Hashable = None
    """Where there are heads: of these items, in `Rules.names_left`."""

    def may_equal(self, other: Item) -> bool:
        if self.values is None or other.values is None:
            return bool(self.types & other.types)
        return not self.values.isdisjoint(other.values)


class Unsupported(Exception):
    """Why items cannot be told apart here."""


def scalar(rules: Rules, goal: Goal, most: int) -> Item:
    """The scalars of a goal."""
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
    return Item(ir.alt(*nodes), types, None if values is None else frozenset(values))


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
                raise Unsupported("uniqueItems is not supported for numbers of so many digits")
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
            raise Unsupported("uniqueItems is not supported with this multipleOf")
        nodes.append(_name(ir.Lexeme(ir.And((number.item, WITHOUT_ZEROS))), "bytes"))
    constants = [True, False] if facts.types & f.BOOLEAN else []
    constants += [None] if facts.types & f.NULL else []  # type: ignore[list-item]
    if constants:
        forms = tuple([spelling.constants[constant][0] for constant in constants])
        nodes.append(_name(ir.Lexeme(ir.Literals(forms)), "bytes"))
    return nodes


def _name(node: ir.Node, names: ir.NameSpelling) -> ir.Node:
    if not isinstance(node, ir.Lexeme):
        raise Unsupported("uniqueItems is not supported in this notation")
    return ir.Distinct(node, names)


def _few(rules: Rules, facts: Facts, most: int) -> set[Hashable] | None:
    """The values of these types, None if they are more than `most`."""
    work, found = rules.work, set[Hashable]()
    if facts.types & f.NULL:
        found.add(equality.key_of(None, work))
    if facts.types & f.BOOLEAN:
        found.update((equality.key_of(True, work), equality.key_of(False, work)))
    if facts.types & f.NUMBER:
        numbers_found = _few_numbers(rules, facts, most)
        if numbers_found is None:
            return None
        found |= numbers_found
    if facts.types & f.STRING:
        texts = _few_texts(rules, facts.text, most)
        if texts is None:
            return None
        found.update(texts)
    return found


def _few_numbers(rules: Rules, facts: Facts, most: int) -> set[Hashable] | None:
    range_, work, is_whole = facts.range, rules.work, not facts.types & f.FRACTION
    if range_ is None:
        return None
    step = multiples.step_of(range_, work, integer=is_whole)
    no_whole = step is not None and not facts.types & f.INTEGER
    if (range_.not_steps or no_whole) and _no_number(rules, facts):
        return set()
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
    return {
        value
        for value in values
        if facts.types & (f.INTEGER if value.denominator == 1 else f.FRACTION)
        and all((value / other).denominator > 1 for other in excluded)
    }


def _no_number(rules: Rules, facts: Facts) -> bool:
    """Whether multiples that are asked for and excluded leave none."""
    node = numbers.lower(facts.types, facts.range, rules.goals.reporter, lambda states: ir.EMPTY, rules.work)
    regular = rules.regular
    return isinstance(node, ir.Lexeme) and regular.is_never(regular.of(ir.And((node.item, WITHOUT_ZEROS))))


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
