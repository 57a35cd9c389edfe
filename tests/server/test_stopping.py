"""A server that is told to stop: running requests get their time, every client gets a reason, the exit code is 0."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import httpx
import pytest
from serving import connect, eventually, metric, process, rest_of

CHAT = "/v1/chat/completions"
ASK = [{"role": "user", "content": "hi"}]


def ask(stream: bool = False) -> bytes:
    body = json.dumps({"messages": ASK, "stream": stream}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def running(url: str) -> float:
    return metric(url, "narrows_sequences_running")


def error_of(answer: bytes) -> dict[str, Any]:
    return json.loads(answer.partition(b"\r\n\r\n")[2])["error"]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "complete"])
@pytest.mark.parametrize("ends", [True, False], ids=["ends in time", "does not"])
def test_what_runs_ends_in_time_or_is_told_why_not(stream: bool, ends: bool) -> None:
    options = {"release": 0.7} if ends else {}
    with process(settings={"shutdown_timeout": 5 if ends else 0.4}, hold=True, **options) as (server, url):
        connection = connect(url, ask(stream))
        assert eventually(lambda: running(url) == 1)
        server.terminate()
        seen = rest_of(connection)
        connection.close()
        assert server.wait(10) == 0
    if stream:
        assert b"data: [DONE]" in seen
        assert (b'"finish_reason":"stop"' in seen) is ends
        assert (b'"code":"server_stopping"' in seen) is not ends
    elif ends:
        assert seen.startswith(b"HTTP/1.1 200")
        assert b'"finish_reason":"stop"' in seen
    else:
        assert seen.startswith(b"HTTP/1.1 503")
        assert b"retry-after: " in seen.lower()
        assert error_of(seen)["code"] == "server_stopping"


def test_new_requests_are_refused_while_others_end() -> None:
    with process(settings={"shutdown_timeout": 20}, hold=True, release=2.5) as (server, url):
        connection = connect(url, ask(True))
        waiting = httpx.Client(base_url=url)
        assert waiting.get("/health").status_code == 200
        assert eventually(lambda: running(url) == 1)
        server.terminate()
        assert eventually(lambda: httpx.get(f"{url}/health").json()["status"] == "stopping")
        for client in (waiting, httpx.Client(base_url=url)):
            response = client.post(CHAT, json={"messages": ASK})
            assert (response.status_code, response.json()["error"]["code"]) == (503, "server_stopping")
            assert int(response.headers["retry-after"]) > 0
            client.close()
        assert b'"finish_reason":"stop"' in rest_of(connection)
        connection.close()
        assert server.wait(10) == 0


def test_nothing_to_wait_for_is_no_reason_to_wait() -> None:
    with process(settings={"shutdown_timeout": 20}) as (server, url):
        idle = connect(url)
        assert httpx.get(f"{url}/health").status_code == 200
        started = time.monotonic()
        server.terminate()
        assert server.wait(10) == 0
        assert time.monotonic() - started < 15
        idle.close()


def test_a_second_signal_ends_what_runs() -> None:
    with process(settings={"shutdown_timeout": 60}, hold=True) as (server, url):
        connection = connect(url, ask())
        assert eventually(lambda: running(url) == 1)
        server.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        server.send_signal(signal.SIGTERM)
        assert error_of(rest_of(connection))["code"] == "server_stopping"
        assert server.wait(10) == 0
        connection.close()


def test_a_body_that_is_still_being_sent_is_answered_too() -> None:
    with process(settings={"shutdown_timeout": 0.3}) as (server, url):
        connection = connect(url, ask()[:-10])
        assert httpx.get(f"{url}/health").status_code == 200
        server.terminate()
        assert error_of(rest_of(connection))["code"] == "server_stopping"
        assert server.wait(10) == 0
        connection.close()


def test_a_client_that_does_not_read_does_not_keep_the_server() -> None:
    with process(settings={"shutdown_timeout": 0.3}, hold=True) as (server, url):
        connection = connect(url, ask(True))
        assert eventually(lambda: running(url) == 1)
        server.terminate()
        assert server.wait(15) == 0
        connection.close()
