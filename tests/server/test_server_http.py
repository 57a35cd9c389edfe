"""Requests over a real socket: which are accepted, which are refused, and with which status, code and place."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from scripted import ScriptedEngine
from serving import serving

import narrows.server.keys
from narrows.errors import EngineError
from narrows.server import Settings

CASES = json.loads((Path(__file__).parents[1] / "cases" / "server" / "requests.json").read_text())
CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(ScriptedEngine()) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield client


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_cases(client: httpx.Client, case: dict[str, Any]) -> None:
    content = case["raw"] if "raw" in case else json.dumps(case["body"])
    response = client.post(case["path"], content=content, headers={"content-type": "application/json"})
    assert response.status_code == case["status"], response.text
    if case["status"] == 200:
        assert response.json()["choices"]
        return
    error = response.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    for key in ("code", "pointer", "limit"):
        if key in case:
            assert error.get(key) == case[key], error
    if error.get("pointer"):
        assert error["param"]
    assert client.get("/health").status_code == 200


def test_models_health_and_docs(client: httpx.Client) -> None:
    [model] = client.get("/v1/models").json()["data"]
    assert model["id"] == "scripted"
    assert client.get("/v1/models/scripted").json() == model
    assert client.get("/v1/models/other").json()["error"]["code"] == "model_not_found"
    assert client.get("/health").json()["status"] == "ok"
    assert "/v1/chat/completions" in client.get("/openapi.json").json()["paths"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"), [("GET", "/nope", 404, "not_found"), ("GET", CHAT, 405, "method_not_allowed")]
)
def test_what_is_not_there_is_said_in_openais_shape(
    client: httpx.Client, method: str, path: str, status: int, code: str
) -> None:
    response = client.request(method, path)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


def test_the_body_must_say_that_it_is_json(client: httpx.Client) -> None:
    response = client.post(CHAT, content=json.dumps(HELLO), headers={"content-type": "text/plain"})
    assert (response.status_code, response.json()["error"]["code"]) == (415, "content_type")


def test_metrics_count_requests_and_never_take_a_label_from_a_stranger(client: httpx.Client) -> None:
    client.get("/made-up-path")
    client.post(CHAT, json=HELLO)
    client.post(CHAT, json={})
    text = client.get("/metrics").text
    assert 'narrows_requests_total{path="/v1/chat/completions",status="200"}' in text
    assert 'narrows_rejected_total{code="missing_field"}' in text
    assert "narrows_sequences_finished_total" in text
    assert "made-up-path" not in text


def test_a_key_opens_all_paths_and_only_health_metrics_and_the_page_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def watched(given: bytes, key: bytes) -> bool:
        compared.append(key)
        return hmac.compare_digest(given, key)

    monkeypatch.setattr(narrows.server.keys, "hmac", type("watched", (), {"compare_digest": staticmethod(watched)}))
    with serving(ScriptedEngine(), Settings(api_keys=("first", "sécond"))) as url, httpx.Client(base_url=url) as client:
        for header in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": "Basic first"},
            {"authorization": "first"},
            {"x-api-key": "wrong"},
            {"x-api-key": "first", "authorization": "Bearer wrong"},
        ):
            response = client.post(CHAT, json=HELLO, headers=header)
            assert (response.status_code, response.json()["error"]["code"]) == (401, "invalid_api_key")
        for key in ("first", "sécond"):
            header_bytes = {b"authorization": b"Bearer " + key.encode()}
            assert client.post(CHAT, json=HELLO, headers=header_bytes).status_code == 200
        assert client.post(CHAT, json=HELLO, headers={"x-api-key": "first"}).status_code == 200
        both = {"x-api-key": "first", "authorization": "Bearer first"}
        assert client.post(CHAT, json=HELLO, headers=both).status_code == 200
        for path in ("/health", "/metrics", "/docs", "/openapi.json"):
            assert client.get(path).status_code == 200
        for path in ("/v1/models", "/api/tags", "/props", "/nowhere"):
            assert client.get(path).status_code == 401
    assert compared.count(b"first") == compared.count("sécond".encode()) > 0  # every key is compared every time


def test_served_names_are_what_clients_call_the_model() -> None:
    with (
        serving(ScriptedEngine(), Settings(served_model_names=("mine", "also"))) as url,
        httpx.Client(base_url=url) as client,
    ):
        assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["mine", "also"]
        assert client.post(CHAT, json={**HELLO, "model": "also"}).json()["model"] == "mine"
        assert client.post(CHAT, json={**HELLO, "model": "scripted"}).status_code == 404


def test_a_full_queue_is_429_and_a_dead_engine_503() -> None:
    engine = ScriptedEngine()
    with serving(engine) as url, httpx.Client(base_url=url) as client:
        engine.queue_full = True
        response = client.post(CHAT, json=HELLO)
        assert (response.status_code, response.json()["error"]["code"]) == (429, "queue_full")
        assert response.headers["retry-after"] == "1"
        engine.queue_full = False
        engine.dead = EngineError("it died", code="engine_dead")
        assert client.get("/health").status_code == 503
        response = client.post(CHAT, json=HELLO)
        assert (response.status_code, response.json()["error"]["type"]) == (503, "server_error")


def test_what_nobody_foresaw_is_a_500_and_the_connection_lives_on(caplog: pytest.LogCaptureFixture) -> None:
    def broken(request: Any, index: int) -> str:
        return "fine"

    engine = ScriptedEngine(broken)
    with serving(engine) as url, httpx.Client(base_url=url) as client:
        generate, engine.generate = engine.generate, None  # type: ignore[method-assign, assignment]
        response = client.post(CHAT, json=HELLO)
        assert (response.status_code, response.json()["error"]["code"]) == (500, "internal_error")
        assert "TypeError" not in response.text
        engine.generate = generate  # type: ignore[method-assign]
        assert client.post(CHAT, json=HELLO).status_code == 200
    assert "a request failed" in caplog.text


def test_web_origins_are_allowed_only_where_named() -> None:
    ask = {"origin": "https://app.example", "access-control-request-method": "POST"}
    with serving(ScriptedEngine()) as url:
        assert "access-control-allow-origin" not in httpx.options(url + CHAT, headers=ask).headers
    with serving(ScriptedEngine(), Settings(allowed_origins=("https://app.example",), api_keys=("k",))) as url:
        assert httpx.options(url + CHAT, headers=ask).headers["access-control-allow-origin"] == "https://app.example"


def test_two_keys_in_one_request_open_nothing() -> None:
    """One could be the key that is checked, and the other the client's name."""
    with serving(ScriptedEngine(), Settings(api_keys=("first", "second"))) as url:
        for keys in (("nobody", "first"), ("first", "nobody"), ("first", "first")):
            headers = [("authorization", f"Bearer {key}") for key in keys]
            assert httpx.get(f"{url}/v1/models", headers=headers).status_code == 401
        assert httpx.get(f"{url}/v1/models", headers=headers[:1]).status_code == 200
