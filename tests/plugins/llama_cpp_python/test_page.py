"""The examples of docs/llama_cpp_python.md, run as they are, with the small model."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import llama_cpp
import pytest
from llama_cpp.llama_chat_format import LlamaChatCompletionHandlerRegistry
from test_chat import ASK, TOOLS
from test_llama import PERSON

from narrows.plugins.llama_cpp_python import ChatHandler

PAGE = Path(__file__).parents[3] / "docs" / "llama_cpp_python.md"


def run(name: str, model_path: str, **names: Any) -> dict[str, Any]:
    """The names that the code block after `<!-- example: name -->` leaves."""
    code = PAGE.read_text().split(f"<!-- example: {name} -->\n```python\n", 1)[1].split("```", 1)[0]
    exec(compile(code.replace("model.gguf", model_path), name, "exec"), names)
    return names


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"n_threads": 1, "n_threads_batch": 1, "verbose": False, "seed": 3}
    monkeypatch.setattr(llama_cpp, "Llama", functools.partial(llama_cpp.Llama, **options))


def test_the_processor(model_path: str) -> None:
    answer = run("processor", model_path, schema=PERSON)["answer"]["choices"][0]
    assert answer["finish_reason"] == "stop"
    assert jsonschema_rs.is_valid(PERSON, json.loads(answer["text"]))


def test_the_chat(model_path: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = run("chat", model_path, messages=ASK, tools=TOOLS[:1])
    assert names["chunk"]["choices"][0]["finish_reason"] == "tool_calls"
    assert "get_weather" in capsys.readouterr().out


def test_the_server(model_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    main = pytest.importorskip("llama_cpp.server.__main__")
    started = []
    monkeypatch.setattr(main, "main", lambda: started.append(True))
    run("server", model_path)
    registry = LlamaChatCompletionHandlerRegistry()
    try:
        assert isinstance(registry.get_chat_completion_handler_by_name("narrows"), ChatHandler)
    finally:
        registry.unregister_chat_handler("narrows")
    assert started
