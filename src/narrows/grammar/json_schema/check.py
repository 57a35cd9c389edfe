"""Whether a literal value satisfies a goal: filters `enum` and `const` by their siblings.

Values and schemas nest as deeply as the document does, so the mutual recursion of "some alternative admits it" and "all
members fit" runs on an explicit stack: `run` drives generators that yield the generators they depend on.

Cost: a value costs the schemas that speak of it; an enumeration is made a set once, and a look-up from then on.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.equality import decimal_of, key_of, keys, type_of
from narrows.grammar.json_schema.facts import Clause, Facts, Goal, Members, Range, SomeKey
from narrows.grammar.json_schema.goals import Goals
from narrows.grammar.json_schema.spelling import multiples
from narrows.grammar.json_schema.spelling.patterns import fits as text_fits
from narrows.grammar.json_schema.spelling.patterns import matches
from narrows.grammar.work import Work

Answer = Generator["Answer", bool, bool]


def surviving(goals: Goals, facts: Facts) -> Iterator[Any]:
    """The options of the shortest enumeration that satisfy all facts but the patterns of strings."""
    chosen = min(facts.values, key=lambda v: len(v.options))
    goals.work.spend(2 + len(chosen.options) // 4)
    others = tuple(v for v in facts.values if v is not chosen)
    if others or facts.text or facts.range or facts.items or facts.members:
        rest = replace(facts, values=others)
        rest.text = f.Text(facts.text.min, facts.text.max) if facts.text is not None else None
        yield from (option for option in chosen.options if run(fits(goals, rest, option)))
    else:
        yield from (option for option in chosen.options if type_of(option) & facts.types)


def run(question: Answer) -> bool:
    stack = [question]
    answer = False
    started = False
    while stack:
        try:
            deeper = stack[-1].send(answer) if started else next(stack[-1])
        except StopIteration as stop:
            stack.pop()
            answer, started = stop.value, True
        else:
            stack.append(deeper)
            started = False
    return answer


def fits(goals: Goals, facts: Facts, value: Any) -> Answer:
    """Whether the value satisfies one alternative."""
    spend = goals.work.spend
    spend(4)
    kind = type_of(value)
    if not facts.types & kind:
        return False
    for values in facts.values:
        if key_of(value, goals.work) not in keys(values, goals.work):
            return False
    if kind == f.STRING and facts.text is not None:
        return text_fits(facts.text, value, goals.reporter, goals.work)
    if kind & f.NUMBER and facts.range is not None:
        exact = decimal_of(value)
        steps = len(facts.range.steps) + len(facts.range.not_steps)
        if steps and exact is not None:
            digits = len(exact.as_tuple().digits)  # as a whole number, for a remainder: quadratic
            spend(steps * (3 + digits**2 // 60_000))
        return exact is not None and _in_range(facts.range, exact)
    if kind == f.ARRAY:
        spend(2 + len(facts.items) // 4 + len(value) * (2 + len(facts.items) // 4))
        for items in facts.items:
            if len(value) < items.min or (items.max is not None and len(value) > items.max):
                return False
        if any(items.unique_at for items in facts.items) and not _are_different(value, goals.work):
            return False
        if any(items.equal_at for items in facts.items) and _are_different(value, goals.work):
            return False
        for one in (one for items in facts.items for one in items.contained):
            count = 0
            for item in value[one.start :]:
                count += yield admits(goals, goals.goal((one.site,)), item)
            if count < one.least or (one.most is not None and count > one.most):
                return False
        for k, item in enumerate(value):
            goal = goals.goal(i.prefix[k] if k < len(i.prefix) else i.rest for i in facts.items)
            if not (yield admits(goals, goal, item)):
                return False
    if kind == f.OBJECT:
        if not _has_the_keys(facts.members, value, goals.work):
            return False
        for some in (some for members in facts.members for some in members.some):
            if not (yield _has_some(goals, some, value)):
                return False
        for clause in facts.clauses:
            if not (yield _one_holds(goals, clause, value)):
                return False
        names = [members.names for members in facts.members if members.names is not None]
        for key, member in value.items():
            for site in names:
                if not (yield admits(goals, goals.goal((site,)), key)):
                    return False
            if not (yield admits(goals, goals.member(facts.members, key), member)):
                return False
    return True


def _are_different(values: Sequence[Any], work: Work) -> bool:
    return len({key_of(value, work) for value in values}) == len(values)


def _has_some(goals: Goals, some: SomeKey, value: dict[str, Any]) -> Answer:
    """Whether some key and its value are as they must be."""
    for key, member in value.items():
        if key in some.but:
            continue
        if not all(matches(pattern, key, goals.reporter, goals.work) is not False for pattern in some.patterns):
            continue
        if some.names is not None and not (yield admits(goals, goals.goal((some.names,)), key)):
            continue
        if (yield admits(goals, goals.goal((some.site,)), member)):
            return True
    return False


def _one_holds(goals: Goals, clause: Clause, value: dict[str, Any]) -> Answer:
    for key, condition in clause.items():
        if key not in value:
            if condition.absent:
                return True
            continue
        for site in condition.sites:
            if (yield admits(goals, goals.goal((site,)), value[key])):
                return True
    return False


def _has_the_keys(every: Sequence[Members], value: dict[str, Any], work: Work) -> bool:
    """Whether the keys that must be there are, and as many as there must be."""
    work.spend(2 + sum([2 + len(members.required) + len(members.brings) for members in every]) // 8)
    for members in every:
        if len(value) < members.least or (members.most is not None and len(value) > members.most):
            return False
        if not all(key in value for key in members.required):
            return False
        if not all(other in value for key, brought in members.brings.items() if key in value for other in brought):
            return False
    return True


def _in_range(range_: Range, value: Decimal) -> bool:
    if range_.low is not None and (value < range_.low or (range_.low_open and value == range_.low)):
        return False
    if range_.high is not None and (value > range_.high or (range_.high_open and value == range_.high)):
        return False
    return multiples.holds(range_, value)


def admits(goals: Goals, goal: Goal, value: Any) -> Answer:
    """Whether the value satisfies some alternative of a goal."""
    for facts in goals.alternatives(goal):
        if (yield fits(goals, facts, value)):
            return True
    return False
