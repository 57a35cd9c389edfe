"""Misuse raises `InputError` with a stable code; text never makes the parser raise."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transcripts import TOOLS, check_stream, feed, load, splits

from narrows import formats
from narrows.errors import InputError, TokenError
from narrows.events import Content, Event
from narrows.stream import StreamParser, collect

HERMES = formats.get("hermes_json")


@pytest.mark.parametrize(
    ("code", "use"),
    [
        ("feed_invalid", lambda p: p.feed(b"x")),
        ("feed_invalid", lambda p: p.feed_bytes("x")),
        ("vocab_missing", lambda p: p.feed_tokens([1])),
        ("feed_mixed", lambda p: (p.feed("x"), p.feed_bytes(b"x"))),
        ("stream_finished", lambda p: (p.finish(), p.feed("x"))),
    ],
)
def test_feeding(code: str, use: Callable[[StreamParser], Any]) -> None:
    with pytest.raises(InputError) as error:
        use(HERMES.parser())
    assert error.value.code == code


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("tools_invalid", {"tools": "get_weather"}),
        ("tools_invalid", {"tools": [{}]}),
        ("tools_invalid", {"tools": [{"function": {"name": ""}}]}),
        ("tools_invalid", {"tools": [{"name": "a"}, {"name": "a"}]}),
        ("tools_invalid", {"tools": [{"name": "a", "parameters": 5}]}),
        ("tool_choice_invalid", {"tool_choice": 5}),
        ("tool_choice_unknown", {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "fly"}}}),
        ("reasoning_unknown", {"reasoning": "thoughts"}),
    ],
)
def test_options(code: str, options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        HERMES.parser(**options)
    assert error.value.code == code


class Objects:
    """A tool as an object, as clients' libraries have it."""

    class function:
        name = "now"
        parameters = None


def test_tools_may_be_objects() -> None:
    assert HERMES.parse('<tool_call>{"name": "now"}</tool_call>', [Objects]).tool_calls[0].known


class Vocabulary:
    size = 5
    eos_ids = (4,)

    @property
    def special(self) -> dict[str, int]:
        return {"<tool_call>": 3, "<|end|>": 4}

    def token_bytes(self, token: int) -> bytes | None:
        return [b"a", b"\xc3", None, b"", b""][token]


def test_token_ids_are_checked() -> None:
    parser = HERMES.parser(vocab=Vocabulary())
    for bad in (5, -1):
        with pytest.raises(TokenError):
            parser.feed_tokens([bad])
    with pytest.raises(InputError):
        parser.feed_tokens(["a"])  # type: ignore[list-item]
    assert collect(parser.feed_tokens([0, 1, 4, 2]) + parser.finish()).content == "a\ufffd"


def test_a_marker_id_that_comes_to_nothing_is_its_name() -> None:
    parser = HERMES.parser(vocab=Vocabulary())
    events = parser.feed_tokens([0, 3, 0, 3]) + parser.finish()
    assert check_stream(events, 24).content == "a<tool_call>a<tool_call>"


def test_half_a_character_before_a_marker_id() -> None:
    parser = HERMES.parser(vocab=Vocabulary())
    assert check_stream(parser.feed_tokens([1, 3, 0]) + parser.finish(), 13).content == "\ufffd<tool_call>a"


def test_ids_are_stable_and_seeded() -> None:
    text = '<tool_call>{"name": "now"}</tool_call>' * 3
    make = HERMES.id_factory("response")
    first, second = (HERMES.parse(text, id_factory=HERMES.id_factory("response")) for _ in range(2))
    assert [c.id for c in first.tool_calls] == [c.id for c in second.tool_calls] == [make(i) for i in range(3)]
    assert len({call.id for call in HERMES.parse(text).tool_calls}) == 3
    mistral = formats.get("mistral").parse("[TOOL_CALLS]now[ARGS]{}").tool_calls[0].id
    assert len(mistral) == 9
    assert mistral.isalnum()


