"""Each transcript holds what its case says, and every character of it is accounted for."""

from __future__ import annotations

import pytest
from transcripts import Case, check_stream, load

from narrows.events import Content, Reasoning, ToolCallArguments


@pytest.mark.parametrize("case", load(), ids=str)
def test_message(case: Case) -> None:
    message = case.parse()
    assert message.content == case.message.get("content")
    assert message.reasoning == case.message.get("reasoning")
    expected = case.message.get("calls", [])
    assert [call.name for call in message.tool_calls] == [call["name"] for call in expected]
    for index, (call, wanted) in enumerate(zip(message.tool_calls, expected, strict=True)):
        assert call.arguments == wanted["arguments"]
        assert (call.complete, call.known) == (wanted.get("complete", True), wanted.get("known", True)), call
        assert call.id == wanted.get("id", f"id{index}")


@pytest.mark.parametrize("case", load(), ids=str)
def test_spans(case: Case) -> None:
    parser = case.parser()
    events = parser.feed(case.text) + parser.finish()
    check_stream(events, len(case.text))
    for event in events:
        begin, end = event.span
        if isinstance(event, (Content, Reasoning)):
            assert event.text == case.text[begin:end]
        elif isinstance(event, ToolCallArguments) and case.format != "qwen3_xml" and "prompt" not in case.options:
            assert event.text == case.text[begin:end] or event.text == "{}"


@pytest.mark.parametrize("case", load(), ids=str)
def test_finishing_twice(case: Case) -> None:
    parser = case.parser()
    parser.feed(case.text)
    parser.finish()
    assert parser.finish() == []
