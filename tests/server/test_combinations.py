"""Fields of a request together, and the forms that messages and choices of tools come in, as OpenAI and vLLM read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openai import OpenAI
from scripted import ScriptedEngine
from serving import serving

from narrows.server import Settings

CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}}, "required": ["city"], "additionalProperties": False}  # fmt: skip
TOOLS: list[Any] = [{"type": "function", "function": {"name": name, "parameters": CITY}} for name in ("sky", "time")]
SHAPE = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}}
ASK: list[Any] = [{"role": "user", "content": "hi"}]


def call(name: str, city: str) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': {'city': city}})}\n</tool_call>"


OSLO, ROME = call("sky", "Oslo"), call("time", "Rome")


class Served:
    def __init__(self, url: str, engine: ScriptedEngine) -> None:
        self.engine, self.url = engine, url
        self.client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    def ask(self, text: str = "Hello.", path: str = "/v1/chat/completions", **fields: Any) -> httpx.Response:
        self.engine.script = lambda request, index: text
        body = {"model": "scripted", "messages": ASK, "seed": 1, "max_tokens": 200, **fields}
        return httpx.post(f"{self.url}{path}", json=body)

    def prompt(self) -> str:
        return self.engine.text_of(self.engine.requests[-1].prompt_token_ids)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    engine = ScriptedEngine()
    with serving(engine, Settings(reasoning_parser=None)) as url:
        yield Served(url, engine)


END, OPEN = "«<|im_end|>»\n", "«<|im_start|>»"
USER = f"{OPEN}user\nhi{END}"
CALLED: list[Any] = [
    *ASK,
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "sky", "arguments": "{}"}}]},
]  # fmt: skip
MESSAGES: dict[str, tuple[list[Any], str]] = {
    "system alone": ([{"role": "system", "content": "s"}], f"{OPEN}system\ns{END}"),
    "developer": ([{"role": "developer", "content": "s"}, *ASK], f"{OPEN}system\ns{END}{USER}"),
    "a name": ([{"role": "user", "content": "hi", "name": "bob"}], USER),
    "null content": ([{"role": "user", "content": None}], f"{OPEN}user\n{END}"),
    "no parts": ([{"role": "user", "content": []}], f"{OPEN}user\n{END}"),
    "parts": ([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}], f"{OPEN}user\na\nb{END}"),
    "empty tool_calls": ([*ASK, {"role": "assistant", "content": "x", "tool_calls": []}], f"{USER}{OPEN}assistant\nx{END}"),
    "null tool_calls": ([*ASK, {"role": "assistant", "content": "x", "tool_calls": None, "function_call": None, "audio": None}], f"{USER}{OPEN}assistant\nx{END}"),
    "a refusal part": ([*ASK, {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}], f"{USER}{OPEN}assistant\nno{END}"),
    "a refusal": ([*ASK, {"role": "assistant", "content": None, "refusal": "no"}], f"{USER}{OPEN}assistant\nno{END}"),
    "a refusal after a text": ([*ASK, {"role": "assistant", "content": "So", "refusal": "no"}], f"{USER}{OPEN}assistant\nSo\nno{END}"),
    "a refusal that is null": ([*ASK, {"role": "assistant", "content": "So", "refusal": None}], f"{USER}{OPEN}assistant\nSo{END}"),
    "a result as parts": (
        [*CALLED, {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "21"}, {"type": "text", "text": "C"}]}],
        f'{USER}{OPEN}assistant\n<tool_call>\n{{"name": "sky", "arguments": {{}}}}\n</tool_call>{END}{OPEN}tool\n<tool_response>\n21\nC\n</tool_response>{END}',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("messages", "prompt"), MESSAGES.values(), ids=list(MESSAGES))
def test_every_part_of_a_conversation_is_in_the_prompt(served: Served, messages: list[Any], prompt: str) -> None:
    assert served.ask(messages=messages).status_code == 200
    assert served.prompt() == f"{prompt}{OPEN}assistant\n"


def allowed(mode: str, *names: str) -> Any:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [{"type": "function", "function": {"name": name}} for name in names]}}  # fmt: skip


def flat(mode: str, *names: str) -> Any:
    return {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": name} for name in names]}


WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    ("chat/completions", {"messages": []}, "invalid_messages", "messages"),
    ("chat/completions", {"messages": [{"role": "user", "content": ["a"]}]}, "invalid_type", "messages[0].content[0]"),
    ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "invalid_messages", "messages[0].content[0].text"),
    ("chat/completions", {"messages": [{"role": "function", "name": "f", "content": "x"}]}, "invalid_value", "messages[0].role"),
    ("chat/completions", {"messages": [*ASK, {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}]}, "field_unsupported", "messages[1].function_call"),
    ("chat/completions", {"messages": [*ASK, {"role": "assistant", "audio": {"id": "a"}}]}, "field_unsupported", "messages[1].audio"),
    ("chat/completions", {"audio": {"voice": "x", "format": "wav"}}, "field_unsupported", "audio"),
    ("chat/completions", {"max_tokens": 0}, "sampling_params_invalid", "max_tokens"),
    ("chat/completions", {"max_completion_tokens": 0}, "sampling_params_invalid", "max_completion_tokens"),
    ("chat/completions", {"max_tokens": 5, "max_completion_tokens": -1}, "sampling_params_invalid", "max_completion_tokens"),
    ("responses", {"input": "hi", "max_tokens": None, "max_output_tokens": 0}, "sampling_params_invalid", "max_output_tokens"),
    ("chat/completions", {"stream_options": {"include_usage": True}}, "invalid_value", "stream_options"),
    ("chat/completions", {"top_logprobs": 2}, "invalid_value", "top_logprobs"),
    ("chat/completions", {"logprobs": True, "top_logprobs": 21}, "invalid_value", "top_logprobs"),
    ("chat/completions", {"tool_choice": "required"}, "invalid_value", "tool_choice"),
    ("chat/completions", {"tools": [], "tool_choice": TOOLS[0]}, "field_unsupported", "tool_choice.function.parameters"),
    ("chat/completions", {"tools": TOOLS, "tool_choice": "any"}, "invalid_value", "tool_choice"),
    ("chat/completions", {"tools": TOOLS, "tool_choice": {"type": "auto"}}, "invalid_value", "tool_choice.type"),
    ("chat/completions", {"tools": TOOLS, "tool_choice": {"type": "tool", "name": "sky"}}, "invalid_value", "tool_choice.type"),
    ("chat/completions", {"tools": TOOLS, "tool_choice": {"type": ["function"]}}, "invalid_value", "tool_choice.type"),
    ("chat/completions", {"tools": TOOLS, "tool_choice": {}}, "missing_field", "tool_choice.function"),
    ("chat/completions", {"tools": TOOLS, "tool_choice": {"type": "function", "name": "sky"}}, "missing_field", "tool_choice.function"),
    ("chat/completions", {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_unknown", "tool_choice.function.name"),
    ("chat/completions", {"tools": TOOLS, "tool_choice": flat("auto", "sky")}, "missing_field", "tool_choice.allowed_tools"),
    ("chat/completions", {"tools": TOOLS, "tool_choice": allowed("any", "sky")}, "invalid_value", "tool_choice.allowed_tools.mode"),
    ("chat/completions", {"tools": TOOLS, "tool_choice": allowed("auto", "x")}, "tool_unknown", "tool_choice.allowed_tools.tools[0].function.name"),
    ("chat/completions", {"tools": TOOLS, "tool_choice": allowed("required")}, "invalid_value", "tool_choice.allowed_tools.tools"),
    ("responses", {"input": "hi", "max_tokens": None, "tools": [{"type": "function", **TOOLS[0]["function"]}], "tool_choice": flat("required")}, "invalid_value", "tool_choice.tools"),
    ("responses", {"input": "hi", "max_tokens": None, "tools": [{"type": "function", **TOOLS[0]["function"]}], "tool_choice": allowed("required", "sky")}, "field_unsupported", "tool_choice.allowed_tools"),
    ("messages", {"tools": [{"name": "sky", "input_schema": CITY}], "tool_choice": {"type": "any", "name": "sky"}}, "field_unsupported", "tool_choice.name"),
    ("chat/completions", {"max_output_tokens": 5}, "field_unsupported", "max_output_tokens"),
    ("chat/completions", {"maxOutputTokens": 5}, "field_unsupported", "maxOutputTokens"),
    ("completions", {"prompt": "a", "max_completion_tokens": 5}, "field_unsupported", "max_completion_tokens"),
    ("messages", {"max_completion_tokens": 5}, "field_unsupported", "max_completion_tokens"),
    ("messages", {"mcp_servers": [{"type": "url", "url": "x", "name": "n"}]}, "tool_unsupported", "mcp_servers"),
    ("responses", {"input": "hi", "max_tokens": 5}, "field_unsupported", "max_tokens"),
    ("responses", {"input": "hi", "max_tokens": None, "n_predict": 5}, "field_unsupported", "n_predict"),
    ("responses", {"input": "hi", "max_tokens": None, "stop": ["a"]}, "field_unsupported", "stop"),
    ("responses", {"input": "hi", "max_tokens": None, "tools": [{"type": "function", **TOOLS[0]["function"]}], "tool_choice": {"type": "mcp"}}, "invalid_value", "tool_choice.type"),
    ("completions", {"prompt": "a", "echo": True}, "unsupported", "echo"),
    ("completions", {"prompt": "a", "suffix": "b"}, "unsupported", "suffix"),
    ("completions", {"prompt": "a", "best_of": 2}, "unsupported", "best_of"),
    ("completions", {"prompt": "a", "logprobs": 21}, "sampling_params_invalid", "logprobs"),
    ("completions", {"prompt": "a", "logprobs": True}, "invalid_type", "logprobs"),
    ("completions", {"prompt": "a", "tools": TOOLS}, "field_unsupported", "tools"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "fields", "code", "param"), WRONG, ids=[f"{w[0]} {w[2]} {w[3]}" for w in WRONG])
def test_what_is_refused(served: Served, path: str, fields: dict[str, Any], code: str, param: str) -> None:
    answer = served.ask(path=f"/v1/{path}", **fields)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, code, param), error


def test_an_object_of_another_type_is_told_the_types(served: Served) -> None:
    error = served.ask(tools=TOOLS, tool_choice={"type": "auto"}).json()["error"]
    assert "function or allowed_tools" in error["message"]
    assert "strings" in error["hint"]


@pytest.mark.parametrize(
    ("path", "body", "instead"),
    [
        ("/v1/chat/completions", {"messages": ASK, "max_output_tokens": 5}, "Use max_tokens,"),
        ("/v1/completions", {"prompt": "a", "max_completion_tokens": 5}, "Use max_tokens,"),
        ("/v1/responses", {"input": "a", "max_tokens": 5}, "Use max_output_tokens,"),
        ("/v1/messages", {"messages": ASK, "max_tokens": 5, "max_output_tokens": 5}, "Use max_tokens,"),
        ("/api/chat", {"messages": ASK, "max_tokens": 5}, "Use options.num_predict,"),
        ("/completion", {"prompt": "a", "max_tokens": 5}, "Use n_predict,"),
        ("/generate", {"inputs": "a", "max_new_tokens": 5}, "Use parameters.max_new_tokens,"),
        ("/v1/responses", {"input": "a", "stop": "x"}, "Leave it out"),
    ],
)
def test_a_bound_of_another_api_names_this_one(served: Served, path: str, body: Any, instead: str) -> None:
    answer = httpx.post(f"{served.url}{path}", json=body)
    error = answer.json()
    told = error["hint"] if "hint" in error else error["error"]["hint"]
    assert answer.status_code == 400
    assert told.startswith(instead)
    assert "Use stop" not in told


def test_what_asks_for_no_answer_may_have_a_bound(served: Served) -> None:
    counted = served.ask(path="/v1/messages/count_tokens", max_tokens=5)
    assert counted.status_code == 200, counted.text


CHOICES: list[tuple[Any, str, list[str]]] = [
    (None, f"{OSLO}\n{ROME}", ["sky", "time"]),
    ("auto", f"{OSLO}\n{ROME}", ["sky", "time"]),
    ("none", OSLO, []),
    ("required", OSLO, ["sky"]),
    ({"type": "function", "function": {"name": "time"}}, ROME, ["time"]),
    ({"function": {"name": "time"}}, ROME, ["time"]),
    (allowed("required", "time"), OSLO, ["time"]),
    (allowed("auto", "time"), ROME, ["time"]),
    (allowed("auto"), OSLO, []),
]


@pytest.mark.parametrize("shape", [None, SHAPE], ids=["", "beside a shape"])
@pytest.mark.parametrize("parallel", [None, True, False])
@pytest.mark.parametrize(("choice", "text", "names"), CHOICES, ids=[json.dumps(each[0])[:60] for each in CHOICES])
def test_choices_of_tools(served: Served, choice: Any, text: str, names: list[str], parallel: Any, shape: Any) -> None:
    answer = served.ask(text, tools=TOOLS, tool_choice=choice, parallel_tool_calls=parallel, response_format=shape)
    [made] = answer.json()["choices"]
    called = [one["function"]["name"] for one in made["message"].get("tool_calls", ())]
    assert called == (names if parallel is not False else names[:1])
    if not called and shape is not None and made["finish_reason"] != "length":
        assert set(json.loads(made["message"]["content"])) == {"city"}
    wanted = "stop" if isinstance(choice, dict) and "function" in choice else "tool_calls"
    assert made["finish_reason"] in ((wanted,) if called else ("stop", "length"))


def test_the_smaller_name_of_a_bound_gives_way(served: Served) -> None:
    """`max_tokens` is OpenAI's older name of `max_completion_tokens`."""
    for fields, text in (
        ({"max_tokens": 3}, "Hel"),
        ({"max_tokens": 3, "max_completion_tokens": 5}, "Hello"),
        ({"max_tokens": 5, "max_completion_tokens": 3}, "Hel"),
        ({"max_tokens": 3, "max_completion_tokens": None}, "Hel"),
    ):
        [made] = served.ask(**fields).json()["choices"]
        assert (made["message"]["content"], made["finish_reason"]) == (text, "length")


