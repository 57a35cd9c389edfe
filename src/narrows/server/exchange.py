"""One request and its answer, whatever the API: reads the body under limits, then streams the answer or collects it.

An API has a reader and a `Writer`. The reader makes the request that the service takes out of the body; the writer
turns the chunks of the answer (answers.py) into what the API's clients read. So all APIs have the same limits, metrics
and errors, and all notice when a client leaves or the server stops.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Protocol, TypeVar

import anyio
from fastapi import Request
from sse_starlette import EventSourceResponse
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from narrows import json_pieces
from narrows.errors import EngineError, NarrowsError
from narrows.limits import Limits
from narrows.server import answers, unenforced
from narrows.server.answering import Answer
from narrows.server.clients import client_of
from narrows.server.drain import stopping
from narrows.server.http import read_json_body, unless_client_leaves, unless_stopped
from narrows.server.logs import log
from narrows.server.models import Models
from narrows.server.protocol import ChatRequest, CompletionRequest, GenerationRequest
from narrows.server.service import Service
from narrows.server.shared import Shared

Event = dict[str, Any]
"""What a client reads at once, as a JSON value."""


class Read(Protocol):
    """What a reader makes of a body."""

    @property
    def inner(self) -> GenerationRequest:
        """The request that the service takes."""

    def unknown_fields(self) -> list[str]:
        """The names of the fields that are ignored, for a warning."""


R = TypeVar("R", bound=Read)
T = TypeVar("T")
Reader = Callable[[Any, Limits], R]
"""From the body's JSON value. Raises `InputError` and `LimitError` with pointers into the body."""


class Writer(ABC):
    """How an API writes one answer. The complete answer and the stream come from the same chunks."""

    media_type = "text/event-stream"
    """Of the stream."""
    last = b""
    """What ends the stream, after a failure too."""
    echoes = False
    """Whether much of the request comes back in the answer."""
    echoed = 0
    """Bytes of the request that come back, about."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def opening(self) -> Iterable[Event]:
        """The events before those of the first chunk."""
        return ()

    @abstractmethod
    def events(self, chunk: answers.Chunk) -> Iterable[Event]:
        """The events of a chunk."""

    @abstractmethod
    def closing(self) -> Iterable[Event]:
        """The events after the last chunk."""

    @abstractmethod
    def failure(self, error: NarrowsError) -> Iterable[Event]:
        """The events in place of `closing`, where the answer failed."""

    @abstractmethod
    def whole(self, chunks: list[answers.Chunk]) -> Any:
        """The complete answer. Linear in its text."""

    def framed(self, event: Event) -> bytes:
        """An event as it stands in the stream."""
        return b"data: " + written(event) + b"\n\n"

    async def keep(self, body: bytes | None) -> None:  # noqa: B027  # most APIs remember nothing
        """Called before the end of the answer is sent, for an API that remembers answers. `body`: the complete answer
        as it is sent; None for a stream."""


def written(value: Any) -> bytes:
    """JSON as all answers have it."""
    return json_pieces.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def models_of(request: Request) -> Models:
    models: Models = request.app.state.models
    return models


def shared_of(request: Request) -> Shared:
    return models_of(request).shared


async def read(request: Request, reader: Reader[R]) -> tuple[Service, R, int]:
    """The model that the request names, the request, and the size of its body in bytes."""
    shared = shared_of(request)
    parsed, size = await read_body(request, shared, lambda body: _parse(reader, body, shared.limits))
    inner = parsed.inner
    service = models_of(request).named(inner.model)
    service.check_priority(inner)
    unknown = parsed.unknown_fields()
    if unknown:
        log.warning("ignored unknown request fields: %s", ", ".join(name[:64] for name in unknown[:16]))
    return service, parsed, size


async def read_body(
    request: Request, shared: Shared, parse: Callable[[bytes], T], limit: int | None = None
) -> tuple[T, int]:
    """What `parse` makes of the body, and its size in bytes. `limit`: the most bytes, if not `Limits.body_bytes`."""
    client = client_of(request, shared.settings)
    reading = read_json_body(request, limit or shared.limits.body_bytes, shared.room, client)
    body = await unless_stopped(shared.drain, reading)
    size = held = len(body)
    try:
        if shared.drain.begun:
            raise stopping()
        # A thread costs 0.1 ms. A body of some KB takes less than that to read, unless it holds many unknown fields.
        if size <= _AT_ONCE:
            parsed = parse(body)
        else:
            running = shared.threads.begin_in_thread(size, parse, body)
            running.task.add_done_callback(lambda _: shared.room.give(size, client))
            held = 0  # the thread holds the body to its end
            del body
            parsed = await unless_client_leaves(request, shared.drain, shared.threads.result_of(running))
    finally:
        shared.room.give(held, client)
    return parsed, size


_AT_ONCE = 1_024
"""Bytes. Larger bodies are read in a thread, smaller ones on the event loop."""


def _parse(reader: Reader[R], body: bytes, limits: Limits) -> R:
    if len(body) <= json_pieces.PIECE:
        return reader(json_pieces.parse(body, limits), limits)
    with json_pieces.collector_put_off:
        return reader(json_pieces.parse(body, limits), limits)


async def chat(request: Request, reader: Reader[R], prefix: str, writer_of: Callable[[Answer, R], Writer]) -> Response:
    """Answers a request that is a chat. `prefix`: what the answer's id begins with."""
    service, parsed, size = await read(request, reader)
    client = client_of(request, service.settings)
    inner = parsed.inner
    assert isinstance(inner, ChatRequest)
    work = service.start_chat(inner, f"{prefix}{uuid.uuid4().hex}", size, client)
    answer = await unless_client_leaves(request, service.shared.drain, work)
    writer = writer_of(answer, parsed)
    writer.echoed = size if writer.echoes else 0
    return await send(request, answer, writer, bool(inner.stream))


