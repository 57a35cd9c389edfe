"""The endpoints, one function each. Each reads the body, checks it, starts the request, then streams or collects."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import anyio
from fastapi import APIRouter, Request
from sse_starlette import EventSourceResponse
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from narrows import json_pieces
from narrows.errors import EngineError, NarrowsError
from narrows.limits import Limits
from narrows.server import answers, protocol, unenforced
from narrows.server.clients import client_of
from narrows.server.drain import stopping
from narrows.server.errors import body_of, status_of
from narrows.server.http import read_json_body, unless_client_leaves, unless_stopped
from narrows.server.logs import log
from narrows.server.protocol import ChatRequest, CompletionRequest, GenerationRequest
from narrows.server.service import Answer, Service

router = APIRouter()
R = TypeVar("R", bound=GenerationRequest)
Collect = Callable[[list[answers.Chunk]], list[dict[str, Any]]]


DEFINITIONS: dict[str, Any] = {}
"""Schemas that the schemas of the bodies refer to, for `components` of the OpenAPI page."""


def _body_of(model: type[GenerationRequest]) -> dict[str, Any]:
    """The request body's schema for the OpenAPI page. FastAPI does not read the body: `_read` does, under limits."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    DEFINITIONS.update(schema.pop("$defs", {}))
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@router.post("/v1/chat/completions", openapi_extra=_body_of(ChatRequest), summary="Answer a conversation")
async def chat_completions(request: Request) -> Response:
    service = _service(request)
    body, size = await _read(request, service, ChatRequest)
    client = client_of(request, service.settings)
    work = service.start_chat(body, f"chatcmpl-{uuid.uuid4().hex}", size, client)
    answer = await unless_client_leaves(request, service.drain, work)
    return await _answer(request, service, body, answer, "chat.completion", answers.collect_chat)


@router.post("/v1/completions", openapi_extra=_body_of(CompletionRequest), summary="Continue one or more texts")
async def completions(request: Request) -> Response:
    service = _service(request)
    body, size = await _read(request, service, CompletionRequest)
    client = client_of(request, service.settings)
    work = service.start_completion(body, f"cmpl-{uuid.uuid4().hex}", size, client)
    answer = await unless_client_leaves(request, service.drain, work)
    return await _answer(request, service, body, answer, "text_completion", answers.collect_text)


@router.get("/v1/models", summary="List the models")
async def models(request: Request) -> dict[str, Any]:
    service = _service(request)
    return {"object": "list", "data": [_model(service, name) for name in service.model_names]}


@router.get("/v1/models/{name:path}", summary="One model")
async def model(request: Request, name: str) -> dict[str, Any]:
    service = _service(request)
    service.check_model(GenerationRequest(model=name))
    return _model(service, name)


@router.get("/health", summary="200 while the engine works, 503 after")
async def health(request: Request) -> Response:
    service = _service(request)
    try:
        service.engine.check_health()
    except EngineError as error:
        service.note(error)
        return JSONResponse({"status": "dead", **body_of(error)}, 503)
    if service.drain.begun:
        return JSONResponse({"status": "stopping", **body_of(stopping())}, 503)
    return JSONResponse({"status": "ok", "model": service.model_names[0], "format": service.format.name})


