"""thinking_token_budget and repetition_detection of requests, with the official client and the small model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import jsonschema_rs
import openai
import pytest
from openai import OpenAI
from serving import serving

from narrows.engines import default_model
from narrows.engines.llama_cpp import LlamaCppEngine
from narrows.server import Settings

pytestmark = pytest.mark.model

TEMPLATE = """\
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
{% if enable_thinking is not defined or enable_thinking %}<think>
{% endif %}"""
ASK: list[Any] = [{"role": "user", "content": "Is the sky blue? Think about it for long, in many sentences."}]
TOOL: Any = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"enum": ["sky", "sea"]}}}},
}
SCHEMA = {"type": "object", "properties": {"blue": {"type": "boolean"}}, "required": ["blue"]}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    settings = Settings(tool_call_parser="hermes_json", chat_template=TEMPLATE)
    with (
        LlamaCppEngine(default_model.default_gguf(), model_name="small", max_model_len=1024) as engine,
        serving(engine, settings) as url,
    ):
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> OpenAI:
    return OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=200)


def chat(client: OpenAI, extra: dict[str, Any], **options: Any) -> Any:
    options = {"temperature": 0, "max_tokens": 40, "messages": ASK} | options
    return client.chat.completions.create(model="", extra_body=extra, **options)


def thoughts(message: Any) -> str:
    return (message.model_extra or {}).get("reasoning") or ""


SHAPES: list[dict[str, Any]] = [
    {},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
    {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False},
    {"temperature": 0.9, "seed": 4, "logprobs": True},
]


@pytest.mark.parametrize("shape", SHAPES, ids=["text", "json", "call", "logprobs"])
def test_the_reasoning_ends_with_its_budget_and_the_answer_follows(client: OpenAI, shape: dict[str, Any]) -> None:
    free = chat(client, {}, **shape).choices[0]
    longest = thoughts(free.message)
    for tokens in (0, 1, 12) if shape in SHAPES[:2] else (1, 12):
        choice = chat(client, {"thinking_token_budget": tokens}, **shape).choices[0]
        text = thoughts(choice.message)
        assert longest.startswith(text)
        assert len(text) < len(longest)
        assert bool(text) == bool(tokens) or tokens == 1  # which may be the line break after the marker
        if "response_format" in shape:
            assert jsonschema_rs.is_valid(SCHEMA, json.loads(choice.message.content))
        elif "tools" in shape:
            (call,) = choice.message.tool_calls
            assert json.loads(call.function.arguments) in ({}, {"at": "sky"}, {"at": "sea"})
        else:
            assert choice.message.content


def test_a_stream_has_the_same_reasoning(client: OpenAI) -> None:
    whole = chat(client, {"thinking_token_budget": 9}).choices[0].message
    reasoning, content = "", ""
    for chunk in chat(client, {"thinking_token_budget": 9}, stream=True):
        delta = chunk.choices[0].delta
        reasoning += thoughts(delta)
        content += delta.content or ""
    assert (reasoning, content) == (thoughts(whole), whole.content)


@pytest.mark.parametrize("extra", [{"thinking_token_budget": -1}, {"thinking_token_budget": 900}])
def test_a_wide_budget_changes_nothing(client: OpenAI, extra: dict[str, Any]) -> None:
    assert chat(client, extra).choices[0].message == chat(client, {}).choices[0].message


def test_the_messages_api_has_its_own_name_for_it(url: str) -> None:
    body = {"model": "", "max_tokens": 40, "temperature": 0, "messages": ASK}
    blocks = {}
    for budget in (3, 1024):
        thinking = {"type": "enabled", "budget_tokens": budget}
        answer = httpx2.post(f"{url}/v1/messages", json=body | {"thinking": thinking}, timeout=100).json()
        blocks[budget] = next(b for b in answer["content"] if b["type"] == "thinking")["thinking"]
    assert 0 < len(blocks[3]) < len(blocks[1024])
    assert blocks[1024].startswith(blocks[3])
    refused = httpx2.post(f"{url}/v1/messages", json=body | {"thinking": {"type": "enabled", "budget_tokens": -3}})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "thinking.budget_tokens")


LOOP: list[Any] = [{"role": "user", "content": "Write 'ha ha ha' for ever."}]
NO_THOUGHT = {"chat_template_kwargs": {"enable_thinking": False}}


@pytest.mark.parametrize(
    ("wanted", "most"), [(True, 80), ({"max_pattern_size": 4, "min_count": 3}, 20), ({"longest_run": 2}, 300)]
)
def test_an_answer_that_repeats_itself_ends(client: OpenAI, wanted: Any, most: int) -> None:
    message = LOOP if wanted != {"longest_run": 2} else [{"role": "user", "content": "Write all digits of 2**100."}]
    for stream in (False, True):
        extra = NO_THOUGHT | {"repetition_detection": wanted}
        answer = chat(client, extra, messages=message, max_tokens=300, stream=stream)
        choice = (list(answer)[-1] if stream else answer).choices[0]
        assert (choice.finish_reason, choice.model_extra["stop_reason"]) == ("repetition", "repetition_detected")
        assert stream or answer.usage.completion_tokens < most


def test_json_that_repeats_itself_is_brought_to_its_end(client: OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"const": 0}, "minItems": 60}, "b": {"enum": ["x", "y"]}},
        "required": ["a", "b"],
    }
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    extra = NO_THOUGHT | {"repetition_detection": {"max_pattern_size": 4, "min_count": 20}}
    choice = chat(client, extra, response_format=shape, max_tokens=400).choices[0]
    assert choice.finish_reason == "repetition"
    assert jsonschema_rs.is_valid(schema, json.loads(choice.message.content))


@pytest.mark.parametrize(
    ("extra", "code", "param"),
    [
        ({"thinking_token_budget": -2}, "strategy_invalid", "thinking_token_budget"),
        ({"thinking_token_budget": "9"}, "invalid_type", "thinking_token_budget"),
        ({"thinking_budget": 9}, "field_unsupported", "thinking_budget"),
        (
            {"repetition_detection": {"max_pattern_size": 3, "min_count": 1}},
            "strategy_invalid",
            "repetition_detection.min_count",
        ),
        ({"repetition_detection": {"max_patern_size": 3}}, "field_unsupported", "repetition_detection.max_patern_size"),
        ({"repetition_detection": 3}, "invalid_type", "repetition_detection"),
    ],
)
def test_what_cannot_be_is_refused_at_its_place(client: OpenAI, extra: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, extra)
    assert isinstance(caught.value.body, dict)
    assert (caught.value.body["code"], caught.value.body["param"]) == (code, param)
