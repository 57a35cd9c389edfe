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
from narrows.stream.regions.values import IN_STRING, decide, to_json
from narrows.tools.request import read_tools
from narrows.value_types import ValueType

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


def type_of(schema: Any) -> ValueType:
    """What the argument `x` may be, for a tool with this schema."""
    return read_tools([{"name": "f", "parameters": schema}]).place("f").member("x").kind


@pytest.mark.parametrize(("entry", "text", "wanted"), PAIRS)
def test_value(entry: dict[str, Any], text: str, wanted: str) -> None:
    kind = type_of(schema_of(entry))
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
    kind = type_of(schema_of(entry))
    final = to_json(text, kind, 100)
    json.loads(final)
    for end in range(len(text) + 1):
        if decide(text[:end], kind, 1000) is IN_STRING:
            assert final.startswith('"')
            assert json.loads(final) == text


def test_a_long_enum_is_looked_up_not_searched() -> None:
    kind = type_of({"properties": {"x": {"enum": [1, *(f"v{i}" for i in range(100_000))]}}})
    assert [to_json(f"v{i}", kind, 100) for i in range(20_000)] == [f'"v{i}"' for i in range(20_000)]
