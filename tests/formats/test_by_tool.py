"""`on_unsupported="by_tool"`: each tool's own `strict` decides what becomes of a keyword that cannot be enforced."""

from __future__ import annotations

from typing import Any

import pytest
from matrix import some_pairs
from test_format_grammar import vocabulary
from transcripts import NAMES

from narrows import formats
from narrows.errors import NarrowsError

UNIQUE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ids": {
            "type": "array",
            "items": {"type": "array", "items": {"type": "integer", "multipleOf": 7}},
            "uniqueItems": True,
        }
    },
    "required": ["ids"],
    "additionalProperties": False,
}
PLAIN = {"type": "object", "properties": {"a": {"type": "string"}}}


def tools(strict: bool | None) -> list[Any]:
    more = {} if strict is None else {"strict": strict}
    return [
        {"type": "function", "function": {"name": "plain", "parameters": PLAIN}},
        {"type": "function", "function": {"name": "now", "parameters": UNIQUE, **more}},
    ]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("strict", [None, False])
def test_without_strict_the_rest_is_enforced_and_the_report_says_what_is_not(name: str, strict: bool | None) -> None:
    fmt = formats.get(name)
    grammar = fmt.grammar(tools(strict), on_unsupported="by_tool")
    assert {pointer: status for pointer, status in grammar.report.items() if status != "exact"} == {
        "/tools/1/function/parameters/properties/ids/uniqueItems": "ignored"
    }
    for arguments, fits in ({"ids": [[7], [7]]}, True), ({"ids": ["x"]}, False):
        text = fmt.render({"tool_calls": [{"function": {"name": "now", "arguments": arguments}}]})
        matcher = vocabulary(name, False)[0].compile(grammar).matcher()
        assert (matcher.accept_bytes(text.encode()) and matcher.is_accepting) == fits


@pytest.mark.parametrize("name", NAMES)
def test_with_strict_it_is_refused_with_its_place(name: str) -> None:
    with pytest.raises(NarrowsError) as error:
        formats.get(name).grammar(tools(True), on_unsupported="by_tool")
    assert (error.value.code, error.value.pointer) == (
        "schema_unsupported",
        "/tools/1/function/parameters/properties/ids/uniqueItems",
    )


@pytest.mark.parametrize("name", ["qwen3_xml", "pythonic", "glm_xml"])
def test_arguments_that_a_format_cannot_write_are_any_object(name: str) -> None:
    fmt = formats.get(name)
    whole = [{"type": "function", "function": {"name": "now", "parameters": {"enum": [{"a": 1}]}}}]
    grammar = fmt.grammar(whole, on_unsupported="by_tool")
    assert grammar.report["/tools/0/function/parameters"] == "ignored"
    text = fmt.render({"tool_calls": [{"function": {"name": "now", "arguments": {"a": "x"}}}]})
    assert vocabulary(name, False)[0].compile(grammar).matcher().accept_bytes(text.encode())
    with pytest.raises(NarrowsError) as error:
        fmt.grammar(whole)
    assert error.value.code == "schema_unsupported"


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"type": "strng"}, "schema_invalid"),
        ({"type": "object", "properties": {"a": False}, "required": ["a"]}, "unsatisfiable"),
    ],
)
def test_what_is_no_schema_is_refused_all_the_same(parameters: Any, code: str) -> None:
    broken = [{"type": "function", "function": {"name": "now", "parameters": parameters}}]
    with pytest.raises(NarrowsError) as error:
        formats.get("hermes_json").grammar(broken, on_unsupported="by_tool")
    assert error.value.code == code
    assert error.value.pointer.startswith("/tools/0/function/parameters")


