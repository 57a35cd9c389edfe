"""Reads bounded bodies, notices clients that leave, checks API keys and counts requests.

The middlewares here are plain ASGI: they pass streams on unchanged.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext, suppress
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from narrows.errors import EngineError, LimitError, NarrowsError
from narrows.server.drain import Drain, stopping
from narrows.server.errors import RequestError
from narrows.server.keys import is_one_of, key_of
from narrows.server.logs import log
from narrows.server.metrics import Metrics

T = TypeVar("T")

READ_AWAY = 4
"""How many times the limit is read, and dropped, of a body that is too large."""
_LITTLE = 1 << 20
"""Bytes that a client may hold as long as there is any room."""


class Room:
    """The bytes of all bodies that are held at once. The first client may hold half of them, the next half of the rest,
    and so on. The last eighth is for clients that hold at most 1 MiB."""

    def __init__(self, bytes_: int) -> None:
        self.left = bytes_
        self._reserve = bytes_ // 8
        self._of: Counter[str] = Counter()

    def take(self, size: int, client: str) -> None:
        """Raises `EngineError` code server_busy if there is no room."""
        own, left = self._of[client] + size, self.left - size
        if left < 0 or (own > _LITTLE and (own > left or left < self._reserve)):
            raise EngineError("too many large requests at once", code="server_busy", hint="Try again in a moment")
        self.left = left
        self._of[client] = own

    def give(self, size: int, client: str) -> None:
        self.left += size
        self._of[client] -= size
        if not self._of[client]:
            del self._of[client]


async def read_json_body(request: Request, limit: int, room: Room, client: str) -> bytes:
    """The body's bytes. The caller must `give` their room back. Keeps at most `limit` bytes.

    Raises `RequestError` (content_type), `LimitError` (body_too_large) or `EngineError` (server_busy). Of a body that
    is too large, up to `READ_AWAY` times the limit is read and dropped before the refusal. Most clients send the whole
    body before they read, and would otherwise see a reset connection in place of the answer.
    """
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json" and not media.endswith("+json"):
        raise RequestError(
            f"the body must be application/json, not {media or 'untyped'}",
            code="content_type",
            hint="Set the Content-Type header",
        )
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > READ_AWAY * limit:
        raise _too_large(limit)
    body = bytearray()
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > READ_AWAY * limit:
                break
            if size <= limit:
                room.take(len(piece), client)
                body += piece
            else:
                room.give(len(body), client)
                body.clear()
        if size > limit:
            raise _too_large(limit)
    except BaseException:
        room.give(len(body), client)
        raise
    return bytes(body)


def _too_large(limit: int) -> LimitError:
    return LimitError(f"the body has more than {limit} bytes", code="body_too_large", limit="body_bytes")


async def unless_client_leaves(request: Request, drain: Drain, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. Cancels it when the client leaves (raises `ClientDisconnect`) or the server stops (raises
    `EngineError` code server_stopping).

    Call it only after the body has been read.
    """
    return await _unless(work, drain, asyncio.ensure_future(_left(request)))


async def unless_stopped(drain: Drain, work: Coroutine[Any, Any, T]) -> T:
    """The same for `work` that itself reads from the client."""
    return await _unless(work, drain, None)


async def _unless(work: Coroutine[Any, Any, T], drain: Drain, leaving: asyncio.Future[None] | None) -> T:
    working = asyncio.ensure_future(work)
    over: asyncio.Future[Any] = asyncio.ensure_future(drain.over.wait())
    waiting: list[asyncio.Future[Any]] = [working, over, *([leaving] if leaving is not None else [])]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        if over.done():
            raise stopping()
        raise ClientDisconnect
    finally:
        for task in waiting:
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError, NarrowsError):
                    await task
        # An error would hold this frame, and this frame the error, with all that its frames hold.
        del working, waiting, task


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


Respond = Callable[[str, NarrowsError], Response]
"""The response to an error, in the form that the clients of this path read."""
OPEN = ("/", "/health", "/metrics", "/docs", "/openapi.json")
"""Paths that need no key."""
PAGE, PAGE_API = "/playground/", "/playground/api/"
"""The playground's own files need no key, but what it asks for does."""


def _is_open(path: str) -> bool:
    return path in OPEN or (path.startswith(PAGE) and not path.startswith(PAGE_API))


class RequireKey:
    """Refuses requests without one of the keys, but for those to paths that need none."""

    def __init__(self, app: ASGIApp, keys: Sequence[str], respond: Respond) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]
        self._respond = respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] == "http"
            and not _is_open(scope["path"])
            and scope["method"] != "OPTIONS"
            and not is_one_of(key_of(scope["headers"]), self._keys)
        ):
            error = RequestError(
                "this server needs a valid API key",
                code="invalid_api_key",
                hint="Send it as Authorization: Bearer KEY, or as x-api-key: KEY",
            )
            response = self._respond(scope["path"], error)
            response.headers["WWW-Authenticate"] = "Bearer"
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)


class Outermost:
    """Counts requests by route and status. Answers an unexpected error with a plain 500; the connection stays open."""

    def __init__(self, app: ASGIApp, metrics: Metrics, drain: Drain, respond: Respond) -> None:
        self._app = app
        self._respond = respond
        self._metrics = metrics
        self._drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with self._drain.counted() if scope["method"] == "POST" else nullcontext():
                await self._app(scope, receive, watch)
        except Exception:
            log.exception("a request failed")
            if status:
                raise  # a part of the answer was sent, so only closing the connection can tell the client
            error = EngineError("the server failed; its log says why", code="internal_error")
            await self._respond(scope["path"], error)(scope, receive, watch)
        finally:
            route = scope.get("route")
            path = getattr(route, "path", "other")  # never a path that a client made up: labels are kept for ever
            # 499, as in nginx: the client left before an answer.
            self._metrics.requests.labels(path, str(status or 499)).inc()
            self._metrics.request_seconds.labels(path).observe(time.perf_counter() - started)
