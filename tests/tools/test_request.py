"""What the tools of a request say of their arguments is read late, once, and under the request's limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from narrows import InputError, Limits, formats
from narrows.grammar.json_schema import view
from narrows.tools.request import read_choice, read_tools
from narrows.value_types import LOOSE, NOWHERE

SCHEMA: dict[str, Any] = {"properties": {"n": {"type": "integer"}}}
TOOLS = [{"name": f"f{i}", "parameters": SCHEMA} for i in range(50)]
CALL = "<tool_call>\n<function=f7>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>"


def test_a_schema_is_read_when_a_call_of_its_tool_has_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    place_of = view.place_of

    def counted(schema: Any, *more: Any) -> Any:
        read.append(schema)
        return place_of(schema, *more)

    monkeypatch.setattr(view, "place_of", counted)
    parser = formats.get("qwen3_xml").parser(TOOLS)
    parser.feed("Some text. ")
    assert read == []
    for _ in range(3):
        parser.feed(CALL)
    parser.finish()
    assert read == [SCHEMA]


def test_without_a_schema_a_value_is_untyped() -> None:
    for untyped, kind in (("string", NOWHERE.kind), ("json", LOOSE)):
        tools = read_tools([{"name": "none"}, {"name": "any", "parameters": True}], untyped)
        for name in ("none", "any", "unknown"):
            assert tools.place(name).member("n").kind == kind
        assert read_tools(None, untyped).place("f").member("n").kind == kind


def test_the_limits_of_the_request_hold() -> None:
    fmt = formats.get("qwen3_xml")
    for work, wanted in ((1_000, {"n": 3}), (10, {"n": "3"})):
        (call,) = fmt.parse(CALL, TOOLS, limits=Limits(reading_work=work)).tool_calls
        assert json.loads(call.arguments) == wanted


def test_a_schema_that_is_none_does_not_stop_a_call() -> None:
    bad = {"type": 3, "properties": {"n": "integer", "m": {"type": "integer", "minimum": "x"}}, "required": "n"}
    text = CALL.replace("f7", "f").replace("</function>", "<parameter=m>\n4\n</parameter>\n</function>")
    (call,) = formats.get("qwen3_xml").parse(text, [{"name": "f", "parameters": bad}]).tool_calls
    assert (json.loads(call.arguments), call.complete) == ({"n": "3", "m": 4}, True)


@pytest.mark.parametrize("name", ["input_schema", "inputSchema", "parameter", "arguments"])
@pytest.mark.parametrize("is_nested", [True, False])
def test_a_schema_under_the_name_of_another_api_is_not_taken_for_none(name: str, is_nested: bool) -> None:
    function = {"name": "f", name: {"type": "object"}}
    with pytest.raises(InputError, match="the schema of a tool is its `parameters`") as caught:
        read_tools([{"type": "function", "function": function} if is_nested else function])
    assert caught.value.code == "tools_invalid"
    assert caught.value.pointer == f"/tools/0/{'function/' if is_nested else ''}{name}"


def test_a_choice_that_is_a_word_of_another_api_says_which_there_are() -> None:
    with pytest.raises(InputError, match="no tool is named 'any'") as caught:
        read_choice("any", read_tools([{"name": "f"}]))
    assert '"required"' in (caught.value.hint or "")
