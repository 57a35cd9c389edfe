"""Raw values become JSON by the schema, and what is streamed of them never contradicts that."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transcripts import CASES, feed

from narrows import formats
from narrows.stream import collect
from narrows.stream.coerce import decide, parameter_type, to_json

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ENTRIES = tomllib.loads((CASES / "coercion.toml").read_text(encoding="utf-8"))["case"]
PAIRS = [
    pytest.param(entry, text, wanted, id=f"{entry['schema']} {text!r}")
    for entry in ENTRIES
    for text, wanted in entry["values"]
]


def schema_of(entry: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"x": json.loads(entry["schema"])}}
    return {**schema, "$defs": json.loads(entry["defs"])} if "defs" in entry else schema


@pytest.mark.parametrize(("entry", "text", "wanted"), PAIRS)
def test_value(entry: dict[str, Any], text: str, wanted: str) -> None:
    kind = parameter_type(schema_of(entry), "x")
    assert to_json(text, kind, 100) == wanted.replace("\n", "\\n")


@pytest.mark.parametrize(("entry", "text", "wanted"), PAIRS)
def test_value_through_the_parser(entry: dict[str, Any], text: str, wanted: str) -> None:
    tools = [{"function": {"name": "f", "parameters": schema_of(entry)}}]
    raw = f"<tool_call>\n<function=f>\n<parameter=x>\n{text}\n</parameter>\n</function>\n</tool_call>"
    message = collect(feed(formats.get("qwen3_xml").parser(tools), list(raw)))
    assert message.tool_calls[0].arguments == '{"x": ' + wanted.replace("\n", "\\n") + "}"
    assert message == formats.get("qwen3_xml").parse(raw, tools, id_factory=lambda index: message.tool_calls[0].id)


@settings(max_examples=300)
@given(st.sampled_from(ENTRIES), st.text(alphabet='nul{}[]" 5.-etrfas\n', max_size=12))
def test_a_decision_holds(entry: dict[str, Any], text: str) -> None:
    """What is called a string while it grows is a string when it has ended, and the result is always JSON."""
    kind = parameter_type(schema_of(entry), "x")
    final = to_json(text, kind, 100)
    json.loads(final)
    for end in range(len(text) + 1):
        if decide(text[:end], kind, 1000) == "string":
            assert final.startswith('"')
            assert json.loads(final) == text


def test_conditions_and_conjunctions() -> None:
    schema = {
        "allOf": [{"properties": {"x": {"type": ["integer", "string"]}}}, {"properties": {"x": {"type": "integer"}}}],
        "additionalProperties": {"type": "boolean"},
    }
    assert parameter_type(schema, "x").types == {"integer"}
    assert parameter_type(schema, "y").types == {"boolean"}
    assert parameter_type({"properties": {}}, "y").types == {"string"}
    assert parameter_type(None, "y").types == {"string"}


def test_a_long_enum_is_looked_up_not_searched() -> None:
    kind = parameter_type({"properties": {"x": {"enum": [1, *(f"v{i}" for i in range(100_000))]}}}, "x")
    assert [to_json(f"v{i}", kind, 100) for i in range(20_000)] == [f'"v{i}"' for i in range(20_000)]


def test_a_schema_that_never_ends_costs_little() -> None:
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(30_000):
        deep = {"anyOf": [deep]}
    parameter_type({"properties": {"x": deep}}, "x")
