"""Ollama's API with its client, on an engine that writes what the test tells it to."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import ollama
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from scripted import ScriptedEngine
from serving import eventually, serving

from narrows import __version__
from narrows.engines.api import Request
from narrows.server import Settings

ASK: list[Any] = [{"role": "user", "content": "hi"}]


def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
      city: The city
    """
    return f"Clear in {city}."


TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def call(city: str) -> str:
    return f"<tool_call>\n{json.dumps({'name': 'get_weather', 'arguments': {'city': city}})}\n</tool_call>"


class Served:
    """A server whose script can be changed."""

    def __init__(self, url: str, engine: ScriptedEngine) -> None:
        self.engine, self.url = engine, url
        self.client = ollama.Client(host=url)

    def writes(self, text: Any) -> None:
        self.engine.script = text if callable(text) else lambda request, index: text

    def lines(self, path: str, **fields: Any) -> list[Any]:
        answer = httpx.post(f"{self.url}{path}", json={"model": "scripted", **fields})
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        return [json.loads(line) for line in answer.text.splitlines()]

    def prompt(self) -> str:
        return self.engine.text_of(self.engine.requests[-1].prompt_token_ids)


@contextmanager
def talking(**options: Any) -> Iterator[Served]:
    engine = ScriptedEngine()
    with serving(engine, Settings(**options)) as url:
        served = Served(url, engine)
        yield served
        served.client.close()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with talking(reasoning_parser="think") as served:
        yield served


def test_chat_and_generate_stream_by_themselves(served: Served) -> None:
    served.writes("<think>Hm.</think>Hello there.")
    lines = served.lines("/api/chat", messages=ASK)
    assert all(line["done"] is False for line in lines[:-1])
    assert (lines[-1]["done"], lines[-1]["done_reason"]) == (True, "stop")
    assert "".join(line["message"]["content"] for line in lines) == "Hello there."
    assert "".join(line["message"].get("thinking", "") for line in lines) == "Hm."
    complete = served.client.chat("scripted", ASK)
    assert (complete.message.content, complete.message.thinking) == ("Hello there.", "Hm.")
    assert complete.eval_count == lines[-1]["eval_count"]
    assert complete.total_duration >= complete.eval_duration >= 0
    made = served.client.generate("scripted:latest", "hi", system="Be brief.")
    assert (made.response, made.thinking, made.done_reason) == ("Hello there.", "Hm.", "stop")
    assert "system\nBe brief." in served.prompt()
    streamed = [*served.client.generate("scripted", "hi", stream=True)]
    assert "".join(part.response for part in streamed) == "Hello there."


def test_an_agents_loop_with_a_python_function(served: Served) -> None:
    def script(request: Request, index: int) -> str:
        seen = served.engine.text_of(request.prompt_token_ids)
        return "It is clear." if "<tool_response>\nClear in Oslo." in seen else "Well. " + call("Oslo") + call("Rome")

    served.writes(script)
    first = served.client.chat("scripted", ASK, tools=[get_weather])
    made = first.message.tool_calls or []
    assert [dict(one.function.arguments) for one in made] == [{"city": "Oslo"}, {"city": "Rome"}]
    streamed = [
        one.function.arguments
        for part in served.client.chat("scripted", ASK, tools=[get_weather], stream=True)
        for one in part.message.tool_calls or ()
    ]
    assert streamed == [one.function.arguments for one in made]
    results = [
        {"role": "tool", "content": get_weather(**one.function.arguments), "tool_name": "get_weather"} for one in made
    ]
    second = served.client.chat("scripted", [*ASK, first.message, *results], tools=[get_weather])
    assert second.message.content == "It is clear."


