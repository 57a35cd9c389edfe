"""`additional="declared"` beside its definition, said again in plain Python: what a validator allows, without keys that
nobody names."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_schemas import schemas, texts, values

import narrows
from narrows.errors import GrammarError, InputError
from narrows.grammar.json_schema import schema_module
from narrows.grammar.json_schema.families.objects import MOST_IN_ORDER
from narrows.reference import Reference

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
SAYING = ("additionalProperties", "unevaluatedProperties", "patternProperties")


class Definition:
    """Whether a value is allowed: `holds(schemas of one place, value)`."""

    def __init__(self, root: Any) -> None:
        self.root = root

    def holds(self, place: list[Any], value: Any) -> bool:
        named = self.named(place)
        return any(self.fits(alternative, named, value) for alternative in self.alternatives(list(place), [], []))

    def alternatives(self, todo: list[Any], plain: list[Any], met: list[Any]) -> Iterator[list[Any]]:
        """The schemas that hold together, one list for each way of choosing branches."""
        if not todo:
            yield plain
            return
        schema, rest = todo[0], todo[1:]
        if any(schema is one for one in met):
            yield from self.alternatives(rest, plain, met)
            return
        met = [*met, schema]
        if isinstance(schema, bool):
            if schema:
                yield from self.alternatives(rest, plain, met)
            return
        rest = [*rest, *schema.get("allOf", ())]
        if "$ref" in schema:
            rest.append(self.target(schema["$ref"]))
        groups = [schema[keyword] for keyword in ("anyOf", "oneOf") if keyword in schema]
        choices: list[list[Any]] = [[]]
        for group in groups:
            choices = [[*chosen, branch] for chosen in choices for branch in group]
        for chosen in choices:
            yield from self.alternatives([*rest, *chosen], [*plain, schema], met)

    def target(self, reference: str) -> Any:
        node = self.root
        for token in reference.split("/")[1:]:
            node = node[token]
        return node

    def named(self, place: list[Any]) -> set[str]:
        names: set[str] = set()
        todo, met = list(place), []
        while todo:
            schema = todo.pop()
            if isinstance(schema, bool) or any(schema is one for one in met):
                continue
            met.append(schema)
            names |= {*schema.get("properties", ()), *schema.get("required", ())}
            for keyword in ("allOf", "anyOf", "oneOf"):
                todo += schema.get(keyword, ())
            if "$ref" in schema:
                todo.append(self.target(schema["$ref"]))
        return names

    def fits(self, plain: list[Any], named: set[str], value: Any) -> bool:
        listed = any("enum" in schema or "const" in schema for schema in plain)
        for schema in plain:
            alone = {k: v for k, v in schema.items() if k not in ("allOf", "anyOf", "oneOf", "$ref")}
            if not jsonschema_rs.Draft202012Validator({**alone, "$defs": self.root.get("$defs", {})}).is_valid(value):
                return False
        if isinstance(value, dict) and not listed:
            closed = any("properties" in s for s in plain) and not any(k in s for s in plain for k in SAYING)
            if closed and not set(value) <= named:
                return False
            return all(self.holds([self.member(s, key) for s in plain], below) for key, below in value.items())
        if isinstance(value, list) and not listed:
            return all(self.holds([self.item(s, k) for s in plain], below) for k, below in enumerate(value))
        return True

    def member(self, schema: Any, key: str) -> Any:
        return schema.get("properties", {}).get(key, schema.get("additionalProperties", True))

    def item(self, schema: Any, index: int) -> Any:
        prefix = schema.get("prefixItems", [])
        return prefix[index] if index < len(prefix) else schema.get("items", True)


def _references_to_the_root(schema: Any) -> bool:
    return '"#"' in json.dumps(schema)


@SETTINGS
@given(schemas(), st.lists(values, min_size=1, max_size=6))
def test_accepts_what_is_valid_without_keys_that_nobody_names(schema: Any, candidates: list[Any]) -> None:
    assume(isinstance(schema, dict) and not _references_to_the_root(schema))  # parts are validated alone here
    try:
        standard = Reference(schema_module(schema).module)
    except GrammarError as error:
        assume(error.code == "unsatisfiable")
        with pytest.raises(GrammarError, match=r".") as caught:
            schema_module(schema, additional="declared")
        assert caught.value.code == "unsatisfiable"
        return
    oracle = Reference(schema_module(schema, additional="declared").module)  # closing leaves something
    validator = jsonschema_rs.Draft202012Validator(schema)
    definition = Definition(schema)
    for value in candidates:
        valid = validator.is_valid(value)
        wanted = valid and definition.holds([schema], value)
        accepted = [text for text in texts(value) if oracle.accepts(text.encode())]
        assert bool(accepted) == wanted, (schema, value)
        assert all(standard.accepts(text.encode()) for text in accepted), (schema, value)


# A condition may hold or not: its keys stay possible.

CONDITIONAL = [
    {"if": {"properties": {"a": {"const": 1}}}, "then": {"properties": {"x": {"type": "string"}}, "required": ["x"]}},
    {"if": {"properties": {"a": {"const": 1}}}, "else": {"anyOf": [{"required": ["x"]}, {"$ref": "#/$defs/x"}]}},
    {"dependentSchemas": {"a": {"allOf": [{"properties": {"x": True}}]}}},
    {"dependentRequired": {"a": ["x"]}},
    {"dependencies": {"a": ["x"], "b": {"required": ["y"]}}},
    {"then": {"properties": {"x": True}}},
]


@pytest.mark.parametrize("keywords", CONDITIONAL, ids=str)
def test_keys_of_conditions_stay_possible(keywords: dict[str, Any]) -> None:
    schema = {"properties": {"a": {}, "b": {}}, **keywords, "$defs": {"x": {"properties": {"x": True}}}}
    result = schema_module(schema, on_unsupported="ignore", additional="declared")
    oracle = Reference(result.module)
    assert oracle.accepts(b'{"a":1,"x":"s"}')
    assert not oracle.accepts(b'{"a":1,"z":"s"}')
    assert result.report["/properties"] == "under"


OPEN = [
    {"patternProperties": {"^x-": {}}},
    {"unevaluatedProperties": {"type": "string"}},
    {"allOf": [{"patternProperties": {"^x-": {}}}]},
    {"if": {"required": ["a"]}, "then": {"properties": {"a": {}}, "additionalProperties": {"type": "string"}}},
    {"dependentSchemas": {"a": {"patternProperties": {"^x-": {}}}}},
    {"if": True, "then": {"$ref": "https://example.com/other"}},
    {"if": True, "then": {"$dynamicRef": "https://example.com/other#x"}},
    {"$ref": "https://example.com/other"},
    {"$dynamicRef": "https://example.com/other#x"},
    {"minProperties": 2},
    {"properties": {"a": True, "b": False}, "minProperties": 2},
    {"allOf": [{"minProperties": 2}]},
]


@pytest.mark.parametrize("keywords", OPEN, ids=str)
def test_what_says_more_stays_open(keywords: dict[str, Any]) -> None:
    result = schema_module({"properties": {"a": {}}, **keywords}, on_unsupported="ignore", additional="declared")
    assert Reference(result.module).accepts(b'{"a":1,"x-1":"s"}')
    assert result.report["/properties"] == "exact"


SHUT = [
    {"if": True, "then": {"properties": {"a": {}}}},
    {"minProperties": 1},
    {"patternProperties": {}},
    {"propertyNames": {"maxLength": 3}},
    {"not": {"required": ["b"]}},
]


@pytest.mark.parametrize("keywords", SHUT, ids=str)
def test_what_says_no_more_is_closed(keywords: dict[str, Any]) -> None:
    result = schema_module({"properties": {"a": {}}, **keywords}, on_unsupported="ignore", additional="declared")
    assert not Reference(result.module).accepts(b'{"a":1,"x":"s"}')
    assert result.report["/properties"] == "under"


# The option.


def test_the_caller_asked_for_it_so_it_is_no_error() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for how in ("error", "warn", "ignore"):
            grammar = narrows.Grammar.from_json_schema(schema, on_unsupported=how, additional="declared")
            status = grammar.report["/properties"]
            assert (status, "additional" in status.reason) == ("under", True)
    assert set(narrows.Grammar.from_json_schema(schema).report.values()) == {"exact"}


def test_there_are_two_readings() -> None:
    for schema in ({}, {"properties": {}}, True):
        with pytest.raises(InputError, match='"standard" or "declared"'):
            narrows.Grammar.from_json_schema(schema, additional="closed")


def test_masks_leave_undeclared_keys_out() -> None:
    vocabulary = narrows.Vocabulary([bytes([b]) for b in range(256)] + [b""], special={"<end>": 256}, eos=[256])
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    for additional, fits in (("standard", True), ("declared", False)):
        grammar = narrows.Grammar.from_json_schema(schema, additional=additional)
        matcher = vocabulary.compile(grammar).matcher()
        assert matcher.accept_bytes(b'{"city":"Paris"')
        assert matcher.accepts([ord(",")]) == fits
        assert matcher.accepts([ord("}")])


@pytest.mark.parametrize("count", [MOST_IN_ORDER, MOST_IN_ORDER + 1])
def test_many_keys_of_other_branches(count: int) -> None:
    """In order while they are few; in any order where they are many. Either way none that nobody names."""
    others = [f"k{i}é" for i in range(count)]
    schema = {
        "type": "object",
        "anyOf": [
            {"properties": {"a": {"const": 1}}, "required": ["a"]},
            {"properties": dict.fromkeys(others, True), "required": others[:1]},
        ],
    }
    oracle = Reference(schema_module(schema, additional="declared", whitespace="compact").module)
    last, first = json.dumps(others[-1], ensure_ascii=False), json.dumps(others[0])
    assert oracle.accepts(f'{{"a":1,{first}:[],{last}:2}}'.encode())
    assert oracle.accepts(f'{{"a":1,{last}:2,{first}:[]}}'.encode()) is (count > MOST_IN_ORDER)
    assert not oracle.accepts(b'{"a":1,"b":1}')
    assert oracle.accepts(f'{{{first}:1,"a":"x"}}'.encode())