async def completion(
    request: Request, reader: Reader[R], prefix: str, writer_of: Callable[[Answer, R], Writer]
) -> Response:
    """Answers a request that is a plain completion."""
    service, parsed, size = await read(request, reader)
    client = client_of(request, service.settings)
    inner = parsed.inner
    assert isinstance(inner, CompletionRequest)
    work = service.start_completion(inner, f"{prefix}{uuid.uuid4().hex}", size, client)
    answer = await unless_client_leaves(request, service.shared.drain, work)
    return await send(request, answer, writer_of(answer, parsed), bool(inner.stream))


async def count(request: Request, reader: Reader[R]) -> int:
    """The tokens of the prompt of a request that is a chat."""
    service, parsed, size = await read(request, reader)
    inner = parsed.inner
    assert isinstance(inner, ChatRequest)
    return await unless_client_leaves(request, service.shared.drain, service.count_chat(inner, size))


async def send(request: Request, answer: Answer, writer: Writer, stream: bool) -> Response:
    """The answer as a stream, or complete. The answer is closed however it ends."""
    shared = answer.shared
    started = time.perf_counter()

    def first_output() -> None:
        nonlocal started
        if started:
            shared.metrics.first_token_seconds.labels(answer.model).observe(time.perf_counter() - started)
            started = 0.0

    headers = {"x-request-id": answer.id}
    if answer.loose:
        headers[unenforced.HEADER] = unenforced.header(answer.loose)
    try:
        if stream:
            return _Stream(_events(answer, writer, first_output), answer, headers, writer.media_type)
        chunks = await unless_client_leaves(request, shared.drain, _all(answer, first_output))
    except BaseException:
        answer.close()
        raise
    answer.close()
    error = answers.first_error(chunks, answer.errors)
    if error is None and not all(choice.finished for choice in answer.choices):
        error = stopping()
    if error is not None:
        raise error
    size = answer.json_bytes + writer.echoed
    if size <= _WRITTEN_AT_ONCE:
        body = _write(writer, chunks)
    else:
        writing = shared.threads.in_thread(size, _write, writer, chunks)
        body = await unless_client_leaves(request, shared.drain, writing)
    await writer.keep(body)
    return Response(body, media_type="application/json", headers=headers)