def test_a_shape_of_the_text(served: Served) -> None:
    class City(BaseModel):
        name: str
        size: int

    served.writes('{"name": "Oslo", "size": 7} and more')
    answer = served.client.chat("scripted", ASK, format=City.model_json_schema())
    assert City.model_validate_json(answer.message.content) == City(name="Oslo", size=7)
    served.writes("No. " * 30)
    options = {"num_predict": 20, "seed": 1}
    assert served.client.generate("scripted", "hi", format="json", options=options).response.lstrip()[:1] == "{"
    body = {"model": "scripted", "messages": ASK, "guided_choice": ["yes", "no"], "stream": False}
    assert httpx.post(f"{served.url}/api/chat", json=body).json()["message"]["content"] in ("yes", "no")


def test_options_are_ours_under_other_names(served: Served) -> None:
    served.writes("One two three four")
    options = {"stop": ["three"], "num_predict": -1, "repeat_penalty": 1.1, "num_ctx": 4096, "mirostat": 0}
    assert served.client.chat("scripted", ASK, options=options).message.content == "One two "
    assert served.engine.requests[-1].sampling.repetition_penalty == 1.1
    cut = served.client.chat("scripted", ASK, options={"num_predict": 5})
    assert (cut.message.content, cut.done_reason, cut.eval_count) == ("One t", "length", 5)
    served.writes(call("Oslo"))
    cut = served.client.chat("scripted", ASK, tools=[TOOL], options={"num_predict": len(call("Oslo")) - 20})
    assert (cut.message.tool_calls, cut.done_reason) == (None, "length")


def test_a_choice_of_tools_goes_beyond_ollama(served: Served) -> None:
    served.writes("I would rather not.")
    lines = served.lines("/api/chat", messages=ASK, tools=[TOOL], tool_choice="required", options={"num_predict": 300}, seed=1, parallel_tool_calls=False)  # fmt: skip
    assert lines[-1]["done_reason"] == "length" or any(line["message"].get("tool_calls") for line in lines)


def test_thinking_is_asked_for_by_the_templates_variable() -> None:
    engine = ScriptedEngine(chat_template="{{ messages[0].content }}{{ enable_thinking }}{{ reasoning_effort }}")
    with serving(engine, Settings(tool_call_parser="hermes_json")) as url:
        served = Served(url, engine)
        for think, seen in ((True, "hiTrue"), (False, "hiFalse"), ("low", "hiTruelow"), (None, "hi")):
            served.client.chat("scripted", ASK, think=think)
            assert served.prompt() == seen
        served.client.close()


def test_what_is_said_of_the_model(served: Served) -> None:
    assert [model.model for model in served.client.list().models] == ["scripted"]
    shown = served.client.show("scripted")
    assert set(shown.capabilities) == {"completion", "tools", "thinking"}
    assert httpx.get(f"{served.url}/api/version").json() == {"version": __version__}
    with pytest.raises(ollama.ResponseError) as caught:
        served.client.show("nope")
    assert caught.value.status_code == 404


WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    ("/api/chat", {"format": "yaml"}, "invalid_value", "/format"),
    ("/api/chat", {"format": {"minLenght": 1}, "structured_outputs": {"regex": "a"}}, "conflicting_constraints", "/structured_outputs"),
    ("/api/chat", {"format": {"type": "strin"}}, "schema_invalid", "/format/type"),
    ("/api/chat", {"options": {"temperature": -1}}, "sampling_params_invalid", "/options/temperature"),
    ("/api/chat", {"options": {"num_predict": "5"}}, "invalid_type", "/options/num_predict"),
    ("/api/chat", {"options": {"grammar": "root ::= x"}}, "field_unsupported", "/options/grammar"),
    ("/api/chat", {"response_format": {"type": "json_object"}}, "field_unsupported", "/response_format"),
    ("/api/chat", {"messages": [{"role": "user", "content": "x", "images": ["eA=="]}]}, "content_part_unsupported", "/messages/0/images"),
    ("/api/chat", {"messages": [{"role": "bot", "content": "x"}]}, "invalid_value", "/messages/0/role"),
    ("/api/chat", {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]}, "invalid_type", "/messages/0/tool_calls/0/function/arguments"),
    ("/api/chat", {"messages": []}, "invalid_messages", "/messages"),
    ("/api/chat", {"tools": [{"type": "function", "function": {"name": "f", "parametres": {"type": "object"}}}]}, "field_unsupported", "/tools/0/function/parametres"),
    ("/api/chat", {"think": "hard"}, "invalid_value", "/think"),
    ("/api/generate", {"prompt": "a\ufdd0"}, "invalid_messages", "/prompt"),
    ("/api/generate", {"prompt": "x", "raw": True}, "field_unsupported", "/raw"),
    ("/api/generate", {"prompt": "x", "template": "y"}, "field_unsupported", "/template"),
    ("/api/generate", {"prompt": "x", "images": ["eA=="]}, "content_part_unsupported", "/images"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "fields", "code", "pointer"), WRONG, ids=[f"{w[2]} {w[3]}" for w in WRONG])
