"""A client that leaves at any time frees what it held. No text is lost or added when ends race with deltas."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from scripted import ScriptedEngine
from serving import eventually, metric, serving

from narrows.server import compiler

CHAT = "/v1/chat/completions"
ASK = [{"role": "user", "content": "hi"}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        },
    }
]
LONG_CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "' + "x" * 3000 + '"}}\n</tool_call>'


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine(LONG_CALL)


@pytest.fixture
def url(engine: ScriptedEngine) -> Iterator[str]:
    with serving(engine) as url:
        yield url
        engine.close()


def send(url: str, body: dict[str, Any]) -> socket.socket:
    """A request on a bare socket, so that it can be dropped at any moment."""
    data = json.dumps(body).encode()
    address = url.removeprefix("http://").split(":")
    connection = socket.create_connection((address[0], int(address[1])), timeout=10)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    connection.sendall(head.encode() + data)
    return connection


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "complete"])
def test_leaving_before_the_first_token(engine: ScriptedEngine, url: str, stream: bool) -> None:
    engine.hold()
    connection = send(url, {"messages": ASK, "tools": TOOLS, "stream": stream})
    assert eventually(lambda: engine.running == 1)
    connection.close()
    assert eventually(lambda: engine.running == 0)
    assert engine.finished == {"abort": 1}
    assert eventually(lambda: metric(url, "narrows_client_disconnects_total") == 1)
    assert metric(url, "narrows_open_streams") == 0


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "complete"])
def test_leaving_in_the_middle_of_arguments(engine: ScriptedEngine, url: str, stream: bool) -> None:
    engine.holds_at = LONG_CALL.index("xxx") + 1000
    connection = send(url, {"messages": ASK, "tools": TOOLS, "stream": stream})
    if stream:
        seen = b""
        while b'"arguments":"' not in seen.replace(b'"arguments":""', b""):
            seen += connection.recv(4096)
    assert eventually(lambda: engine.running == 1 and not engine._go.is_set())
    connection.close()
    assert eventually(lambda: engine.running == 0)
    assert engine.finished == {"abort": 1}


def test_leaving_while_the_body_is_sent(engine: ScriptedEngine, url: str) -> None:
    address = url.removeprefix("http://").split(":")
    connection = socket.create_connection((address[0], int(address[1])), timeout=10)
    connection.sendall(
        f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode()
    )
    time.sleep(0.05)
    connection.close()
    assert httpx.get(f"{url}/health").status_code == 200
    assert not engine.requests


def test_leaving_while_the_grammar_compiles(engine: ScriptedEngine, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiling, go = threading.Event(), threading.Event()
    read = compiler.read_definition

    def slow(*given: Any) -> Any:
        compiling.set()
        go.wait(10)
        return read(*given)

    monkeypatch.setattr(compiler, "read_definition", slow)
    connection = send(url, {"messages": ASK, "tools": TOOLS, "tool_choice": "required", "stream": True})
    assert compiling.wait(5)
    connection.close()
    assert eventually(lambda: metric(url, "narrows_client_disconnects_total") == 1)
    go.set()
    assert eventually(lambda: metric(url, "narrows_grammar_cache_entries") == 1)  # kept for the next request
    assert not engine.requests


def test_leaving_in_the_middle_lets_the_grammar_go(engine: ScriptedEngine, url: str) -> None:
    connection = send(url, {"messages": ASK, "tools": TOOLS, "tool_choice": "required", "stream": True})
    assert connection.recv(4096)
    assert metric(url, "narrows_grammar_cache_bytes_in_use") > 0
    connection.close()
    assert eventually(lambda: metric(url, "narrows_grammar_cache_bytes_in_use") == 0)
    assert metric(url, "narrows_grammar_cache_bytes") > 0  # kept for the next request


def test_a_refusal_by_the_engine_lets_the_grammar_go(engine: ScriptedEngine, url: str) -> None:
    engine.queue_full = True
    for path, body in ((CHAT, {"messages": ASK, "tools": TOOLS}), ("/v1/completions", {"prompt": ["a", "b"]})):
        shape = {} if "tools" in body else {"structured_outputs": {"regex": "a+"}}
        assert httpx.post(url + path, json={**body, **shape}, timeout=30).status_code == 429
    assert metric(url, "narrows_grammar_cache_entries") == 2
    assert metric(url, "narrows_grammar_cache_bytes_in_use") == 0


def test_leaving_after_the_end(engine: ScriptedEngine, url: str) -> None:
    engine.script = lambda request, index: "Hello."
    connection = send(url, {"messages": ASK, "stream": True})
    seen = b""
    while b"[DONE]" not in seen:
        seen += connection.recv(4096)
    connection.close()
    assert eventually(lambda: engine.running == 0)
    assert engine.finished == {"stop": 1}
    assert metric(url, "narrows_client_disconnects_total") == 0


def test_a_reader_that_stalls_costs_no_memory_and_stalls_nobody(engine: ScriptedEngine, url: str) -> None:
    engine.script = lambda request, index: "word " * 4000
    stalled = send(url, {"messages": ASK, "stream": True})
    assert httpx.post(url + CHAT, json={"messages": ASK}, timeout=30).status_code == 200
    assert eventually(lambda: engine.running == 0)  # it ran to its end: outputs that wait are merged
    seen = b""
    while b"[DONE]" not in seen:
        piece = stalled.recv(65536)
        assert piece
        seen += piece
    stalled.close()
    text = "".join(
        json.loads(line[6:])["choices"][0]["delta"].get("content", "")
        for line in seen.decode().split("\n")
        if line.startswith("data: {")
    )
    assert text == "word " * 4000


END = "END OF TEXT"


@pytest.mark.parametrize("runs", [60, pytest.param(5_000, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_finishing_stop_and_abort_race_with_queued_deltas(engine: ScriptedEngine, url: str, runs: int) -> None:
    """`runs` runs of each. Whatever the timing, the client sees a prefix of the text. At a finish or stop it sees all
    of it, and nothing after the end."""

    async def one(client: httpx.AsyncClient, kind: str, rng: random.Random) -> None:
        text = "ab " * rng.randrange(60) + END
        body: dict[str, Any] = {"messages": [{"role": "user", "content": text}], "stream": True}
        if kind == "stop":
            body["stop"] = [END]
        leave_after = rng.randrange(1, 12) if kind == "abort" else None
        received, reasons, done, events = "", [], False, 0
        async with client.stream("POST", CHAT, json=body) as response:
            async for line in response.aiter_lines():
                if not line:
                    continue
                assert not done, "something came after the end"
                if line == "data: [DONE]":
                    done = True
                    continue
                [choice] = json.loads(line.removeprefix("data: "))["choices"]
                assert not reasons, "a delta came after the finish_reason"
                received += choice["delta"].get("content", "")
                if choice["finish_reason"]:
                    reasons.append(choice["finish_reason"])
                events += 1
                if events == leave_after:
                    break
        if kind == "abort" and not done:
            assert text.startswith(received)
        else:
            assert (done, reasons) == (True, ["stop"])
            assert received == (text.removesuffix(END) if kind == "stop" else text)

    def echo(request: Any, index: int) -> str:
        prompt = bytes(t for t in request.prompt_token_ids if t < 256).decode()
        return prompt[prompt.rindex("user\n") + 5 : prompt.rindex("\nassistant\n")]

    async def all_of_them() -> None:
        rng = random.Random(7)
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            for kind in ("finish", "stop", "abort"):
                for _ in range(0, runs, 20):
                    await asyncio.gather(*(one(client, kind, random.Random(rng.random())) for _ in range(20)))

    engine.script = echo
    asyncio.run(all_of_them())
    assert eventually(lambda: engine.running == 0)
    assert eventually(lambda: metric(url, "narrows_open_streams") == 0)
    assert sum(engine.finished.values()) == 3 * runs
