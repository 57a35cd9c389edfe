"""How long a model may reason before a call that must come: as with vLLM's own parsers until its budget ends, that of the answer or that of the reasoning."""

from __future__ import annotations

import json
from typing import Any

import pytest
from client import Client
from test_parsers_server import ASK, CONTINUED, THINKING, TOOL, both, client, markers

pytestmark = pytest.mark.timeout(1800)
__all__ = ["client", "markers"]  # the same server

REQUIRED: dict[str, Any] = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}
BUDGET = 12


def thinks(markers: tuple[str, str]) -> dict[str, Any]:
    """The model opens reasoning as soon as it may, and never closes it."""
    opener, closer = markers
    return {"logit_bias": {opener: 100, closer: -100}}


@pytest.mark.parametrize("messages", [ASK, THINKING], ids=["not opened", "opened by the prompt"])
def test_reasoning_without_an_end_says_length(
    messages: list[dict[str, Any]], client: Client, markers: tuple[str, str]
) -> None:
    more = CONTINUED if messages is THINKING else {}
    for answers in both(client, messages, **REQUIRED, **thinks(markers), **more, max_tokens=30):
        assert [(answer.calls, answer.content, answer.finish_reason) for answer in answers] == [([], "", "length")]
        assert answers[0].reasoning


@pytest.mark.parametrize("messages", [ASK, THINKING], ids=["not opened", "opened by the prompt"])
def test_thinking_token_budget_brings_the_call(
    messages: list[dict[str, Any]], client: Client, markers: tuple[str, str]
) -> None:
    more = CONTINUED if messages is THINKING else {}
    options = {**REQUIRED, **thinks(markers), **more, "thinking_token_budget": BUDGET, "max_tokens": 100}
    for answers in both(client, messages, **options, n=3):
        for answer in answers:
            assert answer.reasoning
            assert answer.token_ids.index(int(markers[1])) <= BUDGET + 1
            assert [call.name for call in answer.calls] == ["get_weather"], answer
            assert set(json.loads(answer.calls[0].arguments)) == {"city"}
            assert (answer.content.strip(), answer.finish_reason) == ("", "tool_calls")
