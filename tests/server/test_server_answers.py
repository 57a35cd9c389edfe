"""From outputs to chunks to answers: OpenAI's streaming semantics. The complete answer equals the stream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.engines.api import Output, TokenLogprob
from narrows.errors import EngineError
from narrows.events import Content, Event, Reasoning, ToolCallArguments, ToolCallEnd, ToolCallStart
from narrows.server.answers import (
    ChatChoice,
    TextChoice,
    chat_logprobs,
    collect_chat,
    collect_text,
    text_logprobs,
)

SPAN = (0, 0)


def call(index: int, name: str, *pieces: str, complete: bool = True) -> list[Event]:
    arguments: list[Event] = [ToolCallArguments(index, piece, SPAN) for piece in pieces]
    start = ToolCallStart(index, f"id{index}", name, SPAN)
    return [start, *arguments, ToolCallEnd(index, complete, None if complete else "cut", SPAN)]


def chunks_of(outputs: list[Output], **options: Any) -> list[dict[str, Any]]:
    choice = ChatChoice(0, **options)
    return [choice.first(), *(chunk for output in outputs for chunk in choice.feed(output))]


def test_a_call_streams_as_openai_streams_it() -> None:
    events = [Content("Let me look.", SPAN), *call(0, "get", '{"a"', ": 1}"), *call(1, "get", "{}")]
    chunks = chunks_of([Output(index=0, events=events, finish_reason="stop")])
    assert [chunk["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": ""},
        {"content": "Let me look."},
        {"tool_calls": [{"index": 0, "id": "id0", "type": "function", "function": {"name": "get", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a": 1}'}}]},
        {"tool_calls": [{"index": 1, "id": "id1", "type": "function", "function": {"name": "get", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {},
    ]
    assert [chunk["finish_reason"] for chunk in chunks] == [None] * 6 + ["tool_calls"]


@pytest.mark.parametrize(
    ("events", "reason", "named", "expected"),
    [
        ([Content("x", SPAN)], "stop", False, "stop"),
        ([Content("x", SPAN)], "length", False, "length"),
        (call(0, "f", "{}"), "stop", False, "tool_calls"),
        (call(0, "f", "{}"), "stop", True, "stop"),
        (call(0, "f", "{}"), "length", False, "length"),
        (call(0, "f", '{"a', complete=False), "length", False, "length"),
        (call(0, "f", '{"a', complete=False), "stop", False, "stop"),
        ([*call(0, "f", "{}"), *call(1, "f", '{"a', complete=False)], "stop", False, "tool_calls"),
    ],
)
def test_finish_reason_is_honest(events: list[Event], reason: Any, named: bool, expected: str) -> None:
    chunks = chunks_of([Output(index=0, events=events), Output(index=0, finish_reason=reason)], named=named)
    assert chunks[-1]["finish_reason"] == expected
    assert chunks[-1]["delta"] == {}


def test_reasoning_has_both_spellings_and_can_be_left_out() -> None:
    events = [Reasoning("hm", SPAN), Reasoning("m", SPAN), Content("a", SPAN)]
    chunks = chunks_of([Output(index=0, events=list(events), finish_reason="stop")])
    assert chunks[1]["delta"] == {"reasoning": "hmm", "reasoning_content": "hmm"}
    message = collect_chat(chunks)[0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("hmm", "a")
    hidden = collect_chat(
        chunks_of([Output(index=0, events=list(events), finish_reason="stop")], include_reasoning=False)
    )
    assert "reasoning_content" not in hidden[0]["message"]


def test_one_failed_sequence_says_so_in_its_choice() -> None:
    failed = Output(index=0, finish_reason="error", error=EngineError("no", code="sequence_failed"))
    [choice] = collect_chat(chunks_of([failed]))
    assert choice["finish_reason"] == "error"
    assert choice["error"]["code"] == "sequence_failed"


def test_logprobs_wait_for_a_chunk_and_none_is_lost() -> None:
    def token(i: int) -> TokenLogprob:
        return TokenLogprob(i, -0.5, 1, top=((i, -0.5),))

    outputs = [
        Output(index=0, token_ids=[65], logprobs=[token(65)]),
        Output(index=0, token_ids=[66], events=[Content("AB", SPAN)], logprobs=[token(66)]),
        Output(index=0, token_ids=[0], logprobs=[token(0)], finish_reason="stop"),
    ]
    chunks = chunks_of(outputs, logprobs=chat_logprobs(lambda i: (chr(i), bytes([i]))))
    assert "logprobs" not in chunks[0]
    [choice] = collect_chat(chunks)
    content = choice["logprobs"]["content"]
    assert [entry["token"] for entry in content] == ["A", "B", "\0"]
    assert content[0]["top_logprobs"] == [{"token": "A", "logprob": -0.5, "bytes": [65]}]


def test_logprobs_of_the_content_are_with_it_however_outputs_are_cut() -> None:
    """The tokens write `<think>`, a thought, `</think>`, `Hé`, a call and the end. `é` is two tokens, `He` begins with
    a piece that is held back, and `k>H` has an end of markup in it."""
    texts = [("<thin", 5), ("k>", 7), ("hm</thin", 15), ("k>H", 18), ("\xc3", 18), ("\xa9", 19), ("!<call>", 26), ("</s>", 26)]  # fmt: skip
    outputs, start = [], 0
    for token, (_, end) in enumerate(texts):
        logprob = TokenLogprob(token, -float(token), 1)
        outputs.append(Output(index=0, token_ids=[token], logprobs=[logprob], logprob_spans=[(start, end)]))
        start = end
    outputs[2].events = [Reasoning("hm", (7, 9))]
    outputs[5].events = [Content("H", (17, 18)), Content("é", (18, 19))]
    outputs[6].events = [Content("!", (19, 20)), ToolCallStart(0, "i", "f", (20, 26))]
    outputs[7].finish_reason = "stop"
    describe = chat_logprobs(lambda i: (texts[i][0], b""))
    seen = []
    for size in range(1, len(outputs) + 1):
        merged: list[Output] = []
        for i, output in enumerate(outputs):
            if i % size == 0:
                merged.append(Output(index=0))
            merged[-1].merge(output)
        chunks = chunks_of(merged, logprobs=describe, of_content=True)
        for chunk in chunks:
            assert "logprobs" not in chunk or "content" in chunk["delta"]
        seen.append([entry["token"] for entry in collect_chat(chunks)[0]["logprobs"]["content"]])
    assert seen == [["k>H", "\xc3", "\xa9", "!<call>"]] * len(outputs)


def test_plain_completions_join_texts_and_offsets() -> None:
    choice = TextChoice(3, logprobs=text_logprobs(lambda i: (chr(i), bytes([i]))))
    outputs = [
        Output(index=0, token_ids=[65], text="A", logprobs=[TokenLogprob(65, -1.0, 1)]),
        Output(
            index=0,
            token_ids=[66],
            text="B",
            logprobs=[TokenLogprob(66, -1.0, 1)],
            finish_reason="stop",
            stop_reason="X",
        ),
    ]
    [answer] = collect_text([chunk for output in outputs for chunk in choice.feed(output)])
    assert (answer["index"], answer["text"], answer["finish_reason"], answer["stop_reason"]) == (3, "AB", "stop", "X")
    assert answer["logprobs"]["text_offset"] == [0, 1]


def test_a_written_token_is_among_the_likeliest_of_a_plain_completion() -> None:
    """OpenAI: "there may be up to logprobs + 1 elements"."""
    write = text_logprobs(lambda i: (chr(i), bytes([i])) if i < 128 else ("\ufffd", bytes([i])))
    tokens = [
        TokenLogprob(65, -2.0, 3, top=((66, -0.5), (67, -1.0))),
        TokenLogprob(66, -0.5, 1, top=((66, -0.5), (67, -1.0))),
        TokenLogprob(65, -2.0, 3),
        TokenLogprob(200, -2.0, 2, top=((201, -0.1),)),
    ]
    assert write(tokens)["top_logprobs"] == [
        {"B": -0.5, "C": -1.0, "A": -2.0},
        {"B": -0.5, "C": -1.0},
        {"A": -2.0},
        {"\ufffd": -0.1},
    ]


texts = st.text(max_size=8)
segments = st.one_of(
    st.builds(lambda t: [Content(t, SPAN)], texts),
    st.builds(lambda t: [Reasoning(t, SPAN)], texts),
    st.builds(lambda pieces, complete: ("call", pieces, complete), st.lists(texts, max_size=3), st.booleans()),
)


@given(
    st.lists(segments, max_size=6),
    st.lists(st.integers(1, 4), min_size=1, max_size=30),
    st.sampled_from(["stop", "length"]),
)
def test_however_outputs_are_cut_the_answer_is_the_same(parts: list[Any], cuts: list[int], reason: Any) -> None:
    events: list[Event] = []
    calls_so_far = 0
    for part in parts:
        if isinstance(part, tuple):
            events += call(calls_so_far, f"f{calls_so_far}", *part[1], complete=part[2])
            calls_so_far += 1
        else:
            events += part
    whole = chunks_of([Output(index=0, events=list(events), finish_reason=reason)])
    outputs, rest = [], list(events)
    for size in cuts:
        outputs.append(Output(index=0, events=rest[:size]))
        rest = rest[size:]
    outputs.append(Output(index=0, events=rest, finish_reason=reason))
    cut = chunks_of(outputs)
    assert collect_chat(cut) == collect_chat(whole)
    _follows_the_rules(cut)


def _follows_the_rules(chunks: list[dict[str, Any]]) -> None:
    assert chunks[0]["delta"]["role"] == "assistant"
    seen = -1
    for chunk in chunks[1:-1]:
        delta = chunk["delta"]
        assert delta
        assert "role" not in delta
        assert chunk["finish_reason"] is None
        assert all(value for value in delta.values())
        for tool_call in delta.get("tool_calls", ()):
            if "id" in tool_call:
                seen += 1
                assert tool_call["function"]["arguments"] == ""
            else:
                assert set(tool_call) == {"index", "function"}
                assert tool_call["function"]["arguments"]
            assert tool_call["index"] == seen
    assert chunks[-1]["delta"] == {}
    assert json.loads(json.dumps(chunks)) == chunks
