"""The server's defaults: objects that are closed, keywords that are left out, calls that come to an end."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from scripted import ScriptedEngine
from serving import serving

from narrows import formats
from narrows.decoding.repeats import RepeatedCall
from narrows.errors import InputError
from narrows.server import Settings
from narrows.server.unenforced import header
from narrows.stream import collect

ASK: list[Any] = [{"role": "user", "content": "x"}]
OPEN = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
MORE = '{"city": "Paris", "country": "France"}'
NOW = [{"type": "function", "function": {"name": "now", "parameters": OPEN}}]
HEADER = "x-narrows-unenforced"


@contextmanager
def server(script: Any, **settings: Any) -> Iterator[httpx.Client]:
    with serving(ScriptedEngine(script), Settings(**settings)) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client


def chat(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/chat/completions", json={"messages": ASK, "max_tokens": 400, **fields})


def call_of(arguments: str, name: str = "now") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


# Objects.

WAYS: list[tuple[str, dict[str, Any], str]] = [
    ("tools", {"tools": NOW, "tool_choice": "required", "parallel_tool_calls": False}, call_of(MORE)),
    ("a chosen call", {"tools": NOW, "parallel_tool_calls": False}, call_of(MORE)),
    ("json_schema", {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": OPEN}}}, MORE),
    ("json_object", {"response_format": {"type": "json_object", "schema": OPEN}}, MORE),
    ("structured_outputs", {"structured_outputs": {"json": OPEN}}, MORE),
    ("as text", {"structured_outputs": {"json": json.dumps(OPEN)}}, MORE),
    ("beside tools", {"tools": NOW, "response_format": {"type": "json_schema", "json_schema": {"schema": OPEN}}}, MORE),
]


def value_of(response: httpx.Response) -> Any:
    message = response.json()["choices"][0]["message"]
    return json.loads(
        message["tool_calls"][0]["function"]["arguments"] if "tool_calls" in message else message["content"]
    )


@pytest.mark.parametrize(("fields", "script"), [way[1:] for way in WAYS], ids=[way[0] for way in WAYS])
def test_objects_are_closed_unless_someone_says_otherwise(fields: dict[str, Any], script: str) -> None:
    whole = json.loads(MORE)
    with server(script) as client:
        assert "country" not in value_of(chat(client, **fields))
        assert value_of(chat(client, **fields, disable_additional_properties=False)) == whole
        assert "country" not in value_of(chat(client, **fields, disable_additional_properties=True))
    with server(script, disable_additional_properties=False) as client:
        assert value_of(chat(client, **fields)) == whole
        assert "country" not in value_of(chat(client, **fields, disable_additional_properties=True))


def test_vllms_field_inside_structured_outputs_counts() -> None:
    with server(MORE) as client:
        asked = {"json": OPEN, "disable_additional_properties": False}
        assert value_of(chat(client, structured_outputs=asked)) == json.loads(MORE)
        beside = {**asked, "disable_additional_properties": True}
        assert "country" not in value_of(chat(client, structured_outputs=beside, disable_additional_properties=False))
    with server(call_of(MORE)) as client:  # it is about this schema alone
        both = {"tools": NOW, "parallel_tool_calls": False, "structured_outputs": asked}
        assert "country" not in value_of(chat(client, **both))


def test_an_object_that_says_so_stays_open() -> None:
    with server(MORE) as client:
        schema = {**OPEN, "additionalProperties": True}
        assert value_of(chat(client, structured_outputs={"json": schema})) == json.loads(MORE)


# Keywords that cannot be enforced.

LOOSE = {
    "type": "object",
    "properties": {
        "ids": {
            "type": "array",
            "items": {"type": "array"},
            "contains": {"const": [1]},
            "minContains": 2,
            "uniqueItems": True,
        }
    },
}
REPEATS = '{"ids": [[1], [1]]}'


def loose_tools(strict: bool | None = None) -> list[Any]:
    more = {} if strict is None else {"strict": strict}
    return [*NOW, {"type": "function", "function": {"name": "note", "parameters": LOOSE, **more}}]


AT = "/tools/1/function/parameters/properties/ids/uniqueItems"


@pytest.mark.parametrize("stream", [False, True])
def test_one_tools_keyword_no_longer_refuses_the_request(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    with server(call_of(REPEATS, "note")) as client, caplog.at_level(logging.WARNING):
        for tools in (loose_tools(), loose_tools(False)):
            response = chat(client, tools=tools, tool_choice="required", stream=stream)
            assert response.status_code == 200, response.text
            assert response.headers[HEADER] == AT
            assert stream or value_of(response) == {"ids": [[1], [1]]}
        assert (
            'narrows_unenforced_keywords_total{keyword="uniqueItems",model_name="scripted"} 2.0'
            in client.get("/metrics").text
        )
    lines = [record.getMessage() for record in caplog.records if "not wholly enforced" in record.getMessage()]
    assert lines
    assert all(AT in line and "'note'" in line for line in lines)


def test_strict_refuses_with_the_place() -> None:
    with server("x") as client:
        error = chat(client, tools=loose_tools(True)).json()["error"]
        assert (error["code"], error["pointer"]) == ("schema_unsupported", AT)
        assert error["param"] == "tools[1].function.parameters.properties.ids.uniqueItems"
        assert "strict" in error["hint"]


def test_the_place_is_right_where_some_tools_are_not_allowed() -> None:
    allowed = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "note"}}]},
    }
    with server(call_of(REPEATS, "note")) as client:
        assert chat(client, tools=loose_tools(), tool_choice=allowed).headers[HEADER] == AT
        assert chat(client, tools=loose_tools(True), tool_choice=allowed).json()["error"]["pointer"] == AT


def test_response_format_has_a_strict_of_its_own() -> None:
    where = "/response_format/json_schema/schema/properties/ids/uniqueItems"
    with server(REPEATS) as client:
        for more, status in (({}, 200), ({"strict": False}, 200), ({"strict": None}, 200), ({"strict": True}, 400)):
            for tools in ({}, {"tools": NOW}):
                asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": LOOSE, **more}}
                response = chat(client, response_format=asked, **tools)
                assert response.status_code == status, response.text
                if status == 200:
                    assert response.headers[HEADER] == where
                    assert value_of(response) == {"ids": [[1], [1]]}
                else:
                    assert response.json()["error"]["pointer"] == where


def test_vllms_field_refuses() -> None:
    with server(REPEATS) as client:
        error = chat(client, structured_outputs={"json": LOOSE}).json()["error"]
        assert (error["code"], error["pointer"]) == (
            "schema_unsupported",
            "/structured_outputs/json/properties/ids/uniqueItems",
        )


def test_nobody_goes_before_the_others_unless_the_server_says_so() -> None:
    with server("x") as client:
        assert chat(client, priority=0).status_code == 200
        for value in (-1, 1):
            error = chat(client, priority=value).json()["error"]
            assert (error["code"], error["pointer"]) == ("priority_disabled", "/priority")
            assert "--scheduling-policy" in error["hint"]
    with server("x", scheduling_policy="priority") as client:
        assert chat(client, priority=-1).status_code == 200
    with pytest.raises(InputError, match="scheduling_policy"):
        Settings(scheduling_policy="lifo")


def test_null_stands_for_the_default() -> None:
    """SDKs write null for fields that are left out."""
    nulls = dict.fromkeys(
        ("n", "stream", "priority", "min_tokens", "ignore_eos", "include_reasoning", "parallel_tool_calls", "stop")
    )
    with server("x") as client:
        assert chat(client, **nulls).json()["choices"][0]["message"]["content"] == "x"
        answer = client.post("/v1/completions", json={"prompt": "a", "echo": None, "n": None})
        assert answer.json()["choices"][0]["text"] == "x"
        assert chat(client, messages=None).json()["error"]["pointer"] == "/messages"


def test_a_server_can_be_strict_throughout() -> None:
    with server(REPEATS, strict_schemas=True) as client:
        assert chat(client, tools=loose_tools(False)).json()["error"]["pointer"] == AT
        asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": LOOSE}}
        assert chat(client, response_format=asked).json()["error"]["code"] == "schema_unsupported"


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ({"type": "strng"}, "schema_invalid"),
        ({"type": "object", "properties": {"a": False}, "required": ["a"]}, "unsatisfiable"),
        ({"type": "object", "properties": {"n": {"type": "integer", "maximum": int("9" * 500)}}}, "limit_reached"),
    ],
)
def test_what_is_wrong_is_refused_without_strict_too(schema: Any, code: str) -> None:
    tools = [*NOW, {"type": "function", "function": {"name": "note", "parameters": schema}}]
    with server("x") as client:
        error = chat(client, tools=tools).json()["error"]
        assert error["code"] == code
        assert error["pointer"].startswith("/tools/1/function/parameters")


def test_the_header_is_one_short_line_whatever_the_names() -> None:
    value = header(["/tools/0/é\r\nx: y, z/" + "a" * 100] * 500)
    assert value.isascii()
    assert value.isprintable()
    assert len(value) < 1_100
    shown, _, more = value.rpartition(", +")
    assert shown.count(", ") + 1 + int(more) == 500
    assert header(["/" + "a" * 5_000]) == "+1"


# Calls.


def cities(response: httpx.Response) -> list[str]:
    message = response.json()["choices"][0]["message"]
    return [json.loads(call["function"]["arguments"])["city"] for call in message.get("tool_calls", ())]


def endless(request: Any, index: int) -> str:
    return "\n".join(call_of(json.dumps({"city": f"C{i}"})) for i in range(60))


def stuck(request: Any, index: int) -> str:
    return "\n".join([call_of('{"city": "A"}')] + [call_of('{"city": "B"}')] * 60)


LONG = {"tools": NOW, "max_tokens": 10_000}


@pytest.mark.parametrize("choice", ["required", "auto"])
def test_calls_come_to_an_end(choice: str) -> None:
    with server(endless) as client:
        for fields, count in (({}, 16), ({"max_tool_calls": 3}, 3), ({"max_tool_calls": 40}, 40), ({"n": 2}, 16)):
            response = chat(client, **LONG, tool_choice=choice, **fields)
            assert len(cities(response)) == count, response.text
            for answer in response.json()["choices"]:
                assert (answer["finish_reason"], answer["message"]["content"]) == ("tool_calls", None)
        assert len(cities(chat(client, **LONG, tool_choice=choice, max_tool_calls=10**12))) == 60
    with server(endless, max_tool_calls=None) as client:
        assert len(cities(chat(client, **LONG, tool_choice=choice))) == 60
    with server(endless, max_tool_calls=2) as client:
        assert len(cities(chat(client, **LONG, tool_choice=choice))) == 2


@pytest.mark.parametrize("choice", ["required", "auto"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_same_call_twice_in_a_row_comes_once_and_is_the_last(choice: str, stream: bool) -> None:
    with server(stuck) as client:
        response = chat(client, **LONG, tool_choice=choice, stream=stream)
        if stream:
            events = [json.loads(e.removeprefix("data: ")) for e in response.text.split("\n\n")[:-2]]
            parts = [part for event in events for part in event["choices"]]
            assert not any(part["delta"].get("content") for part in parts)
            ids = [c["id"] for part in parts for c in part["delta"].get("tool_calls", ()) if "id" in c]
            assert (len(ids), parts[-1]["finish_reason"]) == (2, "tool_calls")
        else:
            assert cities(response) == ["A", "B"]
            assert response.json()["choices"][0]["finish_reason"] == "tool_calls"
            assert response.json()["usage"]["completion_tokens"] < 3 * len(call_of('{"city": "A"}')) + 9
        off = chat(client, **LONG, tool_choice=choice, stop_at_repeated_call=False)
        assert len(cities(off)) == 16
    with server(stuck, stop_at_repeated_call=False) as client:
        assert len(cities(chat(client, **LONG, tool_choice=choice))) == 16
        assert cities(chat(client, **LONG, tool_choice=choice, stop_at_repeated_call=True)) == ["A", "B"]


REPEATED = [{"id": f"functions.now:{i}", "function": {"name": "now", "arguments": {"city": "A"}}} for i in range(4)]


@pytest.mark.parametrize("name", formats.names())
def test_a_repeated_call_is_found_in_every_format(name: str) -> None:
    """However the text is cut, the client gets neither the repeated call nor any text after it."""
    fmt = formats.get(name)
    text = fmt.render({"tool_calls": REPEATED})
    for size in (1, 7, len(text)):
        parser, repeated = fmt.parser(NOW, tool_choice="required"), RepeatedCall()
        events = [e for at in range(0, len(text), size) for e in repeated.feed(parser.feed(text[at : at + size]))]
        message = collect([*events, *repeated.feed(parser.finish()), *repeated.finish()])
        assert repeated.found
        assert [call.complete for call in message.tool_calls] == [True]
        assert message.content is None


@pytest.mark.parametrize("name", ["pythonic", "mistral", "qwen3_xml", "deepseek_v3", "muse"])
def test_a_repeated_call_ends_the_answer(name: str) -> None:
    text = formats.get(name).render({"tool_calls": REPEATED})
    with server(text, tool_call_parser=name, reasoning_parser=None) as client:
        response = chat(client, **LONG, tool_choice="required")
        [choice] = response.json()["choices"]
        assert (cities(response), choice["finish_reason"]) == (["A"], "tool_calls")
        assert choice["message"]["content"] is None


def test_a_call_is_not_held_to_a_schema_without_objects() -> None:
    """As OpenAI does, it is refused: the arguments of a call are an object."""
    tools = [{"type": "function", "function": {"name": "now", "parameters": {"type": "array"}}}]
    with server(call_of('["a"]')) as client:
        response = chat(client, tools=tools, tool_choice="required")
        assert response.status_code == 400
        error = response.json()["error"]
        assert (error["code"], error["param"]) == ("unsatisfiable", "tools[0].function.parameters.type")


def test_min_tokens_comes_before_a_repeated_call() -> None:
    with server(stuck) as client:
        assert len(cities(chat(client, **LONG, tool_choice="required", min_tokens=5))) == 16


@pytest.mark.parametrize(
    "second",
    ['{"city": "AB"}', '{"city": "A", "b": 1}', '{"city": "B"}', '{"b": 1}', "{}", '{"city": "A"', '{"city"', "{"],
)
def test_what_begins_like_the_call_before_is_not_lost(second: str) -> None:
    """Text that is held back is sent once it differs, or when the answer ends."""
    fmt = formats.get("hermes_json")
    text = call_of('{"city": "A"}') + "\n" + call_of(second)
    if not second.endswith("}"):
        text = text[: text.rindex(second) + len(second)]
    for size in (1, 3, len(text)):
        parser, repeated = fmt.parser(id_factory=str), RepeatedCall()
        events = [e for at in range(0, len(text), size) for e in repeated.feed(parser.feed(text[at : at + size]))]
        message = collect([*events, *repeated.feed(parser.finish()), *repeated.finish()])
        assert message == fmt.parse(text, id_factory=str)
        assert not repeated.found


def test_calls_that_differ_go_on() -> None:
    for order in ("ABAC", "ABCA", "ABBA", "ABCAC"):
        written = "\n".join(call_of(json.dumps({"city": name})) for name in order)
        with server(written) as client:
            expected = order if "BB" not in order else "AB"
            assert cities(chat(client, **LONG, tool_choice="auto")) == list(expected)


@pytest.mark.parametrize(
    ("turns", "calls"), [("AB", "ABA"), ("ABC", "ABCAB"), ("ABAC", "ABACABA"), ("ABCDEFGH", "ABCDEFGHABCDEFG")]
)
@pytest.mark.parametrize("choice", ["required", "auto"])
def test_calls_that_come_in_turn_come_to_an_end(turns: str, calls: str, choice: str) -> None:
    written = "\n".join(call_of(json.dumps({"city": name})) for name in turns * 20)
    with server(written) as client:
        response = chat(client, **LONG, tool_choice=choice)
        assert cities(response) == list(calls)
        assert response.json()["choices"][0]["finish_reason"] == "tool_calls"


def test_arguments_are_the_same_whatever_their_spelling() -> None:
    two = {
        "name": "now",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "b": {"type": "number"}}},
    }
    texts = ['{"city": "A", "b": 1}', '{"city":"\\u0041", "b": 1}', '{"city": "C"}']
    with server("\n".join(map(call_of, texts))) as client:
        response = chat(client, tools=[{"type": "function", "function": two}], max_tokens=1_000)
        assert cities(response) == ["A", "A"]


def test_a_named_call_ends_with_stop() -> None:
    with server(endless) as client:
        [choice] = chat(client, **LONG, tool_choice={"type": "function", "function": {"name": "now"}}).json()["choices"]
        assert (choice["finish_reason"], len(choice["message"]["tool_calls"])) == ("stop", 1)


@pytest.mark.parametrize("value", [0, -1])
def test_at_least_one_call(value: int) -> None:
    with server("x") as client:
        error = chat(client, tools=NOW, max_tool_calls=value).json()["error"]
        assert (error["code"], error["pointer"]) == ("invalid_value", "/max_tool_calls")
    with pytest.raises(InputError):
        Settings(max_tool_calls=value)
