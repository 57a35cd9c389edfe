"""The order of a schema's keywords does not decide: not what is allowed, not what the report says, and not which error
is raised."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from schema_cases import CASES, load

from narrows.errors import NarrowsError
from narrows.grammar.json_schema import schema_module
from narrows.grammar.json_schema.keywords import KNOWN

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DATA = tomllib.loads((CASES / "keyword_samples.toml").read_text(encoding="utf-8"))
SAMPLES: dict[str, list[Any]] = {keyword: list(map(json.loads, texts)) for keyword, texts in DATA["samples"].items()}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"on_unsupported": "ignore"},
    {"on_unsupported": "ignore", "additional": "declared"},
]
BESIDE: list[dict[str, Any]] = [{}, {"type": "string"}, {"type": "object"}, {"type": ["array", "number"]}]


def reading(schema: Any, **options: Any) -> tuple[object, ...]:
    """All that a reader of the schema sees."""
    try:
        result = schema_module(schema, **options)
    except NarrowsError as error:
        return type(error), error.code, error.pointer, str(error), error.hint
    report = {pointer: (str(status), status.reason) for pointer, status in result.report.items()}
    return report, list(result.module.rules.items()), result.module.start, result.module.sources


def test_every_keyword_has_a_sample() -> None:
    assert set(SAMPLES) >= KNOWN


@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("first", SAMPLES)
def test_pairs(first: str, half: int) -> None:
    seconds = list(SAMPLES)[list(SAMPLES).index(first) + 1 :][half::2]
    ways = [*((beside, {}) for beside in BESIDE), *(({}, options) for options in OPTIONS[1:])]
    for second, (beside, options) in itertools.product(seconds, ways):
        if beside and "type" in (first, second):
            continue
        for one, other in itertools.product(SAMPLES[first], SAMPLES[second]):
            there = reading({first: one, second: other, **beside}, **options)
            back = reading({**beside, second: other, first: one}, **options)
            assert there == back, (first, one, second, other, beside, options)


@pytest.mark.parametrize("text", [case["text"] for case in DATA["schema"]])
def test_all_orders(text: str) -> None:
    schema = json.loads(text)
    for options in OPTIONS:
        wanted = reading(schema, **options)
        for order in itertools.permutations(schema):
            assert reading({keyword: schema[keyword] for keyword in order}, **options) == wanted, order


NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
DATA_KEYWORDS = ("enum", "const", "default", "examples", "example")


def reversed_keywords(schema: Any) -> Any:
    """The schema with the keywords in it the other way round; names, such as those of `properties`, stay in order."""
    if isinstance(schema, list):
        return [reversed_keywords(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return dict(reversed(list(_parts(schema))))


def _parts(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for keyword, value in schema.items():
        if keyword in NAMED and isinstance(value, dict):
            yield keyword, {name: reversed_keywords(part) for name, part in value.items()}
        else:
            yield keyword, value if keyword in DATA_KEYWORDS else reversed_keywords(value)


@pytest.mark.parametrize("case", load("case") + load("ignored") + load("error"))
def test_the_cases_with_their_keywords_reversed(case: dict[str, Any]) -> None:
    try:
        schema = json.loads(case["schema"])
    except (ValueError, RecursionError):
        return  # the text is no JSON, and has no order
    for options in ({}, {"on_unsupported": "ignore"}):
        options = {**options, **case.get("options", {})}
        assert reading(reversed_keywords(schema), **options) == reading(schema, **options)
