"""Connections that are slow, idle or too many: each is bounded, and /health answers meanwhile."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from scripted import ScriptedEngine
from serving import connect, eventually, process, rest_of, serving

from narrows.errors import InputError
from narrows.server import Settings
from narrows.server.run import most_connections

CHAT = "/v1/chat/completions"
BODY = json.dumps({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}).encode()
HEAD = (
    f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
)
QUICK = Settings(head_timeout=0.5, body_timeout=0.5, body_rate=1_000)
SECONDS = 0.2
"""Seconds that /health may take on an idle machine. Tests allow a busy machine five times that."""


def code_of(answer: bytes) -> str:
    return str(json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"])


@contextmanager
def dripping(connection: socket.socket, data: bytes, pause: float) -> Iterator[None]:
    """Sends `data` byte by byte."""
    over = threading.Event()

    def drip() -> None:
        with suppress(OSError):
            for byte in data:
                if over.wait(pause):
                    return
                connection.sendall(bytes([byte]))

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def slowest_health(url: str, seconds: float = 1.0) -> float:
    """The longest time that /health took, each time on a new connection. The first one does not count."""
    worst, until = -1.0, time.monotonic() + seconds
    while time.monotonic() < until:
        started = time.monotonic()
        connection = connect(url, b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = rest_of(connection)
        took = time.monotonic() - started
        connection.close()
        worst = 0.0 if worst < 0 else max(worst, took)
        assert answer.startswith(b"HTTP/1.1 200"), answer
        time.sleep(0.02)
    return worst


@pytest.mark.parametrize(
    ("first", "drops"),
    [
        (b"POST /v1/chat", b"x" * 1_000),
        (HEAD[:-2], b""),
        (HEAD[:-2], b"X-More: x\r\n" * 1_000),
        (HEAD, b""),
        (HEAD, BODY),
        (HEAD.replace(b"Content-Length: %d" % len(BODY), b"Transfer-Encoding: chunked"), b"1\r\n \r\n" * 1_000),
    ],
    ids=["request line", "head that stops", "endless head", "body that stops", "body that drips", "chunks that drip"],
)
def test_a_slow_request_is_told_so_and_closed(first: bytes, drops: bytes) -> None:
    with serving(ScriptedEngine(), QUICK) as url:
        started = time.monotonic()
        connection = connect(url, first)
        with dripping(connection, drops, 0.05):
            answer = rest_of(connection)
        assert 0.4 < time.monotonic() - started < 5
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert code_of(answer) == "request_timeout"
        connection.close()
        assert 'narrows_connections_refused_total{reason="request_timeout"} 1.0' in httpx.get(f"{url}/metrics").text


def test_a_second_head_on_a_connection_has_its_time_and_no_more() -> None:
    with serving(ScriptedEngine(), QUICK) as url:
        connection = connect(url, HEAD + BODY)
        answer = b""
        while b"}}}" not in answer:  # the end of the usage
            answer += connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200")
        time.sleep(0.8)  # between requests only the keep-alive time-out counts
        connection.sendall(HEAD[:20])
        started = time.monotonic()
        with dripping(connection, b"x" * 100, 0.1):
            assert rest_of(connection).startswith(b"HTTP/1.1 408 ")
        assert 0.4 < time.monotonic() - started < 5
        connection.close()


def test_a_connection_that_says_nothing_is_closed_without_a_word() -> None:
    with serving(ScriptedEngine(), QUICK) as url:
        connection = connect(url)
        assert rest_of(connection) == b""
        connection.close()


def test_a_body_that_comes_steadily_may_take_longer() -> None:
    body = BODY + b" " * 3_000
    head = HEAD.replace(b": %d" % len(BODY), b": %d" % len(body))
    with serving(ScriptedEngine(), QUICK) as url:
        connection = connect(url, head)
        started = time.monotonic()
        for at in range(0, len(body), 200):
            connection.sendall(body[at : at + 200])
            time.sleep(0.1)
        assert time.monotonic() - started > 1.5
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.close()


def test_a_body_that_stops_has_the_time_for_a_pause_and_no_more() -> None:
    """However much of it has come. Otherwise a body without its last byte could hold its room for a quarter hour."""
    settings = Settings(head_timeout=0.5, body_timeout=0.5, body_rate=100)
    with serving(ScriptedEngine(), settings) as url:
        begun = time.monotonic()
        head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n"
        with connect(url, head.encode() + b" " * 4_999) as connection:
            assert b"408" in rest_of(connection)[:20]
        assert time.monotonic() - begun < 40, "4,999 bytes give it 50 s"


def test_a_connection_is_closed_that_waits_behind_a_body_that_nobody_wanted() -> None:
    """The head was refused. The body came all the same, and then nothing."""
    settings = Settings(keep_alive_timeout=1)
    with serving(ScriptedEngine(), settings) as url:
        head = HEAD.replace(b"application/json", b"text/plain")
        with connect(url, head) as connection:
            seen = connection.recv(65536)
            assert b" 415 " in seen
            time.sleep(0.2)
            connection.sendall(BODY)
            rest_of(connection)  # returns, so the connection has ended


@pytest.mark.parametrize("stop", [False, True], ids=["makes room", "stops"])
def test_connections_that_are_closing_do_not_stand_in_the_way(stop: bool) -> None:
    """The clients do not read their answers, so these connections stay for a while."""
    settings = Settings(max_connections=4, keep_alive_timeout=1)
    with serving(ScriptedEngine(), settings) as url:
        page = len(httpx.get(f"{url}/openapi.json").content)
        asked = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * (2_000_000 // page)
        deaf = []
        for _ in range(4):
            connection = connect(url)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            with suppress(OSError):
                connection.sendall(asked + (b"GET / HTTP/1.1\r\nHost: x y\r\n\r\n" if stop else b""))
            deaf.append(connection)
        time.sleep(2.5)
        if not stop:
            answers = [httpx.get(f"{url}/v1/models", timeout=10).status_code for _ in range(4)]
            assert answers == [200] * 4
    for connection in deaf:
        connection.close()


def test_the_rest_of_a_body_that_nobody_wants_is_not_read_for_ever() -> None:
    """The answer does not wait for the body, and the body does not keep the connection open."""
    with serving(ScriptedEngine()) as url:
        connection = connect(url, f"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: {10**12}\r\n\r\n".encode())
        over = threading.Event()

        def send() -> None:
            with suppress(OSError):
                while not over.is_set():
                    connection.sendall(b"x" * 10_000)
                    time.sleep(0.01)

        thread = threading.Thread(target=send)
        started = time.monotonic()
        thread.start()
        answer = rest_of(connection)
        took = time.monotonic() - started
        over.set()
        thread.join()
        connection.close()
        assert answer.startswith(b"HTTP/1.1 404")
        assert took < 10


def sockets() -> int:
    """The number of open sockets in this process, the server's and ours."""
    names = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            names.append(os.readlink(f"/proc/self/fd/{name}"))
    return sum(name.startswith("socket:") for name in names)


