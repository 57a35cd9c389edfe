"""What the OpenAPI page says of bodies. FastAPI does not read or write them itself: exchange.py does, under limits.

The page is written when somebody first asks for it (some 0.3 s), so that a server does not start later because of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, TypeAdapter

from narrows.server.answer_types import ErrorBody

DEFINITIONS: dict[str, Any] = {}
"""Schemas that the schemas of the bodies refer to, for `components` of the page."""
_LATER: list[tuple[dict[str, Any], Callable[[], dict[str, Any]]]] = []
"""Schemas that are still empty, and what fills them."""
_LOCK = threading.Lock()
_REFERENCE = "#/components/schemas/{model}"
_OF_FASTAPI = ("HTTPValidationError", "ValidationError")
"""What FastAPI would answer, and narrows does not: its errors are of its own form, with status 400 and others."""


def body_of_page(model: type[BaseModel]) -> dict[str, Any]:
    """The request body's schema."""
    schema = _later(lambda: model.model_json_schema(ref_template=_REFERENCE))
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def response_of_page(
    answer: Any, description: str, *, event: Any = None, stream: str = "text/event-stream", error: Any = None
) -> dict[int | str, dict[str, Any]]:
    """The response of status 200: `answer` is a TypedDict. `event`: the shape of what a stream has after each `data:`,
    or in each line. `stream`: its media type. `error`: the shape of a refusal."""
    content = _content("application/json", answer)
    if event is not None:
        content |= _content(stream, event)
    made: dict[int | str, dict[str, Any]] = {200: {"description": description, "content": content}}
    if error is not None:
        made["default"] = {"description": "An error", "content": _content("application/json", error)}
    return made


def answer_of_page(answer: Any, description: str, event: Any = None) -> dict[int | str, dict[str, Any]]:
    """The same, with errors as OpenAI has them."""
    return response_of_page(answer, description, event=event, error=ErrorBody)


def write_page_later(app: FastAPI) -> None:
    """`app.openapi()` writes the page at its first call, and keeps it. It may be called in any thread."""
    build, kept = app.openapi, list[dict[str, Any]]()

    def openapi() -> dict[str, Any]:
        with _LOCK:
            if not kept:
                for schema, make in _LATER:
                    schema |= _shared(make())
                _LATER.clear()
                kept.append(_complete(build()))
        return kept[0]

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(page: dict[str, Any]) -> dict[str, Any]:
    """Add what the bodies refer to."""
    for operations in page["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            content = operation["responses"]["200"]["content"]
            if content.get("application/json") == {"schema": {}}:
                del content["application/json"]  # FastAPI's guess, where the answer is no JSON
    schemas = page.setdefault("components", {}).setdefault("schemas", {})
    schemas |= DEFINITIONS
    for name in _OF_FASTAPI:
        schemas.pop(name, None)
    return page


def _content(media_type: str, shape: Any) -> dict[str, Any]:
    def make() -> dict[str, Any]:
        return TypeAdapter(shape).json_schema(ref_template=_REFERENCE, mode="serialization")

    return {media_type: {"schema": _later(make)}}


def _later(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    _LATER.append((schema, make))
    return schema


def _shared(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without its definitions, which all schemas share. A name stands for one shape alone."""
    for name, definition in schema.pop("$defs", {}).items():
        if DEFINITIONS.setdefault(name, definition) != definition:
            raise AssertionError(f"two shapes of the API page are named {name}")
    return schema