def test_stop_texts_are_of_the_content_alone(served: Served) -> None:
    stopped = served.ask(f"I look at Oslo. {ROME}", tools=TOOLS, stop=["Oslo"]).json()["choices"][0]
    assert (stopped["message"]["content"], stopped["finish_reason"], stopped["stop_reason"]) == (
        "I look at ",
        "stop",
        "Oslo",
    )
    called = served.ask(OSLO, tools=TOOLS, stop=["Oslo", "<tool_call>", '"']).json()["choices"][0]
    assert called["finish_reason"] == "tool_calls"
    assert json.loads(called["message"]["tool_calls"][0]["function"]["arguments"]) == {"city": "Oslo"}


@pytest.mark.parametrize("chat", [True, False], ids=["chat", "plain"])
@pytest.mark.parametrize(
    ("options", "each", "last"),
    [
        ({"include_usage": True}, "null", True),
        ({"include_usage": True, "continuous_usage_stats": True}, "counts", True),
        ({"include_usage": True, "continuous_usage_stats": None, "include_obfuscation": False}, "null", True),
        ({"include_usage": False, "continuous_usage_stats": True}, "none", False),
        ({"include_usage": None, "include_values": None}, "none", False),
        ({}, "none", False),
        (None, "none", False),
    ],
)
def test_usage_in_a_stream(served: Served, chat: bool, options: Any, each: str, last: bool) -> None:
    path, fields = ("/v1/chat/completions", {}) if chat else ("/v1/completions", {"prompt": "a"})
    answer = served.ask("Hello. " * 9, path, stream=True, stream_options=options, n=2, **fields)
    *events, done = answer.text.strip().split("\n\n")
    assert (answer.status_code, done) == (200, "data: [DONE]")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    if last:
        usage = chunks.pop()
        assert usage["choices"] == []
        assert usage["usage"]["completion_tokens"] == 2 * 64
    for chunk in chunks:
        assert ("usage" in chunk) == (each != "none")
        assert (chunk.get("usage") is None) == (each != "counts")
    if each == "counts":
        counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
        assert counts == sorted(counts)
        assert (counts[0] == 0) == chat
        assert counts[-1] == 2 * 64
        assert {chunk["usage"]["prompt_tokens"] for chunk in chunks} == {usage["usage"]["prompt_tokens"]}
        assert all(chunk["usage"]["total_tokens"] == chunk["usage"]["prompt_tokens"] + count for chunk, count in zip(chunks, counts, strict=True))  # fmt: skip