def test_an_answer_that_is_not_read_frees_its_connection() -> None:
    """Many answers, to requests that were sent at once: more than the sockets' buffers hold."""
    with serving(ScriptedEngine(), Settings(send_timeout=0.5)) as url:
        before = sockets()
        stalled = socket.socket()
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        host, _, port = url.removeprefix("http://").partition(":")
        stalled.connect((host, int(port)))
        stalled.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 1_000)
        assert eventually(lambda: sockets() == before + 2)
        assert eventually(lambda: sockets() == before + 1, 20)
        stalled.close()


OPENINGS: list[Callable[[int], bytes]] = [
    lambda i: b"",
    lambda i: b"GET /health HTTP/1.1\r\nHost: x\r\nX-A: ",
    lambda i: HEAD + BODY[: i % 20],
    lambda i: b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
]


@pytest.mark.parametrize("most", [None, 300], ids=["as many as there may be", "more than there may be"])
def test_health_answers_beside_1000_connections_that_wait(most: int | None) -> None:
    """Connections that are idle from the start, in a head, in a body, and after a request."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3_000:
        pytest.skip("needs 3,000 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3_000), hard))
    with process(settings={"max_connections": most, "keep_alive_timeout": 60}) as (_, url):
        assert slowest_health(url, 0.2) < 5
        connections = [connect(url, OPENINGS[i % len(OPENINGS)](i)) for i in range(1_000)]
        try:
            assert slowest_health(url) < 5 * SECONDS
            response = httpx.post(url + CHAT, content=BODY, headers={"content-type": "application/json"}, timeout=30)
            assert response.status_code == 200
        finally:
            for connection in connections:
                connection.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


CHUNKS = HEAD.replace(b"Content-Length: %d" % len(BODY), b"Transfer-Encoding: chunked") + b"1\r\n \r\n" * 5_000


# Only as many as the server can read: beyond, all connections wait to be accepted in one queue, /health too.
@pytest.mark.parametrize(
    ("opening", "pause"),
    [(b"GET / HTTP/1.1\r\n", 0.003), (CHUNKS, 0.1)],
    ids=["half heads", "small chunks"],
)
def test_health_answers_in_a_flood_of_connections(opening: bytes, pause: float) -> None:
    over = threading.Event()

    def flood(url: str) -> None:
        mine: list[socket.socket] = []
        while not over.wait(pause):
            with suppress(OSError):
                mine.append(connect(url, opening))
            if len(mine) > 100:
                for connection in mine:
                    connection.close()
                mine.clear()
        for connection in mine:
            connection.close()

    with process(settings={"max_connections": 50}) as (_, url):
        threads = [threading.Thread(target=flood, args=(url,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            assert slowest_health(url, 2.0) < 10 * SECONDS
        finally:
            over.set()
            for thread in threads:
                thread.join()


def test_where_all_connections_are_at_work_new_ones_are_told_to_come_back() -> None:
    engine = ScriptedEngine()
    engine.hold()
    with serving(engine, Settings(max_connections=5)) as url:
        busy = [connect(url, HEAD + BODY) for _ in range(5)]
        assert eventually(lambda: engine.running == 5)
        response = httpx.post(url + CHAT, content=BODY, headers={"content-type": "application/json"})
        assert (response.status_code, response.json()["error"]["code"]) == (503, "too_many_connections")
        assert response.headers["retry-after"] == "1"
        assert response.headers["connection"] == "close"
        assert httpx.get(f"{url}/health").status_code == 200
        assert "narrows_requests_total" in httpx.get(f"{url}/metrics").text
        engine.release()
        for connection in busy:
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
            connection.close()
        response = httpx.post(url + CHAT, content=BODY, headers={"content-type": "application/json"})
        assert response.status_code == 200


def test_the_bound_keeps_descriptors_in_reserve(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with process(log, settings={"keep_alive_timeout": 60}, descriptors=200) as (_, url):
        assert slowest_health(url, 0.2) < 5
        connections = [connect(url, OPENINGS[i % len(OPENINGS)](i)) for i in range(600)]
        try:
            assert slowest_health(url) < 5 * SECONDS
        finally:
            for connection in connections:
                connection.close()
    assert log.read_text() == ""


def test_out_of_descriptors_it_refuses_quietly_and_comes_back(tmp_path: Path) -> None:
    """Other code has taken the descriptors, so the bound on connections does not help."""
    log = tmp_path / "log"
    with process(log, settings={}, descriptors=200) as (server, url):
        assert slowest_health(url, 0.2) < 5
        server.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
        connections = [connect(url) for _ in range(200)]
        time.sleep(3)
        assert len(log.read_text()) < 4_000
        assert "out of descriptors" in log.read_text()
        server.send_signal(signal.SIGUSR2)
        for connection in connections:
            connection.close()

        def healthy() -> bool:
            with suppress(httpx.HTTPError):
                return httpx.get(f"{url}/health", timeout=2).status_code == 200
            return False

        assert eventually(healthy, 15)
        assert slowest_health(url, 0.5) < 5 * SECONDS
    assert len(log.read_text()) < 4_000


def test_the_bound_goes_by_the_descriptors_there_are(caplog: pytest.LogCaptureFixture) -> None:
    assert most_connections(None, 100_000) == 4_096
    assert most_connections(10_000, 100_000) == 10_000
    assert 1 <= most_connections(None, 256) < 160
    assert not caplog.records
    assert most_connections(10_000, 256) == most_connections(None, 256)
    assert "max_connections" in caplog.text
    with pytest.raises(InputError):
        Settings(max_connections=0)
    with pytest.raises(InputError):
        Settings(body_rate=0)
