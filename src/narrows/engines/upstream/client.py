"""HTTP to the upstream: questions at the start, and streams of events.

A request is sent again if the upstream cannot be reached, or answers 429, 502, 503 or 504: a few times, after growing
pauses, and only before its answer has begun. Closing a stream closes its connection, which ends the upstream's work.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from narrows.errors import EngineError, LimitError, NarrowsError, shortened

RETRIES = 4
"""Times that a request is sent again. The pauses are about 0.25, 0.5, 1 and 2 seconds."""
_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 30.0
"""Seconds that an upstream may ask for (`Retry-After`)."""
_AGAIN = frozenset((429, 502, 503, 504))
_LONGEST_LINE = 16_777_216
"""Bytes of one event."""


class Client:
    """The upstream at `url`, with or without `/v1`. The asynchronous methods belong to one event loop.

    read_timeout: seconds without a byte after which a stream counts as lost.
    """

    def __init__(
        self, url: str, *, api_key: str | None = None, read_timeout: float = 600.0, connect_timeout: float = 10.0
    ) -> None:
        self.root = url.rstrip("/").removesuffix("/v1")
        self._headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout = httpx.Timeout(read_timeout, connect=connect_timeout)
        self._streams: httpx.AsyncClient | None = None
        self.retries_total = 0

    # Questions, in the caller's thread.

    def ask(self, path: str, body: dict[str, Any] | None = None, timeout: float = 10.0) -> tuple[int, Any]:
        """The status and the JSON of an answer; None for what is not JSON.

        Raises EngineError `upstream_unreachable`."""
        try:
            with httpx.Client(headers=self._headers, timeout=timeout) as client:
                url = self.root + path
                reply = client.get(url) if body is None else client.post(url, json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self.unreachable(error) from None
        try:
            return reply.status_code, reply.json()
        except ValueError:
            return reply.status_code, None

    def unreachable(self, error: Exception) -> EngineError:
        return EngineError(
            f"the upstream {self.root} cannot be reached: {_said(error)}",
            code="upstream_unreachable",
            hint="Is it running, and is this its address?",
        )

    # Streams, in the engine's event loop.

    def open(self) -> None:
        """In the event loop, before anything else."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=2.0)
        self._streams = httpx.AsyncClient(headers=self._headers, timeout=self._timeout, limits=limits)

    async def close(self) -> None:
        if self._streams is not None:
            await self._streams.aclose()

    async def is_up(self, path: str) -> bool:
        """Whether the upstream answers this path with success."""
        assert self._streams is not None
        try:
            return (await self._streams.get(self.root + path, timeout=5.0)).is_success
        except httpx.HTTPError:
            return False

    @asynccontextmanager
    async def events(self, path: str, body: dict[str, Any]) -> AsyncIterator[AsyncIterator[str]]:
        """The data of the events of an answer, without the last one (`[DONE]`).

        Raises EngineError (`upstream_unreachable`, `upstream_refused`, `upstream_failed`; while reading
        `upstream_lost`), and LimitError `upstream_busy`.
        """
        reply = await self._sent(path, body)
        try:
            yield self._data(reply)
        finally:
            await reply.aclose()

    async def _sent(self, path: str, body: dict[str, Any]) -> httpx.Response:
        assert self._streams is not None
        content = json.dumps(body, separators=(",", ":")).encode()
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        for attempt in range(RETRIES + 1):
            pause = _FIRST_PAUSE * 2**attempt * random.uniform(0.75, 1.25)
            try:
                request = self._streams.build_request("POST", self.root + path, content=content, headers=headers)
                reply = await self._streams.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.RemoteProtocolError, httpx.ReadError) as error:
                problem: NarrowsError = self.unreachable(error)
            except httpx.HTTPError as error:
                raise self.lost(error) from None
            else:
                if reply.status_code == 200:
                    return reply
                problem = await self._refusal(reply)
                if reply.status_code not in _AGAIN:
                    raise problem
                pause = max(pause, _asked_pause(reply))
            if attempt == RETRIES:
                raise problem
            self.retries_total += 1
            await asyncio.sleep(pause)
        raise AssertionError("the loop returns or raises")

    async def _refusal(self, reply: httpx.Response) -> NarrowsError:
        try:
            said = _message(await reply.aread())
        except httpx.HTTPError as error:
            said = _said(error)
        finally:
            await reply.aclose()
        status = reply.status_code
        text = f"the upstream answered {status}: {said}"
        if status == 429:
            return LimitError(text, code="upstream_busy", hint="Try again in a moment")
        return EngineError(text, code="upstream_refused" if status < 500 else "upstream_failed")

    async def _data(self, reply: httpx.Response) -> AsyncIterator[str]:
        """Lines end at a line feed alone: JSON may hold other characters that end lines elsewhere."""
        rest = b""
        try:
            async for piece in reply.aiter_bytes():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.startswith(b"data:"):
                        data = line[5:].strip().decode("utf-8", "replace")
                        if data == "[DONE]":
                            return
                        yield data
                if len(rest) > _LONGEST_LINE:
                    raise EngineError("an event of the upstream is too long", code="upstream_failed")
        except httpx.HTTPError as error:
            raise self.lost(error) from None

    def lost(self, error: Exception) -> EngineError:
        return EngineError(
            f"the connection to the upstream was lost before the answer was complete: {_said(error)}",
            code="upstream_lost",
        )


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def _asked_pause(reply: httpx.Response) -> float:
    asked = reply.headers.get("retry-after", "")
    return min(float(asked), _LONGEST_PAUSE) if asked.isdecimal() else 0.0


def _message(body: bytes) -> str:
    """What an error answer says: OpenAI's form, or the beginning of its text."""
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    return message_of(content) or shortened(body.decode("utf-8", "replace").strip())


def message_of(content: Any) -> str:
    """The message of an error object, whatever its form."""
    steps: tuple[Callable[[Any], Any], ...] = (
        lambda value: value["error"]["message"],
        lambda value: value["error"],
        lambda value: value["message"],
    )
    for step in steps:
        try:
            said = step(content)
        except (KeyError, TypeError, IndexError):
            continue
        if isinstance(said, str):
            return said
    return ""
