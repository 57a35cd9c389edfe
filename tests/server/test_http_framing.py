"""Requests that proxies and servers may read differently: refused and closed, or read once as in RFC 9112."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import httpx
import pytest
from scripted import ScriptedEngine
from serving import connect, rest_of, serving

from narrows.server import Settings

CHAT = "/v1/chat/completions"
BODY = b'{"messages":[{"role":"user","content":"hi"}],"max_tokens":3}'
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
SECOND = b"GET /v1/models/smuggled HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
"""A text that must not be read as a request after a broken one."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    settings = Settings(head_timeout=1, body_timeout=1, keep_alive_timeout=1, allowed_origins=("https://app.example",))
    with serving(ScriptedEngine("Hello."), settings) as url:
        yield url


def post(*headers: bytes, body: bytes = BODY, version: bytes = b"1.1", host: bytes = b"Host: x") -> bytes:
    lines = [
        b"POST " + CHAT.encode() + b" HTTP/" + version,
        *([host] if host else []),
        b"Content-Type: application/json",
    ]
    return b"\r\n".join([*lines, *headers, b"", b""]) + body


LENGTH = b"Content-Length: %d" % len(BODY)
TE = b"Transfer-Encoding: chunked"

REFUSED = {
    "a length beside chunks": post(LENGTH, TE, body=CHUNKED),
    "chunks beside a length": post(TE, LENGTH, body=CHUNKED),
    "a length of 0 beside chunks": post(b"Content-Length: 0", TE, body=CHUNKED),
    "two lengths that differ": post(LENGTH, b"Content-Length: 5"),
    "two lengths in one header": post(b"Content-Length: %d, 5" % len(BODY)),
    "a length with a sign": post(b"Content-Length: +%d" % len(BODY)),
    "a length that is negative": post(b"Content-Length: -1"),
    "a length in hex": post(b"Content-Length: 0x10"),
    "a length with an underscore": post(b"Content-Length: 1_0"),
    "a length in other digits": post("Content-Length: ١٠".encode()),
    "an absurd length": post(b"Content-Length: " + b"9" * 40),
    "chunks twice": post(TE, TE, body=CHUNKED),
    "a coding that is not known": post(b"Transfer-Encoding: gzip, chunked", body=CHUNKED),
    "a coding that is none": post(b"Transfer-Encoding: chunked, identity", body=CHUNKED),
    "a coding with a slip": post(b"Transfer-Encoding: xchunked", body=CHUNKED),
    "a coding after a vertical tab": post(b"Transfer-Encoding: \x0bchunked", body=CHUNKED),
    "chunks in HTTP/1.0": post(TE, body=CHUNKED, version=b"1.0"),
    "a space before the colon": post(b"Transfer-Encoding : chunked", body=CHUNKED),
    "a header without a name": post(b": x"),
    "a header without a colon": post(b"X"),
    "a name with a control character": post(b"X\x00Y: a"),
    "a value with NUL": post(b"X: a\x00b"),
    "a value with an escape": post(b"X: \x1b[31mred"),
    "a bare CR in a value": post(b"X: a\rContent-Length: 5", LENGTH),
    "a first line that begins with a space": b" " + post(LENGTH),
    "a continuation at the start of the headers": b"GET /health HTTP/1.1\r\n Host: x\r\n\r\n",
    "a chunk size that is none": post(TE, body=b"zz\r\n" + BODY),
    "a chunk size with a sign": post(TE, body=b"+5\r\nhello\r\n0\r\n\r\n"),
    "a chunk size with a prefix": post(TE, body=b"0x5\r\nhello\r\n0\r\n\r\n"),
    "a huge chunk size": post(TE, body=b"f" * 30 + b"\r\n" + BODY),
    "a chunk that is longer than it says": post(TE, body=b"3\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "a chunk that ends in other characters": post(TE, body=b"%x\r\n%sXX0\r\n\r\n" % (len(BODY), BODY)),
    "a huge chunk extension": post(TE, body=b"1;" + b"x" * 200_000 + b"\r\n{\r\n0\r\n\r\n"),
    "huge trailers": post(TE, body=CHUNKED[:-2] + b"X: y\r\n" * 50_000 + b"\r\n"),
    "a trailer that is none": post(TE, body=CHUNKED[:-2] + b"no trailer\r\n\r\n"),
    "too many small chunks": post(TE, body=b"1\r\n \r\n" * 100_000),
    "a huge head": post(b"X: " + b"y" * 300_000, LENGTH),
    "many headers": post(*[b"X: y"] * 60_000, LENGTH),
    "a huge first line": b"GET /" + b"x" * 300_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "no host": post(LENGTH, host=b""),
    "two hosts": post(b"Host: y", LENGTH),
    "a host with a space": post(LENGTH, host=b"Host: a b"),
    "a host with a path": post(LENGTH, host=b"Host: a/b"),
    "a host with a user": post(LENGTH, host=b"Host: a@b"),
    "a host with markup": post(LENGTH, host=b"Host: <script>"),
    "HTTP/2.0 as text": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /health\r\n\r\n",
    "a version that is none": b"GET /health HTTP/9.9\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("16030100a5010000a10303") + bytes(100),
    "garbage": b"\x00\xff\xfe garbage\r\n\r\n",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_and_closed(url: str, name: str) -> None:
    connection = connect(url)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(REFUSED[name] + SECOND)
    answer = rest_of(connection)
    connection.close()
    assert b"model_not_found" not in answer
    if answer:  # a client that still sends may see the connection reset instead
        assert answer.count(b"HTTP/1.1 ") == 1
        assert answer.split(b" ", 2)[1] in (b"400", b"408", b"413", b"431", b"501", b"505"), answer
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"connection: close" in head.lower()
        error = json.loads(body)["error"]
        assert error["code"] in ("http_invalid", "request_timeout")
        assert len(body) < 2_000
    assert httpx.get(f"{url}/health").status_code == 200


FINE = {
    "a length": post(LENGTH),
    "chunks": post(TE, body=CHUNKED),
    "chunks in capitals": post(b"transfer-ENCODING: Chunked", body=CHUNKED),
    "one length twice": post(LENGTH, LENGTH),
    "a chunk extension": post(TE, body=CHUNKED.replace(b"\r\n", b";a=b\r\n", 1)),
    "a trailer": post(TE, body=CHUNKED[:-2] + b"Content-Length: 5\r\n\r\n"),
    "a few small chunks": post(TE, body=b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"),
    "a folded header": post(b"X: a\r\n b", LENGTH),
    "bare LF": post(LENGTH).replace(b"\r\n", b"\n"),
    "other methods named in headers": post(b"X-HTTP-Method-Override: DELETE", b"X-Method: PUT", LENGTH),
    "other addresses named in headers": post(b"X-Forwarded-For: \xff\xfe", b"X-Original-URL: /metrics", LENGTH),
    "an upgrade that is not known": post(b"Connection: Upgrade", b"Upgrade: h2c", LENGTH),
    "a WebSocket": post(b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: eA==", LENGTH),
    "a host with a port": post(LENGTH, host=b"Host: [::1]:8000"),
    "an empty host": post(LENGTH, host=b"Host: "),
}


@pytest.mark.parametrize("name", FINE)
def test_taken_as_one_request_and_the_connection_goes_on(url: str, name: str) -> None:
    connection = connect(url, FINE[name] + b"GET /v1/models/second HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = rest_of(connection)
    connection.close()
    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"404"], answer
    assert b"'second'" in answer


def test_a_header_that_is_unfolded_counts_as_the_one_it_is(url: str) -> None:
    connection = connect(url, post(b"Transfer-Encoding:\r\n chunked", LENGTH, body=CHUNKED) + SECOND)
    answer = rest_of(connection)
    connection.close()
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"smuggled" not in answer


def test_http_1_0_is_answered_and_closed(url: str) -> None:
    connection = connect(url, post(LENGTH, version=b"1.0", host=b""))
    answer = rest_of(connection)
    connection.close()
    assert answer.startswith(b"HTTP/1.1 200")
    stream = BODY[:-1] + b',"stream":true}'
    connection = connect(url, post(b"Content-Length: %d" % len(stream), body=stream, version=b"1.0", host=b""))
    answer = rest_of(connection)
    connection.close()
    assert answer.endswith(b"data: [DONE]\n\n")
    assert b"transfer-encoding" not in answer.lower()


def test_who_expects_100_is_told_to_go_on_and_only_where_the_body_is_wanted(url: str) -> None:
    connection = connect(url, post(LENGTH, b"Expect: 100-continue", b"Connection: close", body=b""))
    assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
    connection.sendall(BODY)
    assert rest_of(connection).startswith(b"HTTP/1.1 200")
    connection.close()
    connection = connect(
        url, post(LENGTH, b"Expect: 100-continue", body=b"").replace(b"application/json", b"text/plain")
    )
    assert rest_of(connection).startswith(b"HTTP/1.1 415")
    connection.close()


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"http://evil.example/health", b"404"),
        (b"//evil.example/health", b"404"),
        (b"*", b"404"),
        (b"evil.example:80", b"404"),
        (b"/health/", b"404"),
        (b"/%0d%0aSet-Cookie:%20a=b", b"404"),
        (b"/v1/models/%0d%0aSet-Cookie:%20a=b", b"404"),
        (b"/v1/models/%00%ff%c3%28", b"404"),
        (b"/v1/../metrics", b"404"),
        (b"/health?" + b"a=b&" * 1_000, b"200"),
    ],
)
def test_targets_of_other_forms_lead_nowhere_and_are_not_echoed_in_headers(
    url: str, target: bytes, status: bytes
) -> None:
    connection = connect(
        url, b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nOrigin: https://a\r\nConnection: close\r\n\r\n"
    )
    answer = rest_of(connection)
    connection.close()
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert head.startswith(b"http/1.1 " + status), answer
    assert b"set-cookie" not in head
    assert b"evil" not in head


def test_methods_that_are_not_served_are_refused(url: str) -> None:
    for method in ("DELETE", "PUT", "PATCH", "TRACE", "PROPFIND", "X" * 100):
        response = httpx.request(method, url + CHAT, content=BODY)
        assert response.status_code == 405, method
    connection = connect(url, b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert rest_of(connection).split(b" ")[1] in (b"404", b"405", b"400")
    connection.close()


def test_what_a_preflight_asks_for_comes_back_without_harm(url: str) -> None:
    ask = {
        "origin": "https://app.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "x-a, <b>, " + "y" * 5_000,
    }
    response = httpx.options(url + CHAT, headers=ask)
    assert response.status_code in (200, 400)
    assert len(response.headers.raw) < 20


def test_pipelined_requests_are_answered_in_turn(url: str) -> None:
    connection = connect(url, post(LENGTH) * 50 + SECOND)
    answer = rest_of(connection)
    connection.close()
    assert answer.count(b"HTTP/1.1 200") == 50
    assert answer.count(b"HTTP/1.1 404") == 1
