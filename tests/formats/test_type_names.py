"""Tools whose schemas name types in other ways than the standard does: parser and grammar read them alike."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_format_grammar import NAMES, vocabulary

import narrows
from narrows import formats
from narrows.errors import GrammarError, NarrowsError
from narrows.grammar import ir
from narrows.grammar.json_schema import schema_rules
from narrows.reference import Reference
from narrows.tools.request import read_tools

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
    copy = {}
    for key, value in schema.items():
        if key == "type" and not isinstance(value, dict):
            copy[key] = [change(name) for name in value] if isinstance(value, list) else change(value)
        else:
            copy[key] = value if key == "enum" else spelled(value, change)
    return copy


OTHERS = {"integer": "int", "number": "float", "boolean": "bool", "string": "str", "array": "list", "object": "dict"}
WAYS = {"upper": str.upper, "title": str.title, "python": lambda name: OTHERS.get(name, name)}


@pytest.mark.parametrize("way", WAYS)
def test_names_of_others_mean_the_standards(way: str) -> None:
    other = spelled(PLAIN, WAYS[way])
    kept = json.dumps(other)
    standard = schema_rules(PLAIN)
    foreign = schema_rules(other, for_tool=True)
    assert (foreign.rules, foreign.report) == (standard.rules, standard.report)
    there, here = (read_tools([{"name": "f", "parameters": schema}]).place("f") for schema in (other, PLAIN))
    for name in PLAIN["properties"]:
        assert there.member(name).kind == here.member(name).kind
    assert there.member("sizes").item(0).kind == here.member("sizes").item(0).kind
    assert json.dumps(other) == kept


def test_wherever_a_reference_leads() -> None:
    """Also where no keyword of the standard holds schemas."""
    schema = {"properties": {"n": {"$ref": "#/shared/number"}}, "shared": {"number": {"type": "INTEGER"}}}
    assert read_tools([{"name": "f", "parameters": schema}]).place("f").member("n").types == {"integer"}
    assert schema_rules(schema, for_tool=True, on_unsupported="ignore").report["/shared/number/type"] == "exact"


def test_data_is_left() -> None:
    schema = {"enum": [{"type": "STRING"}], "default": {"type": "STRING"}}
    text = '{"type":"STRING"}'
    rules = schema_rules(schema, for_tool=True)
    module = ir.Module(rules.rules, rules.start)
    assert Reference(module).accepts(text.encode())
    assert not Reference(module).accepts(text.lower().encode())


@pytest.mark.parametrize("name", ["TYPE_UNSPECIFIED", "strin", "STRIN", 3, ["STRING", "any"], "x" * 100_000])
def test_what_nobody_knows_is_refused(name: Any) -> None:
    with pytest.raises(GrammarError) as error:
        schema_rules({"type": name}, for_tool=True)
    assert (error.value.code, error.value.pointer) == ("schema_invalid", "/type")


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
