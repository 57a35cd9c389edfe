"""`/v1/embeddings`, as OpenAI and vLLM have it, on an engine that computes them (`engines.api.Embeds`).

The event loop reads and answers. Texts are cut into tokens, and large answers written, in worker threads; the engine
computes in a thread of its own. Cost: the time of the inputs as prompts. A vector of 1,000 numbers is 20 KB of JSON, or
5 KB as base64, which OpenAI's client asks for.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from fastapi import APIRouter, Request
from numpy.typing import NDArray
from pydantic import InstanceOf
from starlette.responses import Response
from typing_extensions import TypedDict  # pydantic reads it on every Python, and brings it

from narrows.engines.api import Embeddings, Embeds
from narrows.errors import InputError, LimitError, NarrowsError, UnsupportedError
from narrows.limits import Limits
from narrows.server import exchange
from narrows.server.errors import at
from narrows.server.exchange import written
from narrows.server.faces.reading import top
from narrows.server.fields import Json, Model, check_items
from narrows.server.http import unless_client_leaves
from narrows.server.openapi import answer_of_page, body_of_page
from narrows.server.protocol import GenerationRequest
from narrows.server.service import Service

router = APIRouter()
Input = str | InstanceOf[list[Json]]
Inputs = Sequence[str | Sequence[int]]


class EmbeddingsRequest(Model):
    """POST /v1/embeddings. `input`: a text, texts, token ids, or lists of them."""

    input: Input
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    user: str | None = None


class Embedding(TypedDict):
    """A vector: numbers, or base64 of 32-bit floats, the lowest byte first."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingsUsage(TypedDict):
    """Tokens of all inputs together."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(TypedDict):
    """A vector for each input, in their order."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingsUsage


class Sent:
    """A body that was read. `inputs`: as the engine takes them. `pointer`: the field that they come from."""

    def __init__(self, sent: Any, value: Json, pointer: str, limits: Limits) -> None:
        self.sent = sent
        self.pointer = pointer
        self.is_single, self.inputs = read_inputs(value, pointer, limits)
        self.inner = GenerationRequest(model=sent.model)

    def unknown_fields(self) -> list[str]:
        """For a warning."""
        return sorted(self.sent.model_extra or {})


def read_inputs(value: Json, pointer: str, limits: Limits) -> tuple[bool, Inputs]:
    """Whether the value is one input, and the inputs: texts, or lists of token ids. Raises `InputError` and
    `LimitError`."""
    if isinstance(value, str):
        return True, [value]
    if not value:
        raise InputError("there is no input", code="prompt_empty", pointer=pointer)
    first = value[0]
    if not isinstance(first, (str, list)):
        check_items(value, int, pointer)
        return True, [value]
    if len(value) > limits.embedding_inputs:
        raise LimitError(
            f"{len(value)} inputs",
            limit="embedding_inputs",
            pointer=pointer,
            hint=f"Send at most {limits.embedding_inputs} at once",
        )
    check_items(value, str if isinstance(first, str) else list, pointer)
    if isinstance(first, list):
        for i, ids in enumerate(value):
            check_items(ids, int, f"{pointer}/{i}")
    return False, value


def _read(body: Any, limits: Limits) -> Sent:
    sent, _ = top(EmbeddingsRequest, body, limits, {})
    return Sent(sent, sent.input, "/input", limits)


@router.post(
    "/v1/embeddings",
    openapi_extra=body_of_page(EmbeddingsRequest),
    responses=answer_of_page(EmbeddingsAnswer, "The vectors"),
    summary="Vectors of texts",
)
async def embeddings(request: Request) -> Response:
    service, parsed, size = await exchange.read(request, _read)
    found = await unless_client_leaves(request, service.shared.drain, computed(service, parsed, size))
    wanted = parsed.sent.dimensions
    has = found.vectors[0].shape[-1]
    if wanted is not None and wanted != has:
        raise UnsupportedError(
            f"the vectors of this model have {has} numbers: a GGUF file does not say whether they may be cut",
            code="field_unsupported",
            pointer="/dimensions",
            hint=f"Leave it out, or ask for {has}",
        )
    as_text = parsed.sent.encoding_format == "base64"
    model = service.name
    numbers = len(found.vectors) * has
    body = await service.shared.threads.in_thread(BYTES * numbers, _write, found, model, as_text)
    return Response(body, media_type="application/json")


BYTES = 20
"""Of a number as JSON, about."""


async def computed(service: Service, parsed: Sent, size: int, *, pooled: bool = True) -> Embeddings:
    """The vectors of a body's inputs. `size`: its bytes. Raises what the engine raises, with pointers into the body.
    Counts the request, but not one whose client has left."""
    metrics, began = service.shared.metrics, time.perf_counter()
    try:
        found = await _computed(service, parsed, size, pooled)
    except NarrowsError as error:
        metrics.embeddings_failed.labels(service.name, error.code).inc()
        raise
    metrics.embeddings_done.labels(service.name).inc()
    metrics.embedding_tokens.labels(service.name).inc(found.prompt_tokens)
    metrics.embedding_seconds.labels(service.name).observe(time.perf_counter() - began)
    return found


async def _computed(service: Service, parsed: Sent, size: int, pooled: bool) -> Embeddings:
    engine = service.engine
    if not isinstance(engine, Embeds):
        raise InputError("this engine computes no embeddings", code="embeddings_disabled")
    try:
        future = await service.shared.threads.in_thread(size, _begun, engine, parsed.inputs, pooled)
    except NarrowsError as error:
        if error.pointer is None:
            raise
        if parsed.is_single:
            error.pointer = error.pointer.removeprefix("/0")
        raise at(error, parsed.pointer) from None
    return await asyncio.wrap_future(future)


def _begun(engine: Embeds, inputs: Inputs, pooled: bool) -> Any:
    return engine.embed(inputs, pooled=pooled)


def _write(found: Embeddings, model: str, as_text: bool) -> bytes:
    data: list[Embedding] = [
        {"object": "embedding", "index": i, "embedding": _as_base64(vector) if as_text else vector.tolist()}
        for i, vector in enumerate(found.vectors)
    ]
    tokens = found.prompt_tokens
    usage: EmbeddingsUsage = {"prompt_tokens": tokens, "total_tokens": tokens}
    answer: EmbeddingsAnswer = {"object": "list", "data": data, "model": model, "usage": usage}
    return written(answer)


def _as_base64(vector: NDArray[np.float32]) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
