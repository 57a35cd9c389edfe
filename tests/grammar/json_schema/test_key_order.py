"""All cases with `key_order="any"`: what is valid stays so in every order of its keys, and nothing invalid comes in."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_schemas import schemas
from schema_cases import has_validator, load, validator
from test_schema_engine import VOCABULARY, generate

import narrows
from narrows.errors import GrammarError

CASES = load("case", lambda case: has_validator(case) and "key_order" not in case.get("options", {}))


def shuffled(value: Any, choose: random.Random) -> Any:
    """The same with the keys of all objects in another order."""
    if isinstance(value, dict):
        keys = list(value)
        choose.shuffle(keys)
        return {key: shuffled(value[key], choose) for key in keys}
    return [shuffled(item, choose) for item in value] if isinstance(value, list) else value


def in_orders(text: str, choose: random.Random, options: dict[str, Any]) -> list[str]:
    """The text, and the same with its keys in other orders, where that can be written as the text was."""

    def written(value: Any) -> str:
        separators = (", ", ": ") if options.get("whitespace") == "json.dumps" else (",", ":")
        return json.dumps(value, ensure_ascii=False, separators=separators)

    value = json.loads(text)
    return [text, *(written(shuffled(value, choose)) for _ in range(4))] if written(value) == text else [text]


@pytest.mark.parametrize("case", CASES)
def test_texts_in_every_order(case: dict[str, Any]) -> None:
    options = case.get("options", {})
    constraint = VOCABULARY.compile(narrows.Grammar.from_json_schema(case["schema"], **{**options, "key_order": "any"}))
    choose = random.Random(1)
    written = in_orders if case.get("orders", True) else lambda text, *_: [text]
    wanted = {text: True for valid in case["valid"] for text in written(valid, choose, options)}
    wanted.update({text: False for bad in case.get("invalid", ()) for text in in_orders(bad, choose, options)})
    found = {}
    for text in wanted:
        matcher = constraint.matcher()
        found[text] = matcher.accept_bytes(text.encode()) and matcher.is_accepting
    assert found == wanted


@pytest.mark.parametrize("case", CASES)
def test_generated_texts_are_valid(case: dict[str, Any]) -> None:
    options = {**case.get("options", {}), "key_order": "any"}
    constraint = VOCABULARY.compile(narrows.Grammar.from_json_schema(case["schema"], **options))
    judge, choose = validator(case), random.Random(1)
    for _ in range(5):
        text = generate(constraint.matcher(), choose, 40)
        assert judge.is_valid(json.loads(text)), text


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(schemas(), st.integers(0, 2**32))
def test_generated_texts_of_random_schemas_are_valid(schema: Any, seed: int) -> None:
    try:
        constraint = VOCABULARY.compile(narrows.Grammar.from_json_schema(schema, key_order="any"))
    except GrammarError:
        assume(False)
    judge, choose = jsonschema_rs.Draft202012Validator(schema), random.Random(seed)
    for _ in range(4):
        text = generate(constraint.matcher(), choose, 25)
        assert judge.is_valid(json.loads(text)), (schema, text)


ENDLESS = {"$ref": "#/$defs/endless"}
ITSELF = {"$ref": "#/properties/x"}
IMPOSSIBLE = {
    "patterns that exclude each other": {"type": "string", "pattern": "^a", "allOf": [{"pattern": "^b"}]},
    "an enumeration beside a pattern": {"type": "string", "enum": ["a", "b"], "pattern": "^c"},
    "nested without end": ENDLESS,
    "an array of them": {"type": "array", "items": ENDLESS, "minItems": 1},
    "an object of them": {"type": "object", "properties": {"q": ENDLESS}, "required": ["q"]},
    "an object with too many keys": {
        "type": "object",
        "minProperties": 2,
        "properties": {"a": True},
        "additionalProperties": False,
    },
    "an object with as many keys as have an end and one": {
        "type": "object",
        "minProperties": 2,
        "properties": {"a": True, "b": ITSELF},
        "patternProperties": {"^c": ITSELF},
        "additionalProperties": False,
    },
    "an object with some key of a kind that has no end": {
        "type": "object",
        "properties": {"a": True},
        "additionalProperties": ITSELF,
        "not": {"propertyNames": {"not": {"pattern": "^(?!a)"}}},
    },
}
HOLDS_ITSELF = {"type": "object", "required": ["q"], "properties": {"q": ITSELF}}
IMPOSSIBLE |= {
    "an array with an item that has no end": {"type": "array", "contains": HOLDS_ITSELF},
    "an array with one of them at the second place": {
        "type": "array",
        "items": {"anyOf": [{"const": 1}, HOLDS_ITSELF]},
        "minItems": 2,
        "contains": {"const": 1},
        "maxContains": 1,
    },
    "an array with an item of two kinds, which has no end": {
        "type": "array",
        "contains": {"type": ["object", "integer"], "properties": {"q": ITSELF}},
        "items": {"anyOf": [{"type": "object", "required": ["q"]}, {"type": "string"}]},
    },
    "an object with three keys, of which two and two come together": {
        "type": "object",
        "properties": {"a": True, "b": True, "c": True, "d": True, "e": ITSELF},
        "dependentRequired": {"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]},
        "additionalProperties": False,
        "minProperties": 3,
        "maxProperties": 3,
    },
    "an array with too many items for one that has an end": {
        "type": "array",
        "contains": HOLDS_ITSELF,
        "minContains": 0,
        "maxContains": 1,
        "prefixItems": [{"type": "null"}, HOLDS_ITSELF],
        "minItems": 2,
    },
}
ROUND: list[dict[str, Any]] = [
    {"additionalProperties": False},
    {"additionalProperties": False, "minProperties": 1},
    {"additionalProperties": False, "minProperties": 2},
    {"minProperties": 2, "maxProperties": 3},
    {"required": ["x"]},
    {"dependentRequired": {"a": ["x"]}},
]
TEXTS = ["{", '{"a":1', '{"a":1,', '{"x"', '{"z":', '{"a":1}', "{}", '{"a":1,"z":1']


@pytest.mark.parametrize("around", ROUND, ids=str)
@pytest.mark.parametrize("impossible", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_key_without_a_value_leads_nowhere(impossible: dict[str, Any], around: dict[str, Any]) -> None:
    """In the order that is declared the engine sees it; in any order the grammar has to."""
    endless = {"type": "object", "properties": {"n": ENDLESS}, "required": ["n"]}
    schema = {"type": "object", "properties": {"a": {"const": 1}, "x": impossible}, "$defs": {"endless": endless}}

    def prefixes(key_order: str) -> list[bool]:
        try:
            grammar = narrows.Grammar.from_json_schema({**schema, **around}, key_order=key_order, whitespace="compact")
            constraint = VOCABULARY.compile(grammar)
        except GrammarError as error:
            return [error.code == "unsatisfiable"]
        found = []
        for text in TEXTS:
            matcher = constraint.matcher()
            found.append(matcher.accept_bytes(text.encode()))
            if found[-1]:
                assert all(matcher.accept(token) for token in matcher.shortest_end()), text
                assert matcher.is_accepting or matcher.is_finished, text
        return found

    assert prefixes("any") == prefixes("declared")


ANY_KEY = {"not": {"additionalProperties": False}}
A_STRING = {"not": {"additionalProperties": {"not": {"type": "string"}}}}
TO_AN_END: dict[str, dict[str, Any]] = {
    "values like the whole, which one may do without": {
        **ANY_KEY,
        "patternProperties": {"^(a|b)": {"$ref": "#"}},
        "dependentRequired": {"ab": ["a"]},
    },
    "one key for two of its kind": {
        "type": "object",
        "properties": {"a": {"$ref": "#"}},
        "allOf": [ANY_KEY, A_STRING, {"not": {"patternProperties": {"^x": False}}}],
    },
    "a reading that is like the whole beside one that ends": {
        "oneOf": [
            {"type": "object"},
            {"allOf": [{"not": {"propertyNames": {}}}], "dependentRequired": {"a": ["ab"]}},
        ],
        "properties": {"a": {"not": {"maxProperties": 1}, "$ref": "#"}, "xa": {"type": "number"}},
    },
    "a named key that is long": {
        "type": "object",
        "properties": {"a": {"$ref": "#"}, "b": {"const": "x" * 100}},
        "required": ["b"],
        **A_STRING,
    },
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", ["", "{", '{"', '{"a', '{"a":', '{"a":{', '{"xa":1', '{"xa":1,', '{"b'])
@pytest.mark.parametrize("schema", TO_AN_END.values(), ids=TO_AN_END)
def test_a_shortest_end_needs_no_more_keys_than_are_asked_for(schema: dict[str, Any], text: str) -> None:
    """Values that are like the whole went round for ever, where a guard had another way."""
    grammar = narrows.Grammar.from_json_schema(schema, key_order="any", whitespace="compact")
    matcher = VOCABULARY.compile(grammar).matcher()
    assert matcher.accept_bytes(text.encode())
    assert all(matcher.accept(token) for token in matcher.shortest_end())
    assert matcher.is_accepting or matcher.is_finished
