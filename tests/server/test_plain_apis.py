"""llama.cpp's and Text Generation Inference's plain completions, and what llama.cpp and vLLM say of tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from scripted import ScriptedEngine
from serving import serving

SCHEMA = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(ScriptedEngine("Hello there.")) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield client


def asked(client: httpx.Client, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def streamed(client: httpx.Client, path: str, **body: Any) -> list[Any]:
    lines = client.post(path, json=body).text.split("\n\n")
    return [json.loads(line.partition("data:")[2]) for line in lines if line]


def test_completion_runs_to_its_end_and_streams(client: httpx.Client) -> None:
    whole = asked(client, "/completion", prompt="x")
    assert (whole["content"], whole["stop"], whole["stop_type"]) == ("Hello there.", True, "eos")
    assert (whole["tokens_evaluated"], whole["tokens_predicted"]) == (1, 13)
    events = streamed(client, "/completion", prompt="x", stream=True)
    assert "".join(event["content"] for event in events) == "Hello there."
    assert [event["stop"] for event in events] == [False] * (len(events) - 1) + [True]
    assert asked(client, "/completion", prompt=[120], n_predict=5)["stop_type"] == "limit"
    stopped = asked(client, "/completion", prompt="x", n_predict=-1, seed=-1, stop=["there"])
    assert (stopped["content"], stopped["stop_type"], stopped["stopping_word"]) == ("Hello ", "word", "there")


def test_generate_takes_parameters(client: httpx.Client) -> None:
    assert asked(client, "/generate", inputs="x") == {"generated_text": "Hello there.", "details": None}
    cut = asked(
        client, "/generate", inputs="x ", parameters={"max_new_tokens": 5, "details": True, "return_full_text": True}
    )
    assert cut["generated_text"] == "x Hello"
    assert (cut["details"]["finish_reason"], cut["details"]["generated_tokens"]) == ("length", 5)
    events = streamed(client, "/generate_stream", inputs="x", parameters={"stop": ["there"]})
    assert "".join(event["token"]["text"] for event in events) == "Hello "
    assert (events[-1]["generated_text"], events[-1]["details"]["finish_reason"]) == ("Hello ", "stop_sequence")


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/completion", {"prompt": "x", "json_schema": SCHEMA}),
        ("/completion", {"prompt": "x", "grammar": 'root ::= "{" [ \\n]* "\\"a\\":" " "? "1}"'}),
        ("/generate", {"inputs": "x", "parameters": {"grammar": {"type": "json", "value": SCHEMA}}}),
        ("/generate", {"inputs": "x", "parameters": {"grammar": {"type": "json_schema", "value": {"name": "x", "schema": SCHEMA}}}}),
        ("/generate", {"inputs": "x", "parameters": {"grammar": {"type": "regex", "value": r'\{"a": ?1\}'}}}),
    ],
)  # fmt: skip
def test_constraints_hold(client: httpx.Client, path: str, fields: dict[str, Any]) -> None:
    extra = {"seed": 3} if path == "/completion" else {}
    answer = asked(client, path, **fields, **extra, logit_bias={str(ord(c)): 20 for c in '{"a:1}'})
    text = answer["content"] if path == "/completion" else answer["generated_text"]
    assert json.loads(text) == {"a": 1}


@pytest.mark.parametrize(
    ("path", "fields", "code", "pointer"),
    [
        ("/completion", {"prompt": "x", "json_schema": {"minLenght": 1}}, "schema_unsupported", "/json_schema/minLenght"),
        ("/completion", {"prompt": "x", "grammar": "a ::= b", "json_schema": {}}, "conflicting_constraints", "/json_schema"),
        ("/completion", {"prompt": "x", "grammar_lazy": True}, "field_unsupported", "/grammar_lazy"),
        ("/completion", {"prompt": "x", "n_predict": "5"}, "invalid_type", "/n_predict"),
        ("/completion", {"prompt": "x", "repeat_penalty": -1.0}, "sampling_params_invalid", "/repeat_penalty"),
        ("/completion", {"prompt": "x", "n_probs": 3}, "field_unsupported", "/n_probs"),
        ("/generate", {"inputs": "x", "parameters": {"grammar": {"type": "lark", "value": "x"}}}, "invalid_value", "/parameters/grammar/type"),
        ("/generate", {"inputs": "x", "parameters": {"grammar": {"type": "regex", "value": "(a"}}}, "regex_invalid", "/parameters/grammar/value"),
        ("/generate", {"inputs": "x", "parameters": {"grammar": {"type": "json", "value": {"type": "x"}}}}, "schema_invalid", "/parameters/grammar/value/type"),
        ("/generate", {"inputs": "x", "parameters": {"gramar": {"type": "json"}}}, "field_unsupported", "/parameters/gramar"),
        ("/generate", {"inputs": "x", "parameters": {"max_new_tokens": 0}}, "sampling_params_invalid", "/parameters/max_new_tokens"),
        ("/generate", {"inputs": "x", "parameters": {"watermark": True}}, "field_unsupported", "/parameters/watermark"),
        ("/generate", {"inputs": "x", "grammar": {"type": "json", "value": {}}}, "field_unsupported", "/grammar"),
        ("/tokenize", {}, "missing_field", "/content"),
        ("/detokenize", {"tokens": [1, 10_000]}, "token_invalid", "/tokens/1"),
        ("/apply-template", {"messages": []}, "invalid_messages", "/messages"),
    ],
)  # fmt: skip
def test_errors_lead_to_what_was_sent(
    client: httpx.Client, path: str, fields: dict[str, Any], code: str, pointer: str
) -> None:
    answer = client.post(path, json=fields)
    body = answer.json()
    error = body if isinstance(body["error"], str) else body["error"]
    assert (answer.status_code, error["code"], error["pointer"]) == (400, code, pointer), body
    if path == "/generate":
        assert body["error_type"] == "validation"


def test_tokens_there_and_back(client: httpx.Client) -> None:
    tokens = asked(client, "/tokenize", content="hé")["tokens"]
    assert tokens == list("hé".encode())
    assert asked(client, "/tokenize", prompt="hé") == {"tokens": tokens, "count": 3, "max_model_len": 1_000_000}
    assert asked(client, "/tokenize", content="<|im_end|>")["tokens"] == [257]
    assert len(asked(client, "/tokenize", content="<|im_end|>", parse_special=False)["tokens"]) == 10
    assert asked(client, "/detokenize", tokens=tokens) == {"content": "hé", "prompt": "hé"}


def test_the_template_and_the_properties(client: httpx.Client) -> None:
    prompt = asked(client, "/apply-template", messages=[{"role": "user", "content": "hi"}])["prompt"]
    assert prompt == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    page = client.get("/props").json()
    assert (page["model_path"], page["default_generation_settings"]["n_ctx"]) == ("scripted", 1_000_000)
