"""Streams, event by event, against the types of the official clients: no field is missing, of another type, or unknown.

The types say less than the APIs in a few places. `SENT_ANYWAY` names these fields, each with its reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from openai_shapes import Shape
from scripted import ScriptedEngine
from serving import serving

from narrows.server import Settings

SENT_ANYWAY = {
    # OpenAI's examples of custom tools have it, and so has the item that its lists give.
    "ResponseCustomToolCall.status",
    # OpenAI's examples of a response have it.
    "Response.store",
    # vLLM's, DeepSeek's and our own fields of chat completions.
    "ChoiceDelta.reasoning",
    "ChoiceDelta.reasoning_content",
    "ChatCompletionMessage.reasoning",
    "ChatCompletionMessage.reasoning_content",
    "Choice.stop_reason",
    "CompletionChoice.stop_reason",
}
CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}}, "required": ["city"], "additionalProperties": False}  # fmt: skip
NAMES = ("get_weather", "get_time")


def call(name: str, arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


OSLO, ROME = call("get_weather", {"city": "Oslo"}), call("get_time", {"city": "Rome"})
NOTE = call("note", {"input": 'a "b"\nc'})
THOUGHT = "<think>Hm, so.</think>"
ANSWERS: dict[str, tuple[str, dict[str, Any]]] = {
    "a text": ("Hello there.", {}),
    "nothing": ("", {}),
    "reasoning and a text": (f"{THOUGHT}Hello.", {}),
    "reasoning alone": (THOUGHT, {}),
    "a call": (OSLO, {}),
    "two calls": (f"{OSLO}\n{ROME}", {}),
    "reasoning, a text and two calls": (f"{THOUGHT}I look.\n{OSLO}\n{ROME}", {}),
    "a text after a call": (f"{OSLO}\nSo.", {}),
    "a required call": (OSLO, {"choice": "required"}),
    "a named call": (OSLO, {"choice": "named"}),
    "a text where calls are not allowed": (OSLO, {"choice": "none"}),
    "a custom tool": (NOTE, {"custom": True}),
    "a custom tool beside a function": (f"{NOTE}\n{OSLO}", {"custom": True}),
    "a custom tool without an input": (call("note", {"input": ""}), {"custom": True}),
    "JSON": ('{"city": "Oslo"}', {"schema": CITY, "choice": None}),
    "log-probabilities": ("Hey", {"logprobs": 2, "choice": None}),
    "log-probabilities of characters in pieces": ("é😀", {"logprobs": 1, "choice": None}),
    "log-probabilities beside calls": (f"{THOUGHT}I look.\n{OSLO}", {"logprobs": 1}),
    "a cut text": ("A long story.", {"tokens": 6}),
    "a cut thought": (THOUGHT, {"tokens": 10}),
    "a cut call": (OSLO, {"tokens": len(OSLO) - 20}),
    "a call that is cut before its name": (OSLO, {"tokens": 15}),
    "a cut second call": (f"{OSLO}\n{ROME}", {"tokens": len(OSLO) + len(ROME) - 20}),
    "a cut input of a custom tool": (NOTE, {"custom": True, "tokens": len(NOTE) - 18}),
}
BROKEN: dict[str, tuple[str, int]] = {
    "at the beginning": ("Hello.", 0),
    "in a text": ("A long story.", 6),
    "in a thought": (THOUGHT, 10),
    "in a call": (OSLO, len(OSLO) - 20),
    "after a call": (f"{OSLO}\n{ROME}", len(OSLO) + 10),
    "in the input of a custom tool": (NOTE, len(NOTE) - 18),
}


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture(scope="module")
def url(engine: ScriptedEngine) -> Iterator[str]:
    with serving(engine, Settings(reasoning_parser="think")) as url:
        yield url


@contextmanager
def breaking(engine: ScriptedEngine, tokens: int) -> Iterator[None]:
    engine.fails_at = tokens
    try:
        yield
    finally:
        engine.fails_at = None


def events_of(answer: httpx.Response) -> Iterator[tuple[str | None, Any]]:
    """The name and the data of each event. Data that is no JSON comes as it is."""
    parts = answer.text.split("\n\n")
    assert parts.pop() == ""
    for part in parts:
        name, _, data = part.rpartition("\n")
        data = data.removeprefix("data: ")
        yield name.removeprefix("event: ") or None, data if data == "[DONE]" else json.loads(data)


# Responses.

EVENT, RESPONSE = Shape(ResponseStreamEvent), Shape(Response)


def asked_of_responses(fields: dict[str, Any]) -> dict[str, Any]:
    tools = [{"type": "function", "name": name, "parameters": CITY, "strict": True} for name in NAMES]
    body: dict[str, Any] = {"model": "scripted", "input": "hi", "seed": 1, "max_output_tokens": fields.get("tokens")}
    if "choice" not in fields or fields["choice"]:
        choice = fields.get("choice", "auto")
        named = {"type": "function", "name": "get_weather"}
        custom = [{"type": "custom", "name": "note"}] if fields.get("custom") else []
        body |= {"tools": [*tools, *custom], "tool_choice": named if choice == "named" else choice}
    if "logprobs" in fields:
        body |= {"include": ["message.output_text.logprobs"], "top_logprobs": fields["logprobs"]}
    if "schema" in fields:
        body["text"] = {"format": {"type": "json_schema", "name": "city", "schema": fields["schema"], "strict": True}}
    return {name: value for name, value in body.items() if value is not None}


def streamed_response(url: str, body: dict[str, Any]) -> list[Any]:
    """The events, whose shapes and numbers are right."""
    events = []
    for number, (name, event) in enumerate(events_of(httpx.post(f"{url}/v1/responses", json={**body, "stream": True}))):
        assert name == event["type"]
        assert event["sequence_number"] == number
        assert EVENT.strange(event) <= SENT_ANYWAY, event
        events.append(event)
    return events


def alike(response: Any) -> Any:
    """A response without what is its own: its time, and the names that are made from its id."""
    names: dict[str, str] = {}
    text = json.dumps({**response, "created_at": 0, "completed_at": None})
    for item in response["output"]:
        if "call_id" in item:
            names.setdefault(item["call_id"], f"call_{len(names)}")
    for name, plain in {response["id"].removeprefix("resp_"): "ID", **names}.items():
        text = text.replace(name, plain)
    return json.loads(text)


@pytest.mark.parametrize(("text", "fields"), ANSWERS.values(), ids=list(ANSWERS))
def test_events_of_a_response(engine: ScriptedEngine, url: str, text: str, fields: dict[str, Any]) -> None:
    engine.script = lambda request, index: text
    body = asked_of_responses(fields)
    events = streamed_response(url, body)
    last = events[-1]
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert last["type"] == f"response.{last['response']['status']}"
    assert_items_are_told(events, last["response"]["output"])
    whole = httpx.post(f"{url}/v1/responses", json=body).json()
    assert RESPONSE.strange(whole) <= SENT_ANYWAY
    assert alike(whole) == alike(last["response"])
    assert (whole["status"] == "completed") == (whole["completed_at"] is not None)
    for item in whole["output"]:
        for part in item["content"] if item["type"] == "message" and "logprobs" in fields else ():
            spelled = bytes(byte for entry in part["logprobs"] for byte in entry["bytes"])
            assert spelled.decode() == part["text"], "each token once, and no token of anything else"
    for event in events[:2]:
        told = {**last["response"], "output": [], "status": "in_progress", "usage": None, "completed_at": None}
        assert event["response"] == {**told, "incomplete_details": None}


ENDS = {"output_text": "text", "reasoning_text": "text", "function_call_arguments": "arguments", "custom_tool_call_input": "input"}  # fmt: skip
"""The kind of a delta -> the field of its `done` that has the whole."""


def assert_items_are_told(events: list[Any], output: list[Any]) -> None:
    """Each item begins, grows and ends by itself, under one id, as the item that stands in the response."""
    inner = events[2:-1]
    indices = [event["output_index"] for event in inner]
    assert indices == sorted(indices)
    assert set(indices) == set(range(len(output)))
    for index, item in enumerate(output):
        own = [event for event in inner if event["output_index"] == index]
        first, *between, last = own
        assert (first["type"], last["type"]) == ("response.output_item.added", "response.output_item.done")
        assert (first["item"]["id"], first["item"]["status"]) == (item["id"], "in_progress")
        assert last["item"] == item
        assert {event["item_id"] for event in between} == {item["id"]}
        kinds = [event["type"].removeprefix("response.") for event in between]
        if item["type"] in ("message", "reasoning"):
            assert (kinds[0], kinds[-1]) == ("content_part.added", "content_part.done")
            assert {event["content_index"] for event in between} == {0}
            assert first["item"]["content"] == []
            assert (between[0]["part"]["type"], between[0]["part"]["text"]) == (item["content"][0]["type"], "")
            assert between[-1]["part"] == item["content"][0]
            kinds, between = kinds[1:-1], between[1:-1]
        kind = kinds[-1].removesuffix(".done")
        assert kinds == [f"{kind}.delta"] * (len(kinds) - 1) + [f"{kind}.done"]
        text = item["content"][0]["text"] if "content" in item else item[ENDS[kind]]
        assert "".join(event["delta"] for event in between[:-1]) == text == between[-1][ENDS[kind]]
        assert all(event["delta"] for event in between[:-1])
        if kind == "output_text":
            entries = [entry for event in between[:-1] for entry in event["logprobs"]]
            assert entries == between[-1]["logprobs"]
            assert [entry["logprob"] for entry in entries] == [
                entry["logprob"] for entry in item["content"][0]["logprobs"]
            ]


@pytest.mark.parametrize(("text", "tokens"), BROKEN.values(), ids=list(BROKEN))
def test_events_of_a_response_that_fails(engine: ScriptedEngine, url: str, text: str, tokens: int) -> None:
    engine.script = lambda request, index: text
    body = asked_of_responses({"custom": True})
    with breaking(engine, tokens):
        events = streamed_response(url, body)
        assert httpx.post(f"{url}/v1/responses", json=body).status_code == 500
    last = events[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["status"] == "failed"
    assert last["response"]["error"]["code"] == "server_error"
    assert [event["type"] for event in events].count("response.failed") == 1
    begun = [event["item"]["id"] for event in events if event["type"] == "response.output_item.added"]
    ended = [event["item"]["id"] for event in events if event["type"] == "response.output_item.done"]
    assert [item["id"] for item in last["response"]["output"]] == begun
    # A client runs a call when its end is told. That of the item which was being written is not.
    assert ended == begun[: len(ended)]
    assert len(begun) - len(ended) <= 1
    for item in last["response"]["output"]:
        assert item["status"] == ("completed" if item["id"] in ended else "incomplete")


# Chat completions.

CHUNK, CHAT, TEXT = Shape(ChatCompletionChunk), Shape(ChatCompletion), Shape(Completion)


def asked_of_chat(fields: dict[str, Any]) -> dict[str, Any]:
    names = [*NAMES, *(["note"] if fields.get("custom") else [])]
    shapes = [*[CITY] * len(NAMES), {"type": "object", "properties": {"input": {"type": "string"}}}]
    tools = [
        {"type": "function", "function": {"name": name, "parameters": shape}}
        for name, shape in zip(names, shapes, strict=False)
    ]
    body: dict[str, Any] = {
        "model": "scripted", "messages": [{"role": "user", "content": "hi"}], "seed": 1, "max_tokens": fields.get("tokens")
    }  # fmt: skip
    if "choice" not in fields or fields["choice"]:
        choice = fields.get("choice", "auto")
        named = {"type": "function", "function": {"name": "get_weather"}}
        body |= {"tools": tools, "tool_choice": named if choice == "named" else choice}
    if "logprobs" in fields:
        body |= {"logprobs": True, "top_logprobs": fields["logprobs"]}
    if "schema" in fields:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "c", "schema": fields["schema"]}}
    return {name: value for name, value in body.items() if value is not None}


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("usage", [None, {"include_usage": True}], ids=["", "usage"])
@pytest.mark.parametrize(("text", "fields"), ANSWERS.values(), ids=list(ANSWERS))
def test_chunks_of_a_chat(
    engine: ScriptedEngine, url: str, text: str, fields: dict[str, Any], usage: Any, n: int
) -> None:
    engine.script = lambda request, index: text if index != 1 else f"{THOUGHT}{text}"
    body = {**asked_of_chat(fields), "n": n}
    whole = httpx.post(f"{url}/v1/chat/completions", json=body).json()
    assert CHAT.strange(whole) <= SENT_ANYWAY
    streamed = {**body, "stream": True, **({"stream_options": usage} if usage else {})}
    *chunks, (_, done) = events_of(httpx.post(f"{url}/v1/chat/completions", json=streamed))
    assert done == "[DONE]"
    for name, chunk in chunks:
        assert name is None
        assert CHUNK.strange(chunk) <= SENT_ANYWAY, chunk
        assert ("usage" in chunk) == bool(usage)
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for _, chunk in chunks}) == 1
    if usage:
        _, last = chunks.pop()
        assert last["choices"] == []
        assert last["usage"] == whole["usage"]
    assert all(chunk.get("usage") is None and len(chunk["choices"]) == 1 for _, chunk in chunks)
    made = [
        collected([chunk["choices"][0] for _, chunk in chunks if chunk["choices"][0]["index"] == i]) for i in range(n)
    ]
    theirs = [choice | {"message": without_ids(choice["message"])} for choice in whole["choices"]]
    assert made == theirs


def without_ids(message: Any) -> Any:
    calls = [{name: value for name, value in one.items() if name != "id"} for one in message.get("tool_calls", ())]
    return {**message, "tool_calls": calls} if calls else message


def collected(choices: list[Any]) -> Any:
    """A choice, as a client adds up its chunks: text to text, and calls by their index."""
    first, last = choices[0], choices[-1]
    assert first["delta"] == {"role": "assistant", "content": ""}
    assert last["delta"] == {}
    assert [choice["finish_reason"] for choice in choices[:-1]] == [None] * (len(choices) - 1)
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    logprobs: Any = None
    for choice in choices:
        delta = choice["delta"]
        for name in ("content", "reasoning", "reasoning_content"):
            if name in delta:
                message[name] = (message.get(name) or "") + delta[name]
        for call in delta.get("tool_calls", ()):
            calls = message.setdefault("tool_calls", [])
            if call["index"] == len(calls):
                assert call["id"]
                calls.append({"type": call["type"], "function": dict(call["function"])})
            else:
                assert set(call) == {"index", "function"}
                assert call["index"] == len(calls) - 1
                calls[-1]["function"]["arguments"] += call["function"]["arguments"]
        if choice.get("logprobs") is not None:
            logprobs = logprobs or {"content": [], "refusal": None}
            logprobs["content"] += choice["logprobs"]["content"]
    if message.get("tool_calls") and not message["content"]:
        message["content"] = None
    reason = {"stop_reason": last["stop_reason"]} if "stop_reason" in last else {}
    return {
        "index": first["index"],
        "message": message,
        "logprobs": logprobs,
        "finish_reason": last["finish_reason"],
        **reason,
    }


@pytest.mark.parametrize(("text", "tokens"), BROKEN.values(), ids=list(BROKEN))
def test_chunks_of_a_chat_that_fails(engine: ScriptedEngine, url: str, text: str, tokens: int) -> None:
    engine.script = lambda request, index: text
    with breaking(engine, tokens):
        body = {**asked_of_chat({"custom": True}), "stream": True}
        *chunks, (_, failure), (_, done) = events_of(httpx.post(f"{url}/v1/chat/completions", json=body))
    assert done == "[DONE]"
    assert (failure["error"]["type"], failure["error"]["code"]) == ("server_error", "sequence_failed")
    for _, chunk in chunks:
        ended = chunk["choices"][0].pop("finish_reason")
        assert ended in (None, "error")
        chunk["choices"][0].pop("error", None)
        assert CHUNK.strange(chunk) <= SENT_ANYWAY


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("logprobs", [None, 0, 2])
@pytest.mark.parametrize("stop", [None, "lo"])
def test_chunks_of_a_plain_completion(
    engine: ScriptedEngine, url: str, n: int, logprobs: int | None, stop: str | None
) -> None:
    engine.script = lambda request, index: "Hello é😀." * (1 + index)
    body = {"model": "scripted", "prompt": ["a", "b"], "n": n, "logprobs": logprobs, "stop": stop, "max_tokens": 60}
    whole = httpx.post(f"{url}/v1/completions", json=body).json()
    assert TEXT.strange(whole) <= SENT_ANYWAY
    *chunks, (_, done) = events_of(httpx.post(f"{url}/v1/completions", json={**body, "stream": True}))
    assert done == "[DONE]"
    texts = [""] * len(whole["choices"])
    for _, chunk in chunks:
        [choice] = chunk["choices"]
        texts[choice["index"]] += choice["text"]
        # The client's type of a chunk is that of the whole, in which an answer has ended.
        assert (
            TEXT.strange({**chunk, "choices": [{**choice, "finish_reason": choice["finish_reason"] or "stop"}]})
            <= SENT_ANYWAY
        )
    assert texts == [choice["text"] for choice in whole["choices"]]


# Anthropic's messages.

MESSAGE_EVENT, MESSAGE = Shape(RawMessageStreamEvent), Shape(Message)
IN_DELTA = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
IN_BLOCK = {"text": "text", "thinking": "thinking", "tool_use": "input"}


def asked_of_messages(fields: dict[str, Any]) -> dict[str, Any]:
    names = [*NAMES, *(["note"] if fields.get("custom") else [])]
    shapes = [*[CITY] * len(NAMES), {"type": "object", "properties": {"input": {"type": "string"}}}]
    body: dict[str, Any] = {
        "model": "scripted", "messages": [{"role": "user", "content": "hi"}], "seed": 1, "max_tokens": fields.get("tokens", 500)
    }  # fmt: skip
    if "choice" not in fields or fields["choice"]:
        kinds = {"auto": {"type": "auto"}, "required": {"type": "any"}, "none": {"type": "none"}}
        kinds["named"] = {"type": "tool", "name": "get_weather"}
        body["tool_choice"] = kinds[fields.get("choice", "auto")]
        body["tools"] = [{"name": name, "input_schema": shape} for name, shape in zip(names, shapes, strict=False)]
    if "schema" in fields:
        body["output_config"] = {"format": {"type": "json_schema", "schema": fields["schema"]}}
    return body


@pytest.mark.parametrize(("text", "fields"), ANSWERS.values(), ids=list(ANSWERS))
def test_events_of_a_message(engine: ScriptedEngine, url: str, text: str, fields: dict[str, Any]) -> None:
    engine.script = lambda request, index: text
    body = asked_of_messages(fields)
    whole = httpx.post(f"{url}/v1/messages", json=body).json()
    assert MESSAGE.strange(whole) == set()
    events = []
    for name, event in events_of(httpx.post(f"{url}/v1/messages", json={**body, "stream": True})):
        assert name == event["type"]
        if event == {"type": "ping"}:
            continue
        assert MESSAGE_EVENT.strange(event) == set(), event
        events.append(event)
    first, *inner, news, last = events
    assert first["type"] == "message_start"
    started = {**whole, "content": [], "stop_reason": None, "stop_sequence": None}
    usage = {name: first["message"]["usage"][name] for name in whole["usage"]}
    assert first["message"] == {**started, "id": first["message"]["id"], "usage": usage}
    assert usage["output_tokens"] == 0
    assert news == {
        "type": "message_delta",
        "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": whole["stop_sequence"]},
        "usage": whole["usage"],
    }
    assert last == {"type": "message_stop"}
    indices = [event["index"] for event in inner]
    assert indices == sorted(indices)
    assert set(indices) == set(range(len(whole["content"])))
    for index, block in enumerate(whole["content"]):
        begin, *deltas, end = [event for event in inner if event["index"] == index]
        field = IN_BLOCK[block["type"]]
        empty: Any = {} if field == "input" else ""
        own = {"id": begin["content_block"]["id"]} if field == "input" else {}
        assert begin == {"type": "content_block_start", "index": index, "content_block": {**block, field: empty, **own}}
        assert end == {"type": "content_block_stop", "index": index}
        text = "".join(event["delta"][IN_DELTA[event["delta"]["type"]]] for event in deltas)
        assert len({event["delta"]["type"] for event in deltas}) <= 1
        if field == "input":
            assert block["input"] == (json.loads(text) if text.endswith("}") else {})
        else:
            assert block[field] == text


@pytest.mark.parametrize(("text", "tokens"), BROKEN.values(), ids=list(BROKEN))
def test_events_of_a_message_that_fails(engine: ScriptedEngine, url: str, text: str, tokens: int) -> None:
    engine.script = lambda request, index: text
    with breaking(engine, tokens):
        body = {**asked_of_messages({"custom": True}), "stream": True}
        *events, (name, failure) = events_of(httpx.post(f"{url}/v1/messages", json=body))
    assert name == failure["type"] == "error"
    assert failure["error"]["type"] == "api_error"
    assert failure["error"]["message"]
    for _, event in events:
        assert event == {"type": "ping"} or MESSAGE_EVENT.strange(event) == set()
