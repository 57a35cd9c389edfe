"""A reasoning parser and a tool parser of narrows under the real server: prompts that open reasoning, calls that must come after it, several choices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from client import Client
from conftest import Start

pytestmark = pytest.mark.timeout(1800)

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
ASK = [{"role": "user", "content": "What is the weather in Paris?"}]
NEWLINE = "198"  # which may stand before reasoning, and is wanted nowhere else that a call begins
THINKING = [*ASK, {"role": "assistant", "content": "<think>\nThe user wants"}]
CONTINUED = {"add_generation_prompt": False, "continue_final_message": True}


@pytest.fixture(scope="module")
def client(start_server: Start, markers_model: Path) -> Client:
    flags = (
        "--enable-auto-tool-choice",
        "--tool-call-parser",
        "narrows_hermes_json",
        "--reasoning-parser",
        "narrows_think",
    )
    return start_server(*flags, model=markers_model)


@pytest.fixture(scope="module")
def markers(markers_model: Path) -> tuple[str, str]:
    """The ids of the opener and the closer, as `logit_bias` wants them."""
    from transformers import AutoTokenizer

    opener, closer = AutoTokenizer.from_pretrained(markers_model).convert_tokens_to_ids(["<think>", "</think>"])
    return str(opener), str(closer)


def both(client: Client, messages: list[dict[str, Any]], **options: Any) -> tuple[list[Any], list[Any]]:
    options = {"max_tokens": 60, "seed": 3, "request_id": "r", "temperature": 0.8, **options}
    return client.stream(messages, **options), client.complete(messages, **options)


@pytest.mark.parametrize("messages", [ASK, THINKING], ids=["not opened", "opened by the prompt"])
def test_required_call_comes_for_every_choice(
    messages: list[dict[str, Any]], client: Client, markers: tuple[str, str]
) -> None:
    """Behind the reasoning that the prompt has opened, which the model is made to close at once; else from the first token on, where the model is kept
    from reasoning, which it may."""
    opened = messages is THINKING
    opener, closer = markers
    options = (
        {**CONTINUED, "logit_bias": {closer: 100}}
        if opened
        else {"logit_bias": {opener: -100, closer: -100, NEWLINE: -100}}
    )
    for answers in both(
        client, messages, tools=[TOOL], tool_choice="required", parallel_tool_calls=False, n=3, **options
    ):
        assert len(answers) == 3
        for answer in answers:
            assert [call.name for call in answer.calls] == ["get_weather"], answer
            assert set(json.loads(answer.calls[0].arguments)) == {"city"}
            assert (answer.content.strip(), answer.reasoning.strip()) == ("", "")
            assert answer.finish_reason == "tool_calls"
            assert (int(closer) in answer.token_ids) == opened


def test_prompt_says_that_the_answer_is_reasoning(client: Client) -> None:
    streamed, complete = both(client, THINKING, tools=[TOOL], **CONTINUED, n=2)
    for answer in (*streamed, *complete):
        assert answer.reasoning
        assert answer.content == ""
    assert [a.said() for a in streamed if a.token_ids in [c.token_ids for c in complete]] == [
        c.said() for c in complete if c.token_ids in [a.token_ids for a in streamed]
    ]


def test_nothing_opened_is_content(client: Client) -> None:
    for answers in both(client, ASK, tools=[TOOL]):
        assert answers[0].content
        assert answers[0].reasoning == ""


def test_reasoning_left_out(client: Client) -> None:
    for answers in both(client, THINKING, include_reasoning=False, **CONTINUED):
        assert (answers[0].reasoning, answers[0].content) == ("", "")


SHAPE = {
    "type": "object",
    "properties": {"sunny": {"type": "boolean"}, "note": {"type": "string", "maxLength": 20}},
    "required": ["sunny", "note"],
    "additionalProperties": False,
}
SHAPED = {"response_format": {"type": "json_schema", "json_schema": {"name": "weather", "schema": SHAPE}}}


def biased(markers_model: Path, bias: int, *more: str) -> dict[str, Any]:
    """What begins a call, and more, is favoured, or avoided."""
    from transformers import AutoTokenizer

    opener = AutoTokenizer.from_pretrained(markers_model).convert_tokens_to_ids("<tool_call>")
    return {"logit_bias": dict.fromkeys((str(opener), *more), bias)}


@pytest.mark.parametrize("effort", [None, "none", "high"])
@pytest.mark.parametrize("calls", [False, True])
def test_either_calls_or_content_of_the_shape(
    calls: bool, effort: str | None, client: Client, markers: tuple[str, str], markers_model: Path
) -> None:
    """Calls may come, and the content has a shape. `reasoning_effort` reaches the template: "none" closes the reasoning
    in the prompt."""
    more = biased(markers_model, 100) if calls else biased(markers_model, -100, *markers, NEWLINE)
    if effort is not None:
        more["reasoning_effort"] = effort
    for answers in both(client, ASK, tools=[TOOL], tool_choice="auto", **SHAPED, **more, n=3, max_tokens=120):
        for answer in answers:
            assert answer.reasoning.strip() == ""
            if calls:
                assert [call.name for call in answer.calls][:1] == ["get_weather"]
                assert answer.content.strip() == ""
            else:
                assert answer.calls == []
                if answer.finish_reason == "stop":
                    assert set(json.loads(answer.content)) == {"sunny", "note"}


def test_strict_tools_are_held_where_calls_may_come(client: Client, markers_model: Path) -> None:
    tool = {"type": "function", "function": {**TOOL["function"], "strict": True}}
    for answers in both(
        client, ASK, tools=[tool], tool_choice="auto", **biased(markers_model, 100), n=3, max_tokens=80
    ):
        for answer in answers:
            assert answer.calls
            for call in answer.calls if answer.finish_reason == "tool_calls" else answer.calls[:-1]:
                assert set(json.loads(call.arguments)) == {"city"}
