"""Fields of other servers, and misspelt ones: a constraint is enforced or refused, never dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from scripted import ScriptedEngine
from serving import serving

CASES = json.loads((Path(__file__).parents[1] / "cases" / "server" / "foreign_fields.json").read_text())
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "seed": 1, "max_tokens": 60}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with (
        serving(ScriptedEngine('{"a": "free text"} and more')) as url,
        httpx.Client(base_url=url, timeout=30) as client,
    ):
        yield client


def ids(case: dict[str, Any]) -> str:
    return case["name"]


@pytest.mark.parametrize("case", CASES["refused"], ids=ids)
def test_refused_with_its_place(client: httpx.Client, case: dict[str, Any]) -> None:
    response = client.post("/v1/chat/completions", json={**CHAT, **case["fields"]})
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    if case["pointer"] is not None:
        assert error["pointer"] == case["pointer"], error
        assert error["code"] in ("field_unsupported", "conflicting_constraints", "invalid_value"), error
    else:
        assert error["pointer"].startswith("/" + next(name for name in reversed(case["fields"])).split("/")[0])


@pytest.mark.parametrize("case", CASES["ignored"], ids=ids)
def test_ignored(client: httpx.Client, case: dict[str, Any]) -> None:
    response = client.post("/v1/chat/completions", json={**CHAT, **case["fields"]})
    assert response.status_code == 200, response.text


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("case", CASES["enforced"], ids=ids)
def test_enforced(client: httpx.Client, case: dict[str, Any], path: str) -> None:
    body = {**CHAT, **case["fields"], "logit_bias": {"48": 5}}
    if path == "/v1/completions":
        body["prompt"] = body.pop("messages")[0]["content"]
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    choice = response.json()["choices"][0]
    text = choice["text"] if "text" in choice else choice["message"]["content"]
    # The model would write a string, but may not. If max_tokens cuts a long number, its beginning shows it.
    assert text.replace(" ", "").replace("\n", "").replace("\t", "").replace("\r", "").startswith('{"a":'), text
    assert text.split(":", 1)[1].strip()[:1] in "-0123456789", text


@pytest.mark.parametrize("field", ["tools", "tool_choice", "functions"])
def test_plain_completions_have_no_tools(client: httpx.Client, field: str) -> None:
    response = client.post("/v1/completions", json={"prompt": "x", field: [{"type": "function"}]})
    assert (response.status_code, response.json()["error"]["pointer"]) == (400, f"/{field}")


def test_a_slip_is_told(client: httpx.Client) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parametres": {}}}]
    error = client.post("/v1/chat/completions", json={**CHAT, "tools": tools}).json()["error"]
    assert "parameters" in error["hint"]
    error = client.post("/v1/chat/completions", json={**CHAT, "tool_choise": "required"}).json()["error"]
    assert "tool_choice" in error["hint"]


def test_unknown_fields_are_bounded(client: httpx.Client) -> None:
    for fields in ({f"x{i}": 1 for i in range(5_000)}, {"x": {f"y{i}": 1 for i in range(5_000)}}):
        error = client.post("/v1/chat/completions", json={**CHAT, **fields}).json()["error"]
        assert (error["code"], error["limit"]) == ("limit_reached", "unknown_fields")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("case", CASES["wrong"], ids=ids)
def test_errors_name_the_field_that_was_sent(client: httpx.Client, case: dict[str, Any], path: str) -> None:
    body = {**CHAT, **case["fields"]}
    if path == "/v1/completions":
        body["prompt"] = body.pop("messages")[0]["content"]
    error = client.post(path, json=body).json()["error"]
    assert (error["code"], error["pointer"]) == (case["code"], case["pointer"]), error
    assert "structured_outputs" not in error["message"]


def test_two_that_exclude_each_other_are_both_named(client: httpx.Client) -> None:
    error = client.post("/v1/chat/completions", json={**CHAT, "guided_regex": "a", "grammar": 'root ::= "a"'}).json()
    assert "/guided_regex" in error["error"]["message"]
    assert "/grammar" in error["error"]["message"]
