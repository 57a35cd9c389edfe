"""A server with a scripted engine, and OpenAI's client for its Responses API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from openai import OpenAI
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from scripted import ScriptedEngine
from serving import serving

from narrows.server import Settings

WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 8}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


def call(name: str, arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n</tool_call>"


class Served:
    """A server whose script can be changed."""

    def __init__(self, url: str, engine: ScriptedEngine, key: str = "none") -> None:
        self.engine, self.url = engine, url
        self.client = OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)

    def writes(self, text: Any) -> None:
        self.engine.script = text if callable(text) else lambda request, index: text

    def create(self, **fields: Any) -> Response:
        return self.client.responses.create(model="scripted", **{"input": "hi", **fields})

    def events(self, **fields: Any) -> list[Any]:
        """The stream's events. Each must be what the client's model of its type says."""
        body = {"model": "scripted", "input": "hi", **fields, "stream": True}
        lines = httpx.post(f"{self.url}/v1/responses", json=body).text.split("\n\n")
        assert lines.pop() == ""
        events = []
        for number, line in enumerate(lines):
            kind, data = line.split("\n")
            event = json.loads(data.removeprefix("data: "))
            assert kind == f"event: {event['type']}"
            assert event["sequence_number"] == number
            events.append(EVENT.validate_python(event))
        return events

    def prompt(self) -> str:
        return self.engine.text_of(self.engine.requests[-1].prompt_token_ids)


EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


@contextmanager
def talking(**options: Any) -> Iterator[Served]:
    engine = ScriptedEngine()
    with serving(engine, Settings(**options)) as url:
        yield Served(url, engine, (options.get("api_keys") or ["none"])[0])
