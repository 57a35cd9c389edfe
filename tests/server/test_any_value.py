"""Any field with any JSON value gives 200 or 4xx: searched by schemathesis on our OpenAPI, and by changing bodies."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from scripted import ScriptedEngine
from serving import serving

from narrows.server import Settings, create_app

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"

# A template that looks at most of what it gets, as those of real models do.
TEMPLATE = """\
{%- macro render(value) -%}{{ value | tojson }}{%- endmacro -%}
{%- set thinking = enable_thinking is not defined or enable_thinking -%}
{{- bos_token -}}
{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ render(tool) }} {{ tool.function.name }} {{ tool.function.description | default('', true) }}
{%- for name, value in (tool.function.parameters.properties or {}).items() if tool.function.parameters is mapping %}
{{ name }}: {{ value.type }} {{ value.description }}{% endfor %}
{% endfor %}<|im_end|>
{% endif -%}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}{% if message.reasoning_content %}<think>{{ message.reasoning_content | trim }}</think>{% endif %}
{%- for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ render(call.function.arguments) }}}
{%- for key, value in call.function.arguments.items() if call.function.arguments is mapping %} {{ key }}={{ value }}{% endfor %}
</tool_call>{% endfor %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if not thinking %}<think></think>{% endif %}{% endif -%}"""

FUNCTION = {
    "name": "f",
    "description": "It does f",
    "parameters": {"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}, "required": ["a"]},
    "strict": False,
}
SAMPLING: dict[str, Any] = {
    "model": "scripted",
    "n": 1,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 5,
    "min_p": 0.1,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "repetition_penalty": 1.1,
    "seed": 7,
    "max_tokens": 6,
    "min_tokens": 1,
    "stop": ["X", "Y"],
    "stop_token_ids": [88],
    "include_stop_str_in_output": False,
    "ignore_eos": False,
    "logit_bias": {"65": 1.5},
    "stream": False,
    "disable_additional_properties": True,
    "priority": 0,
    "user": "u",
    "metadata": {"a": "b"},
}
CHAT_BODY: dict[str, Any] = {
    **SAMPLING,
    "messages": [
        {"role": "system", "content": "s", "name": "n"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "r",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": "b"}'}}],
        },
        {"role": "tool", "content": "t", "tool_call_id": "c"},
    ],
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "max_tool_calls": 2,
    "stop_at_repeated_call": True,
    "logprobs": True,
    "top_logprobs": 2,
    "chat_template_kwargs": {"enable_thinking": False},
    "reasoning_effort": "low",
    "include_reasoning": True,
    "add_generation_prompt": True,
    "continue_final_message": False,
}
FORMAT = {
    "type": "json_schema",
    "json_schema": {"name": "n", "description": "d", "schema": FUNCTION["parameters"], "strict": True},
}
ASK = [{"role": "user", "content": "hi"}]
CUSTOM = {"name": "g", "description": "d", "format": {"type": "grammar", "syntax": "regex", "definition": "[ab]{2}"}}
RESPONSES_BODY: dict[str, Any] = {
    "model": "scripted",
    "instructions": "i",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}]},
        {"type": "function_call", "id": "i", "call_id": "c", "name": "f", "arguments": '{"a": "b"}'},
        {"type": "function_call_output", "call_id": "c", "output": "t"},
        {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": "ab"},
        {"type": "custom_tool_call_output", "call_id": "d", "output": [{"type": "input_text", "text": "t"}]},
    ],
    "tools": [{"type": "function", **FUNCTION}, {"type": "custom", **CUSTOM}],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "g"}]},
    "parallel_tool_calls": True,
    "max_tool_calls": 2,
    "max_output_tokens": 6,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_logprobs": 2,
    "include": ["message.output_text.logprobs"],
    "text": {"format": {"type": "json_schema", "name": "n", "schema": FUNCTION["parameters"]}, "verbosity": "low"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "metadata": {"a": "b"},
    "store": True,
    "stream": False,
    "seed": 3,
    "truncation": "auto",
    "user": "u",
}
MESSAGES_BODY: dict[str, Any] = {
    "model": "scripted",
    "max_tokens": 6,
    "system": [{"type": "text", "text": "s"}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "r", "signature": ""},
                {"type": "text", "text": "a"},
                {"type": "tool_use", "id": "c", "name": "f", "input": {"a": "b"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "t"}]},
                {"type": "text", "text": "b"},
            ],
        },
    ],
    "tools": [{"name": "f", "description": "d", "input_schema": FUNCTION["parameters"], "strict": True}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "stop_sequences": ["X"],
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 5,
    "metadata": {"user_id": "u"},
    "stream": False,
}
OLLAMA_BODY: dict[str, Any] = {
    "model": "scripted",
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "thinking": "r", "tool_calls": [{"function": {"name": "f", "arguments": {"a": "b"}}}]},
        {"role": "tool", "content": "t", "tool_name": "f"},
    ],
    "tools": [{"type": "function", "function": FUNCTION}],
    "options": {"num_predict": 6, "temperature": 0.5, "top_k": 5, "top_p": 0.9, "seed": 3, "stop": ["X"], "num_ctx": 9},
    "think": "low",
    "stream": False,
    "keep_alive": "5m",
}
BODIES: list[tuple[str, dict[str, Any]]] = [
    (
        "/completion",
        {"prompt": "x", "n_predict": 6, "seed": 3, "stop": ["X"], "repeat_penalty": 1.1, "grammar": 'root ::= "a"+'},
    ),
    ("/completion", {"prompt": [65], "n_predict": 6, "json_schema": FUNCTION["parameters"], "stream": True}),
    ("/tokenize", {"content": "a", "add_special": True}),
    ("/tokenize", {"prompt": "a", "add_special_tokens": True}),
    ("/detokenize", {"tokens": [65]}),
    ("/apply-template", {"messages": ASK, "tools": CHAT_BODY["tools"]}),
    (
        "/generate",
        {
            "inputs": "x",
            "parameters": {
                "max_new_tokens": 6,
                "temperature": 0.5,
                "top_k": 5,
                "seed": 3,
                "stop": ["X"],
                "do_sample": True,
                "details": True,
                "grammar": {"type": "json_schema", "value": {"name": "n", "schema": FUNCTION["parameters"]}},
            },
        },
    ),
    (
        "/generate_stream",
        {"inputs": "x", "parameters": {"max_new_tokens": 6, "grammar": {"type": "regex", "value": "a+"}}},
    ),
    ("/api/chat", OLLAMA_BODY),
    ("/api/generate", {"model": "scripted", "prompt": "p", "system": "s", "format": {}, "options": {"num_predict": 6}}),
    ("/api/show", {"model": "scripted"}),
    ("/v1/messages", MESSAGES_BODY),
    (
        "/v1/messages",
        {
            "max_tokens": 6,
            "messages": ASK,
            "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": FUNCTION["parameters"]}},
            "stream": True,
        },
    ),
    ("/v1/messages/count_tokens", {"messages": ASK}),
    ("/v1/responses", RESPONSES_BODY),
    ("/v1/responses", {"input": "hi", "guided_regex": "[ab]+", "max_output_tokens": 6, "stream": True}),
    (CHAT, CHAT_BODY),
    (CHAT, {"messages": ASK, "max_tokens": 6, "response_format": FORMAT}),
    (
        CHAT,
        {"messages": ASK, "max_tokens": 6, "response_format": {"type": "json_object", "schema": {"type": "object"}}},
    ),
    (
        CHAT,
        {
            "messages": ASK,
            "max_completion_tokens": 6,
            "tools": CHAT_BODY["tools"],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "stream": True,
            "stream_options": {"include_usage": True},
        },
    ),
    (
        CHAT,
        {
            "messages": ASK,
            "max_tokens": 6,
            "tools": CHAT_BODY["tools"],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
        },
    ),
    (
        CHAT,
        {"messages": [*ASK, {"role": "assistant", "content": "and"}], "max_tokens": 6, "continue_final_message": True},
    ),
    (
        TEXT,
        {
            **SAMPLING,
            "prompt": "a",
            "logprobs": 2,
            "echo": False,
            "suffix": None,
            "best_of": 1,
            "add_special_tokens": True,
        },
    ),
    (
        TEXT,
        {
            "prompt": ["a", "b"],
            "max_tokens": 3,
            "structured_outputs": {"json": FUNCTION["parameters"], "disable_any_whitespace": True},
        },
    ),
    (TEXT, {"prompt": [1, 2], "max_tokens": 3, "structured_outputs": {"regex": "a+"}}),
    (TEXT, {"prompt": [[1], [2]], "max_tokens": 3, "structured_outputs": {"choice": ["a", "b"]}}),
    (
        TEXT,
        {
            "prompt": "a",
            "max_tokens": 3,
            "structured_outputs": {"grammar": 'root ::= "a"', "disable_additional_properties": False},
        },
    ),
    (TEXT, {"prompt": "a", "max_tokens": 3, "structured_outputs": {"json_object": True}}),
]

DEEP: Any = 0
for _ in range(150):
    DEEP = [DEEP]
DEEP_OBJECT: Any = {}
for _ in range(150):
    DEEP_OBJECT = {"a": DEEP_OBJECT}
SURROGATE, NAN, INFINITY, HUGE, LONG_NUMBER = (f"§{i}§" for i in range(5))
RAW = {SURROGATE: '"\\ud800"', NAN: "NaN", INFINITY: "-Infinity", HUGE: "1e999", LONG_NUMBER: "9" * 5_000}
"""JSON texts that Python's own writer does not write."""
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    2**63,
    2**64,
    -(2**63) - 1,
    10**300,
    0.0,
    -0.5,
    1.5,
    1e308,
    5e-324,
    "",
    "x",
    "auto",
    "none",
    "function",
    "a\0b",
    "\U0001f600\u202e\u2028",
    "\ufdd0",
    "<|im_end|>",
    "{{ 7*7 }}",
    "../../etc/passwd",
    "y" * 70_000,
    [],
    [None],
    [[]],
    ["x"],
    [1],
    [[1]],
    [{}],
    [True],
    {},
    {"": 1},
    {"a": None},
    {"type": "function"},
    {"type": "text"},
    {"$ref": "#"},
    {"__proto__": {"x": 1}, "__class__": "x"},
    {"y" * 3_000: 1},
    DEEP,
    DEEP_OBJECT,
    SURROGATE,
    NAN,
    INFINITY,
    HUGE,
    LONG_NUMBER,
]
REMOVED = object()


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a body, the body itself included."""
    yield at
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*at, key))


def changed(body: Any, at: tuple[Any, ...], value: Any) -> Any:
    if not at:
        return {} if value is REMOVED else value
    body = copy.deepcopy(body)
    holder = body
    for key in at[:-1]:
        holder = holder[key]
    if value is REMOVED:
        del holder[at[-1]]
    else:
        holder[at[-1]] = value
    return body


def written(body: Any) -> bytes:
    text = json.dumps(body)
    for mark, raw in RAW.items():
        text = text.replace(json.dumps(mark), raw)
    return text.encode()


def well_answered(response: httpx.Response) -> bool:
    """200, or a 4xx in OpenAI's shape that is not larger than necessary."""
    if response.status_code == 200:
        return True
    error = response.json()["error"]
    if isinstance(error, str):  # Ollama's form
        error = {**response.json(), "message": error}
    return (
        400 <= response.status_code < 500
        and bool(error["code"])
        and bool(error["message"])
        and len(response.content) < 8_000
    )


