"""Starts the server, sends requests with OpenAI's own client, and prints the streamed deltas as they arrive.

    python examples/demo.py [--url http://127.0.0.1:8000]    # with --url it uses a server that is already running

There are three parts: a tool call (streamed), the same conversation with the tool's result, and an answer constrained
by a JSON Schema. The exit code is 0 if all of them gave what they should.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from openai import OpenAI

TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "maxLength": 40},
                    "unit": {"enum": ["celsius", "fahrenheit"]},
                },
                "required": ["city", "unit"],
                "additionalProperties": False,
            },
        },
    }
]
BOOK = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 60},
        "year": {"type": "integer", "minimum": 1500, "maximum": 2030},
        "genres": {
            "type": "array",
            "items": {"enum": ["novel", "drama", "poetry", "essay"]},
            "minItems": 1,
            "maxItems": 2,
        },
    },
    "required": ["title", "year", "genres"],
    "additionalProperties": False,
}


@contextmanager
def server() -> Iterator[str]:
    """Starts a server on a free port and gives its URL. It is stopped at the end, whatever happens."""
    command = [sys.executable, "-m", "narrows.cli", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            sys.exit(f"the server did not start (exit code {process.wait()})")
        try:
            yield json.loads(line)["url"]
        finally:
            process.terminate()


def tool_call(client: OpenAI, model: str, messages: list[Any]) -> Any:
    """Stream a required call and print every delta. Returns the assistant's message."""
    calls: dict[int, dict[str, str]] = {}
    stream = client.chat.completions.create(
        model=model,
        messages=messages,
        tools=TOOLS,
        tool_choice="required",
        parallel_tool_calls=False,
        temperature=0,
        max_tokens=100,
        stream=True,
    )
    reason = None
    for chunk in stream:
        choice = chunk.choices[0]
        reason = choice.finish_reason or reason
        print("  ", choice.delta.model_dump_json(exclude_unset=True), choice.finish_reason or "", flush=True)
        for call in choice.delta.tool_calls or ():
            parts = calls.setdefault(
                call.index, {"id": call.id or "", "name": call.function.name or "", "arguments": ""}
            )
            parts["arguments"] += call.function.arguments or ""
    assert reason == "tool_calls", reason
    assert json.loads(calls[0]["arguments"]).keys() == {"city", "unit"}, calls
    complete = [
        {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
        for c in calls.values()
    ]
    return {"role": "assistant", "content": None, "tool_calls": complete}


def main() -> None:
    options = argparse.ArgumentParser(description="Send requests to an OpenAI-compatible server and print its answers.")
    options.add_argument("--url", help="a server that is already running; without it, one is started and stopped")
    url = options.parse_args().url
    if url:
        demonstrate(url)
        return
    with server() as own:
        demonstrate(own)


def demonstrate(url: str) -> None:
    client = OpenAI(base_url=f"{url}/v1", api_key="none")
    model = client.models.list().data[0].id
    messages: list[Any] = [{"role": "user", "content": "What is the weather in Paris, in celsius?"}]

    print(f"1. a required tool call, streamed by {model}")
    call = tool_call(client, model, messages)

    print("2. the same conversation with the tool's result")
    result = {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": '{"sky": "clear", "celsius": 21}'}
    stream = client.chat.completions.create(
        model=model,
        messages=[*messages, call, result],
        tools=TOOLS,
        tool_choice="none",
        temperature=0,
        max_tokens=40,
        stream=True,
    )
    text = ""
    for chunk in stream:
        piece = chunk.choices[0].delta.content or ""
        text += piece
        print(piece, end="", flush=True)
    print()
    assert text.strip(), "the model said nothing"

    print("3. an answer constrained by a JSON Schema")
    shape: Any = {"type": "json_schema", "json_schema": {"name": "book", "schema": BOOK}}
    answer = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Describe a famous book as JSON."}],
        response_format=shape,
        temperature=0,
        max_tokens=120,
    )
    print("  ", answer.choices[0].message.content)
    book = json.loads(answer.choices[0].message.content or "")
    assert 1500 <= book["year"] <= 2030
    print("done")


if __name__ == "__main__":
    main()
