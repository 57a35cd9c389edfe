"""Keywords of the standard that are not enforced: refused, unless they assert nothing where they stand.

With `on_unsupported="ignore"` or `"warn"` they are left out, and that only ever allows more. What depends on one of
them is given up with it: see `patternProperties` in families/objects.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from narrows.grammar.json_schema import facts
from narrows.grammar.json_schema.reading import Family, Reading, is_empty_object

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
    "maxProperties": (facts.OBJECT, lambda v: False),
    "dependencies": (facts.OBJECT, is_empty_object),
    "dependentRequired": (facts.OBJECT, is_empty_object),
    "dependentSchemas": (facts.OBJECT, is_empty_object),
}

_PARTNERS: dict[str, tuple[str, ...]] = {
    "if": ("then", "else"),
    "then": ("if",),
    "else": ("if",),
    "minContains": ("contains",),
    "maxContains": ("contains",),
}
"""Keywords that assert something only beside one of these."""


def _read(reading: Reading) -> None:
    schema = reading.schema
    for keyword, (types, is_trivial) in _WHEN_TRIVIAL.items():
        if keyword in schema:
            partners = _PARTNERS.get(keyword)
            is_alone = partners is not None and not any(partner in schema for partner in partners)
            reading.not_enforced(keyword, types, trivial=is_alone or is_trivial(schema[keyword]))


FAMILY = Family(tuple(_WHEN_TRIVIAL), _read)
