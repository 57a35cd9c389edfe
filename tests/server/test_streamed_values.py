"""Values in the chunks of a stream, and answers that end at a value, with the official client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from openai import OpenAI
from scripted import ScriptedEngine
from serving import serving

from narrows import Limits
from narrows.engines import default_model
from narrows.engines.llama_cpp import LlamaCppEngine
from narrows.server import Settings

ASK: list[Any] = [{"role": "user", "content": "List the items."}]
ITEMS = '{"items": [{"id": 1, "t": "a"}, {"id": 2, "t": "é\\ud83d\\ude00"}], "n": 12}'
SCHEMA = {
    "properties": {
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"id": {"type": "integer"}, "t": {"type": "string"}}},
        },
        "n": {"type": "number"},
    }
}
FORMAT: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "items", "schema": SCHEMA}}
CALLS = (
    '<tool_call>\n{"name": "search", "arguments": {"query": "a", "n": 1}}\n</tool_call>\n'
    '<tool_call>\n{"name": "search", "arguments": {"query": "b", "n": 2}}\n</tool_call>'
)
TOOL = {
    "type": "function",
    "function": {
        "name": "search",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}, "n": {"type": "integer"}},
            "required": ["query", "n"],
        },
    },
}


@contextmanager
def talking(script: str, **settings: Any) -> Iterator[OpenAI]:
    with serving(ScriptedEngine(script), Settings(**settings)) as url:
        yield OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def stream(
    client: OpenAI, include: Any = True, **options: Any
) -> tuple[dict[int | None, str], list[dict[str, Any]], Any]:
    """The texts (content under None, arguments under the call's index), the values, and the last choice. Each value
    is looked for in the text that has come with its chunk."""
    texts: dict[int | None, str] = {None: ""}
    values: list[dict[str, Any]] = []
    last = None
    chunks = client.chat.completions.create(
        **{"model": "", "messages": ASK, "stream": True, "stream_options": {"include_values": include}, **options}
    )
    for chunk in chunks:
        (last,) = chunk.choices
        texts[None] += last.delta.content or ""
        for call in last.delta.tool_calls or ():
            texts[call.index] = texts.get(call.index, "") + call.function.arguments
        for value in last.model_extra.get("values", ()):
            values.append(value)
            if "error" not in value:
                start, end = value["span"]
                text = texts[value.get("tool_call_index")][start:end]
                assert json.loads(text) == value["value"]
                assert len(text) == end - start
    return texts, values, last


def test_values_of_the_content() -> None:
    with talking(ITEMS) as client:
        texts, values, last = stream(client, response_format=FORMAT)
        assert texts[None] == ITEMS
        whole = json.loads(ITEMS)
        assert values == [
            {"pointer": "/items/0", "value": whole["items"][0], "span": [11, 30]},
            {"pointer": "/items/1", "value": whole["items"][1], "span": [32, 63]},
            {"pointer": "/items", "value": whole["items"], "span": [10, 64]},
            {"pointer": "/n", "value": 12, "span": [71, 73]},
            {"pointer": "", "value": whole, "span": [0, 74]},
        ]
        assert last.finish_reason == "stop"
        for include in (["/items/*/id", "/n"], ["/items/*/id", "/n", "/none"]):
            assert [value["value"] for value in stream(client, include, response_format=FORMAT)[1]] == [1, 2, 12]
        outputs = {"structured_outputs": {"json": SCHEMA}}
        assert len(stream(client, extra_body=outputs)[1]) == 5
        assert len(stream(client, response_format={"type": "json_object"})[1]) == 5


def test_who_does_not_ask_sees_nothing() -> None:
    for options in ({}, {"stream_options": {"include_values": False}}, {"stream_options": {"include_usage": False}}):
        with talking(ITEMS) as client:
            chunks = client.chat.completions.create(
                **{"model": "", "messages": ASK, "stream": True, "response_format": FORMAT, **options}
            )
            assert not any("values" in (choice.model_extra or {}) for chunk in chunks for choice in chunk.choices)


def test_values_of_arguments_have_the_index_of_their_call() -> None:
    with talking(CALLS) as client:
        for include, pointers in ((True, ["/query", "/n", ""]), (["/query"], ["/query"])):
            texts, values, last = stream(client, include, tools=[TOOL], tool_choice="required")
            assert [(value["tool_call_index"], value["pointer"]) for value in values] == [
                (i, pointer) for i in range(2) for pointer in pointers
            ]
            assert texts[1] == '{"query": "b", "n": 2}'
            assert last.finish_reason == "tool_calls"


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_ends_at_a_value(streamed: bool) -> None:
    def ended(client: OpenAI, stop: Any, **options: Any) -> tuple[str, str, Any]:
        body = {"model": "", "messages": ASK, "extra_body": {"stop_at_pointer": stop}, **options}
        if not streamed:
            (choice,) = client.chat.completions.create(**body).choices
            text = choice.message.content or choice.message.tool_calls[-1].function.arguments
        else:
            text = ""
            for chunk in client.chat.completions.create(**body, stream=True):
                (choice,) = chunk.choices
                assert "values" not in choice.model_extra
                text += choice.delta.content or ""
                for call in choice.delta.tool_calls or ():  # the last call's arguments
                    text = call.function.arguments if call.id else text + call.function.arguments
        return text, choice.finish_reason, choice.model_extra.get("stop_reason")

    with talking(ITEMS) as client:
        assert ended(client, "/items/0", response_format=FORMAT) == (ITEMS[:30], "stop", "/items/0")
        assert ended(client, ["/m", "/items/*"], response_format=FORMAT) == (ITEMS[:30], "stop", "/items/0")
        assert ended(client, "/m", response_format=FORMAT) == (ITEMS, "stop", None)
    second = '<tool_call>\n{"name": "look", "arguments": {"place": "x", "far": true}}\n</tool_call>'
    with talking(f"{CALLS}\n{second}") as client:
        look = {"type": "object", "properties": {"place": {"type": "string"}, "far": {"type": "boolean"}}}
        tools = [TOOL, {"type": "function", "function": {"name": "look", "parameters": look}}]
        expected = ('{"place": "x"', "stop", "/place")
        assert ended(client, "/place", tools=tools, tool_choice="required") == expected
        assert ended(client, "/query", tools=[TOOL], tool_choice="required") == ('{"query": "a"', "stop", "/query")


def test_plain_completions_have_values_too() -> None:
    with talking(ITEMS) as client:
        body: dict[str, Any] = {"model": "", "prompt": ["a", "b"], "max_tokens": 200, "stream": True}
        chunks = client.completions.create(
            **body,
            stream_options={"include_values": ["/items/*"]},  # type: ignore[typeddict-unknown-key]
            extra_body={"structured_outputs": {"json": SCHEMA}, "stop_at_pointer": "/items/1"},
        )
        ends: dict[int, tuple[Any, Any]] = {}
        values: list[Any] = []
        for chunk in chunks:
            (choice,) = chunk.choices
            values += [(choice.index, value["pointer"]) for value in choice.model_extra.get("values", ())]
            if choice.finish_reason:
                ends[choice.index] = choice.finish_reason, choice.model_extra["stop_reason"]
    assert sorted(values) == [(0, "/items/0"), (0, "/items/1"), (1, "/items/0"), (1, "/items/1")]
    assert ends == {0: ("stop", "/items/1"), 1: ("stop", "/items/1")}


def test_a_number_beyond_a_float_is_null_and_a_text_that_cannot_be_read_is_told() -> None:
    huge = "9" * 400 + ".5"
    with talking(f"[{huge}, [[1]]]", limits=Limits(stream_depth=2)) as client:
        with_array = {"structured_outputs": {"json": {"type": "array"}}}
        chunks = client.chat.completions.create(
            model="",
            messages=ASK,
            stream=True,
            stream_options={"include_values": True},  # type: ignore[typeddict-unknown-key]
            extra_body=with_array,
        )
        values = [value for chunk in chunks for value in chunk.choices[0].model_extra.get("values", ())]
    assert values[0] == {"pointer": "/0", "value": None, "span": [1, 1 + len(huge)]}
    assert len(values) == 2
    assert (values[1]["error"]["code"], values[1]["error"]["limit"]) == ("limit_reached", "stream_depth")


def test_requests_that_are_refused() -> None:
    asked = {"response_format": FORMAT}
    with serving(ScriptedEngine(ITEMS)) as url, httpx.Client(base_url=f"{url}/v1") as client:
        for fields, code, pointer in (
            ({"stop_at_pointer": "items", **asked}, "pointer_invalid", "/stop_at_pointer"),
            ({"stop_at_pointer": ["/a", 3], **asked}, "invalid_type", "/stop_at_pointer/1"),
            ({"stop_at_pointer": ["/a"] * 100, **asked}, "limit_reached", "/stop_at_pointer"),
            ({"stop_at_pointer": "/" + "a" * 5_000, **asked}, "limit_reached", "/stop_at_pointer"),
            ({"stop_at_pointer": "/a"}, "invalid_value", "/stop_at_pointer"),
            ({"stop_at_pointer": "/a", "tools": [TOOL], "tool_choice": "none"}, "invalid_value", "/stop_at_pointer"),
            ({"stop_at_pointr": "/a", **asked}, "field_unsupported", "/stop_at_pointr"),
            (
                {"stream": True, "stream_options": {"include_values": True}},
                "invalid_value",
                "/stream_options/include_values",
            ),
            (
                {"stream": True, "stream_options": {"include_values": ["a"]}, **asked},
                "pointer_invalid",
                "/stream_options/include_values",
            ),
            ({"stream_options": {"include_values": True}, **asked}, "invalid_value", "/stream_options"),
            (
                {"stop_at_pointer": "/a", "structured_outputs": {"regex": "[a-z]{1,9}"}},
                "invalid_value",
                "/stop_at_pointer",
            ),
        ):
            response = client.post("/chat/completions", json={"messages": ASK, **fields})
            error = response.json()["error"]
            assert (response.status_code, error["code"], error["pointer"]) == (400, code, pointer), fields
        response = client.post("/completions", json={"prompt": "a", "stop_at_pointer": "/a"})
        assert response.json()["error"]["code"] == "invalid_value"


# With a model.

PEOPLE = {
    "type": "object",
    "properties": {
        "people": {
            "type": "array",
            "minItems": 2,
            "maxItems": 3,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 12},
                    "age": {"type": "integer", "minimum": 1, "maximum": 99},
                },
                "required": ["name", "age"],
            },
        }
    },
    "required": ["people"],
}


@pytest.fixture(scope="module")
def model() -> Iterator[OpenAI]:
    with (
        LlamaCppEngine(default_model.default_gguf(), model_name="small", max_model_len=1024) as engine,
        serving(engine) as url,
    ):
        yield OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=200)


@pytest.mark.model
def test_values_and_their_log_probabilities_from_a_model(model: OpenAI) -> None:
    """The log-probability of a value is that of the tokens in the stream that its text stands in."""
    texts, values, last = stream(
        model,
        response_format={"type": "json_schema", "json_schema": {"name": "people", "schema": PEOPLE}},
        logprobs=True,
        temperature=0,
        max_tokens=200,
    )
    assert last.finish_reason == "stop"
    whole = json.loads(texts[None])
    assert [value["pointer"] for value in values] == [
        *(f"/people/{i}" for i in range(len(whole["people"]))),
        "/people",
        "",
    ]
    again = model.chat.completions.create(
        model="",
        messages=ASK,
        response_format={"type": "json_schema", "json_schema": {"name": "people", "schema": PEOPLE}},
        logprobs=True,
        temperature=0,
        max_tokens=200,
    ).choices[0]
    assert again.message.content == texts[None]
    at, tokens = 0, []
    for token in again.logprobs.content:
        size = len(bytes(token.bytes).decode())
        tokens.append((at, at + size, token.logprob))
        at += size
    for value in values:
        start, end = value["span"]
        inside = [logprob for a, b, logprob in tokens if max(a, start) < min(b, end)]
        assert value["tokens"] == len(inside)
        assert value["logprob"] == pytest.approx(sum(inside), abs=1e-6)


@pytest.mark.model
def test_a_model_ends_at_the_first_item_and_calls_have_values(model: OpenAI) -> None:
    texts, values, last = stream(
        model,
        ["/people/*"],
        response_format={"type": "json_schema", "json_schema": {"name": "people", "schema": PEOPLE}},
        extra_body={"stop_at_pointer": "/people/0"},
        temperature=0,
        max_tokens=200,
    )
    assert (last.finish_reason, last.model_extra["stop_reason"]) == ("stop", "/people/0")
    assert len(values) == 1
    assert texts[None].count("}") == 1
    texts, values, last = stream(
        model, ["/query"], tools=[TOOL], tool_choice="required", parallel_tool_calls=False, temperature=0, max_tokens=80
    )
    (value,) = values
    assert value["value"] == json.loads(texts[0])["query"]
    assert value["tool_call_index"] == 0
