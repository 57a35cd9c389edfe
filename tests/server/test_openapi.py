"""What the API page says, and whether answers are as it says: whole ones and streams, of a scripted engine and of the small model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import httpx
import jsonschema_rs
import pytest
from fastapi import FastAPI
from scripted import ScriptedEngine
from serving import serving

from narrows.engines import default_model
from narrows.engines.llama_cpp import LlamaCppEngine
from narrows.server import Settings, create_app
from narrows.server.openapi import _shared

TOOL = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Lima"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": TOOL}}]
HELLO = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8, "temperature": 0}
CALL = {**HELLO, "max_tokens": 40, "tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
NUMBERS = {"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2}
JSON = {**HELLO, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": NUMBERS}}}
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
USAGE = {"stream_options": {"include_usage": True}}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("chat", CHAT, HELLO),
    ("chat with two choices", CHAT, {**HELLO, "n": 2, "temperature": 1, "seed": 1}),
    ("chat with logprobs", CHAT, {**HELLO, "logprobs": True, "top_logprobs": 2}),
    ("chat with a call", CHAT, CALL),
    ("chat with a call and logprobs", CHAT, {**CALL, "logprobs": True}),
    ("chat in JSON", CHAT, JSON),
    ("chat with a stop text", CHAT, {**HELLO, "stop": ["e", "o"]}),
    ("chat with a choice", CHAT, {**HELLO, "structured_outputs": {"choice": ["yes", "no"]}, "select": "sum"}),
    ("text", TEXT, {"prompt": "Hello", "max_tokens": 8}),
    ("texts with logprobs", TEXT, {"prompt": ["a", "b"], "max_tokens": 4, "logprobs": 2}),
    ("text of a grammar", TEXT, {"prompt": "a", "max_tokens": 9, "structured_outputs": {"regex": "[a-f]{3}"}}),
    ("responses", "/v1/responses", {"input": "hi", "max_output_tokens": 8}),
    (
        "responses with a call",
        "/v1/responses",
        {"input": "hi", "tools": [{"type": "function", **TOOLS[0]["function"]}], "max_output_tokens": 24},
    ),
    ("messages", "/v1/messages", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}),
    ("Ollama's chat", "/api/chat", {"model": "m", "messages": HELLO["messages"], "options": {"num_predict": 9}}),
    ("Ollama's generate", "/api/generate", {"model": "m", "prompt": "hi", "options": {"num_predict": 9}}),
    ("llama.cpp's completion", "/completion", {"prompt": "hi", "n_predict": 9}),
    ("TGI's generate", "/generate", {"inputs": "hi", "parameters": {"max_new_tokens": 9, "details": True}}),
    ("TGI's stream", "/generate_stream", {"inputs": "hi", "parameters": {"max_new_tokens": 9}}),
]
PLAIN: list[tuple[str, str, dict[str, Any] | None]] = [
    ("GET", "/v1/models", None),
    ("GET", "/v1/models/m", None),
    ("GET", "/health", None),
    ("GET", "/props", None),
    ("GET", "/api/version", None),
    ("GET", "/api/tags", None),
    ("POST", "/api/show", {"model": "m"}),
    ("POST", "/tokenize", {"content": "hi"}),
    ("POST", "/detokenize", {"tokens": [65]}),
    ("POST", "/apply-template", {"messages": [{"role": "user", "content": "hi"}]}),
    ("POST", "/v1/responses/input_tokens", {"input": "hi"}),
    ("POST", "/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "hi"}]}),
]
SETTINGS = Settings(served_model_names=("m",), tool_call_parser="hermes_json")


def script(request: Any, index: int) -> str:
    """What fits whatever is asked for: the grammar takes what it allows."""
    return "Hello."


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(ScriptedEngine(script), SETTINGS) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def page(client: httpx.Client) -> dict[str, Any]:
    return client.get("/openapi.json").json()


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON value."""
    if isinstance(value, dict):
        yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(child)


