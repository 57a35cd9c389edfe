"""From HTTP to a real model and back: mixed load, little memory, and fifty required calls."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from openai import AsyncOpenAI, OpenAI
from serving import serving

from narrows.engines import default_model
from narrows.engines.llama_cpp import LlamaCppEngine

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

PHONE = r"[0-9]{3}-[0-9]{4}"
PROMPTS = ["Call me at ", "The number is ", "Dial "]


@pytest.fixture(scope="module")
def engine() -> Iterator[LlamaCppEngine]:
    with LlamaCppEngine(default_model.default_gguf(), model_name="small", max_model_len=2048) as engine:
        yield engine


@pytest.fixture(scope="module")
def url(engine: LlamaCppEngine) -> Iterator[str]:
    with serving(engine) as url:
        yield f"{url}/v1"


@pytest.fixture(scope="module")
def client(url: str) -> OpenAI:
    return OpenAI(base_url=url, api_key="none", max_retries=0, timeout=200)


def tool(tag: str) -> dict[str, Any]:
    """A tool whose arguments identify one stream."""
    properties = {"city": {"type": "string", "maxLength": 12}, "tag": {"const": tag}}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": ["city", "tag"],
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": "note", "parameters": parameters}}


async def mixed_load(url: str, streams: int) -> tuple[list[str], list[list[tuple[str, str]]]]:
    """3 prompts with n=4 under a regex, in one request, beside chat streams with tools. Returns the texts, and each
    stream's calls."""
    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=250)

    async def completions() -> list[str]:
        answer = await client.completions.create(
            model="small",
            prompt=PROMPTS,
            n=4,
            seed=3,
            max_tokens=24,
            extra_body={"structured_outputs": {"regex": PHONE}},
        )
        assert [choice.index for choice in answer.choices] == list(range(12))
        assert {choice.finish_reason for choice in answer.choices} == {"stop"}
        return [choice.text for choice in answer.choices]

    async def chat(i: int) -> list[tuple[str, str]]:
        calls: list[list[str]] = []
        stream = await client.chat.completions.create(
            model="small",
            messages=[{"role": "user", "content": f"Note a city for stream {i}."}],
            tools=[tool(f"stream-{i}")],
            tool_choice="required",
            parallel_tool_calls=False,
            temperature=0,
            max_tokens=80,
            stream=True,
        )
        async for chunk in stream:
            for call in chunk.choices[0].delta.tool_calls or ():
                if call.id is not None:
                    calls.append([call.function.name, ""])
                calls[call.index][1] += call.function.arguments
        return [(name, arguments) for name, arguments in calls]

    texts, *calls = await asyncio.gather(completions(), *(chat(i) for i in range(streams)))
    await client.close()
    return texts, calls


def check_mixed(texts: list[str], calls: list[list[tuple[str, str]]]) -> None:
    assert len(texts) == 12
    assert all(re.fullmatch(PHONE, text) for text in texts)
    for i, own_calls in enumerate(calls):
        [(name, arguments)] = own_calls
        schema = tool(f"stream-{i}")["function"]["parameters"]
        assert name == "note"
        jsonschema_rs.validate(schema, json.loads(arguments))


@pytest.mark.parametrize("streams", [3, pytest.param(5, marks=pytest.mark.soak)])
def test_mixed_load_and_the_same_with_a_cache_too_small_for_it(engine: LlamaCppEngine, url: str, streams: int) -> None:
    texts, calls = asyncio.run(mixed_load(url, streams))
    check_mixed(texts, calls)
    small = LlamaCppEngine(
        default_model.default_gguf(), model_name="small", n_ctx=700, max_model_len=500, prefix_cache_tokens=0
    )
    try:
        with serving(small) as small_url:
            scarce_texts, scarce_calls = asyncio.run(mixed_load(f"{small_url}/v1", streams))
        stats = small.stats()
        assert stats.kv_total == 700
        check_mixed(scarce_texts, scarce_calls)
    finally:
        small.close()
    assert scarce_texts == texts
    assert scarce_calls == calls
    assert engine.stats().running == 0


