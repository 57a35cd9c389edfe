"""The judge itself: it lets what is sound pass, and sees each kind of runaway, whole or cut."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from checking import judge_calls, judge_json, repeated

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}
TREE = {
    "$ref": "#/$defs/T",
    "$defs": {"T": {"properties": {"kids": {"items": {"$ref": "#/$defs/T"}}}, "type": "object"}},
}
MAP = {"type": "object", "additionalProperties": {"type": "integer"}}
EITHER = {"anyOf": [PERSON, {"type": "object", "properties": {"id": {"type": "integer"}}}]}
OPEN = {**PERSON, "additionalProperties": True}
DEEP = '{"kids": [' * 12 + '{"kids": ['


@pytest.mark.parametrize(
    ("text", "schema", "cut", "kind"),
    [
        pytest.param('{"name": "a", "age": 1}', PERSON, False, "valid", id="whole"),
        pytest.param('{"name": "a", "age": 1}', PERSON, True, "length", id="whole-and-cut-behind"),
        pytest.param('{"name": "a', PERSON, True, "length", id="cut-in-a-string"),
        pytest.param("", PERSON, True, "length", id="nothing-yet"),
        pytest.param('{"name": "a', PERSON, False, "failed", id="not-json"),
        pytest.param('{"name": NaN}', {}, False, "failed", id="nan"),
        pytest.param('{"age": 1}', PERSON, False, "failed", id="not-valid"),
        pytest.param('{"name": "a", "age": 1, "age": 2}', PERSON, False, "failed", id="a-key-twice"),
        pytest.param('{"a": 1, "b": 2, "a": 3', MAP, True, "failed", id="a-key-twice-in-a-map-that-is-cut"),
        pytest.param('{"a": 1, "b": 2}', MAP, False, "valid", id="a-map"),
        pytest.param('{"name": "a", "hobby": "b', PERSON, True, "failed", id="an-invented-key-that-is-cut"),
        pytest.param('{"name": "a", "hobby": "b"}', OPEN, False, "valid", id="an-open-object"),
        pytest.param(
            '{"kids": [{"kids": [{"kin": 1}]}]}', TREE, False, "failed", id="an-invented-key-behind-references"
        ),
        pytest.param(DEEP, TREE, True, "length", id="a-deep-tree"),
        pytest.param('{"name": "a", "id": 1}', EITHER, False, "valid", id="declared-in-a-branch"),
        pytest.param('{"name": "a",' + "\n" * 200, PERSON, True, "failed", id="blanks"),
        pytest.param('{"name": "' + " " * 200, PERSON, True, "length", id="blanks-in-a-string"),
    ],
)
def test_a_text(text: str, schema: Any, cut: bool, kind: str) -> None:
    assert judge_json(text, schema, cut=cut).kind == kind


def answer(finish: str, *calls: tuple[str, str], content: str | None = None) -> Any:
    made = [SimpleNamespace(function=SimpleNamespace(name=name, arguments=text)) for name, text in calls]
    return SimpleNamespace(finish_reason=finish, message=SimpleNamespace(tool_calls=made, content=content))


ANN, BOB = ("person", '{"name": "Ann"}'), ("person", '{"name": "Bob"}')


@pytest.mark.parametrize(
    ("choice", "kind"),
    [
        pytest.param(answer("tool_calls", ANN), "valid", id="one"),
        pytest.param(answer("tool_calls", ANN, BOB), "valid", id="two"),
        pytest.param(answer("tool_calls", ANN, BOB, ANN), "valid", id="one-again"),
        pytest.param(answer("tool_calls", ANN, ANN), "failed", id="the-same-again"),
        pytest.param(answer("tool_calls", ANN, BOB, ANN, BOB, ANN), "failed", id="in-turn-without-end"),
        pytest.param(answer("length", ANN, ("person", '{"name": "B')), "length", id="the-second-is-cut"),
        pytest.param(answer("length", ("person", '{"name": "A'), BOB), "failed", id="the-first-is-broken"),
        pytest.param(answer("length"), "length", id="cut-before-a-call"),
        pytest.param(answer("tool_calls"), "failed", id="none"),
        pytest.param(answer("tool_calls", ("dog", "{}")), "failed", id="not-offered"),
        pytest.param(answer("stop", ANN), "failed", id="another-finish"),
        pytest.param(answer("length", content="<tool_call>"), "failed", id="content"),
    ],
)
def test_an_answer(choice: Any, kind: str) -> None:
    assert judge_calls(choice, {"person": PERSON}, ("tool_calls",)).kind == kind


@pytest.mark.parametrize(
    ("names", "sound"),
    [
        ("", True),
        ("abc", True),
        ("aa", False),
        ("abab", False),
        ("cabcab", False),
        ("abaca", True),
        ("abcdefghabcdefg", True),
        ("abcdefghabcdefgh", False),
        ("abcdefghijklmnop", True),
        ("abcdefghijklmnopq", False),
    ],
)
def test_calls_that_come_again(names: str, sound: bool) -> None:
    assert (not repeated([(name, "{}") for name in names])) is sound
