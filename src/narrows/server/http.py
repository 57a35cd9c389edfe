"""The edges of a connection: reading a bounded body, noticing that the client has left, keys, and counting.

Middlewares here are plain ASGI: they pass streams through untouched.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from narrows.errors import EngineError, LimitError, NarrowsError
from narrows.server.errors import RequestError, body_of, status_of
from narrows.server.metrics import Metrics

log = logging.getLogger("narrows.server")
T = TypeVar("T")

READ_AWAY = 4


async def read_json_body(request: Request, limit: int) -> bytes:
    """The body's bytes. Raises `RequestError` (content_type) or `LimitError` (body_too_large); no more is kept than allowed.

    Of a body that is too large, up to `READ_AWAY` times the limit is read and dropped before the refusal: most clients send all
    before they listen, and would see a reset connection in place of the answer.
    """
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json" and not media.endswith("+json"):
        raise RequestError(
            f"the body must be application/json, not {media or 'untyped'}",
            code="content_type",
            hint="Set the Content-Type header",
        )
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced[:20]) > READ_AWAY * limit:
        raise _too_large(limit)
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > READ_AWAY * limit:
            break
        if size <= limit:
            pieces.append(piece)
        else:
            pieces.clear()
    if size > limit:
        raise _too_large(limit)
    return b"".join(pieces)


def _too_large(limit: int) -> LimitError:
    return LimitError(f"the body has more than {limit} bytes", code="body_too_large", limit="body_bytes")


async def unless_client_leaves(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client goes away (`ClientDisconnect` is raised then).

    Only after the body has been read.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        for task in (working, leaving):
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError, NarrowsError):
                    await task


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class RequireKey:
    """Refuses /v1 without one of the keys. Comparison takes the same time wherever keys differ."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] == "http"
            and scope["path"].startswith("/v1")
            and scope["method"] != "OPTIONS"
            and not self._allowed(scope)
        ):
            error = RequestError(
                "this server needs a valid API key", code="invalid_api_key", hint="Send it as Authorization: Bearer KEY"
            )
            response = JSONResponse(body_of(error), status_of(error), {"WWW-Authenticate": "Bearer"})
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _allowed(self, scope: Scope) -> bool:
        header = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, given = header.partition(b" ")
        matches = [hmac.compare_digest(given.strip(), key) for key in self._keys]
        return scheme.lower() == b"bearer" and any(matches)


class Outermost:
    """Counts requests by route and status, and answers what nobody foresaw with a plain 500; the connection lives on."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

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
            await self._app(scope, receive, watch)
        except Exception:
            log.exception("a request failed")
            if status:
                raise  # something was sent already: only closing the connection can tell the client
            error = EngineError("the server failed; its log says why", code="internal_error")
            await JSONResponse(body_of(error), status_of(error))(scope, receive, watch)
        finally:
            route = scope.get("route")
            path = getattr(route, "path", "other")  # never a path that a stranger made up: labels live for ever
            # 499, as nginx has it: the client left before an answer.
            self._metrics.requests.labels(path, str(status or 499)).inc()
            self._metrics.request_seconds.labels(path).observe(time.perf_counter() - started)