def test_many_required_calls_at_temperature_one(url: str) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 10}, "unit": {"enum": ["celsius", "fahrenheit"]}},
        "required": ["city", "unit"],
        "additionalProperties": False,
    }
    tools: list[Any] = [{"type": "function", "function": {"name": "get_weather", "parameters": schema}}]

    async def all_of_them() -> list[Any]:
        client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=250)
        asked: Any = [{"role": "user", "content": "What is the weather in Paris?"}]
        answers = await asyncio.gather(
            *(
                client.chat.completions.create(
                    model="small",
                    messages=asked,
                    tools=tools,
                    tool_choice="required",
                    parallel_tool_calls=False,
                    temperature=1,
                    seed=i,
                    max_tokens=60,
                )
                for i in range(10)
            )
        )
        await client.close()
        return [answer.choices[0] for answer in answers]

    choices = asyncio.run(all_of_them())
    whole = [choice for choice in choices if choice.finish_reason == "tool_calls"]
    assert {choice.finish_reason for choice in choices} <= {"tool_calls", "length"}
    assert len(whole) >= 8
    for choice in whole:
        [call] = choice.message.tool_calls
        assert call.function.name == "get_weather"
        jsonschema_rs.validate(schema, json.loads(call.function.arguments))
    assert len({choice.message.tool_calls[0].id for choice in whole}) == len(whole)


def test_a_stream_adds_up_to_the_complete_answer_of_the_same_seed(client: OpenAI) -> None:
    options: dict[str, Any] = {
        "model": "small",
        "messages": [{"role": "user", "content": "Note a city."}],
        "tools": [tool("x")],
        "tool_choice": "auto",
        "seed": 5,
        "temperature": 1,
        "max_tokens": 40,
        "n": 2,
        "logprobs": True,
    }
    complete = client.chat.completions.create(**options)
    texts, tokens = ["", ""], [0, 0]
    for chunk in client.chat.completions.create(**options, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            tokens[choice.index] += len(choice.logprobs.content) if choice.logprobs else 0
    assert texts == [choice.message.content or "" for choice in complete.choices]
    assert tokens == [len(choice.logprobs.content) for choice in complete.choices]
    assert texts[0] != texts[1]


BOOK = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 20},
        "year": {"type": "integer", "minimum": 1500, "maximum": 2030},
    },
    "required": ["title", "year"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "book", "schema": BOOK}}},
            lambda text: jsonschema_rs.is_valid(BOOK, json.loads(text)),
        ),
        (
            {"structured_outputs": {"json": json.dumps(BOOK)}},
            lambda text: jsonschema_rs.is_valid(BOOK, json.loads(text)),
        ),
        ({"structured_outputs": {"regex": r"\d{4}-[A-Z]{2}"}}, lambda text: re.fullmatch(r"\d{4}-[A-Z]{2}", text)),
        ({"structured_outputs": {"choice": ["yes, it is", "no"]}}, lambda text: text in ("yes, it is", "no")),
        (
            {"structured_outputs": {"grammar": 'root ::= "<" [a-c]{2,4} ">"'}},
            lambda text: re.fullmatch("<[a-c]{2,4}>", text),
        ),
    ],
    ids=["response_format", "json", "regex", "choice", "grammar"],
)
def test_every_kind_of_constraint_holds(client: OpenAI, fields: dict[str, Any], holds: Any) -> None:
    answer = client.chat.completions.create(
        model="small",
        messages=[{"role": "user", "content": "Name a book."}],
        temperature=1,
        seed=1,
        max_tokens=80,
        n=3,
        extra_body=fields,
    )
    for choice in answer.choices:
        assert choice.finish_reason == "stop"
        assert holds(choice.message.content), choice.message.content


def test_a_second_request_with_the_same_tools_finds_its_prompt_computed(client: OpenAI) -> None:
    def ask(text: str) -> Any:
        return client.chat.completions.create(
            model="small",
            messages=[{"role": "user", "content": text}],
            tools=[tool("cached")],
            tool_choice="required",
            max_tokens=4,
        ).usage

    ask("First.")
    usage = ask("Second.")
    assert usage.prompt_tokens_details.cached_tokens > usage.prompt_tokens // 2
