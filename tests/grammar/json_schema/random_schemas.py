"""Random schemas in scope, values that come near their edges, and texts of a value in every order of its keys."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

NAMES = ["a", "b", "c"]
STRINGS = ["", "a", "b", "ab", "abc", "é", "😀x", '"', "\n"]
NUMBERS = [-2, -1, 0, 1, 2, 9, 10, 11, 100, 0.5, -0.5, 1.5, 9.99, 10.01]
BOUNDS = [-1, 0, 1, 2, 10, 0.5, 1.5, -1.25, 10.01]
PATTERNS = [
    "a",
    "^a",
    "b$",
    "^a*$",
    "^.$",
    "a|é",
    "[^a]",
    "^(ab?c?)?$",
    "^[ab]{2,}$",
    "^a[^a]*$",
    "^(?:ab)*$",
    "^a$|b$",
]

scalars = st.one_of(st.none(), st.booleans(), st.sampled_from(STRINGS), st.sampled_from(NUMBERS))
values = st.recursive(
    scalars,
    lambda below: st.one_of(
        st.lists(below, max_size=3), st.dictionaries(st.sampled_from([*NAMES, "x"]), below, max_size=3)
    ),
    max_leaves=5,
)
small_objects = st.dictionaries(st.sampled_from([*NAMES, "x"]), scalars, min_size=1, max_size=2)
small = st.integers(0, 3)
types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def _optional(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keywords)


def _text() -> st.SearchStrategy[dict[str, Any]]:
    return _optional(minLength=small, maxLength=small, pattern=st.sampled_from(PATTERNS))


def _number() -> st.SearchStrategy[dict[str, Any]]:
    bound = st.sampled_from(BOUNDS)
    steps = st.sampled_from([0.5, 1, 2, 0.25, 5, 3])
    return _optional(minimum=bound, maximum=bound, exclusiveMinimum=bound, exclusiveMaximum=bound, multipleOf=steps)


def _array(below: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return _optional(items=below, prefixItems=st.lists(below, min_size=1, max_size=2), minItems=small, maxItems=small)


def _object(below: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return _optional(
        properties=st.dictionaries(st.sampled_from(NAMES), below, max_size=3),
        required=st.lists(st.sampled_from(NAMES), unique=True, max_size=2),
        additionalProperties=below,
    )


def _merged(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(*parts).map(lambda dicts: {k: v for d in dicts for k, v in d.items()})


def _enumerated() -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.lists(values, min_size=1, max_size=3).map(lambda v: {"enum": v}), values.map(lambda v: {"const": v})
    )


def _typed() -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(types, st.lists(types, min_size=1, max_size=2, unique=True)).map(lambda t: {"type": t})


def _wider(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    branches = st.lists(below, min_size=1, max_size=3)
    families = st.one_of(
        _merged(_typed(), _text()),
        _merged(_typed(), _number()),
        _array(below),
        _object(below),
        _merged(st.just({"type": "object"}), _object(below)),
        _merged(_array(below), _object(below), _text()),
        _enumerated(),
        branches.map(lambda b: {"anyOf": b}),
        branches.map(lambda b: {"allOf": b}),
        st.lists(_leaves, min_size=1, max_size=2).map(lambda b: {"oneOf": b}),
        st.sampled_from(["#/$defs/d0", "#/$defs/d1", "#"]).map(lambda r: {"$ref": r}),
    )
    return st.one_of(families, _merged(families, families))


_leaves = st.one_of(
    st.booleans(), _typed(), _merged(_typed(), _text()), _merged(_typed(), _number()), _enumerated(), st.just({})
)
_schemas = st.recursive(_leaves, _wider, max_leaves=5)


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    schema = draw(_schemas)
    if "$ref" in str(schema):
        schema = {**schema, "$defs": {"d0": draw(_schemas), "d1": draw(_schemas)}}
    return schema


def _left_out(below: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Keywords that are not enforced, or not always."""
    names = st.sampled_from(NAMES)
    some_names = st.lists(names, unique=True, max_size=2)
    patterns = st.sampled_from(["a", "^b", "^(?:a|c)$", "x"])
    objects = _optional(
        patternProperties=st.dictionaries(patterns, below, max_size=2),
        additionalProperties=st.one_of(st.booleans(), below),
        propertyNames=st.one_of(below, st.just({"type": "string"}), some_names.map(lambda n: {"enum": [*n, "x"]})),
        minProperties=st.integers(0, 2),
        maxProperties=small,
        dependentRequired=st.dictionaries(names, some_names, max_size=1),
        dependentSchemas=st.dictionaries(names, below, max_size=1),
        unevaluatedProperties=below,
    )
    arrays = _optional(
        contains=below, minContains=small, maxContains=small, uniqueItems=st.booleans(), unevaluatedItems=below
    )
    conditions = _optional(**{"if": below, "then": below, "else": below, "not": below})
    choices = st.lists(below, min_size=1, max_size=3).map(lambda b: {"oneOf": b})
    odd = st.sampled_from(
        [
            {"format": "color"},
            {"pattern": "(a)\\1"},
            {"minLenght": 3},
            {"multipleOf": 0.7},
            {"$dynamicRef": "#"},
            {"not": {}},
        ]
    )
    closed = st.fixed_dictionaries(
        {
            "patternProperties": st.dictionaries(patterns, below, min_size=1, max_size=2),
            "additionalProperties": st.one_of(st.just(False), below),
        }
    )
    return st.one_of(closed, objects, arrays, conditions, choices, odd)


_loose = st.recursive(
    _leaves,
    lambda below: st.one_of(_wider(below), _left_out(below), _merged(_wider(below), _left_out(below))),
    max_leaves=5,
)


@st.composite
def loose_schemas(draw: st.DrawFn) -> Any:
    """Schemas with keywords that are not enforced, anywhere in them."""
    schema = draw(st.one_of(_loose, _left_out(_leaves), _merged(_object(_leaves), _left_out(_leaves))))
    if "$ref" in str(schema):
        schema = {**schema, "$defs": {"d0": draw(_loose), "d1": draw(_loose)}}
    return schema


def texts(value: Any, limit: int = 60) -> Iterator[str]:
    """The value as compact JSON in every order of its objects' keys, up to a number of texts. Integers have no
    fraction."""
    return itertools.islice(_texts(value), limit)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for order in itertools.permutations(value):
            for members in itertools.product(*(list(itertools.islice(_texts(value[k]), 24)) for k in order)):
                yield "{" + ",".join(f"{json.dumps(k)}:{m}" for k, m in zip(order, members, strict=True)) + "}"
    elif isinstance(value, list):
        for items in itertools.product(*(list(itertools.islice(_texts(item), 24)) for item in value)):
            yield "[" + ",".join(items) + "]"
    else:
        yield json.dumps(value, ensure_ascii=False)