@pytest.fixture(scope="module", params=[None, TEMPLATE], ids=["without a template", "with a template"])
def client(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    engine = ScriptedEngine("Hello.", max_model_len=20_000, chat_template=request.param)
    with (
        serving(engine, Settings(tool_call_parser="hermes_json")) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield client


def send(client: httpx.Client, path: str, body: Any) -> httpx.Response:
    return client.post(path, content=written(body), headers={"content-type": "application/json"})


CHANGES = [(i, at) for i, (_, body) in enumerate(BODIES) for at in places(body)]


@pytest.mark.parametrize("i", range(len(BODIES)))
def test_the_bodies_work_as_they_are(client: httpx.Client, i: int) -> None:
    path, body = BODIES[i]
    response = send(client, path, body)
    assert response.status_code == 200, response.text


@pytest.mark.parametrize(
    "each", [1, pytest.param(len(VALUES) + 1, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
def test_any_place_with_any_value(client: httpx.Client, each: int) -> None:
    """`each` value at every place."""
    rng = random.Random(20)
    wrong: list[str] = []
    for i, at in CHANGES:
        path, body = BODIES[i]
        for value in rng.sample([*VALUES, REMOVED], each):
            sent = changed(body, at, value)
            response = send(client, path, sent)
            if not well_answered(response):
                wrong.append(f"{path} {at}: {str(value)[:60]!r}: {response.status_code} {response.text[:200]}")
    assert not wrong, "\n".join(wrong[:20])


NAMES = """self loop caller varargs kwargs cycler joiner namespace range dict lipsum messages tools documents eos_token bos_token unk_token pad_token
    add_generation_prompt continue_final_message chat_template tokenize conversation raise_exception strftime_now tojson message tool true none
    True None not if for in is and or else set macro block super context environment __class__ __init__ __globals__ __builtins__ _ __
    __self__ _block_stack l_0_message l_1_self missing resolve undefined ns enable_thinking render thinking tools_in_user_message padding return_tensors
    continue_ template template_vars env parent name blocks exported_vars eval_ctx functions date_string""".split()


@pytest.mark.parametrize(
    "name", [*NAMES, "", " ", "a b", "a-b", "é", "1", "{{", "%}", "a\0", "a\nb", "/", "~", "x" * 5_000]
)
def test_template_variables_of_any_name(client: httpx.Client, name: str) -> None:
    for value in (1, "{{ 7 * 7 }}", 10**400):
        response = send(client, CHAT, {**CHAT_BODY, "chat_template_kwargs": {name: value}})
        assert well_answered(response), response.text


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(ScriptedEngine("Hello.", max_model_len=20_000), Settings(max_connections=200)) as url:
        yield url


PAGE = create_app(ScriptedEngine()).openapi()
OPERATIONS = [f"{method.upper()} {path}" for path, methods in PAGE["paths"].items() for method in methods]


@cache
def operations() -> dict[str, Any]:
    """As schemathesis has them. It takes two seconds to import."""
    import schemathesis

    found = [operation.ok() for operation in schemathesis.openapi.from_dict(PAGE).get_all_operations()]
    return {f"{operation.method.upper()} {operation.path}": operation for operation in found}


def test_schemathesis_finds_all_operations() -> None:
    assert list(operations()) == OPERATIONS


EXAMPLES = [6, pytest.param(3_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_whatever_the_openapi_page_allows_or_does_not(url: str, operation: str, mode: str, examples: int) -> None:
    import schemathesis

    try:
        strategy = operations()[operation].as_strategy(generation_mode=schemathesis.GenerationMode(mode))
    except schemathesis.errors.SchemathesisError:
        pytest.skip("nothing can be wrong here")

    @settings(
        max_examples=examples,
        derandomize=examples == EXAMPLES[0],
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def run(case: Any) -> None:
        response = case.call(base_url=url)
        # This engine computes no embeddings, and says so.
        assert response.status_code < 500 or "embeddings_disabled" in response.text, response.text

    try:
        run()
    except Unsatisfiable:
        pytest.skip("there is no such request")
