"""When two JSON values are equal: numbers by what they stand for (1 is 1.0, and not true), objects whatever the order
of their keys. And which type a value has.

Cost: linear in the value. Nothing here is recursive.
"""

from __future__ import annotations

from collections.abc import Hashable
from decimal import Decimal, InvalidOperation
from typing import Any

from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.facts import Values
from narrows.grammar.work import Work


def decimal_of(value: object) -> Decimal | None:
    """The exact decimal that a JSON number stands for; None for anything else, infinities and NaN included."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    try:
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    except (InvalidOperation, ValueError):
        return None
    return exact if exact.is_finite() else None


def keys(values: Values, work: Work) -> frozenset[Hashable]:
    """The options of an enumeration as a set, made once."""
    if values.keys is None:
        work.spend(len(values.options) // 4)
        values.keys = frozenset([key_of(option, work) for option in values.options])
    return values.keys


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
