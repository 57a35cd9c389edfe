"""Tool calls over a real socket with the official client, on an engine that writes what the test tells it to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from openai import APIError, BadRequestError, OpenAI
from scripted import ScriptedEngine
from serving import serving

from narrows import formats
from narrows.chat.model_format import find_reasoning
from narrows.engines.api import Request
from narrows.errors import LimitError
from narrows.server import Settings, constraints
from narrows.server.service import Service

CITY = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    },
}
TOOLS: list[Any] = [CITY, SEARCH]
ASK: list[Any] = [{"role": "user", "content": "Weather in Paris?"}]
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
CALLED = {"name": "get_weather", "arguments": {"city": "Paris"}}
SECOND = '<tool_call>\n{"name": "search", "arguments": {"query": "a </tool_call> é 😀"}}\n</tool_call>'


@contextmanager
def talking(script: Any, **settings: Any) -> Iterator[OpenAI]:
    with serving(ScriptedEngine(script), Settings(**settings)) as url:
        yield OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def both_ways(client: OpenAI, **options: Any) -> tuple[Any, list[Any], dict[str, Any]]:
    """The complete answer's choice, the stream's chunks, and the sum of the chunks. They must agree."""
    options = {"model": "scripted", "messages": ASK, **options}
    complete = client.chat.completions.create(**options).choices[0]
    chunks = list(client.chat.completions.create(**options, stream=True))
    joined: dict[str, Any] = {"content": "", "calls": [], "finish_reason": None}
    for chunk in chunks:
        for choice in chunk.choices:
            joined["content"] += choice.delta.content or ""
            for call in choice.delta.tool_calls or ():
                if call.id is not None:
                    assert call.index == len(joined["calls"])
                    joined["calls"].append([call.function.name, ""])
                joined["calls"][call.index][1] += call.function.arguments
            joined["finish_reason"] = choice.finish_reason or joined["finish_reason"]
    assert joined["content"] == (complete.message.content or "")
    assert joined["calls"] == [[c.function.name, c.function.arguments] for c in complete.message.tool_calls or ()]
    assert joined["finish_reason"] == complete.finish_reason
    return complete, chunks, joined


def test_auto_reads_text_and_two_calls_and_keeps_their_order() -> None:
    with talking(f"Let me look.\n{CALL}\n{SECOND}") as client:
        complete, chunks, joined = both_ways(client, tools=TOOLS)
    assert complete.finish_reason == "tool_calls"
    assert complete.message.content.strip() == "Let me look."
    assert [json.loads(arguments) for _, arguments in joined["calls"]] == [
        {"city": "Paris"},
        {"query": "a </tool_call> é 😀"},
    ]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].delta.model_dump(exclude_unset=True) == {}


def test_the_raw_stream_has_id_and_name_once_and_absent_afterwards() -> None:
    with serving(ScriptedEngine(CALL)) as url:
        body = {"messages": ASK, "tools": TOOLS, "stream": True, "stream_options": {"include_usage": True}}
        lines = httpx.post(f"{url}/v1/chat/completions", json=body).text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    events = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] > 0
    calls = [
        call for event in events[:-1] for choice in event["choices"] for call in choice["delta"].get("tool_calls", ())
    ]
    assert set(calls[0]) == {"index", "id", "type", "function"}
    assert calls[0]["function"] == {"name": "get_weather", "arguments": ""}
    assert all(set(call) == {"index", "function"} and set(call["function"]) == {"arguments"} for call in calls[1:])
    assert "".join(call["function"]["arguments"] for call in calls) == '{"city": "Paris"}'


def test_required_makes_a_call_of_whatever_the_model_would_say() -> None:
    def sulks(request: Request, index: int) -> str:
        return "I would rather not." * 20

    with talking(sulks) as client:
        complete, _, joined = both_ways(
            client,
            tools=[
                {
                    **CITY,
                    "function": {
                        **CITY["function"],
                        "parameters": {
                            "type": "object",
                            "properties": {"city": {"enum": ["Lima"]}},
                            "required": ["city"],
                            "additionalProperties": False,
                        },
                    },
                }
            ],
            tool_choice="required",
            parallel_tool_calls=False,
            seed=1,
        )
    assert complete.finish_reason == "tool_calls"
    assert [json.loads(arguments) for _, arguments in joined["calls"]] == [{"city": "Lima"}]


def test_a_named_call_ends_with_stop_as_openai_has_it() -> None:
    with talking(CALL) as client:
        complete, _, joined = both_ways(
            client, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "get_weather"}}
        )
    assert (complete.finish_reason, joined["calls"]) == ("stop", [["get_weather", '{"city": "Paris"}']])


def test_allowed_tools_leave_the_others_out() -> None:
    allowed = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "search"}}]},
    }
    with talking(SECOND) as client:
        _, _, joined = both_ways(client, tools=TOOLS, tool_choice=allowed)
    assert [name for name, _ in joined["calls"]] == ["search"]


def test_none_makes_nothing_a_call() -> None:
    with talking("No call here.") as client:
        complete, _, _ = both_ways(client, tools=TOOLS, tool_choice="none")
    assert (complete.finish_reason, complete.message.content, complete.message.tool_calls) == (
        "stop",
        "No call here.",
        None,
    )


def test_without_tools_markup_is_content_byte_for_byte() -> None:
    text = f"é {CALL} <tool_call> \n\n <think>x"
    with talking(text) as client:
        complete, _, _ = both_ways(client)
    assert complete.message.content == text


def test_one_call_where_parallel_calls_are_off() -> None:
    with talking(f"{CALL}\n{CALL}") as client:
        _complete, _, joined = both_ways(client, tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
    assert len(joined["calls"]) == 1


def test_a_budget_that_cuts_a_call_says_length_and_completes_nothing() -> None:
    whole = len(CALL) + 1
    with talking(CALL) as client:
        for budget in range(1, whole + 2, 3):
            complete, _, joined = both_ways(client, tools=TOOLS, max_tokens=budget)
            assert complete.finish_reason == ("tool_calls" if budget >= whole else "length")
            for _, arguments in joined["calls"]:
                assert '{"city": "Paris"}'.startswith(arguments)
                assert (arguments == '{"city": "Paris"}') == (budget >= CALL.index("}}") + 1)


FORCED: list[Any] = ["required", {"type": "function", "function": {"name": "get_weather"}}]


@pytest.mark.parametrize("choice", FORCED, ids=["required", "named"])
@pytest.mark.parametrize(
    "parser", ["hermes_json", "deepseek_v3", "pythonic", "llama3_json", "qwen3_xml", "harmony", "kimi_k2", "mistral"]
)
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.soak)])
def test_a_forced_call_that_the_budget_cuts_is_never_content(parser: str, choice: Any, step: int) -> None:
    calls = [{"id": f"functions.get_weather:{i}", "function": CALLED} for i in range(2)]
    fmt = formats.get(parser)
    text = fmt.render({"tool_calls": calls})
    with serving(ScriptedEngine(text), Settings(tool_call_parser=parser, reasoning_parser=None)) as url:
        body = {"messages": ASK, "tools": TOOLS, "tool_choice": choice, "stop_at_repeated_call": False}
        with httpx.Client() as client:
            for budget in range(1 + len(parser) % step, 101, step):
                answer = client.post(f"{url}/v1/chat/completions", json={**body, "max_tokens": budget}).json()
                message = answer["choices"][0]["message"]
                assert not message["content"], (budget, message)
                stream = client.post(f"{url}/v1/chat/completions", json={**body, "max_tokens": budget, "stream": True})
                for line in stream.text.split("\n\n")[:-2]:
                    for part in json.loads(line.removeprefix("data: "))["choices"]:
                        assert not part["delta"].get("content"), (budget, part)


@pytest.mark.parametrize("budget", range(1, len(CALL) + 1, 4))
def test_behind_a_whole_opener_a_cut_call_is_no_content_where_the_model_chose(budget: int) -> None:
    with talking(f"Well. {CALL}") as client:
        complete, _, _ = both_ways(client, tools=TOOLS, max_tokens=len("Well. ") + budget)
    begun = CALL[:budget]
    expected = "Well. " + (begun if len(begun) < len("<tool_call>") else "")
    assert complete.message.content.rstrip() == expected.rstrip()


def test_stop_texts_count_in_content_and_are_data_in_arguments() -> None:
    with talking(f"Wait Paris {CALL}") as client:
        complete, _, _ = both_ways(client, tools=TOOLS, stop=["Paris"])
        assert (complete.message.content, complete.message.tool_calls) == ("Wait ", None)
        assert complete.stop_reason == "Paris"
    with talking(CALL) as client:
        complete, _, joined = both_ways(client, tools=TOOLS, stop=["Paris", '"city"'])
        assert joined["calls"] == [["get_weather", '{"city": "Paris"}']]


def test_an_unknown_tool_is_still_a_call_where_the_model_may_write_freely() -> None:
    with talking('<tool_call>\n{"name": "other", "arguments": {}}\n</tool_call>') as client:
        complete = client.chat.completions.create(model="scripted", messages=ASK)
    assert complete.choices[0].message.tool_calls is None  # no tools were given: text


def test_n_answers_are_apart() -> None:
    def differs(request: Request, index: int) -> str:
        return CALL.replace("Paris", "ABCD"[index] * 3)

    with talking(differs) as client:
        complete = client.chat.completions.create(model="scripted", messages=ASK, tools=TOOLS, n=4)
        cities = [json.loads(choice.message.tool_calls[0].function.arguments)["city"] for choice in complete.choices]
        assert cities == ["AAA", "BBB", "CCC", "DDD"]
        assert len({choice.message.tool_calls[0].id for choice in complete.choices}) == 4
        seen: dict[int, str] = {}
        for chunk in client.chat.completions.create(model="scripted", messages=ASK, tools=TOOLS, n=4, stream=True):
            for choice in chunk.choices:
                for call in choice.delta.tool_calls or ():
                    seen[choice.index] = seen.get(choice.index, "") + call.function.arguments
        assert [json.loads(seen[i])["city"] for i in range(4)] == ["AAA", "BBB", "CCC", "DDD"]


def test_an_agents_loop_runs_to_its_end() -> None:
    def script(request: Request, index: int) -> str:
        prompt = bytes(t for t in request.prompt_token_ids if t < 256).decode()
        return "It is 21 degrees." if "<tool_response>\n21 C" in prompt else CALL

    messages = list(ASK)
    with talking(script) as client:
        for _ in range(3):
            message = (
                client.chat.completions.create(model="scripted", messages=messages, tools=TOOLS).choices[0].message
            )
            messages.append(message)
            if not message.tool_calls:
                break
            messages += [{"role": "tool", "tool_call_id": call.id, "content": "21 C"} for call in message.tool_calls]
    assert [m["role"] if isinstance(m, dict) else m.role for m in messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert messages[-1].content == "It is 21 degrees."


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        ("hermes", CALL),
        (
            "qwen3_xml",
            "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>",
        ),
        ("mistral", '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}]'),
    ],
)
def test_formats_go_by_the_names_that_vllm_users_know(parser: str, text: str) -> None:
    with talking(text, tool_call_parser=parser) as client:
        complete, _, joined = both_ways(client, tools=TOOLS)
    assert [[name, json.loads(arguments)] for name, arguments in joined["calls"]] == [
        ["get_weather", {"city": "Paris"}]
    ]
    assert complete.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("name", "fmt", "template", "style"),
    [
        ("auto", "hermes_json", "{{ '<think>' }}", "auto"),
        ("auto", "hermes_json", "{{ messages }}", None),
        ("auto", "granite_array", "Write your thoughts between <think></think>", "think"),
        ("auto", "granite_array", "Here is my thought process: Here is my response:", "auto"),
        ("think", "hermes_json", "{{ messages }}", "think"),
        (None, "hermes_json", "{{ '<think>' }}", None),
    ],
)
def test_which_reasoning_is_read(name: str | None, fmt: str, template: str, style: str | None) -> None:
    assert find_reasoning(name, formats.get(fmt), template) == style


def test_reasoning_is_set_off_where_the_model_reasons() -> None:
    with talking("<think>\nHm.\n</think>\n\nParis.", reasoning_parser="think") as client:
        complete, chunks, _ = both_ways(client)
        assert complete.message.content.strip() == "Paris."
        assert complete.message.reasoning_content.strip() == "Hm."
        assert any(getattr(chunk.choices[0].delta, "reasoning_content", None) for chunk in chunks)
    with talking("<think>\nHm.\n</think>\n\nParis.", reasoning_parser=None) as client:
        complete, _, _ = both_ways(client)
        assert complete.message.content == "<think>\nHm.\n</think>\n\nParis."


def test_openais_stream_helper_understands_the_stream() -> None:
    done = []
    with (
        talking(f"{CALL}\n{SECOND}") as client,
        client.chat.completions.stream(model="scripted", messages=ASK, tools=TOOLS) as stream,
    ):
        for event in stream:
            if event.type == "tool_calls.function.arguments.done":
                done.append((event.name, json.loads(event.arguments)))
        final = stream.get_final_completion()
    assert done == [("get_weather", {"city": "Paris"}), ("search", {"query": "a </tool_call> é 😀"})]
    assert final.choices[0].finish_reason == "tool_calls"


def test_logprobs_in_both_forms() -> None:
    with talking("Hé") as client:
        chat = client.chat.completions.create(model="scripted", messages=ASK, logprobs=True, top_logprobs=2)
        content = chat.choices[0].logprobs.content
        assert bytes(b for entry in content for b in entry.bytes).decode() == "Hé"
        assert all(len(entry.top_logprobs) == 2 for entry in content)
        text = client.completions.create(model="scripted", prompt="x", logprobs=1)
        assert text.choices[0].logprobs.tokens[0] == "H"
        streamed = list(client.chat.completions.create(model="scripted", messages=ASK, logprobs=True, stream=True))
        assert sum(len(c.choices[0].logprobs.content) for c in streamed if c.choices[0].logprobs) == len(content)


def test_a_sequence_that_fails_alone_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    original = constraints.Task.parser

    def fails_first(self: constraints.Task, id_factory: Any) -> Any:
        if id_factory(0) == self.format.id_factory(f"{seeds[-1]}/0")(0):
            raise LimitError("too much", limit="step_work")
        return original(self, id_factory)

    seeds: list[str] = []
    start = Service.start_chat

    async def noted(self: Service, request: Any, response_id: str, *more: Any) -> Any:
        seeds.append(response_id)
        return await start(self, request, response_id, *more)

    monkeypatch.setattr(constraints.Task, "parser", fails_first)
    monkeypatch.setattr(Service, "start_chat", noted)
    with talking("Fine.") as client:
        both = client.chat.completions.create(model="scripted", messages=ASK, n=2).choices
        assert [choice.finish_reason for choice in both] == ["error", "stop"]
        assert (both[0].error["code"], both[1].message.content) == ("limit_reached", "Fine.")
        with pytest.raises(BadRequestError) as refused:
            client.chat.completions.create(model="scripted", messages=ASK)
        assert refused.value.code == "limit_reached"
        with pytest.raises(APIError) as cut:
            list(client.chat.completions.create(model="scripted", messages=ASK, stream=True))
        assert cut.value.code == "limit_reached"
