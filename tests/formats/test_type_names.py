"""Tools whose schemas name types in other ways than the standard does: parser and grammar read them alike."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_format_grammar import NAMES, vocabulary

import narrows
from narrows import formats
from narrows.errors import GrammarError, NarrowsError
from narrows.tools.type_names import standard_types

PLAIN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "zip": {"type": "string"},
        "on": {"type": "boolean"},
        "sizes": {"type": "array", "items": {"type": "number"}},
        "either": {"type": ["string", "null"]},
        "any": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/word"}]},
        "type": {"type": "object", "properties": {"type": {"enum": ["STRING", "INTEGER"]}}},
    },
    "required": ["count", "zip", "on", "sizes", "type"],
    "additionalProperties": {"type": "integer"},
    "$defs": {"word": {"type": "null"}},
}
ARGUMENTS = {
    "count": 5,
    "zip": "5",
    "on": True,
    "sizes": [1.5],
    "either": None,
    "any": 3,
    "type": {"type": "STRING"},
    "more": 7,
}


def spelled(schema: Any, change: Any) -> Any:
    """The schema with other names of types, and all else as it is."""
    if isinstance(schema, list):
        return [spelled(item, change) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {}
    for key, value in schema.items():
        if key == "type" and not isinstance(value, dict):
            made[key] = [change(name) for name in value] if isinstance(value, list) else change(value)
        else:
            made[key] = value if key == "enum" else spelled(value, change)
    return made


OTHERS = {"integer": "int", "number": "float", "boolean": "bool", "string": "str", "array": "list", "object": "dict"}
WAYS = {"upper": str.upper, "title": str.title, "python": lambda name: OTHERS.get(name, name)}


@pytest.mark.parametrize("way", WAYS)
def test_names_are_brought_to_the_standard(way: str) -> None:
    other = spelled(PLAIN, WAYS[way])
    kept = json.dumps(other)
    assert standard_types(other) == PLAIN
    assert json.dumps(other) == kept
    assert standard_types(PLAIN) is PLAIN


def test_data_and_unknown_names_are_left() -> None:
    for schema in (
        {"enum": [{"type": "STRING"}], "default": {"type": "STRING"}, "const": {"type": "INTEGER"}},
        {"type": "TYPE_UNSPECIFIED"},
        {"type": "strin"},
        {"type": 3},
        True,
        None,
    ):
        assert standard_types(schema) is schema
    mixed = {"type": "STRING", "default": {"type": "STRING"}, "examples": [{"type": "X"}]}
    assert standard_types(mixed) == {**mixed, "type": "string"}


def test_a_schema_that_holds_itself() -> None:
    schema: dict[str, Any] = {"type": "OBJECT", "properties": {}}
    schema["properties"]["again"] = schema
    made = standard_types(schema)
    assert made["type"] == "object"
    assert made["properties"]["again"] is made


def test_no_depth_is_too_deep() -> None:
    schema: dict[str, Any] = {"type": "STRING"}
    for _ in range(5_000):
        schema = {"type": "ARRAY", "items": schema}
    made = standard_types(schema)
    for _ in range(5_000):
        assert made["type"] == "array"
        made = made["items"]
    assert made == {"type": "string"}


@pytest.mark.parametrize("name", NAMES)
def test_parser_and_grammar_read_them_alike(name: str) -> None:
    fmt = formats.get(name)
    tools = [{"type": "function", "function": {"name": "f", "parameters": spelled(PLAIN, str.upper)}}]
    arguments = {
        key: value for key, value in ARGUMENTS.items() if name != "minimax_m3" or key not in ("either", "more")
    }
    text = fmt.render({"tool_calls": [{"function": {"name": "f", "arguments": arguments}}]})
    (call,) = fmt.parse(text, tools).tool_calls
    assert (json.loads(call.arguments), call.complete) == (arguments, True)
    plain = [{"name": "f", "parameters": PLAIN}]
    vocab = vocabulary(name, False)[0]
    for some in (tools, plain):
        matcher = vocab.compile(fmt.grammar(some)).matcher()
        assert matcher.accept_bytes(text.encode())
        assert matcher.is_accepting


def test_a_schema_that_is_no_tools_keeps_to_the_standard() -> None:
    with pytest.raises(GrammarError) as error:
        narrows.Grammar.from_json_schema({"type": "INTEGER"})
    assert error.value.pointer == "/type"
    with pytest.raises(NarrowsError):
        formats.get("hermes_json").grammar([{"name": "f", "parameters": {"type": "TYPE_UNSPECIFIED"}}])
