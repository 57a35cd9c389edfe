"""The endpoints, one function each. Each reads the body, checks it, starts the request, then streams or collects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from narrows.errors import NarrowsError
from narrows.server import answers, exchange, protocol
from narrows.server.answer_types import (
    ChatChunk,
    ChatCompletion,
    ErrorBody,
    Health,
    ModelCard,
    ModelHealth,
    ModelList,
    TextChunk,
    TextCompletion,
)
from narrows.server.answering import Answer
from narrows.server.drain import stopping
from narrows.server.errors import body_of
from narrows.server.exchange import Event, Writer, models_of, shared_of
from narrows.server.openapi import answer_of_page, body_of_page, response_of_page
from narrows.server.protocol import ChatRequest, CompletionRequest, GenerationRequest
from narrows.server.service import Service

router = APIRouter()
Collect = Callable[[list[answers.Chunk]], Sequence[Mapping[str, Any]]]


@router.post(
    "/v1/chat/completions",
    openapi_extra=body_of_page(ChatRequest),
    responses=answer_of_page(
        ChatCompletion, "The answer; with `stream`, chunks that add up to it, then `[DONE]`", ChatChunk | ErrorBody
    ),
    summary="Answer a conversation",
)
async def chat_completions(request: Request) -> Response:
    def writer(answer: Answer, body: ChatRequest) -> Writer:
        return _Completion(answer, "chat.completion", body, answers.collect_chat)

    return await exchange.chat(request, partial(protocol.read, ChatRequest), "chatcmpl-", writer)


@router.post(
    "/v1/completions",
    openapi_extra=body_of_page(CompletionRequest),
    responses=answer_of_page(
        TextCompletion, "The texts; with `stream`, chunks that add up to them, then `[DONE]`", TextChunk | ErrorBody
    ),
    summary="Continue one or more texts",
)
async def completions(request: Request) -> Response:
    def writer(answer: Answer, body: CompletionRequest) -> Writer:
        return _Completion(answer, "text_completion", body, answers.collect_text)

    return await exchange.completion(request, partial(protocol.read, CompletionRequest), "cmpl-", writer)


@router.get("/v1/models", responses=answer_of_page(ModelList, "The models"), summary="List the models")
async def models(request: Request) -> ModelList:
    found = models_of(request).by_name
    return {"object": "list", "data": [_model(service, name) for name, service in found.items()]}


@router.get("/v1/models/{name:path}", responses=answer_of_page(ModelCard, "The model"), summary="One model")
async def model(request: Request, name: str) -> ModelCard:
    return _model(models_of(request).named(name), name)


_HEALTH = response_of_page(Health, "All engines work")


@router.get(
    "/health",
    responses={**_HEALTH, 503: {**_HEALTH[200], "description": "It does not"}},
    summary="200 while all engines work, 503 after",
)
async def health(request: Request) -> Response:
    models = models_of(request)
    dead = models.dead()
    each: list[ModelHealth] = [
        {"status": "dead", "model": one.name, "format": one.format.name, "error": body_of(dead[one.name])["error"]}
        if one.name in dead
        else {"status": "ok", "model": one.name, "format": one.format.name}
        for one in models
    ]
    told = next((one for one in each if one["status"] == "dead"), each[0])
    state: Health = {"status": told["status"], "model": told["model"], "format": told["format"]}
    if dead:
        state["error"] = told["error"]
    elif models.shared.drain.begun:
        state = {"status": "stopping", "error": body_of(stopping())["error"]}
    if len(each) > 1:
        state["models"] = each
    return _state(state, 200 if state["status"] == "ok" else 503)


def _state(health: Health, status: int) -> Response:
    return JSONResponse(health, status)


@router.get(
    "/metrics",
    responses={200: {"description": "Prometheus' text format", "content": {"text/plain": {}}}},
    summary="Prometheus metrics",
)
async def metrics(request: Request) -> Response:
    return Response(shared_of(request).metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _model(service: Service, name: str) -> ModelCard:
    return {
        "id": name,
        "object": "model",
        "created": service.shared.created,
        "owned_by": "narrows",
        "root": service.engine.model_name,
        "max_model_len": service.engine.max_model_len,
    }


class _Completion(Writer):
    """OpenAI's completions, both kinds."""

    last = b"data: [DONE]\n\n"

    def __init__(self, answer: Answer, kind: str, body: GenerationRequest, collect: Collect) -> None:
        super().__init__(answer)
        head = {"id": answer.id, "object": kind, "created": answer.created, "model": answer.model}
        self._head = head
        self._chunk_head = {**head, "object": "chat.completion.chunk" if kind == "chat.completion" else kind}
        options = body.stream_options
        self._usage = options is not None and bool(options.include_usage)
        self._continuous = self._usage and options is not None and bool(options.continuous_usage_stats)
        self._collect = collect

    def events(self, chunk: answers.Chunk) -> Iterable[Event]:
        usage = {"usage": self.answer.usage() if self._continuous else None} if self._usage else {}
        yield {**self._chunk_head, "choices": [chunk], **usage}

    def closing(self) -> Iterable[Event]:
        if self._usage:
            yield {**self._chunk_head, "choices": [], "usage": self.answer.usage()}

    def failure(self, error: NarrowsError) -> Iterable[Event]:
        yield body_of(error)

    def whole(self, chunks: list[answers.Chunk]) -> dict[str, Any]:
        return {**self._head, "choices": self._collect(chunks), "usage": self.answer.usage()}
