"""`/v1/responses` with the official client, on an engine that writes what the test tells it to."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai import BadRequestError, NotFoundError, OpenAI
from openai.types.responses import ResponseFunctionToolCall
from pydantic import BaseModel
from responses_served import WEATHER, Served, call, talking
from serving import eventually

from narrows.engines.api import Request
from narrows.limits import Limits
from narrows.server.faces import custom_input

LARK = 'start: INT (" + " INT)*\nINT: /[0-9]+/'
FREE: dict[str, Any] = {"type": "custom", "name": "note", "description": "Takes a note"}
SUM: dict[str, Any] = {**FREE, "name": "sum", "format": {"type": "grammar", "syntax": "lark", "definition": LARK}}
QUOTE: dict[str, Any] = {
    **FREE,
    "name": "quote",
    "format": {"type": "grammar", "syntax": "regex", "definition": r'"[a-z]{1,3}"\n'},
}
TOOLS = [WEATHER, FREE, SUM, QUOTE]


PARIS = call("get_weather", {"city": "Paris"})
ADD = call("sum", {"input": "1 + 22"})


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with talking(reasoning_parser="think") as served:
        yield served


@pytest.fixture(scope="module")
def without_reasoning() -> Iterator[Served]:
    with talking(reasoning_parser=None) as served:
        yield served


def plain(response: Any) -> list[dict[str, Any]]:
    """The output without ids."""
    items = [item if isinstance(item, dict) else item.to_dict() for item in response.output]
    return [{k: v for k, v in item.items() if k not in ("id", "call_id")} for item in items]


def in_order(events: Iterable[Any]) -> list[str]:
    """The kinds of events, each run of deltas as one. How text is cut into deltas depends on the time."""
    return [kind for kind, _ in groupby(event.type for event in events)]


def test_a_text_in_every_event_and_in_openais_order(served: Served) -> None:
    served.writes("Hello there.")
    events = served.events(instructions="Be brief.", metadata={"a": "b"})
    kinds = [event.type for event in events]
    deltas = kinds.count("response.output_text.delta")
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * deltas,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert events[0].response.status == "in_progress"
    assert events[0].response.output == []
    assert events[2].item.content == []
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "Hello there."
    last = events[-1].response
    assert (last.status, last.output_text, last.metadata) == ("completed", "Hello there.", {"a": "b"})
    assert last.usage.total_tokens == last.usage.input_tokens + last.usage.output_tokens
    assert "system\nBe brief." in served.prompt()
    assert plain(served.create()) == plain(last)


def test_reasoning_text_and_calls_are_items_of_their_own(served: Served) -> None:
    served.writes(f"<think>Hm.</think>Let me look.\n{PARIS}\n{ADD}")
    fields: dict[str, Any] = {"tools": TOOLS}
    events = served.events(**fields)
    final = events[-1].response
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call", "custom_tool_call"]
    assert final.output[0].content[0].text == "Hm."
    assert final.usage.output_tokens_details.reasoning_tokens == 3, "each of the script's tokens is a byte"
    assert (final.output[2].name, json.loads(final.output[2].arguments)) == ("get_weather", {"city": "Paris"})
    assert (final.output[3].name, final.output[3].input) == ("sum", "1 + 22")
    assert plain(served.create(**fields)) == plain(final)
    for i, item in enumerate(final.output):
        of_item = [event for event in events if getattr(event, "output_index", None) == i]
        assert of_item[0].type == "response.output_item.added"
        assert of_item[0].item.id == item.id
        assert of_item[-1].type == "response.output_item.done"
        assert of_item[-1].item == item
        pieces = "".join(event.delta for event in of_item if event.type.endswith(".delta"))
        done = next(
            event
            for event in of_item
            if event.type.endswith((".text.done", "_text.done", "arguments.done", "input.done"))
        )
        whole = next(getattr(done, name) for name in ("text", "arguments", "input") if hasattr(done, name))
        assert pieces == whole
    with served.client.responses.stream(model="scripted", input="hi", **fields) as stream:
        assert in_order(stream) == in_order(events)
        last = stream.get_final_response()
    assert (last.output_text, [item.type for item in last.output]) == (
        final.output_text,
        [item.type for item in final.output],
    )


def test_an_agents_loop_by_items_and_by_the_previous_response(served: Served) -> None:
    def script(request: Request, index: int) -> str:
        seen = served.engine.text_of(request.prompt_token_ids)
        return "It is 21 degrees." if "<tool_response>\n21 C" in seen else PARIS

    served.writes(script)
    first = served.create(tools=TOOLS, instructions="Call it.")
    [made] = first.output
    assert made.type == "function_call"
    result = {"type": "function_call_output", "call_id": made.call_id, "output": "21 C"}
    items: list[Any] = [{"role": "user", "content": "hi"}, made.to_dict(), result]
    second = served.create(tools=TOOLS, input=items)
    assert second.output_text == "It is 21 degrees."
    by_items = served.prompt()
    third = served.create(tools=TOOLS, input=[result], previous_response_id=first.id)
    assert third.output_text == "It is 21 degrees."
    assert third.previous_response_id == first.id
    assert served.prompt() == by_items  # instructions are not carried over
    fourth = served.create(input="And now?", previous_response_id=third.id)
    assert fourth.status == "completed"
    assert "21 degrees." in served.prompt()
    assert "And now?" in served.prompt()


@pytest.mark.parametrize("typed", [True, False])
def test_references_stand_for_what_was_answered(served: Served, typed: bool) -> None:
    served.writes(f"<think>Hm.</think>I look.{PARIS}")
    asked = {"role": "user", "content": "hi"}
    first = served.create(tools=TOOLS)
    assert [item.type for item in first.output] == ["reasoning", "message", "function_call"]
    assert isinstance(first.output[2], ResponseFunctionToolCall)
    result = {"type": "function_call_output", "call_id": first.output[2].call_id, "output": "21 C"}
    served.create(tools=TOOLS, input=[asked, *(item.to_dict() for item in first.output), result])
    by_items = served.prompt()
    references = [{"type": "item_reference", "id": item.id} if typed else {"id": item.id} for item in first.output]
    served.writes("It is 21 degrees.")
    second = served.create(tools=TOOLS, input=[asked, *references, result])
    assert served.prompt() == by_items
    # What was referred to belongs to the conversation, and stays there when its own response is forgotten.
    served.client.responses.delete(first.id)
    served.create(input="And now?", tools=TOOLS, previous_response_id=second.id)
    assert served.prompt().startswith(by_items)


def test_references_to_what_is_not_there(served: Served) -> None:
    served.writes("Hello.")
    kept, other, unstored = served.create(), served.create(), served.create(store=False)

    def refused(*ids: Any) -> tuple[int, str, str]:
        body = {"input": [{"role": "user", "content": "hi"}, *({"type": "item_reference", "id": name} for name in ids)]}
        answer = httpx.post(f"{served.url}/v1/responses", json=body)
        return answer.status_code, answer.json()["error"]["code"], answer.json()["error"]["pointer"]

    assert refused(unstored.output[0].id) == (404, "item_not_found", "/input/1/id")
    assert refused(kept.output[0].id, f"{kept.output[0].id}0") == (404, "item_not_found", "/input/2/id")
    assert refused("x") == (404, "item_not_found", "/input/1/id")
    # One large item could stand in a small body many times.
    twice = kept.output[0].id, other.output[0].id, kept.output[0].id
    assert refused(*twice) == (400, "duplicate_item", "/input/3/id")


def test_references_read_as_much_as_a_body_may_hold() -> None:
    with talking(limits=Limits(body_bytes=4_000)) as served:
        served.writes("Hello. " * 200)
        made = [served.create().output[0].id for _ in range(3)]
        references = [{"type": "item_reference", "id": name} for name in made]
        served.create(input=[*references[:1], {"role": "user", "content": "hi"}])
        with pytest.raises(BadRequestError, match="body_bytes") as error:
            served.create(input=references)
        assert error.value.body["pointer"] == "/input/1/id"  # type: ignore[index]


def test_all_kinds_of_items_reach_the_prompt(served: Served) -> None:
    served.writes("Done.")
    items: list[Any] = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
        {"role": "user", "content": [{"type": "input_text", "text": "One"}, {"type": "input_text", "text": "two"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]},
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
         "content": [{"type": "output_text", "text": "I call.", "annotations": []}]},
        {"type": "custom_tool_call", "call_id": "c1", "name": "sum", "input": '1 + "2"'},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "3"}]},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "xyz"},
    ]  # fmt: skip
    served.create(input=items, tools=TOOLS)
    prompt = served.prompt()
    assert "Be kind." in prompt
    assert "One\ntwo" in prompt
    assert '{"name": "sum", "arguments": {"input": "1 + \\"2\\""}}' in prompt
    assert "I call." in prompt
    assert "<tool_response>\n3\n" in prompt


SHY = "I would rather not say. " * 20


@pytest.mark.parametrize(
    ("tool", "allowed"),
    [
        (SUM, lambda text: all(part.isdigit() for part in text.split(" + "))),
        (QUOTE, lambda text: text[0] == '"' and text[-2:] == '"\n' and text[1:-2].isalpha()),
    ],
    ids=["lark", "regex"],
)
def test_the_grammar_of_a_custom_tool_holds(without_reasoning: Served, tool: Any, allowed: Any) -> None:
    served = without_reasoning
    served.writes(SHY)
    choice = {"type": "custom", "name": tool["name"]}
    answer = served.create(tools=TOOLS, tool_choice=choice, max_output_tokens=120, extra_body={"seed": 3})
    [made] = answer.output
    assert (made.type, made.name) == ("custom_tool_call", tool["name"])
    if answer.status == "completed":
        assert allowed(made.input), made.input
    assert tool["format"]["definition"].split("\n")[0].split('"')[0] in served.prompt()


def test_what_a_custom_tool_may_not_be(served: Served) -> None:
    served.writes(call("sum", {"input": "one"}))
    assert served.create(tools=[SUM], tool_choice="required", max_output_tokens=60).output[0].input[:1].isdigit()
    served.writes(call("note", {"input": 'any "text"\nat all é'}))
    [made] = served.create(tools=[FREE], tool_choice="required").output
    assert made.input == 'any "text"\nat all é'


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("auto", ["get_weather"]),
        ("none", []),
        ("required", ["get_weather"]),
        ({"type": "function", "name": "get_weather"}, ["get_weather"]),
        ({"type": "custom", "name": "sum"}, ["sum"]),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "sum"}]}, ["sum"]),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_weather"}]}, ["get_weather"]),
    ],
    ids=["auto", "none", "required", "function", "custom", "allowed: required", "allowed: auto"],
)  # fmt: skip
def test_every_tool_choice(served: Served, choice: Any, names: list[str]) -> None:
    served.writes(PARIS if names != ["sum"] else ADD)
    answer = served.create(tools=[WEATHER, SUM], tool_choice=choice, parallel_tool_calls=False)
    assert [item.name for item in answer.output if item.type.endswith("_call")] == names
    assert answer.parallel_tool_calls is False


def test_a_shape_of_the_text(served: Served) -> None:
    class City(BaseModel):
        name: str
        size: int

    served.writes('{"name": "Oslo", "size": 700000} and more')
    parsed = served.client.responses.parse(model="scripted", input="hi", text_format=City)
    assert parsed.output_parsed == City(name="Oslo", size=700000)
    served.writes(SHY)
    answer = served.create(text={"format": {"type": "json_object"}}, max_output_tokens=30, extra_body={"seed": 1})
    assert answer.output_text.lstrip()[:1] == "{"
    for extra in ({"guided_choice": ["yes", "no"]}, {"structured_outputs": {"choice": ["yes", "no"]}}):
        assert served.create(extra_body=extra).output_text in ("yes", "no")


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_that_is_cut_says_so(served: Served, stream: bool) -> None:
    def answer(text: str, tokens: int, **fields: Any) -> Any:
        served.writes(text)
        fields["max_output_tokens"] = tokens
        return served.events(**fields)[-1].response if stream else served.create(**fields)

    for text, status in (("A long story.", "incomplete"), (f"{PARIS}", "incomplete"), (f"{PARIS} more", "completed")):
        size = 10 if not text.startswith("<") else len(PARIS) - (20 if status == "incomplete" else 0)
        cut = answer(text, size, tools=[WEATHER])
        assert cut.status == "incomplete"
        assert cut.incomplete_details.reason == "max_output_tokens"
        assert cut.output[-1].status == status, text


def test_log_probabilities_come_with_the_text(served: Served) -> None:
    served.writes("Hey")
    fields: dict[str, Any] = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    part = served.create(**fields).output[0].content[0]
    assert [entry.token for entry in part.logprobs][:3] == ["H", "e", "y"]
    assert len(part.logprobs[0].top_logprobs) == 2
    events = served.events(**fields)
    streamed = [
        entry.token for event in events if event.type == "response.output_text.delta" for entry in event.logprobs
    ]
    assert streamed[:3] == ["H", "e", "y"]
    assert served.create(top_logprobs=2).output[0].content[0].logprobs == []


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"tools": [{**WEATHER, "parametres": {"type": "object"}}]}, "field_unsupported", "/tools/0/parametres"),
    ({"tools": [{"type": "web_search"}]}, "tool_unsupported", "/tools/0/type"),
    ({"tools": [WEATHER, WEATHER]}, "tool_name_duplicate", "/tools/1/name"),
    (
        {"tools": [{**WEATHER, "parameters": {"type": "object", "properties": {"a": {"type": "string", "minLenght": 1}}}}]},
        "schema_unsupported",
        "/tools/0/parameters/properties/a/minLenght",
    ),
    ({"tools": [FREE, {**SUM, "format": {"type": "grammar", "syntax": "regex", "definition": "(a"}}]}, "regex_invalid", "/tools/1/format/definition"),
    ({"tools": [{**SUM, "format": {"type": "grammar", "syntax": "peg", "definition": "a"}}]}, "invalid_value", "/tools/0/format/syntax"),
    ({"tools": [{**SUM, "format": {"type": "text", "definition": "a"}}]}, "field_unsupported", "/tools/0/format/definition"),
    ({"tools": [{**SUM, "format": {"type": "grammar", "syntax": "lark", "definition": "start: <|im_end|>"}}]}, "input_unsupported", "/tools/0/format/definition"),
    ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "x"}}, "tool_unknown", "/tool_choice/name"),
    ({"tools": [WEATHER], "tool_choice": {"type": "custom", "name": "get_weather"}}, "invalid_value", "/tool_choice/name"),
    ({"tools": [WEATHER], "tool_choice": {"type": "web_search"}}, "invalid_value", "/tool_choice/type"),
    ({"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "x"}]}}, "tool_unknown", "/tool_choice/tools/0/name"),
    ({"tool_choice": "required"}, "invalid_value", "/tool_choice"),
    ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "string", "minLength": 2, "maxLength": 1}}}}, "unsatisfiable", "/text/format/schema/minLength"),
    ({"text": {"format": {"type": "json_schema", "name": "x", "shema": {}}}}, "field_unsupported", "/text/format/shema"),
    ({"text": {"fromat": {"type": "json_object"}}}, "field_unsupported", "/text/fromat"),
    ({"text": {"format": {"type": "json_object"}}, "guided_regex": "a"}, "conflicting_constraints", "/text/format"),
    ({"response_format": {"type": "json_object"}}, "field_unsupported", "/response_format"),
    ({"format": "json"}, "field_unsupported", "/format"),
    ({"nvext": {"guided_json": {}}}, "field_unsupported", "/nvext/guided_json"),
    ({"guided_regex": "(a"}, "regex_invalid", "/guided_regex"),
    ({"input": []}, "missing_field", "/input"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "content_part_unsupported", "/input/0/content/0/type"),
    ({"input": [{"type": "file_search_call"}]}, "item_unsupported", "/input/0/type"),
    ({"input": [{"type": "item_reference"}]}, "missing_field", "/input/0/id"),
    ({"input": [{"role": "user", "content": "x"}, {"type": "function_call", "call_id": "c", "arguments": "{}"}]}, "missing_field", "/input/1/name"),
    ({"input": [{"role": "bot", "content": "x"}]}, "invalid_value", "/input/0/role"),
    ({"input": "a\ufdd0"}, "invalid_messages", "/input"),
    ({"max_output_tokens": 0}, "sampling_params_invalid", "/max_output_tokens"),
    ({"temperature": -1.0}, "sampling_params_invalid", "/temperature"),
    ({"temperature": "1"}, "invalid_type", "/temperature"),
    ({"background": True}, "field_unsupported", "/background"),
    ({"conversation": "conv_1"}, "field_unsupported", "/conversation"),
    ({"prompt": {"id": "p"}}, "field_unsupported", "/prompt"),
    ({"metadata": {"a": 1}}, "invalid_type", "/metadata/a"),
    ({"previous_response_id": "resp_none"}, "previous_response_not_found", "/previous_response_id"),
    ({"priority": 5}, "priority_disabled", "/priority"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "code", "pointer"), WRONG, ids=[f"{w[1]} {w[2]}" for w in WRONG])
def test_errors_lead_to_what_was_sent(served: Served, fields: dict[str, Any], code: str, pointer: str) -> None:
    answer = httpx.post(f"{served.url}/v1/responses", json={"input": "hi", **fields})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["pointer"]) == (400, code, pointer), error
    message = error["message"].partition(" (at ")[0]
    assert "structured_outputs" not in message
    assert "response_format" not in message or "response_format" in fields


def test_what_is_remembered_can_be_read_and_forgotten(served: Served) -> None:
    served.writes("Hello.")
    answer = served.create()
    assert served.client.responses.retrieve(answer.id).to_dict() == answer.to_dict()
    streamed = served.events()[-1].response
    assert served.client.responses.retrieve(streamed.id).output_text == "Hello."
    served.client.responses.delete(answer.id)
    with pytest.raises(NotFoundError):
        served.client.responses.retrieve(answer.id)
    with pytest.raises(NotFoundError):
        served.client.responses.delete(answer.id)
    unstored = served.create(store=False)
    assert unstored.store is False
    with pytest.raises(NotFoundError):
        served.client.responses.retrieve(unstored.id)


def test_each_key_sees_its_own_responses() -> None:
    with talking(api_keys=["one", "two"]) as served:
        answer = served.create()
        other = OpenAI(base_url=f"{served.url}/v1", api_key="two", max_retries=0)
        with pytest.raises(NotFoundError):
            other.responses.retrieve(answer.id)
        with pytest.raises(BadRequestError):
            other.responses.create(model="scripted", input="x", previous_response_id=answer.id)
        reference: Any = {"type": "item_reference", "id": answer.output[0].id}
        with pytest.raises(NotFoundError, match="no item"):
            other.responses.create(model="scripted", input=[reference])
        assert served.client.responses.retrieve(answer.id).id == answer.id
        assert httpx.post(f"{served.url}/v1/responses", json={"input": "hi"}).status_code == 401


def test_a_server_that_stores_none() -> None:
    with talking(stored_responses=0) as served:
        answer = served.create()
        assert answer.store is False
        with pytest.raises(NotFoundError):
            served.client.responses.retrieve(answer.id)


@pytest.mark.parametrize("stream", [True, False])
def test_leaving_ends_the_work(stream: bool) -> None:
    with talking() as served:
        served.engine.hold()
        host, _, port = served.url.removeprefix("http://").partition(":")
        data = json.dumps({"input": "hi", "stream": stream}).encode()
        head = f"POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(head.encode() + data)
            assert eventually(lambda: served.engine.running == 1)
        assert eventually(lambda: served.engine.running == 0)
        assert served.engine.finished == {"abort": 1}
        page = httpx.get(f"{served.url}/metrics").text
        assert 'path="/v1/responses"' in page or eventually(
            lambda: 'path="/v1/responses"' in httpx.get(f"{served.url}/metrics").text
        )


def test_a_server_that_stops_ends_the_stream_with_a_failure() -> None:
    with talking(shutdown_timeout=0.2) as served:
        served.engine.hold()
        body = {"input": "hi", "stream": True}
        with httpx.stream("POST", f"{served.url}/v1/responses", json=body, timeout=20) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: response.created"
            served.engine.close()
            events = [line for line in lines if line.startswith("event: ")]
    assert events[-1] in ("event: response.failed", "event: response.completed")


parts = st.lists(
    st.sampled_from(["Some text. ", "é😀", f"\n{PARIS}\n", call("note", {"input": 'a"b\\c\n'})]), max_size=5
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.booleans(), parts, st.sampled_from([5, 60, 400]))
def test_streaming_complete_and_chat_say_the_same(served: Served, thinks: bool, texts: list[str], tokens: int) -> None:
    served.writes(("<think>Hm.</think>" if thinks else "") + "".join(texts))
    fields: dict[str, Any] = {"tools": [WEATHER, FREE], "max_output_tokens": tokens}
    complete = served.create(**fields, extra_body={"seed": 7})
    streamed = served.events(**fields, seed=7)[-1].response
    assert plain(streamed) == plain(complete)
    assert (streamed.status, streamed.incomplete_details) == (complete.status, complete.incomplete_details)
    assert streamed.usage == complete.usage
    functions: list[Any] = [
        {"type": "function", "function": {key: value for key, value in WEATHER.items() if key != "type"}},
        {"type": "function", "function": {"name": "note", "parameters": custom_input.parameters("The input.")}},
    ]
    ask: Any = [{"role": "user", "content": "hi"}]
    chat = served.client.chat.completions.create(
        model="scripted", messages=ask, tools=functions, seed=7, max_tokens=tokens
    ).choices[0]
    assert complete.output_text == (chat.message.content or "")
    made: list[Any] = [item for item in complete.output if item.type in ("function_call", "custom_tool_call")]
    theirs: list[Any] = [*(chat.message.tool_calls or ())]
    assert [item.name for item in made] == [one.function.name for one in theirs]
    assert (complete.status == "incomplete") == (chat.finish_reason == "length")
    for item, one in zip(made, theirs, strict=True):
        if item.type == "function_call":
            assert item.arguments == one.function.arguments
        else:
            assert item.input == custom_input.InputText().feed(one.function.arguments)


def test_a_format_that_is_not_json_takes_custom_tools_without_a_grammar() -> None:
    with talking(tool_call_parser="qwen3_xml", reasoning_parser=None) as served:
        served.writes(
            '<tool_call>\n<function=note>\n<parameter=input>\nany "text"\n</parameter>\n</function>\n</tool_call>'
        )
        [made] = served.create(tools=[FREE], tool_choice="required").output
        assert (made.type, made.input) == ("custom_tool_call", 'any "text"')
        body = {"input": "hi", "tools": [FREE, SUM]}
        error = httpx.post(f"{served.url}/v1/responses", json=body).json()["error"]
        assert (error["code"], error["pointer"]) == ("input_unsupported", "/tools/1/format/definition")
