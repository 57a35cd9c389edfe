"""Misuse raises `InputError` with a stable code; text never makes the parser raise."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transcripts import NAMES, TOOLS, cases_of, check_stream, feed, naming, pieces_of, rewrites, splits

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
        ("tool_name_duplicate", {"tools": [{"name": "a"}, {"name": "a"}]}),
        ("tools_invalid", {"tools": [{"name": "a", "parameters": 5}]}),
        ("tool_choice_invalid", {"tool_choice": 5}),
        ("tool_unknown", {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "fly"}}}),
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


OTHERS = [
    "\n",
    " ",
    '{"name": "now", "arguments": ',
    '"name": ',
    '"steps": ',
    "\ud800",
    "\udfff",
    "\x00",
    "now",
    "plan",
]


@cache
def pieces(name: str) -> st.SearchStrategy[str]:
    return st.sampled_from([*pieces_of(formats.get(name)), *OTHERS])


@cache
def texts(name: str) -> st.SearchStrategy[str]:
    return st.lists(pieces(name) | st.text(max_size=3), max_size=40).map("".join)


def conserved(fmt: formats.Format, events: list[Event], text: str) -> None:
    """Content is the input where its span says, and what is no content lies in between."""
    for event in events:
        if isinstance(event, Content) and not rewrites(fmt):
            assert event.text == text[event.span[0] : event.span[1]]


def no_text_fails_and_no_chunks_matter(name: str, count: int) -> None:
    fmt = formats.get(name)

    @settings(max_examples=count)
    @given(texts(name), st.sampled_from((None, TOOLS)), st.data())
    def check(text: str, tools: Any, data: st.DataObject) -> None:
        cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6))
        events = feed(fmt.parser(tools, id_factory=str), splits(text, cuts))
        message = check_stream(events, len(text))
        conserved(fmt, events, text)
        assert message == fmt.parse(text, tools, id_factory=str)
        assert message == check_stream(feed(fmt.parser(tools, id_factory=str), text), len(text))

    check()


@pytest.mark.parametrize("name", NAMES)
def test_no_text_fails_and_no_chunks_matter(name: str) -> None:
    no_text_fails_and_no_chunks_matter(name, 25)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_no_text_fails_and_no_chunks_matter_for_long(name: str) -> None:
    no_text_fails_and_no_chunks_matter(name, 1_500)


def no_bytes_fail(name: str, count: int) -> None:
    fmt = formats.get(name)
    random = Random(name)
    hostile = [piece.encode("utf-8", "surrogatepass") for piece in [*pieces_of(fmt), *OTHERS]]
    for _ in range(count):
        data = b"".join(
            random.choice(hostile) if random.random() < 0.5 else random.randbytes(random.randrange(4))
            for _ in range(random.randrange(20))
        )
        size = random.randrange(1, 6)
        parser = fmt.parser(id_factory=str)
        events: list[Event] = []
        for at in range(0, len(data), size):
            events += parser.feed_bytes(data[at : at + size])
        message = check_stream(events + parser.finish(), len(data))
        assert message == fmt.parse(data.decode("utf-8", "replace"), id_factory=str), data


@pytest.mark.parametrize("name", NAMES)
def test_no_bytes_fail(name: str) -> None:
    no_bytes_fail(name, 60)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_no_bytes_fail_for_long(name: str) -> None:
    no_bytes_fail(name, 5_000)


def broken_transcripts(name: str, count: int) -> None:
    """Transcripts in which pieces are replaced, doubled and left out."""
    random = Random(name)
    hostile = pieces_of(formats.get(name))
    for case in cases_of(name):
        for _ in range(count):
            text = case.text
            for _ in range(random.randrange(1, 4)):
                at, upto = random.randrange(len(text) + 1), random.randrange(len(text) + 1)
                put = random.choice([random.choice(hostile), text[at:upto], ""])
                text = text[:at] + put + text[at + random.randrange(9) :]
            with naming(repr(text)):
                cut = random.randrange(len(text) + 1)
                events = feed(case.parser(), (text[:cut], text[cut:]))
                message = check_stream(events, len(text))
                conserved(case.fmt, events, text)
                assert message == check_stream(feed(case.parser(), text), len(text))


@pytest.mark.parametrize("name", NAMES)
def test_broken_transcripts(name: str) -> None:
    broken_transcripts(name, 2)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_broken_transcripts_for_long(name: str) -> None:
    broken_transcripts(name, 150)


@pytest.mark.parametrize("name", NAMES)
def test_without_tools_content_is_the_text(name: str) -> None:
    fmt = formats.get(name)
    if any(shape.heading() for shape in fmt.calls):
        return  # what heads text is markup all the same
    random = Random(name)
    for _ in range(5):
        text = "".join(random.choice(pieces_of(fmt)) for _ in range(20))
        parser = fmt.parser([], reasoning=None)
        for char in text:
            assert [event.text for event in parser.feed(char) if isinstance(event, Content)] == [char]
        assert parser.finish() == []


# Cost.


def steady(name: str, words: list[str], fill: int, steps: int) -> int:
    """Bytes by which the process grows while the parser reads the pieces of one string argument from `fill` to `steps`.
    What other threads have left to do counts, too."""
    fmt = formats.get(name)
    random = Random(1)
    tools = [{"name": "f", "parameters": {"properties": {"text": {"type": "string"}}}}]
    start, _, _ = fmt.render({"tool_calls": [{"name": "f", "arguments": {"text": "CUT"}}]}).partition("CUT")
    parser = fmt.parser(tools)
    parser.feed(start)
    tracemalloc.start()
    before = 0
    for step in range(steps):
        if step == fill:
            before = tracemalloc.get_traced_memory()[0]
        parser.feed(random.choice(words))
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return grown


@pytest.mark.parametrize("name", NAMES)
def test_memory_does_not_grow_with_the_text(name: str) -> None:
    words = ["a < b", '\\"x\\"', "</tool", " [TOOL_", "é", "lorem ipsum "]
    assert any(steady(name, words, 1_500, 4_500) < 15_000 for _ in range(3))  # a parser that grows does so each time