def test_every_reference_leads_to_a_schema_and_every_schema_is_referred_to(page: dict[str, Any]) -> None:
    schemas = page["components"]["schemas"]
    named = {part["$ref"] for part in parts(page) if isinstance(part.get("$ref"), str)}
    assert named
    for reference in named:
        assert reference.startswith("#/components/schemas/")
        assert reference.rpartition("/")[2] in schemas, reference
    assert set(schemas) == {reference.rpartition("/")[2] for reference in named}


def test_every_operation_says_what_it_answers_and_no_status_that_it_never_has(page: dict[str, Any]) -> None:
    for path, operations in page["paths"].items():
        for method, operation in operations.items():
            assert "422" not in operation["responses"], path
            content = operation["responses"]["200"]["content"]
            assert path == "/metrics" or all(kind["schema"] for kind in content.values()), (method, path)


@pytest.mark.usefixtures("page")
def test_two_shapes_of_one_name_are_refused() -> None:
    with pytest.raises(AssertionError, match="Usage"):
        _shared({"$defs": {"Usage": {"type": "string"}}})


def closed(schema: Any) -> Any:
    """The schema, where an object has no further fields unless it says so: what an answer has and the page does not fails."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(value) for name, value in schema.items()}
    if isinstance(made.get("properties"), dict):
        made.setdefault("additionalProperties", False)
    return made


def validator(page: dict[str, Any], path: str, method: str, media_type: str, status: str = "200") -> Any:
    response = page["paths"][path][method.lower()]["responses"][status]
    schema = {**response["content"][media_type]["schema"], "components": page["components"]}
    return jsonschema_rs.Draft202012Validator(closed(schema))


def documented(path: str) -> str:
    return "/v1/models/{name}" if path.startswith("/v1/models/") else path


def events(response: httpx.Response) -> list[Any]:
    lines = response.text.splitlines()
    if response.headers["content-type"].startswith("application/x-ndjson"):
        return [json.loads(line) for line in lines]
    found = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
    return [json.loads(text) for text in found if text != "[DONE]"]


def check(client: httpx.Client, page: dict[str, Any], path: str, body: dict[str, Any]) -> None:
    """The whole answer, and every event of the stream, where the API has both."""
    content = page["paths"][path]["post"]["responses"]["200"]["content"]
    if "application/json" in content:
        response = client.post(path, json={**body, "stream": False})
        assert response.status_code == 200, response.text
        validator(page, path, "POST", "application/json").validate(response.json())
    streams = [kind for kind in content if kind != "application/json"]
    if streams:
        extra = {**USAGE, "stream_options": {"include_usage": True}} if path in (CHAT, TEXT) else {}
        if body is JSON:
            extra["stream_options"] = {"include_usage": True, "include_values": True}
        response = client.post(path, json={**body, "stream": True, **extra})
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].partition(";")[0] == streams[0]
        is_event = validator(page, path, "POST", streams[0])
        found = events(response)
        assert found
        for event in found:
            is_event.validate(event)


@pytest.mark.parametrize(("name", "path", "body"), CASES, ids=[name for name, _, _ in CASES])
def test_answers_are_as_the_page_says(
    client: httpx.Client, page: dict[str, Any], name: str, path: str, body: dict[str, Any]
) -> None:
    check(client, page, path, body)


@pytest.mark.parametrize(("method", "path", "body"), PLAIN, ids=[path for _, path, _ in PLAIN])
def test_plain_answers_are_as_the_page_says(
    client: httpx.Client, page: dict[str, Any], method: str, path: str, body: dict[str, Any] | None
) -> None:
    response = client.request(method, path, json=body)
    assert response.status_code == 200, response.text
    validator(page, documented(path), method, "application/json").validate(response.json())


def test_a_response_that_is_remembered_and_deleted(client: httpx.Client, page: dict[str, Any]) -> None:
    made = client.post("/v1/responses", json={"input": "hi"}).json()
    path = "/v1/responses/{response_id}"
    place = path.format(response_id=made["id"])
    validator(page, path, "GET", "application/json").validate(client.get(place).json())
    validator(page, path, "DELETE", "application/json").validate(client.delete(place).json())


@pytest.mark.parametrize("path", sorted({path for _, path, _ in CASES}))
def test_refusals_are_as_the_page_says(client: httpx.Client, page: dict[str, Any], path: str) -> None:
    response = client.post(path, json={"messages": 7, "prompt": 7, "input": 7, "inputs": 7})
    assert response.status_code == 400
    validator(page, path, "POST", "application/json", "default").validate(response.json())


def test_the_state_of_a_server_that_is_dead(page: dict[str, Any]) -> None:
    from narrows.errors import EngineError

    engine = ScriptedEngine()
    engine.dead = EngineError("it is gone", code="engine_dead")
    with serving(engine) as url:
        response = httpx.get(f"{url}/health")
    assert response.status_code == 503
    validator(page, "/health", "GET", "application/json", "503").validate(response.json())


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outer: list[str] = []
        self.inner: set[str] = set()
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            elif name in ("href", "src"):
                (self.inner.add(str(value)[1:]) if str(value).startswith("#") else self.outer.append(str(value)))


def test_the_page_for_people_loads_nothing_and_has_every_operation_and_shape(
    client: httpx.Client, page: dict[str, Any]
) -> None:
    response = client.get("/docs")
    assert response.headers["content-security-policy"].startswith("default-src 'none'")
    read = Links()
    read.feed(response.text)
    assert not {"script", "link", "img", "iframe", "object"} & set(read.tags)
    assert set(read.outer) == {"openapi.json", "./"}
    assert read.inner <= set(read.ids)
    assert sorted(read.ids) == sorted(page["components"]["schemas"])
    for path in page["paths"]:
        assert f"<code>{path}</code>" in response.text
    assert client.get("/redoc").status_code == 404


def test_what_stands_in_the_document_is_text_on_the_page() -> None:
    from narrows.server.api_page import html_of

    page = create_app(ScriptedEngine()).openapi()
    page["components"]["schemas"]["Usage"]["description"] = "<script>alert(1)</script>"
    assert "<script" not in html_of(page)


def test_where_the_application_is_mounted_the_page_names_the_path() -> None:
    outer = FastAPI()
    outer.mount("/below", create_app(ScriptedEngine()))

    async def ask() -> Any:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="http://x") as client:
            return (await client.get("/below/openapi.json")).json()

    page = asyncio.run(ask())
    assert page["servers"] == [{"url": "/below"}]
    assert page["components"]["schemas"]


@pytest.fixture(scope="module")
def real() -> Iterator[httpx.Client]:
    with (
        LlamaCppEngine(default_model.default_gguf(), model_name="m", max_model_len=2048) as engine,
        serving(engine) as url,
        httpx.Client(base_url=url, timeout=200) as client,
    ):
        yield client


@pytest.mark.model
@pytest.mark.parametrize(("name", "path", "body"), CASES, ids=[name for name, _, _ in CASES])
def test_answers_of_a_model_are_as_the_page_says(
    real: httpx.Client, page: dict[str, Any], name: str, path: str, body: dict[str, Any]
) -> None:
    check(real, page, path, body)


@pytest.mark.model
def test_an_answer_that_repeats_itself_is_as_the_page_says(real: httpx.Client, page: dict[str, Any]) -> None:
    shape = {"structured_outputs": {"regex": "(ha ){60,}"}, "repetition_detection": True, "max_tokens": 300}
    body = {"messages": [{"role": "user", "content": "hi"}], **shape}
    assert real.post(CHAT, json=body).json()["choices"][0]["finish_reason"] == "repetition"
    check(real, page, CHAT, body)
