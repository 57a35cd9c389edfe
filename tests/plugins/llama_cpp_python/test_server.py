"""llama-cpp-python's own server with the chat handler under a name, as the page shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

pytest.importorskip("fastapi", reason="make test-llama-cpp-python installs llama-cpp-python's server")
from fastapi.testclient import TestClient
from llama_cpp.llama_chat_format import LlamaChatCompletionHandlerRegistry, register_chat_completion_handler
from llama_cpp.server.app import create_app
from llama_cpp.server.settings import ModelSettings, ServerSettings
from test_chat import ASK, SCHEMAS, TOOLS

from narrows.plugins.llama_cpp_python import ChatHandler


@pytest.fixture(scope="module")
def client(model_path: str) -> Iterator[TestClient]:
    register_chat_completion_handler("narrows")(ChatHandler(parallel_tool_calls=False))
    settings = ModelSettings(
        model=model_path, chat_format="narrows", n_ctx=1024, n_threads=1, n_threads_batch=1, verbose=False
    )
    with TestClient(create_app(server_settings=ServerSettings(), model_settings=[settings])) as made:
        yield made
    LlamaChatCompletionHandlerRegistry().unregister_chat_handler("narrows")


def ask(client: TestClient, **body: Any) -> Any:
    options = {"messages": ASK, "tools": TOOLS, "tool_choice": "required", "temperature": 0, "max_tokens": 96}
    return client.post("/v1/chat/completions", json={**options, **body})


def test_streamed_and_complete_calls_agree(client: TestClient) -> None:
    call = ask(client).json()["choices"][0]["message"]["tool_calls"][0]["function"]
    schema = {**SCHEMAS[call["name"]], "additionalProperties": False}
    assert jsonschema_rs.is_valid(schema, json.loads(call["arguments"]))
    lines = [line[6:] for line in ask(client, stream=True).text.splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    deltas = [json.loads(line)["choices"][0]["delta"] for line in lines]
    pieces = [piece["function"] for delta in deltas for piece in delta.get("tool_calls", ())]
    assert "".join(piece["arguments"] for piece in pieces) == call["arguments"]
    assert pieces[0]["name"] == call["name"]


def test_a_response_format(client: TestClient) -> None:
    """The server knows json_object alone, with a schema if there is one."""
    wanted = {"type": "object", "properties": {"sunny": {"type": "boolean"}}, "required": ["sunny"]}
    answer = ask(client, tools=None, tool_choice=None, response_format={"type": "json_object", "schema": wanted})
    assert set(json.loads(answer.json()["choices"][0]["message"]["content"])) == {"sunny"}