@router.get("/metrics", summary="Prometheus metrics")
async def metrics(request: Request) -> Response:
    return Response(_service(request).metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _model(service: Service, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": service.created,
        "owned_by": "narrows",
        "root": service.engine.model_name,
        "max_model_len": service.engine.max_model_len,
    }


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _read(request: Request, service: Service, model: type[R]) -> tuple[R, int]:
    """The request, and the size of its body in bytes."""
    client = client_of(request, service.settings)
    reading = read_json_body(request, service.limits.body_bytes, service.room, client)
    body = await unless_stopped(service.drain, reading)
    size = held = len(body)
    try:
        if service.drain.begun:
            raise stopping()
        # A thread costs 0.1 ms. A body of some KB takes less than that to read, unless it holds many unknown fields.
        if size <= _AT_ONCE:
            parsed = _parse(model, body, service.limits)
        else:
            running = service.begin_in_thread(size, _parse, model, body, service.limits)
            running.task.add_done_callback(lambda _: service.room.give(size, client))
            held = 0  # the thread holds the body to its end
            del body
            parsed = await unless_client_leaves(request, service.drain, service.result_of(running))
    finally:
        service.room.give(held, client)
    service.check_model(parsed)
    service.check_priority(parsed)
    unknown = parsed.unknown_fields()
    if unknown:
        log.warning("ignored unknown request fields: %s", ", ".join(name[:64] for name in unknown[:16]))
    return parsed, size


_AT_ONCE = 1_024
"""Bytes. Larger bodies are read in a thread, smaller ones on the event loop."""


def _parse(model: type[R], body: bytes, limits: Limits) -> R:
    if len(body) <= json_pieces.PIECE:
        return protocol.read(model, json_pieces.parse(body, limits), limits)
    with json_pieces.collector_put_off:
        return protocol.read(model, json_pieces.parse(body, limits), limits)


async def _answer(
    request: Request, service: Service, body: GenerationRequest, answer: Answer, kind: str, collect: Collect
) -> Response:
    started = time.perf_counter()

    def first_output() -> None:
        nonlocal started
        if started:
            service.metrics.first_token_seconds.observe(time.perf_counter() - started)
            started = 0.0

    headers = {"x-request-id": answer.id}
    if answer.loose:
        headers[unenforced.HEADER] = unenforced.header(answer.loose)
    try:
        if body.stream:
            usage = body.stream_options is not None and body.stream_options.include_usage
            chunk_kind = "chat.completion.chunk" if kind == "chat.completion" else kind
            return _Stream(_events(answer, chunk_kind, usage, first_output), answer, service, headers)
        chunks = await unless_client_leaves(request, service.drain, _all(answer, first_output))
    except BaseException:
        answer.close()
        raise
    answer.close()
    error = answers.first_error(chunks, answer.errors)
    if error is None and not all(choice.finished for choice in answer.choices):
        error = stopping()
    if error is not None:
        raise error
    head = {"id": answer.id, "object": kind, "created": answer.created, "model": answer.model}
    parts = head, collect, chunks, answer.usage()
    if answer.json_bytes <= _WRITTEN_AT_ONCE:
        written = _write(*parts)
    else:
        writing = service.in_thread(answer.json_bytes, _write, *parts)
        written = await unless_client_leaves(request, service.drain, writing)
    return Response(written, media_type="application/json", headers=headers)


_WRITTEN_AT_ONCE = 65_536
"""Bytes. Larger complete answers are written in a thread, smaller ones on the event loop."""


def _write(head: dict[str, Any], collect: Collect, chunks: list[answers.Chunk], usage: dict[str, Any]) -> bytes:
    completion = {**head, "choices": collect(chunks), "usage": usage}
    return json_pieces.dumps(completion, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


async def _all(answer: Answer, on_first: Callable[[], None]) -> list[answers.Chunk]:
    return [chunk async for batch in answer.batches(on_first) for chunk in batch]


async def _events(answer: Answer, kind: str, usage: bool, on_first: Callable[[], None]) -> AsyncIterator[bytes]:
    """The stream's bytes: one event per chunk, after a failure an error event, then [DONE]."""
    head = {"id": answer.id, "object": kind, "created": answer.created, "model": answer.model}
    no_usage = {"usage": None} if usage else {}
    ends: list[answers.Chunk] = []
    try:
        async for batch in answer.batches(on_first):
            for chunk in batch:
                if chunk["finish_reason"] is not None:
                    ends.append(chunk)
                event = {**head, "choices": [chunk], **no_usage}
                large = (chunk.get("logprobs"), chunk.get("values"))
                if any(json_pieces.holds_more_than(part, _VALUES_AT_ONCE) for part in large):
                    yield await answer.service.in_thread(answer.batch_bytes, _event, event)
                else:
                    yield _event(event)
        error = answers.first_error(ends, answer.errors)
        if error is None and len(ends) < len(answer.choices):
            error = stopping()
        if error is not None:
            yield _event(body_of(error))
        elif usage:
            yield _event({**head, "choices": [], "usage": answer.usage()})
    except NarrowsError as failure:
        yield _event(body_of(failure))
    except Exception:
        log.exception("a stream failed")
        yield _event(body_of(EngineError("the server failed; its log says why", code="internal_error")))
    yield b"data: [DONE]\n\n"


_VALUES_AT_ONCE = 5_000
"""JSON values of a chunk that are written on the event loop. Chunks with more are written in a thread."""


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json_pieces.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


class _Stream(EventSourceResponse):
    """An event stream that closes its answer however it ends, also if it never began.

    When the server stops, a stream has `Settings.shutdown_timeout` seconds to end. Then it ends with an error event.
    """

    def __init__(self, events: AsyncIterator[bytes], answer: Answer, service: Service, headers: dict[str, str]) -> None:
        self._stopping = anyio.Event()
        self._drain = service.drain
        super().__init__(
            events,
            headers=headers,
            sep="\n",
            send_timeout=service.settings.send_timeout,
            shutdown_event=self._stopping,
            shutdown_grace_period=service.settings.shutdown_timeout + 1,
        )
        self._answer = answer
        self._metrics = service.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._metrics.open_streams.inc()
        watching = [asyncio.ensure_future(self._close_when_over()), asyncio.ensure_future(self._hear_of_stopping())]
        try:
            await super().__call__(scope, receive, send)
        finally:
            for task in watching:
                task.cancel()
            self._metrics.open_streams.dec()
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


def error_response(error: NarrowsError) -> JSONResponse:
    """The response to an error that came before anything was sent."""
    status = status_of(error)
    headers = {"Retry-After": "1"} if status in (429, 503) else None
    return JSONResponse(body_of(error), status, headers)
