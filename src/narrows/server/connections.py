"""Connections with time-outs, a bound on their number and strict HTTP: what uvicorn does not check.

uvicorn has no time-out for a slow head or body. Its bound on connections does not refuse quickly. It accepts all that
h11 accepts. `Connection` is uvicorn's protocol with these checks added; `Connections` counts the connections:

- A head must come within `Settings.head_timeout` seconds. A body has `body_timeout` seconds, and one more for each
  `body_rate` bytes that have come; it may not pause for `body_timeout`. Otherwise the answer is 408.
- Beyond `max_connections`, a new connection takes the place of the one whose request has been awaited longest. Where
  no connection waits for a request, the new one gets answers for /health and /metrics, and 503 for all else. More than
  `SURPLUS` beyond the bound, it is closed.
- A request that a proxy may read in another way than this server is refused with 400, and its connection is closed:
  Content-Length together with chunks, control characters in headers, an invalid Host.

Cost: a timer per request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Any

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from narrows.errors import EngineError, NarrowsError
from narrows.server.errors import RequestError, body_of

if TYPE_CHECKING:
    from narrows.server.settings import Settings

SURPLUS = 64
"""Connections beyond the bound that still get an answer."""
_PATIENCE = 2.0
"""Seconds that a body may take before its connection may be closed for a new one."""
_LINGER = 2.0
"""Seconds for the rest of a body whose answer was sent before the body had come. The rest is dropped."""
_FLUSH = 5.0
"""Seconds that a client may take to read an error before its connection is aborted."""
_AT_ONCE = 64
"""Closed connections that are removed at most when a new one comes."""
_READ = 16_384
"""Bytes read from a connection at once. They are parsed in one go while the event loop waits."""
_SMALL_CHUNKS = 1_024
_CHUNK = 32
"""A body may come in `_SMALL_CHUNKS` chunks of any size. With more chunks, their mean size is at least `_CHUNK` bytes.
Each chunk costs about 15 us."""
_ALWAYS = ("/health", "/metrics")

_CONTROL = bytes(i for i in range(32) if i != 9) + b"\x7f"
_HOST = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_~%!$&'()*+,;=:[]"


class StrictConnection(h11.Connection):
    """h11 with the checks that it lacks (see the module). Remembers why it refused a request."""

    def __init__(self, most: int) -> None:
        super().__init__(h11.SERVER, most)
        self.requests = 0
        self.body_bytes = 0
        """Bytes that have come of the body that is being read."""
        self._chunks = 0
        self.refusal: h11.RemoteProtocolError | None = None

    def next_event(self) -> Any:
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                self.requests += 1
                self.body_bytes = self._chunks = 0
                _check_head(event)
            elif isinstance(event, h11.Data):
                self.body_bytes += len(event.data)
                self._chunks += event.chunk_start
                if self._chunks > _SMALL_CHUNKS and self._chunks * _CHUNK > self.body_bytes:
                    raise h11.RemoteProtocolError("the body's chunks are too small")
        except h11.RemoteProtocolError as error:
            self.refusal = error
            raise
        return event


def _check_head(request: h11.Request) -> None:
    if request.http_version not in (b"1.0", b"1.1"):
        raise h11.RemoteProtocolError("this server speaks HTTP/1.1", error_status_hint=505)
    lengths = chunked = False
    for name, value in request.headers:
        lengths = lengths or name == b"content-length"
        chunked = chunked or name == b"transfer-encoding"
        if len(value.translate(None, _CONTROL)) != len(value):
            raise h11.RemoteProtocolError("a header holds a control character")
        if name == b"host" and value.translate(None, _HOST):
            raise h11.RemoteProtocolError("the Host header is not a valid host")
    if chunked and lengths:
        raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding exclude each other")
    if chunked and request.http_version < b"1.1":
        raise h11.RemoteProtocolError("HTTP/1.0 has no Transfer-Encoding")


class Connections:
    """All connections of one server, at most `most`. `count(reason)` is called for each connection that is refused or
    cut off."""

    def __init__(self, settings: Settings, most: int, count: Callable[[str], None]) -> None:
        self.settings = settings
        self.most = most
        self.count = count
        self.open: set[Connection] = set()
        self.heads: dict[Connection, None] = {}
        """Connections that wait for a head or its rest, the oldest first."""
        self.bodies: dict[Connection, None] = {}

    def add(self, connection: Connection) -> bool:
        """Whether the connection may send a request at all. Closes another connection if there are too many."""
        if len(self.open) >= self.most:
            self._make_room(connection.loop.time())
        if len(self.open) >= self.most + SURPLUS:
            return False
        connection.surplus = len(self.open) >= self.most
        self.open.add(connection)
        return True

    def _make_room(self, now: float) -> None:
        for closed in [c for c in islice(self.heads, _AT_ONCE) if c.transport.is_closing()]:
            closed.transport.abort()  # it waits until the client has read its error
            self.forget(closed)
        oldest = next(iter(self.heads), None)
        if oldest is None:
            oldest = next(iter(self.bodies), None)
            if oldest is None or now - oldest.since < _PATIENCE:
                return
        oldest.give_way()

    def forget(self, connection: Connection) -> None:
        self.open.discard(connection)
        self.heads.pop(connection, None)
        self.bodies.pop(connection, None)


class Connection(H11Protocol):
    """uvicorn's protocol with the checks that the module describes. `group`: all connections of the server."""

    def __init__(self, *args: Any, group: Connections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group
        self.conn: StrictConnection = StrictConnection(self.config.h11_max_incomplete_event_size or 16_384)
        self.surplus = False
        self.since = 0.0
        """When the wait for this head or body began, in the loop's time."""
        self._waiting_for: tuple[int, str] | None = None
        """The request's number on this connection, and the part of it that is awaited: head, body, rest or nothing."""
        self._heard = 0.0
        """When bytes came last, in the loop's time."""
        self._began = False
        """Whether some bytes of the head have come."""
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None
        self._refused = False

    # Methods that uvicorn calls.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if hasattr(transport, "max_size"):
            transport.max_size = _READ
        if not self.group.add(self):
            self.group.count("too_many_connections")
            transport.abort()
            return
        if self.surplus:
            self.app = _Surplus(self.app, self.group.count)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self.group.forget(self)
        for timer in (self._timer, self._writing):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._heard = self.loop.time()
        if self.conn.their_state is h11.IDLE and not self._began:
            self._began = True
            if self.conn.requests:  # between requests uvicorn's own time-out holds; the first byte ends it
                self._restart_wait()
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._abort_after(self.group.settings.send_timeout)
        self._watch()

    def send_400_response(self, msg: str) -> None:
        error = self.conn.refusal
        asked = self._waiting_for is None or self._waiting_for[1] != "rest"
        self.refuse(getattr(error, "error_status_hint", 400), "http_invalid", str(error or msg), asked)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing = self.loop.call_later(self.group.settings.send_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def timeout_keep_alive_handler(self) -> None:
        if self._refused:
            return
        super().timeout_keep_alive_handler()
        self._abort_after(self.group.settings.send_timeout)

    def shutdown(self) -> None:
        if not self._refused and not self.transport.is_closing():  # h11 must not be called after a refusal
            super().shutdown()

    # Own methods.

    def give_way(self) -> None:
        """Close this connection, so that a new one has room."""
        part = self._waiting_for[1] if self._waiting_for is not None else "head"
        asked = part == "body" or (part == "head" and self._began)
        self.refuse(503, "too_many_connections", "too many connections; this one had not sent its whole request", asked)

    def refuse(self, status: int, code: str, message: str, asked: bool) -> None:
        """Close. Send the error first if the client has sent something (`asked`) and no answer is being sent."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        self.group.forget(self)
        self.group.count(code)
        cycle = self.cycle
        answering = cycle is not None and cycle.response_started and not cycle.response_complete
        if asked and not answering:
            self.transport.write(_error_response(status, code, message))
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()
        self._abort_after(_FLUSH)

    def _abort_after(self, seconds: float) -> None:
        """Abort the transport after a time: a closed transport waits until the client has read everything."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _watch(self) -> None:
        """Note the part of a request that is awaited now, and start its timer."""
        if self._refused or self.transport.is_closing():
            return
        state = self.conn.their_state
        part = "head" if state is h11.IDLE else "body" if state is h11.SEND_BODY else "nothing"
        if part == "body" and self.cycle is not None and self.cycle.response_complete:
            part = "rest"
        if self._waiting_for == (self.conn.requests, part):
            return
        self._waiting_for = (self.conn.requests, part)
        if part != "head":
            self._began = False
        self._restart_wait()

    def _restart_wait(self) -> None:
        assert self._waiting_for is not None
        part = self._waiting_for[1]
        group = self.group
        group.heads.pop(self, None)
        group.bodies.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.since = self.loop.time()
        if part == "head":
            group.heads[self] = None
            if self._began or not self.conn.requests:
                self._timer = self.loop.call_later(group.settings.head_timeout, self._slow_head)
            elif self.timeout_keep_alive_task is None:  # uvicorn's timer ended when the unread rest of a body came
                self._timer = self.loop.call_later(group.settings.keep_alive_timeout, self._drop)
        elif part == "body":
            group.bodies[self] = None
            self._timer = self.loop.call_later(group.settings.body_timeout, self._slow_body)
        elif part == "rest":
            group.bodies[self] = None
            self._timer = self.loop.call_later(_LINGER, self._drop)

    def _slow_head(self) -> None:
        self.refuse(408, "request_timeout", "the request's head did not come in time", self._began)

    def _slow_body(self) -> None:
        settings = self.group.settings
        due = settings.body_timeout + min(self._heard, self.since + self.conn.body_bytes / settings.body_rate)
        if self.loop.time() < due:
            self._timer = self.loop.call_at(due, self._slow_body)
            return
        self.refuse(408, "request_timeout", "the request's body did not come in time", True)

    def _drop(self) -> None:
        self._refused = True
        self.group.forget(self)
        self.transport.abort()


def _error_response(status: int, code: str, message: str) -> bytes:
    error: NarrowsError = EngineError(message, code=code) if status >= 500 else RequestError(message, code=code)
    body = json.dumps(body_of(error)).encode()
    head = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *(["retry-after: 1"] if status == 503 else []),
        "connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


class _Surplus:
    """The app of a connection beyond the bound: answers /health and /metrics, and everything else with 503."""

    def __init__(self, app: Any, count: Callable[[str], None]) -> None:
        self._app: ASGIApp = app
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_close(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            await send(message)

        if scope["type"] == "http" and scope["path"] not in _ALWAYS:
            self._count("too_many_connections")
            error = EngineError("too many connections", code="too_many_connections", hint="Try again in a moment")
            body = json.dumps(body_of(error)).encode()
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"retry-after", b"1"),
            ]
            await send_and_close({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        await self._app(scope, receive, send_and_close)