HELD = {"type": "json_schema", "json_schema": {"name": "c", "schema": {"enum": ["aa", "ab", "bb"]}}}
SAMPLED: list[tuple[dict[str, Any], set[str]]] = [
    ({"logit_bias": {"97": -100}}, {'"bb"'}),
    ({"logit_bias": {"98": 100}}, {'"bb"'}),
    ({"logit_bias": {"122": 100}}, {'"aa"', '"ab"', '"bb"'}),
    ({"logit_bias": {"97": -100, "98": -100, "34": -100}}, {'"aa"', '"ab"', '"bb"'}),
    ({"logit_bias": None, "top_k": 1}, {'"aa"', '"ab"', '"bb"'}),
    ({"top_k": -1, "top_p": 0.01, "min_p": 1.0}, {'"aa"', '"ab"', '"bb"'}),
    ({"frequency_penalty": 2.0, "presence_penalty": 2.0, "repetition_penalty": 1.8}, {'"aa"', '"ab"', '"bb"'}),
    ({"temperature": 0}, {'"aa"'}),
    ({"temperature": 2.0, "n": 8}, {'"aa"', '"ab"', '"bb"'}),
]


@pytest.mark.parametrize(("fields", "texts"), SAMPLED, ids=[json.dumps(each[0]) for each in SAMPLED])
def test_sampling_cannot_leave_the_grammar(served: Served, fields: dict[str, Any], texts: set[str]) -> None:
    for seed in range(3):
        answers = [
            [
                choice["message"]["content"]
                for choice in served.ask("zz", response_format=HELD, **{**fields, "seed": seed}).json()["choices"]
            ]
            for _ in range(2)
        ]
        assert set(answers[0]) <= texts
        assert answers[0] == answers[1], "a seed draws the same again"


def test_an_empty_wish_is_none(served: Served) -> None:
    for fields in (
        {"top_logprobs": 0},
        {"top_logprobs": None, "logprobs": None},
        {"logprobs": True, "top_logprobs": 0},
    ):
        answer = served.ask(**fields)
        assert answer.status_code == 200, answer.text
    plain: list[dict[str, Any]] = [
        {"echo": False, "suffix": "", "best_of": 1},
        {"echo": None, "suffix": None, "best_of": None, "logprobs": None},
    ]
    for fields in plain:
        assert served.ask(path="/v1/completions", prompt="a", **fields).status_code == 200
