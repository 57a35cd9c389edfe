"""Whether a literal value satisfies a goal: filters `enum` and `const` by their siblings.

Values and schemas nest as deeply as the document does, so the mutual recursion of "some alternative admits it" and "all members
fit" runs on an explicit stack: `run` drives generators that yield the generators they depend on.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.facts import Facts, Goal
from narrows.grammar.json_schema.families import numbers
from narrows.grammar.json_schema.reading import decimal_of
from narrows.grammar.work import Work

if TYPE_CHECKING:
    from narrows.grammar.json_schema.lower import Lowering

Answer = Generator["Answer", bool, bool]


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


def fits(lowering: Lowering, facts: Facts, value: Any) -> Answer:
    """Whether the value satisfies one alternative."""
    spend = lowering.work.spend
    spend(4)
    kind = type_of(value)
    if not facts.types & kind:
        return False
    for values in facts.values:
        if key_of(value, lowering.work) not in lowering.value_keys(values):
            return False
    if kind == f.STRING and facts.text is not None:
        text = facts.text
        if len(value) < text.min or (text.max is not None and len(value) > text.max):
            return False
        return all(lowering.pattern_holds(pattern, value) for pattern in text.patterns)
    if kind & f.NUMBER and facts.range is not None:
        exact = decimal_of(value)
        if facts.range.steps and exact is not None:
            digits = len(exact.as_tuple().digits)  # as a whole number, for a remainder: quadratic
            spend(len(facts.range.steps) * (3 + digits**2 // 60_000))
        return exact is not None and numbers.holds(facts.range, exact)
    if kind == f.ARRAY:
        spend(2 + len(facts.items) // 4 + len(value) * (2 + len(facts.items) // 4))
        for items in facts.items:
            if len(value) < items.min or (items.max is not None and len(value) > items.max):
                return False
        for k, item in enumerate(value):
            goal = lowering.goal(i.prefix[k] if k < len(i.prefix) else i.rest for i in facts.items)
            if not (yield admits(lowering, goal, item)):
                return False
    if kind == f.OBJECT:
        spend(2 + sum([2 + len(members.required) for members in facts.members]) // 8)
        if not all(key in value for members in facts.members for key in members.required):
            return False
        spend(len(value) * (2 + len(facts.members) // 4))
        for key, member in value.items():
            goal = lowering.goal(m.named.get(key, m.extra) for m in facts.members)
            if not (yield admits(lowering, goal, member)):
                return False
    return True


def admits(lowering: Lowering, goal: Goal, value: Any) -> Answer:
    """Whether the value satisfies some alternative of a goal."""
    for facts in lowering.alternatives(goal):
        if (yield fits(lowering, facts, value)):
            return True
    return False


def type_of(value: Any) -> int:
    """The type bit of a JSON value, 0 for what is none."""
    if isinstance(value, str):
        return f.STRING
    if value is None:
        return f.NULL
    if isinstance(value, bool):
        return f.BOOLEAN
    if isinstance(value, int):
        return f.INTEGER
    if isinstance(value, (float, Decimal)):
        exact = decimal_of(value)
        if exact is None:
            return 0
        is_whole = exact.as_tuple().exponent >= 0 or exact == exact.to_integral_value()  # type: ignore[operator]
        return f.INTEGER if is_whole else f.FRACTION
    if isinstance(value, (list, tuple)):
        return f.ARRAY
    return f.OBJECT if isinstance(value, dict) else 0


def key_of(root: Any, work: Work) -> Hashable:
    """Equal for equal JSON values: 1 is 1.0 and not true; the order of an object's keys does not matter."""
    if isinstance(root, str):
        return root
    finished: list[Hashable] = []
    stack: list[tuple[Any, int]] = [(root, -1)]  # (value, -1: to be opened, else the number of its finished parts)
    while stack:
        work.spend(2)
        value, parts = stack.pop()
        if parts >= 0:
            below = finished[len(finished) - parts :]
            del finished[len(finished) - parts :]
            is_object = isinstance(value, dict)
            finished.append((True, frozenset(zip(value, below, strict=True))) if is_object else (False, tuple(below)))
        elif isinstance(value, dict):
            stack.append((value, len(value)))
            stack.extend((member, -1) for member in reversed(value.values()))
        elif isinstance(value, (list, tuple)):
            stack.append((value, len(value)))
            stack.extend((item, -1) for item in reversed(value))
        elif isinstance(value, bool) or value is None:
            finished.append(("", value))
        else:
            exact = decimal_of(value)
            finished.append(value if exact is None else exact)
    return finished[0]