KEPT_OR_SAID: dict[str, tuple[Any, Any]] = {  # the schema of an argument, and a value that it forbids
    "uniqueItems of strings": ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, ["a", "a"]),
    "uniqueItems of objects": (
        {
            "type": "array",
            "items": {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False},
            "uniqueItems": True,
        },
        [{"a": 1}, {"a": 1}],
    ),
    "uniqueItems of arrays": ({"type": "array", "items": {"type": "array"}, "uniqueItems": True}, [["a"], ["a"]]),
    "contains": ({"type": "array", "items": {"type": "string"}, "contains": {"const": "x"}}, ["a", "b"]),
    "maxContains": (
        {"type": "array", "items": {"type": "string"}, "contains": {"const": "x"}, "maxContains": 1},
        ["x", "x"],
    ),
    "unevaluatedItems": (
        {"type": "array", "allOf": [{"prefixItems": [{"type": "string"}]}], "unevaluatedItems": False},
        ["a", "b"],
    ),
    "prefixItems": ({"type": "array", "prefixItems": [{"type": "string"}], "items": False}, ["a", "b"]),
    "minItems": ({"type": "array", "items": {"type": "string"}, "minItems": 2}, ["a"]),
    "maxItems": ({"type": "array", "items": {"type": "string"}, "maxItems": 1}, ["a", "b"]),
    "not of an array": ({"type": "array", "items": {"type": "string"}, "not": {"maxItems": 1}}, ["a"]),
    "minProperties": (
        {"type": "object", "properties": {"a": {"type": "string"}, "b": True}, "minProperties": 2},
        {"a": "x"},
    ),
    "maxProperties": (
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "maxProperties": 1},
        {"a": "x", "b": "y"},
    ),
    "dependentRequired": (
        {"type": "object", "properties": {"a": {"type": "string"}, "b": True}, "dependentRequired": {"a": ["b"]}},
        {"a": "x"},
    ),
    "dependentSchemas": (
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": True},
            "dependentSchemas": {"a": {"required": ["b"]}},
        },
        {"a": "x"},
    ),
    "patternProperties": (
        {
            "type": "object",
            "properties": {"c": True},
            "patternProperties": {"^a": {"type": "null"}},
            "required": ["ab"],
        },
        {"ab": "x"},
    ),
    "propertyNames": (
        {"type": "object", "properties": {"ab": {"type": "string"}}, "propertyNames": {"maxLength": 1}},
        {"ab": "x"},
    ),
    "unevaluatedProperties": (
        {"type": "object", "allOf": [{"properties": {"a": {"type": "string"}}}], "unevaluatedProperties": False},
        {"a": "x", "b": "y"},
    ),
    "not of an object": (
        {"type": "object", "properties": {"a": {"type": "string"}}, "not": {"required": ["a"]}},
        {"a": "x"},
    ),
    "oneOf of objects": (
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        {"a": "x", "b": "y"},
    ),
    "if": (
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": True},
            "if": {"required": ["a"]},
            "then": {"required": ["b"]},
        },
        {"a": "x"},
    ),
    "not of a string": ({"type": "string", "not": {"const": "ab"}}, "ab"),
    "if of a string": ({"type": "string", "if": {"minLength": 3}, "then": {"pattern": "^x"}}, "abc"),
    "not of an integer": ({"type": "integer", "not": {"minimum": 5}}, 7),
}


@pytest.mark.parametrize(("name", "keyword"), some_pairs(NAMES, KEPT_OR_SAID))
def test_each_keyword_is_enforced_or_the_report_says_that_it_is_not(name: str, keyword: str) -> None:
    """Formats that write objects and arrays in a notation of their own lower them themselves."""
    schema, forbidden = KEPT_OR_SAID[keyword]
    fmt = formats.get(name)
    for closed in (True, False):
        parameters = {
            "type": "object",
            "properties": {"v": schema},
            "required": ["v"],
            "additionalProperties": not closed,
        }
        tool = {"type": "function", "function": {"name": "now", "parameters": parameters}}
        try:
            grammar = fmt.grammar([tool], on_unsupported="ignore")
        except NarrowsError as error:
            if error.code not in ("schema_unsupported", "unsatisfiable"):
                raise
            continue
        text = fmt.render({"tool_calls": [{"function": {"name": "now", "arguments": {"v": forbidden}}}]})
        matcher = vocabulary(name, False)[0].compile(grammar).matcher()
        if matcher.accept_bytes(text.encode()) and matcher.is_accepting:
            where = "/tools/0/function/parameters/properties/v"
            said = {pointer: status for pointer, status in grammar.report.items() if status != "exact"}
            assert any(pointer.startswith(where) for pointer in said), text
