"""`on_unsupported="by_tool"`: each tool's own `strict` decides what becomes of a keyword that cannot be enforced."""

from __future__ import annotations

from typing import Any

import pytest
from test_format_grammar import vocabulary
from transcripts import NAMES

from narrows import formats
from narrows.errors import NarrowsError

UNIQUE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ids": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}, "uniqueItems": True}
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
    for arguments, fits in ({"ids": [[1], [1]]}, True), ({"ids": ["x"]}, False):
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
