"""Each transcript holds what its case says, every character of it is accounted for, and every format has cases of every kind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from transcripts import CASES, NAMES, Case, cases_of, check_stream, facts, load, openers, passes_through, rewrites

from narrows import formats
from narrows.events import Content, Reasoning, ToolCallArguments
from narrows.stream.machine import CUT


@pytest.mark.parametrize("case", load(), ids=str)
def test_message(case: Case) -> None:
    parser = case.parser()
    events = parser.feed(case.text) + parser.finish()
    assert parser.finish() == []
    message = check_stream(events, len(case.text))
    assert message == case.parse()
    assert message.content == case.message.get("content")
    assert message.reasoning == case.message.get("reasoning")
    expected = case.message.get("calls", [])
    assert [call.name for call in message.tool_calls] == [call["name"] for call in expected]
    for index, (call, wanted) in enumerate(zip(message.tool_calls, expected, strict=True)):
        assert call.arguments == wanted["arguments"]
        assert (call.complete, call.known) == (wanted.get("complete", True), wanted.get("known", True)), call
        assert call.id == wanted.get("id", f"id{index}")
    verbatim = passes_through(case.fmt) and "prompt" not in case.options
    for event in events:
        begin, end = event.span
        if isinstance(event, (Content, Reasoning)):
            assert event.text == case.text[begin:end] or rewrites(case.fmt)
        elif verbatim and isinstance(event, ToolCallArguments):
            assert event.text == case.text[begin:end] or event.text == "{}"


# Kinds of cases, told from what they hold.


def kinds_of(case: Case) -> set[str]:
    message = case.parse()
    calls, found = message.tool_calls, set()
    complete = [call for call in calls if call.complete]
    values = [json.loads(call.arguments) for call in complete]
    if len(calls) == 1 and complete and not message.content and not message.reasoning:
        found.add("single")
    if len(complete) > 1:
        found.add("parallel")
    if not calls and message.content and not any(opener in case.text for opener in openers(case.fmt)):
        found.add("none")
    if any(isinstance(value, (dict, list)) and value for arguments in values for value in arguments.values()):
        found.add("nested")
    if any(arguments == {} for arguments in values):
        found.add("empty")
    strings = [text for arguments in values for text in _strings(arguments)]
    if any(not text.isascii() for text in strings):
        found.add("unicode")
    markers = [marker for marker in case.fmt.markers(case.fmt.reasoning) if len(marker) > 2]
    if any(any(marker in text for marker in markers) or '"}' in text or '"' in text for text in strings):
        found.add("hostile strings")
    if message.reasoning:
        found.add("reasoning")
    if calls and message.content and message.content.strip():
        found.add("text around")
    if (calls and calls[-1].reason == CUT) or (not calls and case.name.startswith("cut")):
        found.add("truncated")
    if any(not call.complete and call.reason != CUT for call in calls) or (
        message.content and case.options["tools"] != [] and any(o in message.content for o in openers(case.fmt))
    ):
        found.add("malformed")
    if any(not call.known for call in calls):
        found.add("unknown tool")
    return found


KINDS = {
    "single",
    "parallel",
    "none",
    "nested",
    "empty",
    "unicode",
    "hostile strings",
    "reasoning",
    "text around",
    "truncated",
    "malformed",
    "unknown tool",
}


def _strings(value: Any) -> list[str]:
    found, todo = [], [value]
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, (dict, list)):
            todo += value.values() if isinstance(value, dict) else value
    return found


@pytest.mark.parametrize("name", NAMES)
def test_there_are_cases_of_every_kind(name: str) -> None:
    fmt, excused = formats.get(name), dict(facts(name).without)
    if facts(name).single:
        excused["parallel"] = facts(name).single
    if fmt.reasoning is None:
        excused["reasoning"] = "the format has none"
    assert not excused.keys() - KINDS
    assert all(excused.values())
    assert len(cases_of(name)) >= 12
    found = set().union(*(kinds_of(case) for case in cases_of(name)))
    assert not KINDS - found - excused.keys()
    assert not found & excused.keys(), "there are such cases: drop the excuse"


def test_every_file_of_cases_is_of_a_format() -> None:
    others = {"argument_schemas", "coercion", "exceptions", "templates", "turns", "detection", "styles", "third_party"}
    assert {path.stem for path in CASES.glob("*.toml")} - others == set(NAMES)
