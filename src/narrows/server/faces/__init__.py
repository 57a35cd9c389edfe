"""The APIs besides OpenAI's completions. A face is a file or two in this folder, and an entry in `FACES`.

A face is thin. It turns a body into a `ChatRequest` (or a `CompletionRequest`), and the chunks of the answer into what
its clients read; exchange.py and the service do the rest. So there is one meaning for each constraint, whatever API it
comes by. What would constrain the answer, and is not understood, is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse

from narrows.errors import NarrowsError
from narrows.server.errors import body_of, status_of
from narrows.server.faces import (
    embeddings,
    embeddings_elsewhere,
    llama_cpp,
    messages,
    messages_writer,
    ollama,
    responses,
    tgi,
)


@dataclass(frozen=True, slots=True)
class Face:
    """One API."""

    router: APIRouter
    paths: tuple[str, ...]
    """Its paths: each is a path, or a beginning that ends with a slash."""
    error: Callable[[NarrowsError], dict[str, Any]] = body_of
    """The body of an error."""


FACES: tuple[Face, ...] = (
    Face(responses.router, ("/v1/responses", "/v1/responses/")),
    Face(messages.router, ("/v1/messages", "/v1/messages/"), messages_writer.error_body),
    Face(ollama.router, ("/api/",), ollama.error_body),
    Face(embeddings.router, ("/v1/embeddings",)),
    Face(embeddings_elsewhere.router, ("/embedding", "/embeddings")),
    Face(llama_cpp.router, ("/completion", "/tokenize", "/detokenize", "/apply-template", "/props")),
    Face(tgi.router, ("/generate", "/generate_stream"), tgi.error_body),
)


def error_response(path: str, error: NarrowsError) -> JSONResponse:
    """The response to an error that came before anything was sent, in the form that the clients of the path read."""
    status = status_of(error)
    headers = {"Retry-After": "1"} if status in (429, 503) else None
    return JSONResponse(_error_of(path)(error), status, headers)


def _error_of(path: str) -> Callable[[NarrowsError], dict[str, Any]]:
    for face in FACES:
        if any(path == own or (own.endswith("/") and path.startswith(own)) for own in face.paths):
            return face.error
    return body_of
