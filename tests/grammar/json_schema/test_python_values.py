"""A schema made in Python may hold what JSON cannot say: it is refused, or means what the JSON beside it means; never
left out in silence."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from typing import Any

import numpy as np
import pytest

from narrows import Grammar, GrammarError, LimitError


class Text(str):
    __slots__ = ()


class Listed(list):  # type: ignore[type-arg]
    pass


class Number(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    "value",
    [{1}, b"x", math.nan, math.inf, Decimal("NaN"), np.int64(2), np.float64(2), np.array([2]), object(), range(2), 1j],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_json_cannot_say_is_refused(value: Any) -> None:
    for schema, pointer in (
        ({"enum": ["a", value]}, "/enum"),
        ({"const": value}, "/const"),
        ({"const": {"a": [value]}}, "/const"),
        ({"minimum": value}, "/minimum"),
    ):
        with pytest.raises(GrammarError) as caught:
            Grammar.from_json_schema(schema)
        assert (caught.value.code, caught.value.pointer) == ("schema_invalid", pointer)


@pytest.mark.parametrize("keyword", ["minimum", "maximum", "multipleOf", "minLength", "minItems"])
def test_a_boolean_is_no_number(keyword: str) -> None:
    with pytest.raises(GrammarError, match="not true") as caught:
        Grammar.from_json_schema({keyword: True})
    assert caught.value.pointer == f"/{keyword}"


def cycle_of_dicts() -> Any:
    schema: OrderedDict[str, Any] = OrderedDict(type="array")
    schema["items"] = schema
    return schema


def cycle_in_a_value() -> Any:
    value = Listed()
    value.append(value)
    return {"const": value}


def cycle_of_lists() -> Any:
    branches = Listed()
    branches.append({"allOf": branches})
    return {"allOf": branches}


def cycle_and_surrogate() -> Any:
    value: list[Any] = []
    value.append(value)
    return {"a": value, "b": "\ud800"}


def deep() -> Any:
    schema = OrderedDict[str, Any]()
    for _ in range(5_000):
        schema = OrderedDict(items=schema)
    return schema


@pytest.mark.parametrize(
    "make", [cycle_of_dicts, cycle_in_a_value, cycle_of_lists, deep], ids=lambda make: make.__name__
)
def test_a_subclass_counts_as_what_it_is(make: Callable[[], Any]) -> None:
    with pytest.raises(LimitError) as caught:
        Grammar.from_json_schema(make())
    assert caught.value.limit == "schema_depth"


@pytest.mark.parametrize("schema", [cycle_and_surrogate(), {"const": Text("\ud800")}, {"required": [Text("\ud800")]}])
def test_half_a_pair_is_found(schema: Any) -> None:
    with pytest.raises(GrammarError, match="surrogate"):
        Grammar.from_json_schema(schema)


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        (OrderedDict(properties=OrderedDict(a={"type": "null"})), {"properties": {"a": {"type": "null"}}}),
        ({"enum": (Text("a"), Number.ONE)}, {"enum": ["a", 1]}),
        ({Text("type"): Text("string")}, {"type": "string"}),
    ],
)
def test_what_is_json_but_for_its_class_means_the_same(schema: Any, plain: Any) -> None:
    made, wanted = Grammar.from_json_schema(schema), Grammar.from_json_schema(plain)
    assert repr(made.module.rules) == repr(wanted.module.rules)
    assert made.report == wanted.report
