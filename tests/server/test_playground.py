"""The playground's endpoints, over a real socket, and the page's files."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from scripted import ScriptedEngine
from serving import serving

from narrows import formats
from narrows.errors import LimitError
from narrows.server import Settings
from narrows.server.playground import following
from narrows.server.playground.pages import _files
from narrows.server.playground.turns import MOST_WAITING, Turns

API = "/playground/api/"
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 5}},
    "required": ["name", "age"],
}
TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    },
}
JSON = {"language": "json", "source": json.dumps(SCHEMA)}
TOOLS = {"language": "tools", "source": json.dumps([TOOL]), "tool_choice": "required"}
GBNF = {"language": "grammar", "source": 'root ::= "a" b\nb ::= "x" | c\nc ::= "y" [0-9]+'}


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    return ScriptedEngine('{"name": "Ada", "age": 36}')


@pytest.fixture(scope="module")
def client(engine: ScriptedEngine) -> Iterator[httpx.Client]:
    with serving(engine) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client


def ask(client: httpx.Client, name: str, **body: Any) -> Any:
    response = client.post(API + name, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def refused(client: httpx.Client, name: str, **body: Any) -> dict[str, Any]:
    response = client.post(API + name, json=body)
    assert response.status_code != 200
    error: dict[str, Any] = response.json()["error"]
    return {**error, "status": response.status_code}


def test_the_page_may_load_and_call_nothing_but_the_server(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in page.headers["content-security-policy"]
    assert "http" not in page.text.replace("http-equiv", "")
    assert "style=" not in page.text
    for name in _files():
        file = client.get(f"/playground/{name}")
        assert file.status_code == 200
        assert "content-security-policy" in file.headers
        again = client.get(f"/playground/{name}", headers={"If-None-Match": file.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    assert {"index.html", "main.js", "style.css"} <= set(_files())
    for name in ("nothing.js", "routes.py", "..%2froutes.py", "page%2findex.html"):
        assert client.get(f"/playground/{name}").status_code == 404


def test_what_the_page_is_told_of_the_server(client: httpx.Client) -> None:
    about = client.get(API + "about").json()
    assert (about["model"], about["format"], about["vocabulary"]) == ("scripted", "hermes_json", 259)
    assert {"json", "regex", "choice", "grammar", "lark"} <= {one["name"] for one in about["languages"]}
    assert [one["name"] for one in about["formats"]] == list(formats.names())


def test_a_report_names_each_keyword(client: httpx.Client) -> None:
    schema = {"properties": {"a": {"uniqueItems": True}}, "type": "object", "contentEncoding": "base64"}
    answer = ask(client, "check", definition={"language": "json", "source": json.dumps(schema)})
    by_place = {place: (status, reason) for place, status, reason in answer["report"]}
    assert by_place["/type"] == ("exact", "")
    assert by_place["/properties/a/uniqueItems"][0] == "under"
    assert by_place["/properties/a/uniqueItems"][1]
    are_exact = [status == "exact" for _, status, _ in answer["report"]]
    assert are_exact == sorted(are_exact)
    assert answer["enforced"]
    loose = ask(client, "check", definition={"language": "json", "source": '{"type": "array", "maxitems": 2}'})
    assert not loose["enforced"]
    assert loose["report"][0][:2] == ["/maxitems", "ignored"]


def test_a_report_on_tools_points_into_the_list_of_tools(client: httpx.Client) -> None:
    [first, *_] = ask(client, "check", definition=TOOLS)["report"]
    assert first[:2] == ["/0/function/parameters/properties", "under"]
    inner = {**TOOLS, "source": json.dumps([TOOL["function"]])}
    assert ask(client, "check", definition=inner)["report"]


ERRORS = [
    ({"language": "json", "source": '{"type": "objekt"}'}, "schema_invalid", {"pointer": "/definition/source/type"}),
    ({"language": "json", "source": '{\n"type": '}, "schema_invalid", {"line": 2}),
    ({"language": "choice", "source": '["a", '}, "json_invalid", {"line": 1, "column": 6}),
    ({"language": "choice", "source": '"a"'}, "wrong_type", {"pointer": "/definition/source"}),
    ({"language": "regex", "source": "a(b"}, "regex_invalid", {"offset": 1}),
    ({"language": "grammar", "source": 'root ::= "a" b\nb ::= ('}, "gbnf_invalid", {"line": 2, "column": 7}),
    ({"language": "klingon", "source": ""}, "language_unknown", {}),
    ({"language": "regex", "source": "a", "options": {"flavour": "x"}}, "invalid_option", {}),
    ({**TOOLS, "source": "{}"}, "invalid_type", {"pointer": "/definition/source"}),
    ({**TOOLS, "source": "[1"}, "json_invalid", {"line": 1}),
    ({**TOOLS, "format": "../secret"}, "format_unknown", {}),
    ({**TOOLS, "tool_choice": "g"}, None, {}),
    ({"source": "a"}, "missing_field", {"pointer": "/definition/language"}),
    ({"language": "regex", "source": 3}, "invalid_type", {"pointer": "/definition/source"}),
    ({"language": "regex", "source": "a", "more": 1}, "invalid_value", {"pointer": "/definition/more"}),
]


@pytest.mark.parametrize(("definition", "code", "place"), ERRORS, ids=[str(case[1]) for case in ERRORS])
def test_errors_have_their_place(
    client: httpx.Client, definition: dict[str, Any], code: str | None, place: dict[str, Any]
) -> None:
    for name, more in (("check", {}), ("follow", {"text": "a"})):
        error = refused(client, name, definition=definition, **more)
        assert error["status"] == 400
        assert error["code"] == code or code is None
        assert place.items() <= error.items(), error


def follow(client: httpx.Client, definition: dict[str, Any], text: str) -> Any:
    answer = ask(client, "follow", definition=definition, text=text)
    assert len(answer["places"]) == min(answer["fits"] + 1, len(answer["tokens"]) + 1)
    return answer


def test_a_text_is_followed_to_where_it_stops(client: httpx.Client) -> None:
    answer = follow(client, JSON, '{"name": "Ada", "age": x')
    assert (answer["fits"], len(answer["tokens"])) == (23, 24)
    assert answer["tokens"][23]["text"] == "x"
    stopped = answer["stopped"]
    assert stopped["place"]["value"] == "/age"
    assert stopped["place"]["schemas"] == ["/properties/age"]
    assert stopped["place"]["expected"] == "an integer of at least 5"
    assert stopped["expected"] == [*b"\t\n 123456789"]
    assert [place["forced"] for place in answer["places"][2:6]] == [True] * 4  # name
    assert answer["places"][0]["allowed"] == 1
    assert all(place["us"] > 0 for place in answer["places"])


def test_a_text_that_goes_on_shows_the_way_to_the_end(client: httpx.Client) -> None:
    answer = follow(client, JSON, '{"na')
    assert answer["forced"].startswith('me"')
    assert answer["shortest"]
    assert not answer["complete"]
    whole = follow(client, JSON, '{"na' + "".join(token["text"] for token in answer["shortest"]))
    assert whole["complete"]
    assert "stopped" not in whole
    assert whole["places"][-1]["end"]
    ended = follow(client, JSON, '{"name": "Ada"')
    assert ended["stopped"]["place"]["expected"] == 'a further member: "age" is required'


def test_rules_of_a_text_are_named_by_their_lines(client: httpx.Client) -> None:
    stopped = follow(client, GBNF, "ayz")["stopped"]
    assert stopped["rules"] == ["3:1"]
    assert stopped["expected"] == list(b"0123456789")


def test_a_call_is_followed_into_the_schema_of_its_tool(client: httpx.Client) -> None:
    answer = follow(client, TOOLS, '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}')
    place = answer["stopped"]["place"]
    assert (place["tool"], place["value"]) == ("f", "/a")
    assert place["keywords"] == ["/0/function/parameters/properties/a/type"]
    xml = follow(client, {**TOOLS, "format": "qwen3_xml"}, "<tool_call>\n<function=f>\n<parameter=a>\nx")
    assert xml["stopped"]["place"]["tool"] == "f"


def test_control_tokens_are_tokens_only_where_a_grammar_may_name_them(client: httpx.Client) -> None:
    text = "<|im_end|>"
    assert len(follow(client, {"language": "regex", "source": "<.*>"}, text)["tokens"]) == len(text)
    [token] = ask(client, "follow", definition={"language": "lark", "source": 'start: "a"'}, text=text)["tokens"]
    assert token == {"id": 257, "text": "<|im_end|>", "special": True, "end": True}


def test_half_a_character_is_shown_as_bytes(client: httpx.Client) -> None:
    answer = follow(client, {"language": "regex", "source": "é+"}, "é")
    assert [token["bytes"] for token in answer["tokens"]] == [[0xC3], [0xA9]]


def test_a_place_says_what_is_allowed_and_why(client: httpx.Client) -> None:
    tokens = list(b'{"name": "Ada", "age": ')
    looked = ask(client, "look", definition=JSON, tokens=tokens, token=ord("4"))
    assert looked["allowed"] == len(b"\t\n 123456789")
    assert looked["why"]["allowed"]
    assert looked["why"]["place"]["keywords"] == []
    assert {token["text"] for token in looked["sample"]} >= {"5", "9"}
    looked = ask(client, "look", definition=JSON, tokens=tokens, token=ord("-"))
    assert looked["why"]["place"]["keywords"] == ["/properties/age/minimum"]
    error = refused(client, "look", definition=JSON, tokens=[ord("x")], token=0)
    assert (error["status"], error["code"]) == (400, "replay_rejected")
    error = refused(client, "look", definition=JSON, tokens=[], token=10**9)
    assert (error["status"], error["code"]) == (400, "token_out_of_range")


def test_the_next_token_is_held_to_the_grammar(client: httpx.Client, engine: ScriptedEngine) -> None:
    sampling = {"temperature": 0, "seed": 3}
    written: list[int] = []
    definition = {"language": "regex", "source": "[x-z]+1"}
    answer = ask(client, "next", definition=definition, prompt="Hi", sampling=sampling, tokens=written)
    assert answer["allowed"] == 3
    assert {token["text"] for token in answer["held"]} == {"x", "y", "z"}
    assert answer["free"][0]["text"] == "{"
    assert not answer["free"][0]["allowed"]
    answer = ask(client, "next", definition=definition, prompt="Hi", sampling=sampling, tokens=list(b"xy"))
    assert answer["allowed"] == 4
    assert "Hi" in engine.text_of(engine.requests[-1].prompt_token_ids)
    assert [request.output_token_ids for request in engine.requests[-2:]] == [list(b"xy")] * 2
    over = ask(client, "next", definition=definition, prompt="Hi", sampling=sampling, tokens=list(b"x1"))
    assert over["token"]["end"]
    free = ask(client, "next", prompt="Hi", chat=False)
    assert "held" not in free
    assert engine.text_of(engine.requests[-1].prompt_token_ids) == "Hi"
    error = refused(client, "next", definition=definition, prompt="Hi", tokens=list(b"q"))
    assert error["code"] == "replay_rejected"
    assert refused(client, "next", prompt="Hi", sampling={"temperature": -1})["status"] == 400


def test_a_transcript_reads_the_same_in_chunks(client: httpx.Client) -> None:
    text = 'Hi é 𝄞<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    for chunk in (1, 3, 1000):
        answer = ask(client, "stream", format="hermes_json", text=text, chunk=chunk)
        assert answer["equal"]
        assert answer["message"]["tool_calls"][0]["function"]["arguments"] == '{"a": 1}'
        assert answer["chunks"] == -(-len(text) // chunk)
        assert answer["events"][-1][1] == "ToolCallEnd"
    unknown = ask(client, "stream", format="hermes_json", text=text, chunk=9, tools=json.dumps([]))
    assert "tool_calls" not in unknown["message"]
    assert refused(client, "stream", format="nope", text="", chunk=1)["code"] == "format_unknown"
    assert refused(client, "stream", format="hermes_json", text="", chunk=0)["pointer"] == "/chunk"
    assert refused(client, "stream", format="hermes_json", text="", chunk=1, tools="{")["code"] == "json_invalid"


def test_streams_that_differ_are_told(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from narrows.server.playground import streams

    monkeypatch.setattr(streams, "_texts", lambda events: len(list(events)))
    assert not ask(client, "stream", format="hermes_json", text="abc", chunk=1)["equal"]


@pytest.mark.parametrize("name", formats.names())
def test_every_format_has_an_example_that_it_reads(client: httpx.Client, name: str) -> None:
    text = ask(client, "example", format=name)["text"]
    answer = ask(client, "stream", format=name, text=text, chunk=2)
    assert answer["equal"]
    assert answer["message"]["tool_calls"][0]["function"]["name"] == "get_weather"


def test_a_format_is_detected_from_a_template(client: httpx.Client) -> None:
    template = "{% for m in messages %}[TOOL_CALLS]{{ m }}[ARGS]{% endfor %}"
    found = ask(client, "detect", template=template)
    assert set(found) == {"format", "confidence", "reason", "candidates", "reasoning", "reasoning_reason"}
    assert found["reason"]
    assert ask(client, "detect", template="nothing")["format"] is None


def test_bodies_are_bounded(client: httpx.Client) -> None:
    error = refused(client, "follow", definition=JSON, text="x" * 20_001)
    assert (error["status"], error["pointer"]) == (400, "/text")
    error = refused(client, "check", definition={"language": "regex", "source": "x" * 1_000_001})
    assert (error["status"], error["code"]) == (413, "body_too_large")
    error = refused(client, "look", definition=JSON, tokens=[1] * 5_000, token=1)
    assert (error["status"], error["pointer"]) == (400, "/tokens")
    response = client.post(API + "check", content=b"{}", headers={"content-type": "text/plain"})
    assert response.status_code == 415
    answer = follow(client, {"language": "regex", "source": "(?s).*"}, "x" * 5_000)
    assert (answer["fits"], len(answer["tokens"])) == (following.MOST_TOKENS, following.MOST_TOKENS)


WRONG: list[Any] = [
    None,
    3,
    "x",
    [],
    {},
    True,
    {"definition": None},
    {"definition": []},
    {"definition": {"language": 1}},
]


@pytest.mark.parametrize("name", ["check", "follow", "look", "next", "stream", "example", "detect"])
def test_no_body_makes_the_server_fail(client: httpx.Client, name: str) -> None:
    good = {
        "check": {"definition": JSON},
        "follow": {"definition": JSON, "text": "x"},
        "look": {"definition": JSON, "tokens": [], "token": 1},
        "next": {"prompt": "x", "definition": JSON},
        "stream": {"format": "hermes_json", "text": "x", "chunk": 1},
        "example": {"format": "hermes_json"},
        "detect": {"template": "x"},
    }[name]
    bodies = [*WRONG, *({**good, key: value} for key in good for value in [*WRONG, -1, 10**30, 0.5, "\ud800", "\0"])]
    texts = [json.dumps(body) for body in bodies] + ["", "{", "[" * 300, '{"text": "\\ud83d"}']
    for text in texts:
        response = client.post(API + name, content=text, headers={"content-type": "application/json"})
        assert response.status_code in (200, 400), (text, response.text)
        if response.status_code == 400:
            assert response.json()["error"]["code"] != "narrows_error"


def test_hostile_definitions_and_texts_end_soon(client: httpx.Client) -> None:
    deep = "(" * 900 + "a" + ")" * 900
    nested = json.dumps({"type": "object", "properties": {f"p{i}": {"enum": list(range(50))} for i in range(300)}})
    recursive = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/a"}}]}}}
    for definition, text in (
        ({"language": "regex", "source": deep}, "b"),
        ({"language": "json", "source": nested}, '{"p0": x'),
        ({"language": "json", "source": json.dumps(recursive)}, "[" * 1_999 + "x"),
        ({"language": "grammar", "source": 'root ::= root root | "a" | "b"'}, "ab" * 500 + "c"),
        ({"language": "json", "source": "{}"}, '"' + "\\" * 9_000),
    ):
        began = time.monotonic()
        response = client.post(API + "follow", json={"definition": definition, "text": text})
        assert response.status_code == 200, response.text
        assert time.monotonic() - began < 20


def test_keys_guard_the_endpoints_but_not_the_page() -> None:
    with serving(ScriptedEngine(), Settings(api_keys=("secret",))) as url, httpx.Client(base_url=url) as client:
        assert client.get("/").status_code == 200
        assert {client.get(f"/playground/{name}").status_code for name in _files()} == {200}
        assert client.get(API + "about").status_code == 401
        assert refused(client, "check", definition=JSON)["code"] == "invalid_api_key"
        client.headers["Authorization"] = "Bearer secret"
        assert client.get(API + "about").status_code == 200
        assert ask(client, "check", definition=JSON)["enforced"]


def test_it_can_be_turned_off() -> None:
    with serving(ScriptedEngine(), Settings(playground=False)) as url, httpx.Client(base_url=url) as client:
        for path in ("/", "/playground/main.js", API + "about"):
            assert client.get(path).json()["error"]["code"] == "not_found"
        assert client.get("/health").status_code == 200


class _Threads:
    """What `Turns` needs of them."""

    def begin_aside(self, work: Callable[..., Any], *args: Any) -> Any:
        return SimpleNamespace(task=asyncio.ensure_future(asyncio.to_thread(work, *args)))

    async def result_of(self, running: Any) -> Any:
        return await asyncio.shield(running.task)


def test_clients_take_turns_and_may_not_fill_the_queue() -> None:
    done: list[str] = []

    async def main() -> None:
        waiting = Turns(_Threads())  # type: ignore[arg-type]
        held = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hold(_: Callable[[], bool]) -> None:
            asyncio.run_coroutine_threadsafe(held.wait(), loop).result()

        first = asyncio.ensure_future(waiting.run("a", hold))
        await asyncio.sleep(0)
        many = [
            asyncio.ensure_future(waiting.run("a", lambda _, i=i: done.append(f"a{i}"))) for i in range(MOST_WAITING)
        ]
        other = asyncio.ensure_future(waiting.run("b", lambda _: done.append("b")))
        await asyncio.sleep(0.01)
        full = [task for task in many if task.done() and isinstance(task.exception(), LimitError)]
        assert len(full) == MOST_WAITING // 2
        many[3].cancel()
        held.set()
        await asyncio.gather(first, other, *many, return_exceptions=True)
        assert await waiting.run("a", lambda _: 7) == 7
        assert not waiting._waiting

    asyncio.run(main())
    assert done.index("b") <= 1
    assert "a3" not in done
    assert len(done) == MOST_WAITING // 2


def test_work_is_given_up_when_the_client_leaves() -> None:
    async def main() -> None:
        waiting = Turns(_Threads())  # type: ignore[arg-type]
        seen: list[bool] = []

        def work(given_up: Callable[[], bool]) -> None:
            until = time.monotonic() + 10
            while not given_up() and time.monotonic() < until:
                time.sleep(0.005)
            seen.append(given_up())

        task = asyncio.ensure_future(waiting.run("a", work))
        await asyncio.sleep(0.05)
        task.cancel()
        assert await waiting.run("b", lambda _: "b") == "b"
        assert seen == [True]

    asyncio.run(main())


def test_health_answers_while_a_text_is_followed(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    began = []
    explain = following.explain

    def slow(*args: Any) -> Any:
        began.append(time.monotonic())
        time.sleep(0.3)
        return explain(*args)

    monkeypatch.setattr(following, "explain", slow)

    async def main() -> None:
        async with httpx.AsyncClient(base_url=client.base_url, timeout=30) as other:
            task = asyncio.ensure_future(other.post(API + "follow", json={"definition": JSON, "text": "x"}))
            while not began:
                await asyncio.sleep(0.005)
            before = time.monotonic()
            assert (await other.get("/health")).status_code == 200
            assert time.monotonic() - before < 1
            assert (await task).status_code == 200

    asyncio.run(main())
