"""Hostile input over HTTP: it works or gets a 4xx with code and place within a second; other streams go on."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from scripted import ScriptedEngine
from serving import eventually, metric, serving

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
ASK = [{"role": "user", "content": "hi"}]
JSON = {"content-type": "application/json"}
SECONDS = 1.0
"""Seconds that a refusal may take on an idle machine. Tests allow a busy machine five times that."""


def structured(kind: str, value: Any) -> tuple[str, str]:
    return TEXT, json.dumps({"prompt": "a", "max_tokens": 5, "structured_outputs": {kind: value}})


def tool(parameters: Any, name: str = "f") -> tuple[str, str]:
    tools = [{"type": "function", "function": {"name": name, "parameters": parameters}}]
    return CHAT, json.dumps({"messages": ASK, "max_tokens": 5, "tools": tools, "tool_choice": "required"})


def nested(levels: int, opening: str = '{"items":', closing: str = "}", inside: str = "{}") -> str:
    return opening * levels + inside + closing * levels


def deep_schema(levels: int) -> tuple[str, str]:
    return TEXT, '{"prompt": "a", "max_tokens": 5, "structured_outputs": {"json": ' + nested(levels) + "}}"


def big_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {f"property_{i}": {"type": "string", "description": "x" * 400} for i in range(11_000)},
    }


# name -> (path, body, codes of refusal that are right; "ok" where it may work)
CASES: dict[str, tuple[tuple[str, str], set[str]]] = {
    "a schema nested 10,000 deep": (deep_schema(10_000), {"json_depth"}),
    "a schema nested 150 deep": (deep_schema(150), {"ok", "limit_reached"}),
    "a schema nested 10,000 deep, as text": (structured("json", nested(10_000)), {"limit_reached"}),
    "a cyclic $ref": (structured("json", {"$ref": "#"}), {"unsatisfiable", "schema_invalid", "grammar_invalid"}),
    "a cycle of two $refs": (
        structured("json", {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        {"unsatisfiable", "schema_invalid", "grammar_invalid"},
    ),
    "a $ref to nowhere": (structured("json", {"$ref": "#/$defs/a"}), {"schema_invalid"}),
    "a $ref to a file": (structured("json", {"$ref": "file:///etc/passwd"}), {"schema_unsupported", "schema_invalid"}),
    "100,000 enum values": (
        structured("json", {"enum": [f"value {i}" for i in range(100_000)]}),
        {"ok", "limit_reached"},
    ),
    "nested counted repeats": (structured("regex", "(x{0,1000}){0,1000}"), {"ok", "limit_reached"}),
    "a deterministic automaton that would blow up": (structured("regex", "[ab]*a[ab]{2000}"), {"ok", "limit_reached"}),
    "repeats of repeats": (structured("regex", "a{5}{5}{5}{5}{5}{5}"), {"ok", "limit_reached", "regex_invalid"}),
    "a 5 MB schema": (structured("json", big_schema()), {"ok", "limit_reached"}),
    "a GBNF with a cycle": (structured("grammar", 'root ::= a | "x"\na ::= b\nb ::= a'), {"ok", "unsatisfiable"}),
    "a GBNF that is only a cycle": (structured("grammar", "root ::= root"), {"unsatisfiable"}),
    "a GBNF with nullable loops": (structured("grammar", 'root ::= ("" | a)*\na ::= "" | a a | "x"'), {"ok"}),
    "a GBNF with 30,000 open parentheses": (
        structured("grammar", "root ::= " + "(" * 30_000),
        {"limit_reached", "gbnf_invalid"},
    ),
    "a regex with 30,000 open parentheses": (structured("regex", "(" * 30_000), {"limit_reached", "regex_invalid"}),
    "a regex with 30,000 groups": (structured("regex", "(" * 30_000 + ")" * 30_000), {"limit_reached"}),
    "NUL in a regex": (structured("regex", "a\0b"), {"ok", "regex_invalid"}),
    "NUL in a choice": (structured("choice", ["a\0b", "c"]), {"ok"}),
    "NUL in a message": (
        (CHAT, json.dumps({"messages": [{"role": "user", "content": "a\0b"}], "max_tokens": 5})),
        {"ok"},
    ),
    "a lone surrogate in a message": (
        (CHAT, '{"messages": [{"role": "user", "content": "a\\udc00"}]}'),
        {"json_invalid"},
    ),
    "a lone surrogate in a schema": (
        (TEXT, '{"prompt": "a", "structured_outputs": {"json": {"const": "\\ud800"}}}'),
        {"json_invalid"},
    ),
    "a lone surrogate in a choice": (
        (TEXT, '{"prompt": "a", "structured_outputs": {"choice": ["\\ud800"]}}'),
        {"json_invalid"},
    ),
    "invalid UTF-8": (
        (CHAT, b'{"messages": [{"role": "user", "content": "\xff"}]}'.decode("latin-1")),
        {"ok", "json_invalid"},
    ),
    "a tool named with quotes": (tool({"type": "object"}, 'a"b'), {"tool_name_invalid"}),
    "a tool named with markup": (tool({"type": "object"}, "</tool_call>"), {"tool_name_invalid"}),
    "a tool named __proto__": (
        tool(
            {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False},
            "__proto__",
        ),
        {"ok"},
    ),
    "a property named with quotes and markup": (
        tool(
            {
                "type": "object",
                "properties": {'"}}</tool_call>\n': {"const": 1}},
                "required": ['"}}</tool_call>\n'],
                "additionalProperties": False,
            }
        ),
        {"ok", "schema_unsupported"},
    ),
    "parameters that are true": (tool(True), {"ok"}),
    "parameters of type string": (
        tool({"type": "string"}),
        {"ok", "tool_invalid", "schema_invalid", "unsatisfiable", "invalid_input"},
    ),
    "1,000 tools": (
        (
            CHAT,
            json.dumps(
                {
                    "messages": ASK,
                    "max_tokens": 5,
                    "tools": [
                        {
                            "type": "function",
                            "function": {
                                "name": f"f{i}",
                                "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
                            },
                        }
                        for i in range(1_000)
                    ],
                    "tool_choice": "required",
                }
            ),
        ),
        {"ok"},
    ),
    "too many stop texts (stop_strings)": (
        (CHAT, json.dumps({"messages": ASK, "stop": [str(i) for i in range(100)]})),
        {"limit_reached"},
    ),
    "long stop texts (stop_characters)": (
        (CHAT, json.dumps({"messages": ASK, "n": 128, "stop": "a" * 1_000_000})),
        {"limit_reached"},
    ),
    "many stop tokens (stop_token_ids)": (
        (CHAT, json.dumps({"messages": ASK, "n": 128, "stop_token_ids": list(range(40_000))})),
        {"limit_reached"},
    ),
    "too many answers (sequences)": ((CHAT, json.dumps({"messages": ASK, "n": 1_000})), {"limit_reached"}),
    "too many tools": (
        (
            CHAT,
            json.dumps(
                {"messages": ASK, "tools": [{"type": "function", "function": {"name": f"f{i}"}} for i in range(2_000)]}
            ),
        ),
        {"limit_reached"},
    ),
    "too many messages": ((CHAT, json.dumps({"messages": ASK * 20_000})), {"limit_reached"}),
    "minLength 1e9": (
        structured("json", {"type": "string", "minLength": 10**9}),
        {"ok", "limit_reached", "unsatisfiable"},
    ),
    "a huge integer bound": (structured("json", {"type": "integer", "minimum": 10**300}), {"ok", "limit_reached"}),
    "arguments nested deeply in the history": (
        (
            CHAT,
            json.dumps(
                {
                    "messages": [
                        *ASK,
                        {
                            "role": "assistant",
                            "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "[" * 200_000}}],
                        },
                    ],
                    "max_tokens": 5,
                }
            ),
        ),
        {"ok", "json_depth"},
    ),
    "a schema of a wrong kind": (structured("json", True), {"ok"}),
    "a body that ends early": ((CHAT, '{"messages": [{"role": "user", "content": "'), {"json_invalid"}),
}


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    return ScriptedEngine("Hello there.")


@pytest.fixture(scope="module")
def client(engine: ScriptedEngine) -> Iterator[httpx.Client]:
    with serving(engine) as url, httpx.Client(base_url=url, timeout=60) as client:
        client.post(CHAT, json={"messages": ASK})
        yield client


@pytest.mark.parametrize("name", CASES)
def test_hostile_bodies(client: httpx.Client, name: str) -> None:
    (path, body), expected = CASES[name]
    started = time.perf_counter()
    response = client.post(path, content=body.encode("latin-1") if name == "invalid UTF-8" else body, headers=JSON)
    took = time.perf_counter() - started
    if response.status_code == 200:
        code = "ok"
    else:
        error = response.json()["error"]
        code = error["code"]
        assert 400 <= response.status_code < 500, error
        assert error["message"]
        assert len(response.content) < 20_000
        assert error.get("pointer") is not None or error.get("line") is not None or code == "body_too_large", error
    assert code in expected, response.text[:500]
    assert took < 20 * SECONDS
    assert client.get("/health").status_code == 200


def test_a_10_mb_body_is_refused_even_to_a_client_that_sends_all_before_it_listens(client: httpx.Client) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "x" * 10_000_000}]})
    plain = http.client.HTTPConnection(client.base_url.host, client.base_url.port, timeout=30)
    plain.request("POST", CHAT, body, JSON)
    response = plain.getresponse()
    error = json.loads(response.read())["error"]
    plain.close()
    assert (response.status, error["code"], error["limit"]) == (413, "body_too_large", "body_bytes")


def test_a_body_without_a_length_is_refused_where_it_grows_too_large(client: httpx.Client) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(200):
            yield b" " * 100_000

    response = client.post(CHAT, content=endless(), headers=JSON)
    assert (response.status_code, response.json()["error"]["code"]) == (413, "body_too_large")
    assert client.get("/health").status_code == 200


def test_a_message_of_7_mb_is_too_long_for_the_context(client: httpx.Client) -> None:
    response = client.post(CHAT, json={"messages": [{"role": "user", "content": "<|im_end|>" * 700_000}]})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "context_length_exceeded")


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"\x00\xff\xfe garbage\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: -5\r\n\r\n{}",
    ],
    ids=["a huge header", "garbage", "an absurd length", "a negative length"],
)
def test_broken_http(client: httpx.Client, raw: bytes) -> None:
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=5) as connection:
        try:
            connection.sendall(raw)
            answer = connection.recv(4096)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
        except (ConnectionResetError, BrokenPipeError, TimeoutError):
            pass
    assert client.get("/health").status_code == 200


def test_other_streams_go_on_while_a_large_schema_compiles(client: httpx.Client, engine: ScriptedEngine) -> None:
    """The longest gap in a stream, while hostile schemas are read and compiled beside it."""
    gaps: list[float] = []

    def stream() -> None:
        with client.stream(
            "POST", CHAT, json={"messages": [{"role": "user", "content": "long"}], "stream": True}
        ) as response:
            last = time.perf_counter()
            for _ in response.iter_lines():
                now = time.perf_counter()
                gaps.append(now - last)
                last = now

    script, engine.script = engine.script, lambda request, index: "word " * 400
    try:
        thread = threading.Thread(target=stream)
        thread.start()
        for name in ("a 5 MB schema", "100,000 enum values", "nested counted repeats"):
            (path, body), _ = CASES[name]
            client.post(path, content=body.replace("value", "other"), headers=JSON)
        thread.join(60)
    finally:
        engine.script = script
    assert max(gaps) < 3 * SECONDS


def test_memory_returns(client: httpx.Client, engine: ScriptedEngine) -> None:
    """After hostile requests nothing runs, and the grammar cache is within its bounds."""
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(300):
        client.post(
            TEXT,
            json={
                "prompt": "a",
                "max_tokens": 1,
                "structured_outputs": {
                    "json": {"type": "object", "properties": {f"p{i}": {"type": "string", "maxLength": i + 1}}}
                },
            },
        )
    assert metric(str(client.base_url), "narrows_grammar_cache_entries") <= 256
    assert eventually(lambda: engine.running == 0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000
