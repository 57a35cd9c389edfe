"""`additional="declared"` in every wire format: a call has no argument that its tool's schema does not name, at any depth; "standard",
the default, leaves the grammar as it was."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from typing import Any

import jsonschema_rs
import pytest
from test_format_grammar import spell, walks
from transcripts import NAMES, TOOLS, naming

import narrows
from narrows import formats
from narrows.errors import InputError

STRING = {"type": "string"}
BOOK = {
    "name": "book",
    "parameters": {
        "type": "object",
        "properties": {
            "a": STRING,
            "o": {"type": "object", "properties": {"x": STRING}},
            "l": {"type": "array", "items": {"type": "object", "properties": {"y": STRING}}},
            "says": {"type": "object", "properties": {"z": STRING}, "additionalProperties": STRING},
            "free": {"type": "object"},
        },
        "required": ["a"],
    },
}
PING = {"name": "ping", "parameters": {"type": "object", "properties": {}}}
SAYS = {"name": "says", "parameters": {"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING}}
BRANCHES = {
    "name": "branches",
    "parameters": {
        "type": "object",
        "properties": {"k": STRING},
        "anyOf": [{"properties": {"m": STRING}, "required": ["m"]}, {"properties": {"n": STRING}, "required": ["n"]}],
    },
}
DECLARED = {"a": "s", "o": {"x": "t"}, "l": [{"y": "u"}]}
UNDECLARED = [{"a": "s", "zz": "t"}, {"a": "s", "o": {"x": "t", "zz": "t"}}, {"a": "s", "l": [{"y": "u", "zz": "t"}]}]
BYTES = narrows.Vocabulary([bytes([b]) for b in range(256)] + [b""], special={"<end>": 256}, eos=[256])
FORMS = [(name, shape.form) for name in NAMES for shape in formats.get(name).written]


@cache
def constraint(name: str, tool: str, additional: str) -> narrows.Constraint:
    tools = [one for one in (BOOK, PING, SAYS, BRANCHES) if one["name"] == tool]
    return BYTES.compile(formats.get(name).grammar(tools, reasoning=None, additional=additional))


def writes(name: str, form: str, tool: str, arguments: dict[str, Any], additional: str) -> bool:
    """Whether the grammar allows what the format would write."""
    call = {"function": {"name": tool, "arguments": arguments}}
    text = formats.get(name).render({"tool_calls": [call]}, form=form)
    matcher = constraint(name, tool, additional).matcher()
    return matcher.accept_bytes(text.encode()) and matcher.is_accepting


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_no_argument_that_the_schema_does_not_name(name: str, form: str) -> None:
    for additional in ("standard", "declared"):
        assert writes(name, form, "book", DECLARED, additional)
        assert writes(name, form, "ping", {}, additional)
        assert writes(name, form, "branches", {"k": "s", "n": "t"}, additional)
    for arguments in UNDECLARED:
        assert not writes(name, form, "book", arguments, "declared"), arguments
    assert not writes(name, form, "ping", {"zz": "t"}, "declared")
    assert not writes(name, form, "branches", {"k": "s", "n": "t", "zz": "t"}, "declared")


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_what_says_so_or_names_nothing_stays_as_it_is(name: str, form: str) -> None:
    for tool, arguments in (
        ("says", {"a": "s", "zz": "t"}),
        ("book", {"a": "s", "says": {"z": "s", "zz": "t"}}),
        ("book", {"a": "s", "free": {"zz": "t"}}),
        ("branches", {"m": "s", "n": "t"}),
    ):
        assert writes(name, form, tool, arguments, "declared") == writes(name, form, tool, arguments, "standard")


def test_the_standard_allows_them_where_a_format_can_write_them() -> None:
    """Parameters in tags leave undeclared ones out in any case, where the schema gives them no type."""
    without = {
        (name, form) for name, form in FORMS if not writes(name, form, "book", {"a": "s", "zz": "t"}, "standard")
    }
    families = {type(formats.get(name).form(form)).__name__ for name, form in FORMS if (name, form) in without}
    assert 0 < len(without) < len(FORMS) / 2
    assert all(family.startswith("Xml") for family in families)
    assert not any(writes(name, form, "book", UNDECLARED[0], "declared") for name, form in FORMS)


@pytest.mark.parametrize("name", NAMES)
def test_the_report_says_so(name: str) -> None:
    fmt = formats.get(name)
    under = {"/tools/0/function/parameters" + at for at in ("/properties", "/properties/o/properties")}
    declared = fmt.grammar([BOOK], additional="declared").report
    assert {pointer for pointer, status in declared.items() if status == "under"} >= under
    assert all("additional" in declared[pointer].reason for pointer in under)
    assert "under" not in fmt.grammar([BOOK]).report.values()


@pytest.mark.parametrize("name", NAMES)
def test_generated_calls_have_declared_keys_alone(name: str) -> None:
    """Random walks, read back: the tools of all cases, and the closed schema that each then stands for."""
    fmt = formats.get(name)
    tools = [BOOK, PING, BRANCHES, *TOOLS]
    schemas = {tool["name"]: closed(tool["parameters"]) for tool in (BOOK, PING, BRANCHES)}
    grammar = fmt.grammar(tools, reasoning=None, additional="declared")
    for ids in walks(name, grammar, False, 12, Random(name)):
        text = spell(name, ids, False)
        with naming(repr(text)):
            for call in fmt.parse(text, tools, tool_choice="required", reasoning=None).tool_calls:
                assert call.complete
                if call.name in schemas:
                    jsonschema_rs.validate(schemas[call.name], json.loads(call.arguments))


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with what the option adds to it."""
    if "anyOf" in schema:
        return {**schema, "propertyNames": {"enum": ["k", "m", "n"]}}
    made = {**schema, "properties": {key: closed(below) for key, below in schema.get("properties", {}).items()}}
    if "items" in schema:
        made["items"] = closed(schema["items"])
    if "properties" in schema and "additionalProperties" not in schema:
        made["additionalProperties"] = False
    return made


def test_parameters_that_only_another_branch_names() -> None:
    """Where its own branch names none: in tags, too, a branch keeps the keys of the others."""
    tool = {
        "name": "t",
        "parameters": {
            "type": "object",
            "properties": {},
            "anyOf": [{"type": "object"}, {"properties": {"m": STRING}, "required": ["m", "n"]}],
        },
    }
    fmt = formats.get("qwen3_xml")
    matcher = BYTES.compile(fmt.grammar([tool], reasoning=None, additional="declared"))
    for key, fits in (("n", True), ("m", True), ("o", False)):
        text = fmt.render({"tool_calls": [{"function": {"name": "t", "arguments": {key: "s"}}}]})
        one = matcher.matcher()
        assert (one.accept_bytes(text.encode()) and one.is_accepting) is fits


def test_the_option_is_checked() -> None:
    for name in ("hermes_json", "qwen3_xml", "pythonic", "gemma4", "minimax_m3"):
        with pytest.raises(InputError, match='"standard", "declared"'):
            formats.get(name).grammar([BOOK], additional="closed")
