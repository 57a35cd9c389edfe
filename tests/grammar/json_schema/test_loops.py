"""A schema that depends on its own negation at one and the same value says nothing that could be enforced. Whatever the
keywords on the way, it is refused, and not read as one of the languages that would satisfy it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from narrows import Grammar
from narrows.errors import NarrowsError

WHOLE = {"$ref": "#"}
BESIDE: list[dict[str, Any]] = [
    {},
    {"oneOf": [{"type": "array"}, {"type": "object"}]},
    {"oneOf": [{"minProperties": 1}, {"type": "object"}]},
    {"unevaluatedItems": False},
    {"unevaluatedProperties": False},
]
INNER: list[dict[str, Any]] = [
    {"not": WHOLE},
    {"allOf": [{"not": WHOLE}]},
    {"anyOf": [{"not": WHOLE}, {"type": "null"}]},
    {"oneOf": [{"not": WHOLE}, {"type": "null"}]},
    {"not": {"allOf": [WHOLE]}},
    {"not": {"anyOf": [WHOLE, {"type": "null"}]}},
    {"not": {"if": WHOLE, "then": False}},
    {"dependentSchemas": {"a": {"not": WHOLE}}},
]


def _around(inner: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"if": inner, "then": {"type": "array"}}
    yield {"if": inner, "else": {"type": "array"}}
    yield {"if": inner, "then": {"minItems": 1}, "else": {"type": "string"}}
    yield {"dependentSchemas": {"a": inner}}
    yield {"anyOf": [inner, {"type": "null"}]}
    yield {"oneOf": [inner, {"type": "null"}]}
    yield {"allOf": [inner]}
    yield {"not": inner}


@pytest.mark.parametrize("inner", INNER, ids=json.dumps)
def test_a_schema_that_depends_on_its_own_negation_is_refused(inner: dict[str, Any]) -> None:
    tried = 0
    for beside in BESIDE:
        if inner.keys() & beside.keys():
            continue
        for schema in _around({**inner, **beside}):
            for more in BESIDE:
                if schema.keys() & more.keys():
                    continue
                with pytest.raises(NarrowsError) as caught:
                    Grammar.from_json_schema({**schema, **more})
                assert caught.value.code == "schema_invalid", (schema, more)
                tried += 1
    assert tried > 60
