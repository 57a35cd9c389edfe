"""Keywords of the standard that are not enforced: refused, unless they assert nothing where they stand.

With `on_unsupported="ignore"` or `"warn"` they are left out, and that only ever allows more: what depends on one of them is given up with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from narrows.grammar.json_schema import facts
from narrows.grammar.json_schema.reading import Reading
from narrows.grammar.json_schema.report import Status

_WHEN_TRIVIAL: dict[str, tuple[int, Callable[[Any], bool]]] = {
    # keyword: (types that it constrains, values that assert nothing)
    "not": (facts.ANY, lambda v: v is False),
    "if": (facts.ANY, lambda v: False),
    "then": (facts.ANY, lambda v: False),
    "else": (facts.ANY, lambda v: False),
    "uniqueItems": (facts.ARRAY, lambda v: v is False),
    "contains": (facts.ARRAY, lambda v: False),
    "minContains": (facts.ARRAY, lambda v: False),
    "maxContains": (facts.ARRAY, lambda v: False),
    "unevaluatedItems": (facts.ARRAY, lambda v: v is True),
    "patternProperties": (facts.OBJECT, lambda v: v == {}),
    "minProperties": (facts.OBJECT, lambda v: v == 0 and v is not False),
    "maxProperties": (facts.OBJECT, lambda v: False),
    "dependencies": (facts.OBJECT, lambda v: v == {}),
    "dependentRequired": (facts.OBJECT, lambda v: v == {}),
    "dependentSchemas": (facts.OBJECT, lambda v: v == {}),
    "unevaluatedProperties": (facts.OBJECT, lambda v: v is True),
}

KEYWORDS = tuple(_WHEN_TRIVIAL)


def read(reading: Reading) -> None:
    for keyword, value in reading.schema.items():
        if keyword not in _WHEN_TRIVIAL:
            continue
        _tell_declared(reading, keyword, value)
        types, is_trivial = _WHEN_TRIVIAL[keyword]
        if not reading.facts.types & types or is_trivial(value) or _has_no_partner(keyword, reading.schema):
            reading.reporter.note(reading.at(keyword), Status("exact", "asserts nothing here"))
        else:
            reading.reporter.unsupported(reading.at(keyword), f"{keyword} is not supported")
            if keyword == "patternProperties":
                _widen_other_keys(reading)


def _widen_other_keys(reading: Reading) -> None:
    """`additionalProperties` is about the keys that no pattern matches. Where patterns are not looked at, it cannot be held either."""
    widened = []
    for members in reading.facts.members:
        if members.extra is not None and members.extra.schema not in (True, {}):
            where = reading.at("additionalProperties")
            reason = "patternProperties beside it is ignored, and so any other key may have any value"
            if "additionalProperties" in reading.schema:
                reading.reporter.unsupported(where, reason, kind="over")
        widened.append(replace(members, extra=None))
    reading.facts.members = tuple(widened)


def _tell_declared(reading: Reading, keyword: str, value: Any) -> None:
    """What declared.py has to know, enforced or not."""
    if keyword in ("patternProperties", "unevaluatedProperties") and value != {}:
        reading.facts.members += (facts.Members(says=True),)
    elif keyword == "minProperties" and isinstance(value, int) and value > 0:
        reading.facts.members += (facts.Members(least=value),)


def _has_no_partner(keyword: str, schema: dict[str, Any]) -> bool:
    """Keywords that act only together with another one."""
    if keyword == "if":
        return "then" not in schema and "else" not in schema
    if keyword in ("then", "else"):
        return "if" not in schema
    if keyword in ("minContains", "maxContains"):
        return "contains" not in schema
    return False
