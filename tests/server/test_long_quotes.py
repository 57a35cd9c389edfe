"""Quotes in errors are bounded, whatever the client sent: messages, hints, pointers, lines of the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from scripted import ScriptedEngine
from serving import serving

from narrows import Grammar, InputError, NarrowsError
from narrows.errors import short_pointer, shortened

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
LONG = "y" * 100_000
ASK = [{"role": "user", "content": "hi"}]


def structured(kind: str, value: Any) -> tuple[str, Any]:
    return TEXT, {"prompt": "a", "max_tokens": 3, "structured_outputs": {kind: value}}


def chat(**fields: Any) -> tuple[str, Any]:
    return CHAT, {"messages": ASK, "max_tokens": 3, **fields}


def tool(parameters: Any, name: str = "f", **fields: Any) -> tuple[str, Any]:
    return chat(
        tools=[{"type": "function", "function": {"name": name, "parameters": parameters, "strict": True}}], **fields
    )


REFUSED: dict[str, tuple[str, Any]] = {
    "a model": chat(model=LONG),
    "an unknown field that would constrain": chat(**{f"guided_{LONG}": 1}),
    "an unknown field of a tool": chat(tools=[{"type": "function", "function": {"name": "f", LONG: 1}}]),
    "an unknown field of a constraint": structured("json", True)
    and (TEXT, {"prompt": "a", "structured_outputs": {"regex": "a", LONG: 1}}),
    "a role": (CHAT, {"messages": [{"role": LONG, "content": "x"}]}),
    "a part": (CHAT, {"messages": [{"role": "user", "content": [{"type": LONG}]}]}),
    "a tool's name": tool({}, LONG),
    "a tool that is chosen": tool({}, tool_choice={"type": "function", "function": {"name": LONG}}),
    "a choice": chat(tool_choice=LONG),
    "a variable": chat(chat_template_kwargs={LONG: []}),
    "a token id": chat(logit_bias={LONG: 1}),
    "a bias": chat(logit_bias={"1": LONG}),
    "a type": structured("json", {"type": LONG}),
    "a keyword": structured("json", {f"x{LONG}": 1, "type": "strin"}),
    "a misspelled keyword": structured("json", {"propertis": {LONG: 1}}),
    "a property": structured("json", {"properties": {LONG: {"type": "nope"}}}),
    "a way through properties": structured(
        "json", json.loads('{"properties":{"%s":' % ("z" * 900) * 90 + '{"type":"nope"}' + "}}" * 90)
    ),
    "a format": structured("json", {"type": "string", "format": [LONG]}),
    "a reference": structured("json", {"$ref": f"#/$defs/{LONG}"}),
    "a reference elsewhere": structured("json", {"$ref": f"http://{LONG}"}),
    "an anchor": structured("json", {"$ref": f"#{LONG}"}),
    "a pattern": structured("json", {"type": "string", "pattern": f"(?P<{LONG}"}),
    "a required name": structured("json", {"required": [LONG, 1]}),
    "a bound": structured("json", {"type": "integer", "minimum": LONG}),
    "a bound of many digits": structured("json", {"type": "integer", "minimum": 10**4_000, "maximum": 1}),
    "an enum": structured("json", {"enum": LONG}),
    "a schema as text": structured("json", f'{{"{LONG}'),
    "a regex's group": structured("regex", f"(?P={LONG[:60_000]})"),
    "a regex's property": structured("regex", f"\\p{{{LONG[:60_000]}}}"),
    "a regex's character": structured("regex", f"\\N{{{LONG[:60_000]}}}"),
    "a rule": structured("grammar", f"root ::= {LONG}"),
    "a rule that comes twice": structured("grammar", f'root ::= "a"\n{LONG} ::= "a"\n{LONG} ::= "b"'),
    "a rule that is misspelled": structured("grammar", f'root ::= {LONG}x\n{LONG} ::= "a"'),
    "a grammar's text": structured("grammar", f"root ::= ${LONG}"),
    "a grammar of another kind": structured("grammar", f"start: {LONG}"),
    "JSON": (CHAT, f'{{"{LONG}": {LONG}'),
}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    template = "{{ raise_exception('no ' ~ messages[0]['content']) if messages[0]['role'] == 'system' else 'x' }}"
    with serving(ScriptedEngine(chat_template=template)) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client


@pytest.mark.parametrize("name", REFUSED)
def test_over_http(client: httpx.Client, name: str) -> None:
    path, body = REFUSED[name]
    content = body if isinstance(body, str) else json.dumps(body)
    response = client.post(path, content=content, headers={"content-type": "application/json"})
    assert 400 <= response.status_code < 500, response.text[:500]
    error = response.json()["error"]
    assert len(response.content) < 5_000
    assert len(error.get("hint", "")) <= 401
    assert len(error.get("pointer", "")) <= 1_001
    assert sum(len(part) for part in error["message"].split("y" * 401)) == len(error["message"]), error["message"]


def test_what_a_template_says(client: httpx.Client) -> None:
    response = client.post(CHAT, json={"messages": [{"role": "system", "content": LONG}]})
    assert response.status_code == 400
    assert "chat_template_refused" in response.text
    assert len(response.content) < 2_000


def test_paths_methods_and_keys(client: httpx.Client) -> None:
    for response in (
        client.get("/" + LONG[:60_000]),
        client.get("/v1/models/" + LONG[:60_000]),
        client.request("Y" * 5_000, CHAT),
    ):
        assert 400 <= response.status_code < 500
        assert len(response.content) < 3_000


def test_an_error_keeps_both_ends_of_what_it_says() -> None:
    error = InputError(f"the key {LONG!r} is wrong", hint=f"Use {LONG} instead", pointer=f"/a/{LONG}/b")
    assert error.message.startswith("the key 'yyy")
    assert error.message.endswith("yyy' is wrong")
    assert "…" in error.message
    assert len(error.message) == 401
    assert error.hint is not None
    assert len(error.hint) == 401
    assert error.pointer == f"/a/{LONG}/b"  # whole, for programs
    assert error.where is not None
    assert len(error.where) < 300
    assert str(error.to_dict()["pointer"]).startswith("/a/yyy")
    assert str(error.to_dict()["pointer"]).endswith("yyy/b")


def test_what_is_short_is_left_alone() -> None:
    assert shortened("a" * 400) == "a" * 400
    assert short_pointer("/a" * 100) == "/a" * 100
    assert short_pointer("") == ""
    name = "n" * 200
    assert short_pointer(f"/{name}/{name}") == f"/{name}/{name}"


@pytest.mark.parametrize("text", [f"root ::= {LONG}", f'root ::= "{LONG}'])
def test_in_python(text: str) -> None:
    with pytest.raises(NarrowsError) as caught:
        Grammar.from_gbnf(text)
    assert len(str(caught.value)) < 1_500
