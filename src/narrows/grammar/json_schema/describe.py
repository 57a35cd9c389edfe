"""What a schema expects at a place, in a few words for people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from narrows.errors import shortened
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.cursor import Cursor
from narrows.grammar.json_schema.facts import Facts

_NAMES = (
    (f.NULL, "null"),
    (f.BOOLEAN, "true or false"),
    (f.NUMBER, "a number"),
    (f.INTEGER, "an integer"),
    (f.FRACTION, "a number with a fraction"),
    (f.STRING, "a string"),
    (f.ARRAY, "an array"),
    (f.OBJECT, "an object"),
)
_FEW = 8


def describe(at: Cursor, facts: list[Facts]) -> str:
    """What is expected at the place, by what schemas say of the value: all of them, branches included."""
    if at.part == "colon":
        return "a colon"
    if at.part == "key":
        return _keys(at.keys, facts)
    if at.part == "end":
        return "the end"
    if at.part == "next":
        return _next(at, facts)
    return _value(facts)


def _value(facts: list[Facts]) -> str:
    if len(facts) == 1:
        return _one(facts[0])
    kinds = list(dict.fromkeys([_one(said) for said in facts if not said.is_bare]))
    return _either(kinds) if kinds else "any value"


def _one(facts: Facts) -> str:
    """What one schema object says of the value."""
    for values in facts.values:
        options = [shortened(json.dumps(option, ensure_ascii=False, default=str), 40) for option in values.options]
        more = [f"{len(options) - _FEW} more values"] if len(options) > _FEW else []
        return _either(options[:_FEW] + more)
    if facts.types == f.ANY:
        return "any value"
    names, left = [], facts.types
    for bits, name in _NAMES:
        if left & bits == bits:
            names.append(name)
            left &= ~bits
    kind = _either(names) or "nothing"
    text, numbers = facts.text, facts.range
    if text is not None and facts.types & f.STRING:
        kind += _count(text.min, text.max, "character")
        kind += "".join(f" that matches {shortened(one.source, 60)}" for one in text.patterns[:2] if one.source)
        kind += "".join(f" in the format {one.name}" for one in text.patterns[:2] if one.name)
    if numbers is not None and facts.types & f.NUMBER:
        low = (
            [f" {'above' if numbers.low_open else 'of at least'} {_number(numbers.low)}"]
            if numbers.low is not None
            else []
        )
        high = (
            [f"{'below' if numbers.high_open else 'at most'} {_number(numbers.high)}"]
            if numbers.high is not None
            else []
        )
        kind += " and ".join([*low, *[h if low else f" {h}" for h in high]])
        kind += "".join(f", a multiple of {_number(step)}" for step, _ in numbers.steps[:2])
    for items in facts.items[:1] if facts.types & f.ARRAY else ():
        kind += _count(items.min, items.max, "item")
    return kind


def _keys(written: tuple[str, ...], facts: list[Facts]) -> str:
    names = dict.fromkeys([name for said in facts for members in said.members for name in members.named])
    left = [shortened(json.dumps(name, ensure_ascii=False), 40) for name in names if name not in written]
    more = [f"{len(left) - _FEW} more"] if len(left) > _FEW else []
    return f"a key, such as {_either(left[:_FEW] + more)}" if left else "a key"


def _next(at: Cursor, facts: list[Facts]) -> str:
    members = [one for said in facts for one in said.members]
    missing = dict.fromkeys([name for one in members for name in one.required if name not in at.keys])
    if missing:
        names = [shortened(json.dumps(name, ensure_ascii=False), 40) for name in missing]
        return f"a further member: {_either(names[:_FEW])} is required"
    return "a further member or item, or the end"


def _count(least: int, most: int | None, unit: str) -> str:
    if most is not None:
        return f" of {least} to {most} {unit}s" if least else f" of at most {most} {unit}s"
    return f" of at least {least} {unit}{'s' * (least != 1)}" if least else ""


def _number(value: Any) -> str:
    return format(value, "f") if isinstance(value, Decimal) and abs(value.adjusted()) < 20 else str(value)


def _either(options: Iterable[str]) -> str:
    *most, last = list(options) or [""]
    return f"{', '.join(most)} or {last}" if most else last
