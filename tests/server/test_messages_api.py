"""`/v1/messages` with Anthropic's client, on an engine that writes what the test tells it to."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scripted import ScriptedEngine
from serving import eventually, serving

from narrows.engines.api import Request
from narrows.server import Settings

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 8}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER: dict[str, Any] = {"name": "get_weather", "description": "The weather", "input_schema": SCHEMA}
OTHER: dict[str, Any] = {**WEATHER, "name": "other", "strict": True, "cache_control": {"type": "ephemeral"}}
TOOLS = [WEATHER, OTHER]
ASK: list[Any] = [{"role": "user", "content": "hi"}]
EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def call(city: str) -> str:
    arguments = json.dumps({"name": "get_weather", "arguments": {"city": city}}, ensure_ascii=False)
    return f"<tool_call>\n{arguments}\n</tool_call>"


class Served:
    """A server whose script can be changed."""

    def __init__(self, url: str, engine: ScriptedEngine, key: str) -> None:
        self.engine, self.url = engine, url
        self.client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)

    def writes(self, text: Any) -> None:
        self.engine.script = text if callable(text) else lambda request, index: text

    def create(self, **fields: Any) -> Message:
        made: Message = self.client.messages.create(
            **{"model": "scripted", "messages": ASK, "max_tokens": 500, **fields}
        )
        return made

    def events(self, **fields: Any) -> list[Any]:
        """The stream's events. Each must be what the client's model of its type says."""
        body = {"model": "scripted", "messages": ASK, "max_tokens": 500, **fields, "stream": True}
        lines = httpx.post(f"{self.url}/v1/messages", json=body).text.split("\n\n")
        assert lines.pop() == ""
        events = []
        for line in lines:
            kind, data = line.split("\n")
            event = json.loads(data.removeprefix("data: "))
            assert kind == f"event: {event['type']}"
            if event["type"] != "ping":
                EVENT.validate_python(event)
            events.append(event)
        return events

    def prompt(self) -> str:
        return self.engine.text_of(self.engine.requests[-1].prompt_token_ids)


@contextmanager
def talking(**options: Any) -> Iterator[Served]:
    engine = ScriptedEngine()
    with serving(engine, Settings(**options)) as url:
        yield Served(url, engine, (options.get("api_keys") or ["none"])[0])


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with talking(reasoning_parser="think") as served:
        yield served


def plain(message: Any) -> Any:
    """A message without what differs from one answer to the next."""
    fields = message.to_dict()
    for block in fields["content"]:
        block.pop("id", None)
    return {key: fields[key] for key in ("content", "stop_reason", "stop_sequence", "usage")}


def test_blocks_and_events_in_their_order(served: Served) -> None:
    served.writes(f"<think>Hm.</think>Let me look.\n{call('Oslo')}")
    events = served.events(tools=TOOLS)
    kinds = [event["type"] for event in events if event["type"] not in ("content_block_delta", "ping")]
    assert kinds == [
        "message_start",
        *["content_block_start", "content_block_stop"] * 3,
        "message_delta",
        "message_stop",
    ]
    assert events[1] == {"type": "ping"}
    starts = [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
    assert starts == ["thinking", "text", "tool_use"]
    complete = served.create(tools=TOOLS)
    assert complete.stop_reason == "tool_use"
    assert complete.content[2].input == {"city": "Oslo"}
    with served.client.messages.stream(model="scripted", messages=ASK, max_tokens=500, tools=TOOLS) as stream:
        texts = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert texts == "Let me look.\n"
    assert plain(final) == plain(complete)


def test_an_agents_loop(served: Served) -> None:
    def script(request: Request, index: int) -> str:
        seen = served.engine.text_of(request.prompt_token_ids)
        return "It is 21 degrees." if "<tool_response>\n21 C" in seen else call("Oslo")

    served.writes(script)
    first = served.create(tools=TOOLS, system="Be brief.")
    made = first.content[-1]
    result = {"type": "tool_result", "tool_use_id": made.id, "content": [{"type": "text", "text": "21 C"}]}
    text = {"type": "text", "text": "And?"}
    messages = [*ASK, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result, text]}]
    second = served.create(tools=TOOLS, messages=messages, system=[{"type": "text", "text": "Be kind."}])
    assert (second.stop_reason, second.content[0].text) == ("end_turn", "It is 21 degrees.")
    assert "Be kind." in served.prompt()
    assert served.prompt().index("21 C") < served.prompt().index("And?")


@pytest.mark.parametrize(
    ("choice", "count"),
    [({"type": "auto"}, 2), ({"type": "any"}, 2), ({"type": "none"}, 0), ({"type": "tool", "name": "get_weather"}, 1),
     ({"type": "any", "disable_parallel_tool_use": True}, 1)],
    ids=["auto", "any", "none", "tool", "not parallel"],
)  # fmt: skip
def test_every_tool_choice(served: Served, choice: Any, count: int) -> None:
    served.writes(call("Oslo") + "\n" + call("Rome"))
    message = served.create(tools=TOOLS, tool_choice=choice)
    assert sum(block.type == "tool_use" for block in message.content) == count
    assert message.stop_reason == ("tool_use" if count else "end_turn")


def test_why_an_answer_ends(served: Served) -> None:
    served.writes("One two three")
    assert plain(served.create(max_tokens=5))["stop_reason"] == "max_tokens"
    stopped = served.create(stop_sequences=["two"])
    assert (stopped.stop_reason, stopped.stop_sequence, stopped.content[0].text) == ("stop_sequence", "two", "One ")
    served.writes(call("Oslo"))
    cut = served.create(tools=TOOLS, max_tokens=len(call("Oslo")) - 20)
    assert (cut.stop_reason, cut.content[0].input) == ("max_tokens", {})


def test_a_last_message_of_the_assistant_is_continued(served: Served) -> None:
    served.writes(" and the end.")
    served.create(messages=[*ASK, {"role": "assistant", "content": "The beginning"}])
    assert served.prompt().endswith("The beginning")
    served.create(messages=[*ASK, {"role": "assistant", "content": [{"type": "text", "text": "Blocks"}]}])
    assert served.prompt().endswith("Blocks")


def test_a_shape_of_the_text(served: Served) -> None:
    served.writes("I would rather not.")
    message = served.create(output_config={"format": {"type": "json_schema", "schema": {"enum": ["yes", "no"]}}})
    assert json.loads(message.content[-1].text) in ("yes", "no")
    assert served.create(extra_body={"guided_choice": ["a", "b"]}).content[-1].text in ("a", "b")


def test_thinking_is_asked_for_by_the_templates_variable() -> None:
    engine = ScriptedEngine(chat_template="{{ messages[0].content }}{{ enable_thinking }}")
    with serving(engine, Settings(tool_call_parser="hermes_json")) as url:
        served = Served(url, engine, "none")
        for thinking, seen in (
            ({"type": "enabled", "budget_tokens": 1024}, "hiTrue"),
            ({"type": "disabled"}, "hiFalse"),
        ):
            served.create(thinking=thinking)
            assert served.prompt() == seen


def test_tokens_are_counted(served: Served) -> None:
    fields: dict[str, Any] = {"messages": ASK, "tools": TOOLS, "system": "Be brief."}
    counted = served.client.messages.count_tokens(model="scripted", **fields)
    usage = served.create(**fields).usage
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"max_tokens": None}, "missing_field", "/max_tokens"),
    ({"max_tokens": 0}, "sampling_params_invalid", "/max_tokens"),
    ({"messages": []}, "invalid_messages", "/messages"),
    ({"messages": [{"role": "system", "content": "x"}]}, "invalid_value", "/messages/0/role"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}]}, "content_part_unsupported", "/messages/0/content/1/type"),
    ({"messages": [{"role": "assistant", "content": [{"type": "server_tool_use"}]}]}, "content_part_unsupported", "/messages/0/content/0/type"),
    ({"messages": [*ASK, {"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "f", "input": "a"}]}]}, "invalid_type", "/messages/1/content/0/input"),
    ({"tools": [{**WEATHER, "input_shema": SCHEMA}]}, "field_unsupported", "/tools/0/input_shema"),
    ({"tools": [{"name": "f", "parameters": SCHEMA}]}, "missing_field", "/tools/0/input_schema"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tool_unsupported", "/tools/0/type"),
    ({"tools": [{**WEATHER, "input_schema": {"type": "object", "properties": {"a": {"type": "strin"}}}}]}, "schema_invalid", "/tools/0/input_schema/properties/a/type"),
    ({"tools": TOOLS, "tool_choice": {"type": "tool", "name": "x"}}, "tool_unknown", "/tool_choice/name"),
    ({"tools": TOOLS, "tool_choice": {"type": "required"}}, "invalid_value", "/tool_choice/type"),
    ({"tools": TOOLS, "tool_choice": {"type": "auto", "name": "x"}}, "field_unsupported", "/tool_choice/name"),
    ({"output_config": {"format": {"type": "json_schema", "schema": {"minLenght": 1}}}}, "schema_unsupported", "/output_config/format/schema/minLenght"),
    ({"output_config": {"fromat": {"type": "json_schema"}}}, "field_unsupported", "/output_config/fromat"),
    ({"output_format": {"type": "json_schema", "schema": SCHEMA}}, "field_unsupported", "/output_format"),
    ({"response_format": {"type": "json_object"}}, "field_unsupported", "/response_format"),
    ({"thinking": {"type": "deep"}}, "invalid_value", "/thinking/type"),
    ({"stop_sequences": [""]}, "sampling_params_invalid", "/stop_sequences"),
    ({"system": [{"type": "image"}]}, "content_part_unsupported", "/system/0/type"),
    ({"model": "nope"}, "model_not_found", "/model"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "code", "pointer"), WRONG, ids=[f"{w[1]} {w[2]}" for w in WRONG])
def test_errors_lead_to_what_was_sent(served: Served, fields: dict[str, Any], code: str, pointer: str) -> None:
    answer = httpx.post(f"{served.url}/v1/messages", json={"messages": ASK, "max_tokens": 5, **fields})
    body = answer.json()
    assert body["type"] == "error"
    assert (body["error"]["code"], body["error"]["pointer"]) == (code, pointer), body
    assert body["error"]["type"] == ("not_found_error" if code == "model_not_found" else "invalid_request_error")


def test_a_key_in_anthropics_header() -> None:
    with talking(api_keys=["secret"]) as served:
        assert served.create().content[0].text == "Hello."
        with pytest.raises(anthropic.AuthenticationError) as caught:
            anthropic.Anthropic(base_url=served.url, api_key="x", max_retries=0).messages.create(
                model="scripted", messages=ASK, max_tokens=5
            )
        assert caught.value.body["error"]["type"] == "authentication_error"


@pytest.mark.parametrize("stream", [True, False])
def test_leaving_frees_everything(stream: bool) -> None:
    with talking() as served:
        served.engine.hold()
        host, _, port = served.url.removeprefix("http://").partition(":")
        data = json.dumps({"messages": ASK, "max_tokens": 5, "stream": stream}).encode()
        head = f"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(head.encode() + data)
            assert eventually(lambda: served.engine.running == 1)
        assert eventually(lambda: served.engine.running == 0)
        assert served.engine.finished == {"abort": 1}


parts = st.lists(st.sampled_from(["Some text. ", "é😀", f"\n{call('Oslo')}\n", f"\n{call('Ro')}\n"]), max_size=5)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.booleans(), parts, st.sampled_from([5, 60, 400]))
def test_stream_message_and_chat_say_the_same(served: Served, thinks: bool, texts: list[str], tokens: int) -> None:
    served.writes(("<think>Hm.</think>" if thinks else "") + "".join(texts))
    fields: dict[str, Any] = {"tools": TOOLS, "max_tokens": tokens}
    complete = served.create(**fields, extra_body={"seed": 7}).to_dict()
    blocks: list[Any] = []
    for event in served.events(**fields, seed=7):
        if event["type"] == "content_block_start":
            blocks.append([event["content_block"]["type"], ""])
        elif event["type"] == "content_block_delta":
            blocks[-1][1] += next(value for name, value in event["delta"].items() if name != "type")
        elif event["type"] == "message_delta":
            assert event["delta"]["stop_reason"] == complete["stop_reason"]
            assert event["usage"] == complete["usage"]
    functions = [
        {"type": "function", "function": {"name": tool["name"], "parameters": tool["input_schema"]}} for tool in TOOLS
    ]
    body = {"messages": ASK, "tools": functions, "seed": 7, "max_tokens": tokens}
    choice = httpx.post(f"{served.url}/v1/chat/completions", json=body).json()["choices"][0]
    assert [kind for kind, _ in blocks] == [block["type"] for block in complete["content"]]
    assert "".join(text for kind, text in blocks if kind == "text") == (choice["message"]["content"] or "")
    arguments = [one["function"]["arguments"] for one in choice["message"].get("tool_calls", ())]
    assert [text for kind, text in blocks if kind == "tool_use"] == arguments
    for (kind, text), block in zip(blocks, complete["content"], strict=True):
        if kind == "tool_use":
            assert block["input"] == (json.loads(text) if text.endswith("}") else {})
        else:
            assert block[kind] == text
    assert (complete["stop_reason"] == "max_tokens") == (choice["finish_reason"] == "length")
