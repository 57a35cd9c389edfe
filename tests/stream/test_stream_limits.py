"""What is held back is bounded, each bound can be hit, and where it is hit does not depend on the chunks."""

from __future__ import annotations

import pytest
from transcripts import TOOLS, check_stream, feed

from narrows import formats
from narrows.limits import Limits
from narrows.stream import Message

HERMES, XML, MISTRAL = (formats.get(name) for name in ("hermes_json", "qwen3_xml", "mistral"))


def answers(fmt: formats.Format, text: str, limits: Limits) -> Message:
    """The answer, the same for several chunk sizes."""
    found = []
    for size in (1, 3, 64, len(text)):
        parser = fmt.parser(TOOLS, limits=limits, id_factory=lambda index: f"id{index}")
        events = feed(parser, [text[at : at + size] for at in range(0, len(text), size)])
        found.append(check_stream(events, len(text)))
    assert all(message == found[0] for message in found), found
    return found[0]


NAMES = Limits(stream_name_chars=20)


@pytest.mark.parametrize(
    ("fmt", "before", "after"),
    [
        (HERMES, '<tool_call>{"name": "', '", "arguments": {}}</tool_call>'),
        (HERMES, '<tool_call>{"', '": 1, "name": "now"}</tool_call>'),
        (MISTRAL, "[TOOL_CALLS]", "[ARGS]{}"),
        (XML, "<tool_call><function=", "></function></tool_call>"),
    ],
)
def test_a_name_that_is_too_long_is_text(fmt: formats.Format, before: str, after: str) -> None:
    fits, too_long = before + "n" * 15 + after, before + "n" * 30 + after
    assert answers(fmt, fits, NAMES).tool_calls
    message = answers(fmt, too_long, NAMES)
    assert (message.content, message.tool_calls) == (too_long, [])


def test_a_name_that_is_too_long_may_hold_a_call() -> None:
    text = '<tool_call>{"name": "' + "x" * 30 + '<tool_call>{"name": "now"}</tool_call>'
    assert answers(HERMES, text, NAMES).tool_calls[0].name == "now"


def test_a_key_that_is_too_long_ends_the_call_incomplete() -> None:
    text = "<tool_call><function=now><parameter=" + "k" * 30 + ">1</parameter></function></tool_call>"
    call = answers(XML, text, NAMES).tool_calls[0]
    assert not call.complete


def test_too_much_whitespace_is_text() -> None:
    text = " " * 30 + '<tool_call>{"name": "now"}</tool_call>'
    message = answers(HERMES, text, NAMES)
    assert (message.content, len(message.tool_calls)) == (" " * 30, 1)


HELD = Limits(stream_held_chars=200)


@pytest.mark.parametrize("fill", ['"a"', "[" * 50 + "]" * 50, '{"name": "<tool_call>"}'])
def test_an_opening_that_is_too_long_is_text(fill: str) -> None:
    filler = ", ".join([fill] * 60)
    text = '<tool_call>{"arguments": {"x": [' + filler + ']}, "name": "now"}</tool_call>'
    message = answers(HERMES, text, HELD)
    assert (message.content, message.tool_calls) == (text, [])
    assert len(answers(HERMES, text, Limits()).tool_calls) == 1


def test_a_bare_opening_that_is_too_long_is_text() -> None:
    text = '{"parameters": {"x": [' + ", ".join(['"a"'] * 100) + ']}, "name": "now"}'
    message = answers(formats.get("llama3_json"), text, HELD)
    assert (message.content, message.tool_calls) == (text, [])
    assert len(answers(formats.get("llama3_json"), text, Limits()).tool_calls) == 1


def test_too_much_whitespace_between_calls_is_text() -> None:
    call = '{"name": "now", "parameters": {}}'
    message = answers(formats.get("llama3_json"), call + " " * 30 + "; " + call, NAMES)
    assert (message.content, len(message.tool_calls)) == (" " * 30 + "; " + call, 1)


def test_an_opening_that_is_too_long_may_hold_a_call() -> None:
    call = '<tool_call>{"name": "now"}</tool_call>'
    text = "<tool_call>" + " " * 300 + call
    message = answers(HERMES, text, HELD)
    assert (message.content, len(message.tool_calls)) == ("<tool_call>" + " " * 300, 1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("days", "1" * 500),
        ("steps", '["' + "a" * 500 + '</parameter>"]'),
        ("steps", "[" + " " * 500 + "]"),
        ("note", "{" + '"a": [], ' * 50 + '"b": 1}'),
    ],
)
def test_a_value_that_is_too_long_becomes_a_string(key: str, value: str) -> None:
    name = "get_weather" if key == "days" else "plan"
    text = f"<tool_call>\n<function={name}>\n<parameter={key}>\n{value}\n</parameter>\n</function>\n</tool_call>"
    short = answers(XML, text, HELD).tool_calls[0]
    whole = answers(XML, text, Limits()).tool_calls[0]
    assert short.arguments.startswith('{"' + key + '": "')
    assert whole.complete
    assert not whole.arguments.startswith('{"' + key + '": "')


def test_nesting_that_is_too_deep_ends_the_call_incomplete() -> None:
    limits = Limits(stream_depth=10)
    deep = "[" * 10 + "]" * 10
    text = '<tool_call>{"name": "now", "arguments": {"x": ' + deep + "}}</tool_call>"
    call = answers(HERMES, text, limits).tool_calls[0]
    assert not call.complete
    assert "stream_depth" in (call.reason or "")
    assert answers(HERMES, text, Limits(stream_depth=11)).tool_calls[0].complete


def test_nothing_else_is_held() -> None:
    """The longest silence: a possible marker less its last character."""
    held = 0
    for fmt, text in (
        (
            HERMES,
            '<think>a < b </thin k></think>x <tool_cal y <tool_call>{"name": "now", "arguments": {"a": "</tool_call> \\u00e9"}}',
        ),
        (XML, "x <function <tool_call><function=write_file><parameter=text>a </parameter b \n\n c</parameter>"),
        (MISTRAL, 'x [TOOL_ [TOOL_CALLS]now[ARGS]{"a": "[TOOL_CALLS]"} y'),
    ):
        longest = max(len(marker) for marker in fmt.markers(fmt.reasoning)) + 1
        parser = fmt.parser(TOOLS)
        emitted, waiting = 0, 0
        for char in text:
            events = parser.feed(char)
            waiting = 0 if events else waiting + 1
            emitted += len(events)
            held = max(held, waiting)
        assert emitted
        assert held <= longest + len('{"name": "now", "arguments": ') + len("<function=write_file><parameter=text>")
