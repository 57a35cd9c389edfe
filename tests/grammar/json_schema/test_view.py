"""What a schema lets stand where: types, members and items, derived from what the keyword families say."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_schemas import loose_schemas, values

from narrows.grammar.json_schema.view import place_of
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.value_types import JSON_TYPES, LOOSE, LOOSE_NOWHERE, UNTYPED, Place

ANY = JSON_TYPES


def place(schema: Any, limits: Limits = DEFAULT_LIMITS) -> Place:
    return place_of(schema, limits)


def types(schema: Any, **more: Any) -> set[str]:
    """The types of the member x."""
    return set(place({"properties": {"x": schema}, **more}).member("x").kind.types)


TREE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        "t": {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": {"type": "boolean"}},
        "u": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
        "m": {"type": "object", "additionalProperties": {"type": "number"}},
        "any": {},
    },
    "allOf": [{"properties": {"a": {"maxItems": 3}}}],
    "$defs": {
        "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"type": ["integer", "null"]}}}
    },
}


def test_places() -> None:
    root = place(TREE)
    node = root.member("a").item(0)
    assert root.names == {"a", "t", "u", "m", "any"}
    assert root.member("a").types == {"array"}
    assert node.types == {"object"}
    assert node.member("next").member("next") is node.member("next").member("next").member("next")
    assert node.member("n").types == {"integer", "null"}
    assert [min(root.member("t").item(i).types) for i in (0, 1, 2, 500)] == ["string", "integer", "boolean", "boolean"]
    assert root.member("u").types == {"object", "null"}
    assert root.member("u").member("n").types == {"integer", "null"}
    assert root.member("m").member("x").types == {"integer", "number"}
    assert root.names_all
    assert not root.member("m").names_all
    assert not root.member("nowhere").typed
    assert root.member("any").typed


def test_which_elements_make_an_array() -> None:
    root = place(TREE)
    assert root.member("any").is_array("item")
    assert not root.member("any").is_array("x")
    assert root.member("nowhere").is_array("item")
    assert not root.member("u").is_array("item")
    item = {"properties": {"item": {}}}
    assert place({"properties": {"x": {"anyOf": [{"type": "array"}, item]}}}).member("x").is_array("item")
    assert not place({"properties": {"x": {"type": ["array", "object"], **item}}}).member("x").is_array("item")


KINDS: list[tuple[Any, dict[str, Any], set[str]]] = [  # the schema of x, what stands beside `properties`, its types
    (True, {}, set(ANY)),
    (False, {}, {"string"}),
    ({"type": "number"}, {}, {"integer", "number"}),
    ({"type": "INTEGER"}, {}, {"integer"}),
    ({"type": ["Float", "null"]}, {}, {"integer", "number", "null"}),
    ({"type": "integer", "nullable": True}, {}, {"integer", "null"}),
    (
        {"type": "integer", "minLength": 3, "uniqueItems": True, "not": {"const": 3}, "unknown": 1},
        {},
        {"integer"},
    ),
    ({"type": ["integer", "string"], "not": {"type": "string"}}, {}, {"integer"}),
    ({"type": "integer", "not": {"type": "integer"}}, {}, {"string"}),
    ({"enum": [1, 2.5, None]}, {}, {"integer", "number", "null"}),
    ({"enum": [1, None], "type": ["integer", "string"]}, {}, {"integer"}),
    ({"const": True}, {}, {"boolean"}),
    ({"allOf": [{"type": ["integer", "string"]}, {"type": ["integer", "null"]}]}, {}, {"integer"}),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}], "type": ["integer", "string"]}, {}, {"integer"}),
    ({"$ref": "#k"}, {"$defs": {"a": {"$anchor": "k", "type": "integer"}}}, {"integer"}),
    ({"$ref": "#k"}, {"$defs": {"a": {"$id": "#k", "type": "integer"}}}, {"integer"}),
    ({"$ref": "b"}, {"$id": "http://a/a", "$defs": {"a": {"$id": "b", "type": "integer"}}}, {"integer"}),
    ({"$ref": "http://a/b"}, {"$defs": {"a": {"$id": "http://a/b", "type": "integer"}}}, {"integer"}),
    ({"$ref": "#/$defs/a~1b%20c"}, {"$defs": {"a/b c": {"$ref": "#/$defs/d"}, "d": {"type": "null"}}}, {"null"}),
    ({"$dynamicRef": "#k"}, {"$defs": {"a": {"$dynamicAnchor": "k", "type": "integer"}}}, {"integer"}),
    ({"$ref": "#/$defs/a", "type": ["null", "string"]}, {"$defs": {"a": {"type": ["integer", "null"]}}}, {"null"}),
    (
        {"$ref": "#/$defs/a", "type": "string"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "$defs": {"a": {"type": "integer"}}},
        {"integer"},
    ),
    # What is wrong in one keyword does not hide the others.
    ({"type": "integer", "minimum": "3", "required": True, "items": "x"}, {"required": "x"}, {"integer"}),
    ({"type": "integer", "$ref": "https://elsewhere/schema"}, {}, {"integer"}),
    ({"type": "integer", "$ref": "#/nowhere", "anyOf": 3}, {}, {"integer"}),
    ({"type": "whatever"}, {}, set(ANY)),
    ({"type": ["integer", "any"]}, {}, set(ANY)),
    ("integer", {}, set(ANY)),
    ({"type": "integer", "description": "half \ud800"}, {}, {"integer"}),
    # What leads back to itself allows anything.
    ({"$ref": "#/properties/x"}, {}, set(ANY)),
    ({"anyOf": [{"type": "integer"}, {"$ref": "#/properties/x"}]}, {}, set(ANY)),
]


@pytest.mark.parametrize(("schema", "more", "wanted"), KINDS, ids=[json.dumps(s)[:60] for s, _, _ in KINDS])
def test_types(schema: Any, more: dict[str, Any], wanted: set[str]) -> None:
    assert types(schema, **more) == wanted


def test_who_speaks_of_a_member() -> None:
    root = place(
        {
            "allOf": [
                {"properties": {"x": {"type": ["integer", "string"]}}},
                {"properties": {"x": {"type": ["integer", "null"]}}},
            ],
            "anyOf": [{"properties": {"y": {"type": "integer"}}}, {"properties": {"y": {"type": "null"}, "z": {}}}],
        }
    )
    assert root.names == {"x", "y", "z"}
    assert root.member("x").types == {"integer"}
    assert root.member("y").types == {"integer", "null"}
    assert root.member("z").types == ANY
    others = {"additionalProperties": {"type": "integer"}}
    assert place(others).member("y").types == {"integer"}
    assert place({"allOf": [{"properties": {"x": {}}}, others]}).member("x").types == {"integer"}
    assert place({"allOf": [{"properties": {"x": {"type": "null"}}}], **others}).member("x").types == {"null"}
    assert place({"properties": {}}).member("y").kind == UNTYPED
    assert place_of({"properties": {}}, DEFAULT_LIMITS, LOOSE_NOWHERE).member("y").kind is LOOSE


ENUMS: list[tuple[Any, set[str] | None]] = [
    ({"enum": ["1", 2, None]}, {"1"}),
    ({"enum": ["1", "2"]}, None),
    ({"enum": [1, 2]}, None),
    ({"$ref": "#/$defs/e"}, {"1", "2"}),
    ({"allOf": [{"$ref": "#/$defs/e"}, {"enum": ["1", "3", 2]}]}, {"1"}),
    ({"anyOf": [{"$ref": "#/$defs/e"}, {"type": "string"}]}, None),
]


@pytest.mark.parametrize(("schema", "wanted"), ENUMS)
def test_enums_of_several_types(schema: Any, wanted: set[str] | None) -> None:
    root = place({"properties": {"x": schema}, "$defs": {"e": {"enum": ["1", "2", 2]}}})
    assert root.member("x").kind.members == wanted


# Whatever the schema.

junk = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-2, 3), st.sampled_from(["", "string", "#", "#/a", "a", "integer"])
    ),
    lambda below: st.one_of(
        st.lists(below, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ("type", "properties", "items", "prefixItems", "anyOf", "allOf", "oneOf", "$ref", "enum", "const",
                 "$id", "$anchor", "$dynamicRef", "$recursiveRef", "$defs", "additionalProperties", "required",
                 "nullable", "a", "minItems", "minimum", "pattern", "format", "propertyNames", "$schema")
            ),
            below,
            max_size=4,
        ),
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(junk)
def test_nothing_is_refused(schema: Any) -> None:
    todo = [place(schema)]
    for _ in range(20):
        here = todo.pop()
        assert here.types <= ANY
        assert here.kind.types
        assert here.is_array("item") in (True, False)
        todo += [here.member("a"), here.member("type"), here.item(0), here.item(3), here.other_member()]
        assert here.names_all in (True, False)


def type_name(value: Any) -> str:
    names = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return names.get(type(value), "object")


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(loose_schemas(), values)
def test_never_too_few_types(schema: Any, value: Any) -> None:
    if jsonschema_rs.Draft202012Validator(schema).is_valid(value):
        assert type_name(value) in place(schema).types


def test_a_schema_that_holds_itself() -> None:
    schema: dict[str, Any] = {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}
    schema["properties"]["again"] = schema
    assert place(schema).types == ANY  # no JSON can say this; it has no end


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {"anyOf": [schema]}
    return schema


LARGE: dict[str, Any] = {
    "deep": nested(30_000),
    "wide": {"anyOf": [{"type": "integer", "minimum": i} for i in range(200_000)]},
    "an endless chain": {"$ref": "#/$defs/0"},
}


@pytest.mark.parametrize("name", LARGE)
def test_a_schema_that_never_ends_costs_little(name: str) -> None:
    chain = {str(i): {"allOf": [{"$ref": f"#/$defs/{i + 1}"}]} for i in range(100_000)}
    schema = {
        "properties": {"x": LARGE[name], "y": {"type": "null"}},
        "$defs": chain if name == "an endless chain" else {},
    }
    begin = time.process_time()
    root = place(schema)
    assert root.member("x").types == ANY
    for k in range(1_000):
        root.member(f"other {k}")
    assert time.process_time() - begin < 5


def test_work_is_bounded() -> None:
    schema = {"properties": {f"p{i}": {"anyOf": [{"type": "integer"}] * 10} for i in range(1_000)}}
    root = place(schema, Limits(reading_work=20_000))
    seen = [root.member(f"p{i}").types for i in range(1_000)]
    assert seen[0] == {"integer"}
    assert seen[-1] == ANY


def test_a_schema_that_is_too_large_allows_anything() -> None:
    for limits in (Limits(schema_bytes=20), Limits(schema_depth=1), Limits(reading_work=3)):
        root = place({"properties": {"x": {"type": "integer"}}}, limits)
        assert root.member("x").types == ANY
        assert root.member("x").item(3).member("y").types == ANY


def test_each_place_is_read_once() -> None:
    """Many parameters that refer to one large definition cost it once."""
    schema = {
        "properties": {f"p{i}": {"$ref": "#/$defs/many"} for i in range(2_000)},
        "$defs": {"many": {"anyOf": [{"type": "integer", "minimum": i} for i in range(5_000)]}},
    }
    root = place(schema)
    assert all(root.member(f"p{i}").types == {"integer"} for i in range(2_000))


def test_the_order_of_keywords_does_not_decide() -> None:
    schema = {"$ref": "#/$defs/d", "type": ["integer", "string"], "nullable": True, "enum": [1, None, "a"]}
    wanted = types(schema, **{"$defs": {"d": {"type": ["integer", "null"]}}})
    assert wanted == {"integer", "null"}
    for order in itertools.permutations(schema):
        assert types({k: schema[k] for k in order}, **{"$defs": {"d": {"type": ["integer", "null"]}}}) == wanted
