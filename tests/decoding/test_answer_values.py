"""Values and their log-probabilities out of a parser's events; and sequences that end when a value is there."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import ScriptedEngine

from narrows import InputError, LimitError, Limits, Vocabulary, formats
from narrows.decoding.values import AnswerNews, AnswerValue, AnswerValues, UnreadText, ValueOptions
from narrows.engines.api import Output, Request, SamplingParams
from narrows.events import Content, ToolCallArguments, ToolCallEnd, ToolCallStart

HERMES = formats.get("hermes_json")
CALLS = (
    'Well: é\n<tool_call>\n{"name": "f", "arguments": {"a": [1, {"b": "x é y"}], "c": null}}\n</tool_call>\n'
    '<tool_call>\n{"name": "g", "arguments": {"q": 12}}\n</tool_call>'
)
FOUND = [
    (0, "/a/0", 1),
    (0, "/a/1", {"b": "x é y"}),
    (0, "/a", [1, {"b": "x é y"}]),
    (0, "/c", None),
    (0, "", {"a": [1, {"b": "x é y"}], "c": None}),
    (1, "/q", 12),
    (1, "", {"q": 12}),
]


def said(news: list[AnswerNews]) -> list[tuple[int | None, str, Any]]:
    assert all(isinstance(one, AnswerValue) for one in news)
    return [(one.call, one.value.pointer, one.value.value) for one in news if isinstance(one, AnswerValue)]


@given(st.lists(st.integers(1, len(CALLS.encode()) - 1), max_size=30), st.booleans())
@settings(max_examples=100, deadline=None)
def test_each_value_of_each_call_has_the_tokens_that_it_was_written_in(places, special):
    """Tokens are cut anywhere, also within a character. In half of the cases the markers are tokens."""
    data = CALLS.encode()
    if special:
        marks = [i for name in (b"<tool_call>", b"</tool_call>") for at in range(len(data)) if data.startswith(name, at) for i in (at, at + len(name))]  # fmt: skip
        inside = [range(a + 1, b) for a, b in zip(marks[::2], marks[1::2], strict=True)]
        places = [*marks, *(place for place in places if not any(place in span for span in inside))]
    bounds = sorted({0, *(place for place in places if place < len(data)), len(data)})
    pieces = [data[a:b] for a, b in itertools.pairwise(bounds)]
    names = {"<tool_call>": 0, "</tool_call>": 1} if special else {}
    table = sorted({piece for piece in pieces if piece.decode(errors="replace") not in names})
    vocabulary = Vocabulary([*[b""] * len(names), *table, b"<end>"], special=names, eos=[len(names) + len(table)])
    ids = [names[piece.decode()] if piece.decode(errors="replace") in names else len(names) + table.index(piece) for piece in pieces]  # fmt: skip
    parser = HERMES.parser(vocab=vocabulary)
    values = AnswerValues(ValueOptions(content=False))
    logprobs = [-(2.0**i) for i in range(len(ids))]
    news = []
    for token, logprob in zip(ids, logprobs, strict=True):
        events = parser.feed_tokens([token])
        values.token(parser.position, logprob)
        news += values.feed(events)
    news += values.feed(parser.finish()) + values.finish()
    assert said(news) == FOUND
    for one in news:
        arguments = '{"a": [1, {"b": "x é y"}], "c": null}' if one.call == 0 else '{"q": 12}'
        begin = CALLS.index(arguments)
        start, end = (len(CALLS[: begin + place].encode()) for place in one.value.span)
        assert json.loads(CALLS[begin:][slice(*one.value.span)]) == one.value.value
        inside = [i for i, (a, b) in enumerate(itertools.pairwise(bounds)) if max(a, start) < min(b, end)]
        assert (one.value.logprob, one.value.tokens) == (sum(logprobs[i] for i in inside), len(inside))


def test_text_that_is_no_json_is_told_once_and_the_rest_goes_on() -> None:
    values = AnswerValues(ValueOptions())
    news = values.feed([Content('{"a": 1, x', (0, 10))]) + values.feed([Content("y", (10, 11))])
    assert said(news[:1]) == [(None, "/a", 1)]
    assert [(one.error.code, one.call) for one in news[1:] if isinstance(one, UnreadText)] == [("json_invalid", None)]
    news = values.feed(
        [
            ToolCallStart(0, "1", "f", (11, 12)),
            ToolCallArguments(0, '{"a": ', (12, 18)),
            ToolCallEnd(0, False, "cut", (18, 18)),
            ToolCallStart(1, "2", "f", (18, 19)),
            ToolCallArguments(1, "[[", (19, 21)),
            ToolCallArguments(1, "[]", (21, 23)),
            ToolCallArguments(1, "]]", (23, 25)),
            ToolCallEnd(1, True, None, (25, 25)),
        ]
    )
    assert said(news) == [(1, "/0/0", []), (1, "/0", [[]]), (1, "", [[[]]])]
    assert values.finish() == []
    cut = [ToolCallStart(2, "3", "f", (25, 26)), ToolCallArguments(2, "12", (26, 28))]
    assert values.feed([*cut, ToolCallEnd(2, False, "cut", (28, 28))]) == []
    assert said(values.feed([*cut, ToolCallEnd(2, True, None, (28, 28))])) == [(2, "", 12)]
    deep = AnswerValues(ValueOptions(limits=Limits(stream_depth=2)))
    (unread,) = deep.feed([Content("[[[", (0, 3))])
    assert isinstance(unread, UnreadText)
    assert isinstance(unread.error, LimitError)


def test_arguments_that_were_not_written_as_json_have_the_tokens_of_their_piece() -> None:
    values = AnswerValues(ValueOptions())
    for end in (10, 14, 18, 30):
        values.token(end, -float(end))
    news = values.feed(
        [
            ToolCallStart(0, "1", "f", (0, 10)),
            ToolCallArguments(0, '{"a": ', (10, 12)),
            ToolCallArguments(0, "1", (12, 13)),
            ToolCallArguments(0, "23", (13, 15)),
            ToolCallArguments(0, ', "b": "<"}', (15, 20)),
        ]
    )
    assert [(one.value.pointer, one.value.logprob) for one in news if isinstance(one, AnswerValue)] == [
        ("/a", -32.0),
        ("/b", -48.0),
        ("", -62.0),
    ]


def test_options() -> None:
    for wrong in ({"stop_at": ["a"]}, {"pointers": ["a/b"]}):
        with pytest.raises(InputError) as caught:
            ValueOptions(**wrong)  # type: ignore[arg-type]
        assert caught.value.code == "pointer_invalid"


# Sequences.


def outputs(script: str, *, parser: Any = None, values: ValueOptions, **sampling: Any) -> Output:
    """All that one sequence says."""
    engine = ScriptedEngine(script)
    request = Request(
        request_id="r",
        prompt_token_ids=[65],
        sampling=SamplingParams(**{"max_tokens": 1_000, "logprobs": 0, **sampling}),
        parser_factory=parser and (lambda index: parser(vocab=engine.vocabulary)),
        values=values,
    )
    whole = Output(index=0)
    for output in engine.generate(request):
        whole.merge(output)
    return whole


def text_of(output: Output, kind: Any = Content) -> str:
    return "".join(event.text for event in output.events if isinstance(event, kind))


ITEMS = '{"items": [{"id": 1}, {"id": 22}, {"id": 3}]}'


@pytest.mark.parametrize("stop", [(), ("NEVER",), ("]}",)])
@pytest.mark.parametrize("parser", [None, HERMES.parser])
def test_values_of_the_text_of_a_sequence(parser: Any, stop: tuple[str, ...]) -> None:
    output = outputs(ITEMS, parser=parser, values=ValueOptions(), stop=stop)
    items = json.loads(ITEMS)
    expected = [(None, f"/items/{i}", items["items"][i]) for i in range(3)]
    whole = [*expected, (None, "/items", items["items"]), (None, "", items)]
    assert said(output.values) == (expected if stop == ("]}",) else whole)
    for one in output.values:
        assert isinstance(one, AnswerValue)
        start, end = one.value.span
        assert one.value.tokens == end - start  # a byte is a token
        assert one.value.logprob == pytest.approx(0)


@pytest.mark.parametrize("parser", [None, HERMES.parser])
def test_a_sequence_ends_when_a_value_is_there(parser: Any) -> None:
    for stop_at, written, reason in (
        (["/items/1"], '{"items": [{"id": 1}, {"id": 22}', "/items/1"),
        (["/none", "/items/*/id"], '{"items": [{"id": 1}', "/items/0/id"),
        ([""], ITEMS, ""),
        (["/none"], ITEMS, None),
    ):
        output = outputs(ITEMS, parser=parser, values=ValueOptions(pointers=(), stop_at=stop_at))
        assert output.text == written
        assert parser is None or text_of(output) == written
        assert (output.finish_reason, output.stop_reason, output.values) == ("stop", reason, [])


def test_the_least_number_of_tokens_comes_first() -> None:
    output = outputs(ITEMS, values=ValueOptions(stop_at=["/items/0"]), min_tokens=25)
    assert (output.text, output.stop_reason) == (ITEMS[:25], "/items/0")
    output = outputs(ITEMS, values=ValueOptions(stop_at=["/items/0"]), min_tokens=5)
    assert output.text == ITEMS[:20]


def test_a_sequence_ends_in_the_arguments_of_a_call() -> None:
    output = outputs(CALLS, parser=HERMES.parser, values=ValueOptions(content=False, stop_at=["/a/1"]))
    assert text_of(output, ToolCallArguments) == '{"a": [1, {"b": "x é y"}'
    assert (output.finish_reason, output.stop_reason) == ("stop", "/a/1")
    end = output.events[-1]
    assert isinstance(end, ToolCallEnd)
    assert not end.complete
    output = outputs(CALLS, parser=HERMES.parser, values=ValueOptions(content=False, stop_at=["/q"]))
    assert text_of(output, ToolCallArguments).endswith('{"q": 12}')
    assert output.stop_reason == "/q"


def test_a_number_that_is_the_whole_text_is_whole_at_its_end_only() -> None:
    assert said(outputs("12", values=ValueOptions()).values) == [(None, "", 12)]
    assert outputs("12", values=ValueOptions(), max_tokens=2).values == []
    assert outputs("12", values=ValueOptions(stop_at=[""]), max_tokens=2).finish_reason == "length"
