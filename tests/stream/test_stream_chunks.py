"""Chunks do not matter: every transcript, however it is cut, adds up to the same answer as in one piece.

One test per format and way of cutting; a failure names the case. For one format: `pytest -k NAME`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from random import Random

import pytest
from transcripts import (
    NAMES,
    TOOLS,
    Case,
    begins_in_a_marker,
    cases_of,
    check_stream,
    facts,
    feed,
    like_tokens,
    naming,
    openers,
    splits,
)

from narrows import formats
from narrows.events import Event, ToolCallArguments, ToolCallStart
from narrows.stream import Message, StreamParser, collect


class Tokens:
    """A vocabulary of given strings, with some as special tokens; `encode` takes the longest match."""

    def __init__(self, strings: Iterable[str], special: Iterable[str]) -> None:
        ordinary = [bytes([b]) for b in range(256)] + [s.encode() for s in strings]
        names = list(special)
        self.special = {name: len(ordinary) + i for i, name in enumerate(names)} | {
            "<|the end|>": len(ordinary) + len(names)
        }
        self._bytes = [*ordinary, *[b""] * (len(names) + 1)]
        self.size = len(self._bytes) + 3
        self.eos_ids = [self.special["<|the end|>"]]
        self._longest = sorted(ordinary, key=len, reverse=True)
        self._ids = {data: i for i, data in enumerate(ordinary)}

    def token_bytes(self, token: int) -> bytes:
        return self._bytes[token] if token < len(self._bytes) else b""

    def encode(self, text: str, with_special: bool) -> list[int]:
        ids: list[int] = []
        at = 0
        while at < len(text):
            name = next((n for n in self.special if text.startswith(n, at)), None) if with_special else None
            if name is not None:
                ids.append(self.special[name])
                at += len(name)
                continue
            data = text[at:].encode()
            piece = next(b for b in self._longest if data.startswith(b))
            while True:  # to the end of a character
                ids.append(self._ids[piece])
                data = data[len(piece) :]
                try:
                    at = len(text) - len(data.decode())
                    break
                except UnicodeDecodeError:
                    piece = next(b for b in self._longest if data.startswith(b))
        return ids


WORDS = ["the", '{"', '": ', '", "', "}}", "}\n", "<tool", "</", "_call", ">\n", "param", "eter", ' "', "é🌦"]
PAIRS: dict[str, list[tuple[Case, Message]]] = {}


def every(name: str, check: Callable[[Case, Message], None]) -> None:
    """Holds each case of the format, with what it says in one piece, against the check."""
    if name not in PAIRS:
        PAIRS[name] = []
        for case in cases_of(name):
            with naming(case):
                PAIRS[name].append((case, case.parse()))
    for case, expected in PAIRS[name]:
        with naming(case):
            check(case, expected)


def splits_in_two(name: str, most: int) -> None:
    """Every cut of texts of up to `most` characters; of longer ones so many, others in each case."""

    def check(case: Case, expected: Message) -> None:
        step = -(-(len(case.text) + 1) // most)
        for cut in range(len(case.name) % step, len(case.text) + 1, step):
            events = feed(case.parser(), (case.text[:cut], case.text[cut:]))
            assert check_stream(events, len(case.text)) == expected, f"cut at {cut}"

    every(name, check)


@pytest.mark.parametrize("name", NAMES)
def test_splits_in_two(name: str) -> None:
    splits_in_two(name, 12)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_every_split_in_two(name: str) -> None:
    splits_in_two(name, 1_000_000)


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_alone(name: str) -> None:
    def check(case: Case, expected: Message) -> None:
        data = case.text.encode()
        for size in (1, 2, 3):
            parser = case.parser()
            events: list[Event] = []
            for at in range(0, len(data), size):
                events += parser.feed_bytes(data[at : at + size])
            events += parser.finish()
            assert check_stream(events, len(data)) == expected, f"{size} at a time"

    every(name, check)


def random_splits(name: str, count: int) -> None:
    def check(case: Case, expected: Message) -> None:
        random = Random(case.text)
        for _ in range(count):
            cuts = [random.randrange(len(case.text) + 1) for _ in range(random.randrange(1, 9))]
            assert check_stream(feed(case.parser(), splits(case.text, cuts)), len(case.text)) == expected, cuts

    every(name, check)


@pytest.mark.parametrize("name", NAMES)
def test_random_splits(name: str) -> None:
    random_splits(name, 8)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_many_random_splits(name: str) -> None:
    random_splits(name, 300)


@pytest.mark.parametrize("name", NAMES)
def test_tokens_with_markers_as_ids(name: str) -> None:
    fmt = formats.get(name)
    vocab = Tokens(WORDS, like_tokens(fmt.markers(fmt.reasoning)))

    def check(case: Case, expected: Message) -> None:
        if begins_in_a_marker(case):
            return
        ids = vocab.encode(case.text, with_special=True)
        for size in (1, 2, len(ids) or 1):
            parser = case.parser(vocab=vocab)
            events: list[Event] = []
            for at in range(0, len(ids), size):
                events += parser.feed_tokens(ids[at : at + size])
            events += parser.finish()
            assert check_stream(events, len(case.text)) == expected, f"{size} tokens at a time"

    every(name, check)


@pytest.mark.parametrize("name", NAMES)
def test_spelled_markers_are_text_where_the_vocabulary_has_them_as_ids(name: str) -> None:
    fmt = formats.get(name)
    markers = fmt.markers(fmt.reasoning)
    if {*openers(fmt), *openers(fmt, at_start=True)} - set(markers) or (
        fmt.reasoning is not None and fmt.reasoning.opened
    ):
        return  # a call may begin without a marker, or the answer begins in reasoning
    vocab = Tokens(WORDS, markers)

    def check(case: Case, expected: Message) -> None:
        parser = case.parser(vocab=vocab)
        events = parser.feed_tokens(vocab.encode(case.text, with_special=False)) + parser.finish()
        message = check_stream(events, len(case.text))
        if not {"prompt", "reasoning"} & case.options.keys():
            assert (message.content or "", message.reasoning, message.tool_calls) == (case.text, None, [])

    every(name, check)


@pytest.mark.parametrize("name", NAMES)
def test_tokens_where_markers_are_ordinary_text(name: str) -> None:
    vocab = Tokens(["<tool_", "call>", "[TOOL", "_CALLS]", *WORDS], [])

    def check(case: Case, expected: Message) -> None:
        parser = case.parser(vocab=vocab)
        events: list[Event] = []
        for token in vocab.encode(case.text, with_special=False):
            events += parser.feed_tokens([token])
        assert check_stream(events + parser.finish(), len(case.text)) == expected

    every(name, check)


@pytest.mark.parametrize("name", NAMES)
def test_every_character_alone_and_nothing_is_taken_back(name: str) -> None:
    def check(case: Case, expected: Message) -> None:
        parser = case.parser()
        events: list[Event] = []
        for char in [*case.text, None]:
            new = parser.finish() if char is None else parser.feed(char)
            events += new
            if not new:
                continue
            so_far = collect(events)
            assert (expected.content or "").startswith(so_far.content or "")
            assert (expected.reasoning or "").startswith(so_far.reasoning or "")
            for call, final in zip(so_far.tool_calls, expected.tool_calls, strict=False):
                assert (call.id, call.name) == (final.id, final.name)
                assert final.arguments.startswith(call.arguments)
        assert check_stream(events, len(case.text)) == expected

    every(name, check)


@pytest.mark.parametrize("name", NAMES)
def test_answers_beside_each_other(name: str) -> None:
    """All cases at once, whole and cut, a character of each in turn: answers share what does not change, and nothing
    else."""
    runs: list[tuple[Case, str, dict[str, str]]] = []
    for case in cases_of(name):
        required = {"tool_choice": "required"} if case.options["tools"] else {}
        runs += [(case, case.text, {}), (case, case.text[: len(case.text) * 2 // 3], required)]
    parsers = [case.parser(**more) for case, _, more in runs]
    answers: list[list[Event]] = [[] for _ in runs]
    for at in range(max((len(case.text) for case in cases_of(name)), default=0)):
        for (_, text, _), parser, events in zip(runs, parsers, answers, strict=True):
            events += parser.feed(text[at : at + 1])
    for (case, text, more), parser, events in zip(runs, parsers, answers, strict=True):
        with naming(case):
            alone = feed(case.parser(**more), [text])
            assert check_stream(events + parser.finish(), len(text)) == collect(alone), (text, more)


# The deltas that are known to break parsers, by name.


def test_a_string_cut_in_the_middle_and_ended_with_its_marker() -> None:
    parser = formats.get("hermes_json").parser()
    events = parser.feed('<tool_call>{"name": "ask", "arguments": ')
    first = parser.feed('{"pro')
    assert [e.text for e in first if isinstance(e, ToolCallArguments)] == ['{"pro']
    second = parser.feed('mpt": "dog"}}</tool_call>')
    assert [e.text for e in second if isinstance(e, ToolCallArguments)] == ['mpt": "dog"}']
    message = collect(events + first + second + parser.finish())
    assert (message.tool_calls[0].arguments, message.tool_calls[0].complete) == ('{"prompt": "dog"}', True)


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_call_in_one_delta(name: str) -> None:
    fmt = formats.get(name)
    call = {"function": {"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}}
    parser = fmt.parser(TOOLS)
    events = parser.feed(fmt.render({"tool_calls": [call]}))
    message = collect(events + parser.finish())
    assert [(c.name, c.complete) for c in message.tool_calls] == [("get_weather", True)]
    assert isinstance(events[0], ToolCallStart)


@pytest.mark.parametrize("name", [name for name in NAMES if not facts(name).single])
def test_the_end_of_one_call_and_the_start_of_the_next_in_one_delta(name: str) -> None:
    fmt = formats.get(name)
    calls = [{"function": {"name": "get_weather", "arguments": {"city": city}}} for city in ("Paris", "Rome")]
    text = fmt.render({"tool_calls": calls})
    first, second = text.index("ris"), text.index("Rome") + 2
    parser = fmt.parser(TOOLS)
    events = feed(parser, [text[:first], text[first:second], text[second:]])
    message = collect(events)
    assert [json.loads(c.arguments) for c in message.tool_calls] == [{"city": "Paris"}, {"city": "Rome"}]


def feed_all(parser: StreamParser, text: str) -> Message:
    return collect(feed(parser, list(text)))


def test_two_markers_in_one_token() -> None:
    vocab = Tokens(["</tool_call><tool_call>", "</tool_call>", "<tool_call>"], [])
    text = '<tool_call>{"name":"now"}</tool_call><tool_call>{"name":"now"}</tool_call>'
    parser = formats.get("hermes_json").parser(vocab=vocab)
    events: list[Event] = []
    for token in vocab.encode(text, with_special=False):
        events += parser.feed_tokens([token])
    assert len(collect(events + parser.finish()).tool_calls) == 2
