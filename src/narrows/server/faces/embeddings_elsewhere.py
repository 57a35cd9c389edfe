"""Embeddings as llama.cpp has them (`/embedding`, `/embeddings`) and as Ollama does (`/api/embed`, `/api/embeddings`).

Field names are those of llama.cpp's `tools/server/README.md` and Ollama's `docs/api.md`.
"""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response
from typing_extensions import TypedDict  # pydantic reads it on every Python, and brings it

from narrows.errors import InputError
from narrows.limits import Limits
from narrows.server import exchange
from narrows.server.exchange import written
from narrows.server.faces.embeddings import BYTES, Input, Sent, computed
from narrows.server.faces.ollama import OllamaError
from narrows.server.faces.reading import top
from narrows.server.fields import Json, Model, Strings
from narrows.server.http import unless_client_leaves
from narrows.server.openapi import answer_of_page, body_of_page, response_of_page

router = APIRouter()


class LlamaCppEmbeddingRequest(Model):
    """POST /embedding: `content` or `input`, a text, texts, token ids, or lists of them."""

    content: Input | None = None
    input: Input | None = None
    model: str | None = None


class LlamaCppEmbedding(TypedDict):
    """The vectors of an input: one, or with pooling `none` one for each token."""

    index: int
    embedding: list[list[float]]


def _read_llama_cpp(body: Any, limits: Limits) -> Sent:
    sent, _ = top(LlamaCppEmbeddingRequest, body, limits, {})
    if (sent.content is None) == (sent.input is None):
        raise InputError("one of content and input is needed", pointer="/content", code="missing_field")
    name = "input" if sent.content is None else "content"
    return Sent(sent, getattr(sent, name), f"/{name}", limits)


_BODY = body_of_page(LlamaCppEmbeddingRequest)
_ANSWER = answer_of_page(list[LlamaCppEmbedding], "The vectors of each input")


@router.post("/embedding", openapi_extra=_BODY, responses=_ANSWER, summary="llama.cpp's embeddings")
@router.post("/embeddings", openapi_extra=_BODY, responses=_ANSWER, summary="The same")
async def embedding(request: Request) -> Response:
    service, parsed, size = await exchange.read(request, _read_llama_cpp)
    work = computed(service, parsed, size, pooled=False)
    found = await unless_client_leaves(request, service.shared.drain, work)

    def write() -> bytes:
        rows = [vector.reshape(-1, vector.shape[-1]).tolist() for vector in found.vectors]
        answer: list[LlamaCppEmbedding] = [{"index": i, "embedding": each} for i, each in enumerate(rows)]
        return written(answer)

    numbers = sum(vector.size for vector in found.vectors)
    return Response(await service.shared.threads.in_thread(BYTES * numbers, write), media_type="application/json")


class OllamaEmbedRequest(Model):
    """POST /api/embed. `truncate` has no effect: what is too long is refused."""

    input: str | Strings
    model: str | None = None
    truncate: bool | None = None
    keep_alive: Json = None
    options: Json = None


class OllamaEmbeddings(TypedDict):
    """A vector for each input. Durations in nanoseconds."""

    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class OllamaPromptRequest(Model):
    """POST /api/embeddings, the older form."""

    prompt: str
    model: str | None = None
    keep_alive: Json = None
    options: Json = None


class OllamaEmbedding(TypedDict):
    """One vector."""

    embedding: list[float]


def _read_ollama(body: Any, limits: Limits) -> Sent:
    sent, _ = top(OllamaEmbedRequest, body, limits, {})
    return Sent(sent, sent.input, "/input", limits)


def _read_prompt(body: Any, limits: Limits) -> Sent:
    sent, _ = top(OllamaPromptRequest, body, limits, {})
    return Sent(sent, sent.prompt, "/prompt", limits)


@router.post(
    "/api/embed",
    openapi_extra=body_of_page(OllamaEmbedRequest),
    responses=response_of_page(OllamaEmbeddings, "The vectors", error=OllamaError),
    summary="Ollama's embeddings",
)
async def embed(request: Request) -> Response:
    began = time.perf_counter_ns()
    service, parsed, size = await exchange.read(request, _read_ollama)
    found = await unless_client_leaves(request, service.shared.drain, computed(service, parsed, size))

    def write() -> bytes:
        answer: OllamaEmbeddings = {
            "model": service.name,
            "embeddings": [vector.tolist() for vector in found.vectors],
            "total_duration": time.perf_counter_ns() - began,
            "load_duration": 0,
            "prompt_eval_count": found.prompt_tokens,
        }
        return written(answer)

    numbers = sum(vector.size for vector in found.vectors)
    return Response(await service.shared.threads.in_thread(BYTES * numbers, write), media_type="application/json")


@router.post(
    "/api/embeddings",
    openapi_extra=body_of_page(OllamaPromptRequest),
    responses=response_of_page(OllamaEmbedding, "The vector", error=OllamaError),
    summary="Ollama's older embeddings",
)
async def embed_prompt(request: Request) -> OllamaEmbedding:
    service, parsed, size = await exchange.read(request, _read_prompt)
    found = await unless_client_leaves(request, service.shared.drain, computed(service, parsed, size))
    return {"embedding": found.vectors[0].tolist()}