MARKERS = "<tool_call> </tool_call> <function= </function> <parameter= </parameter> <think> </think> [TOOL_CALLS] [ARGS] [CALL_ID] [THINK] [/THINK]"
OTHERS = ["\n", " ", '{"name": "now", "arguments": ', '"name": ', '"steps": ', "\ud800", "\udfff", "\x00"]
SHORT = '> [ ] { } " \\ : , now plan < null 12 é 🌦'
PIECES = st.sampled_from([*MARKERS.split(), *SHORT.split(), *OTHERS])
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=40).map("".join)


def conserved(events: list[Event], text: str) -> None:
    """Content is the input where its span says, and what is no content lies in between."""
    for event in events:
        if isinstance(event, Content):
            assert event.text == text[event.span[0] : event.span[1]]


@settings(max_examples=400)
@given(st.sampled_from(formats.names()), TEXTS, st.sampled_from((None, TOOLS)), st.data())
def test_no_text_fails_and_no_chunks_matter(name: str, text: str, tools: Any, data: st.DataObject) -> None:
    fmt = formats.get(name)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6))
    parser = fmt.parser(tools, id_factory=str)
    events = feed(parser, splits(text, cuts))
    message = check_stream(events, len(text))
    conserved(events, text)
    assert message == fmt.parse(text, tools, id_factory=str)
    assert message == check_stream(feed(fmt.parser(tools, id_factory=str), list(text)), len(text))


@pytest.mark.soak
@settings(max_examples=8_000)
@given(st.sampled_from(formats.names()), TEXTS, st.data())
def test_no_text_fails_and_no_chunks_matter_for_long(name: str, text: str, data: st.DataObject) -> None:
    fmt = formats.get(name)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6))
    events = feed(fmt.parser(TOOLS, id_factory=str), splits(text, cuts))
    conserved(events, text)
    assert check_stream(events, len(text)) == fmt.parse(text, TOOLS, id_factory=str)


@settings(max_examples=150)
@given(st.sampled_from(formats.names()), st.binary(max_size=60), st.integers(1, 5))
def test_no_bytes_fail(name: str, data: bytes, size: int) -> None:
    fmt = formats.get(name)
    parser = fmt.parser(id_factory=str)
    events: list[Event] = []
    for at in range(0, len(data), size):
        events += parser.feed_bytes(data[at : at + size])
    message = check_stream(events + parser.finish(), len(data))
    assert message == fmt.parse(data.decode("utf-8", "replace"), id_factory=str)


@settings(max_examples=200)
@given(st.sampled_from(load()), st.data())
def test_broken_transcripts(case: Any, data: st.DataObject) -> None:
    text = case.text
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(PIECES | st.just("")) + text[at + data.draw(st.integers(0, 8)) :]
    events = feed(case.parser(), [text])
    message = check_stream(events, len(text))
    conserved(events, text)
    assert message == check_stream(feed(case.parser(), list(text)), len(text))


@settings(max_examples=200)
@given(st.sampled_from(formats.names()), TEXTS)
def test_without_tools_content_is_the_text(name: str, text: str) -> None:
    fmt = formats.get(name)
    events: list[Event] = []
    parser = fmt.parser([], reasoning=None)
    for char in text:
        new = parser.feed(char)
        assert [event.text for event in new if isinstance(event, Content)] == [char]
        events += new
    assert parser.finish() == []


@pytest.mark.parametrize("name", formats.names())
def test_memory_does_not_grow_with_the_text(name: str) -> None:
    fmt = formats.get(name)
    random = Random(1)
    words = ["a < b", '\\"x\\"', "</tool", " [TOOL_", "é", "lorem ipsum "]
    tools = [{"name": "f", "parameters": {"properties": {"text": {"type": "string"}}}}]
    start, _, _ = fmt.render({"tool_calls": [{"name": "f", "arguments": {"text": "CUT"}}]}).partition("CUT")
    parser = fmt.parser(tools)
    parser.feed(start)
    tracemalloc.start()
    before = 0
    for step in range(40_000):
        if step == 4_000:
            before = tracemalloc.get_traced_memory()[0]
        parser.feed(random.choice(words))
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 50_000