_WRITTEN_AT_ONCE = 65_536
"""Bytes. Larger complete answers are written in a thread, smaller ones on the event loop."""


def _write(writer: Writer, chunks: list[answers.Chunk]) -> bytes:
    return written(writer.whole(chunks))


async def _all(answer: Answer, on_first: Callable[[], None]) -> list[answers.Chunk]:
    return [chunk async for batch in answer.batches(on_first) for chunk in batch]


async def _events(answer: Answer, writer: Writer, on_first: Callable[[], None]) -> AsyncIterator[bytes]:
    """The stream's bytes."""
    ends: list[answers.Chunk] = []

    async def framed(event: Event, size: int, apart: bool) -> bytes:
        return await answer.shared.threads.in_thread(size, writer.framed, event) if apart else writer.framed(event)

    try:
        for event in writer.opening():
            yield await framed(event, writer.echoed, writer.echoed > _WRITTEN_AT_ONCE)
        async for batch in answer.batches(on_first):
            for chunk in batch:
                if chunk["finish_reason"] is not None:
                    ends.append(chunk)
                parts = (chunk.get("logprobs"), chunk.get("values"))
                large = any(json_pieces.holds_more_than(part, _VALUES_AT_ONCE) for part in parts)
                for event in writer.events(chunk):
                    yield await framed(event, answer.batch_bytes, large)
        error = answers.first_error(ends, answer.errors)
        if error is None and len(ends) < len(answer.choices):
            error = stopping()
        if error is None:
            closing = list(writer.closing())
            await writer.keep(None)
            size = answer.json_bytes + writer.echoed
            for event in closing:
                yield await framed(event, size, size > _WRITTEN_AT_ONCE)
        else:
            for event in writer.failure(error):
                yield writer.framed(event)
    except NarrowsError as failure:
        for event in writer.failure(failure):
            yield writer.framed(event)
    except Exception:
        log.exception("a stream failed")
        for event in writer.failure(EngineError("the server failed; its log says why", code="internal_error")):
            yield writer.framed(event)
    if writer.last:
        yield writer.last


_VALUES_AT_ONCE = 5_000
"""JSON values of a chunk that are written on the event loop. Chunks with more are written in a thread."""


_NEVER = 1e9
"""Seconds."""


class _Stream(EventSourceResponse):
    """An event stream that closes its answer however it ends, also if it never began.

    When the server stops, a stream has `Settings.shutdown_timeout` seconds to end. Then it ends with an error event.
    """

    def __init__(self, events: AsyncIterator[bytes], answer: Answer, headers: dict[str, str], media_type: str) -> None:
        self._stopping = anyio.Event()
        shared = answer.shared
        self._drain = shared.drain
        super().__init__(
            events,
            headers=headers,
            media_type=media_type,
            ping=None if media_type == Writer.media_type else _NEVER,  # a ping is a comment, which JSON lines have not
            sep="\n",
            send_timeout=shared.settings.send_timeout,
            shutdown_event=self._stopping,
            shutdown_grace_period=shared.settings.shutdown_timeout + 1,
        )
        self._answer = answer
        self._metrics = shared.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        open_streams = self._metrics.open_streams.labels(self._answer.model)
        open_streams.inc()
        watching = [asyncio.ensure_future(self._close_when_over()), asyncio.ensure_future(self._hear_of_stopping())]
        try:
            await super().__call__(scope, receive, send)
        finally:
            for task in watching:
                task.cancel()
            open_streams.dec()
            if not all(choice.finished for choice in self._answer.choices):
                self._metrics.disconnected.inc()
            self._answer.close()

    async def _close_when_over(self) -> None:
        await self._drain.over.wait()
        self._answer.close()

    async def _hear_of_stopping(self) -> None:
        """Under another server than ours, only the library that sends events notices that the server stops."""
        await self._stopping.wait()
        await self._drain.by_itself()
