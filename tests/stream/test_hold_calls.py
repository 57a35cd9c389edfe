"""With `hold_calls` no client sees half of a call: complete calls come whole, and what does not end well is text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from transcripts import NAMES, Case, cases_of, check_stream, feed, naming

from narrows import formats
from narrows.events import ToolCallArguments, ToolCallEnd, ToolCallStart
from narrows.limits import DEFAULT_LIMITS


def check(case: Case, pieces: list[str]) -> None:
    parser = case.parser(hold_calls=True)
    events = []
    for piece in [*pieces, None]:
        more = parser.feed(piece) if piece is not None else parser.finish()
        events += more
        opened = sum(isinstance(e, ToolCallStart) for e in more)
        assert opened == sum(isinstance(e, ToolCallEnd) for e in more)
    assert all(event.complete for event in events if isinstance(event, ToolCallEnd))
    message = check_stream(events, len(case.text))
    plain = case.parse()
    kept = [call for call in plain.tool_calls if call.complete]
    assert [(c.name, c.arguments) for c in message.tool_calls] == [(c.name, c.arguments) for c in kept]
    if len(kept) == len(plain.tool_calls):
        assert (message.content, message.reasoning) == (plain.content, plain.reasoning)


@pytest.mark.parametrize("name", NAMES)
def test_cases(name: str) -> None:
    for case in cases_of(name):
        with naming(case):
            check(case, [case.text])
            check(case, list(case.text))


def test_a_call_that_breaks_off_is_text() -> None:
    fmt = formats.get("hermes_json")
    text = 'a <tool_call>{"name": "f", "arguments": {"x": 1'
    assert fmt.parse(text, hold_calls=True).content == text
    text = '<tool_call>{"name": "f", "arguments": {x}</tool_call>b'
    message = fmt.parse(text, hold_calls=True)
    assert (message.content, message.tool_calls) == ('<tool_call>{"name": "f", "arguments": {x}b', [])


def test_a_call_that_is_too_long_is_text() -> None:
    fmt = formats.get("hermes_json")
    text = '<tool_call>{"name": "f", "arguments": {"x": "' + "y" * 900 + '"}}</tool_call>b'
    limits = replace(DEFAULT_LIMITS, stream_held_chars=300)
    assert fmt.parse(text, hold_calls=True).tool_calls
    for size in (1, 7, 2000):
        parser = fmt.parser(limits=limits, hold_calls=True)
        message = check_stream(feed(parser, [text[i : i + size] for i in range(0, len(text), size)]), len(text))
        assert message.tool_calls == []
        assert (message.content or "").startswith(text[:-13])


def test_a_call_that_the_prompt_has_begun() -> None:
    fmt = formats.get("hermes_json")
    prompt = '<|im_start|>assistant\n<tool_call>{"name": "f", "arguments": {"x": '
    parser = fmt.parser(prompt=prompt, hold_calls=True)
    assert parser.feed("1") == []
    events = parser.feed("}}")
    assert [type(e) for e in events] == [ToolCallStart, ToolCallArguments, ToolCallEnd]
    assert fmt.parse("1", prompt=prompt, hold_calls=True).content == "1"