def test_errors_lead_to_what_was_sent(
    served: Served, path: str, fields: dict[str, Any], code: str, pointer: str
) -> None:
    base = {"messages": ASK} if path == "/api/chat" else {}
    answer = httpx.post(f"{served.url}{path}", json={"model": "scripted", **base, **fields})
    body = answer.json()
    assert isinstance(body["error"], str)
    assert (answer.status_code, body["code"], body["pointer"]) == (400, code, pointer), body


def test_a_key_is_needed() -> None:
    with talking(api_keys=["secret"]) as served:
        with pytest.raises(ollama.ResponseError) as caught:
            served.client.list()
        assert caught.value.status_code == 401
        with ollama.Client(host=served.url, headers={"Authorization": "Bearer secret"}) as client:
            assert client.chat("scripted", ASK).message.content == "Hello."


@pytest.mark.parametrize("stream", [True, False])
def test_leaving_ends_the_sequences(stream: bool) -> None:
    with talking() as served:
        served.engine.hold()
        host, _, port = served.url.removeprefix("http://").partition(":")
        data = json.dumps({"model": "scripted", "messages": ASK, "stream": stream}).encode()
        head = f"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(head.encode() + data)
            assert eventually(lambda: served.engine.running == 1)
        assert eventually(lambda: served.engine.running == 0)
        assert served.engine.finished == {"abort": 1}


parts = st.lists(st.sampled_from(["Some text. ", "é😀", f"\n{call('Oslo')}\n", f"\n{call('Rome')}\n"]), max_size=5)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.booleans(), parts, st.sampled_from([5, 60, 400]))
def test_lines_answer_and_chat_completions_agree(served: Served, thinks: bool, texts: list[str], tokens: int) -> None:
    served.writes(("<think>Hm.</think>" if thinks else "") + "".join(texts))
    body = {"model": "scripted", "messages": ASK, "tools": [TOOL], "options": {"num_predict": tokens, "seed": 7}}
    complete = httpx.post(f"{served.url}/api/chat", json={**body, "stream": False}).json()
    messages = [line["message"] for line in served.lines("/api/chat", **body)]
    assert "".join(one["content"] for one in messages) == complete["message"]["content"]
    assert "".join(one.get("thinking", "") for one in messages) == complete["message"].get("thinking", "")
    calls = [one for message in messages for one in message.get("tool_calls", ())]
    assert calls == complete["message"].get("tool_calls", [])
    chat = {"messages": ASK, "tools": [TOOL], "seed": 7, "max_tokens": tokens}
    choice = httpx.post(f"{served.url}/v1/chat/completions", json=chat).json()["choices"][0]
    assert complete["message"]["content"] == (choice["message"]["content"] or "")
    theirs = [one["function"]["arguments"] for one in choice["message"].get("tool_calls", ())]
    assert [one["function"]["arguments"] for one in calls] == [
        json.loads(text) for text in theirs if text.endswith("}")
    ]
    assert (complete["done_reason"] == "length") == (choice["finish_reason"] == "length")
