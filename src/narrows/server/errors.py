"""Errors as OpenAI's clients expect them: `{"error": {message, type, param, code}}` with a fitting HTTP status.

narrows adds fields where they are set: `pointer` (JSON pointer into the request body), `line`, `column`, `offset`
(inside a grammar or regex), `limit` (the name of the bound that was met) and `hint`. `code` is stable; messages are
not.
"""

from __future__ import annotations

import copy
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from narrows.errors import EngineError, InputError, LimitError, NarrowsError

_STATUS = {
    "invalid_api_key": 401,
    "request_timeout": 408,
    "model_not_found": 404,
    "not_found": 404,
    "response_not_found": 404,
    "item_not_found": 404,
    "method_not_allowed": 405,
    "embeddings_disabled": 501,
    "body_too_large": 413,
    "content_type": 415,
    "queue_full": 429,
    "compile_queue_full": 429,
    "grammar_memory_full": 429,
    "upstream_busy": 429,
    "upstream_refused": 502,
    "upstream_failed": 502,
    "upstream_lost": 502,
    "upstream_left_grammar": 502,
    "upstream_text_unknown": 502,
    "upstream_unreachable": 503,
    "engine_dead": 503,
    "engine_closed": 503,
    "server_stopping": 503,
    "out_of_memory": 503,
    "server_busy": 503,
    "too_many_connections": 503,
}


class RequestError(InputError):
    """A request that cannot be taken as it is: wrong key, model, path or media type."""

    default_code = "invalid_request"


def status_of(error: NarrowsError) -> int:
    """The HTTP status: 4xx for an error of the request, 429 if it may be sent again later, 5xx for the server's."""
    known = _STATUS.get(error.code)
    if known is not None:
        return known
    return 500 if isinstance(error, EngineError) or not isinstance(error, (InputError, LimitError)) else 400


def body_of(error: NarrowsError) -> dict[str, Any]:
    """The response body, or the data of an error event in a stream."""
    status = status_of(error)
    kind = "invalid_request_error"
    if status == 429:
        kind = "rate_limit_error"
    elif status >= 500:
        kind = "server_error"
    fields = error.to_dict()
    fields.pop("message", None)
    code = fields.pop("code")
    return {
        "error": {
            "message": str(error),
            "type": kind,
            "param": param_of(fields.get("pointer")),
            "code": code,
            **fields,
        }
    }


def param_of(pointer: str | None) -> str | None:
    """A JSON pointer in OpenAI's notation: `/tools/0/function/name` is `tools[0].function.name`."""
    if not pointer:
        return None
    out = ""
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        out += f"[{part}]" if part.isdigit() else f".{part}" if out else part
    return out


def at(error: NarrowsError, prefix: str) -> NarrowsError:
    """A copy of the error with its place inside the request body. `prefix` points to the schema or grammar that the
    error is about."""
    # A copy, because requests that share a compilation share one error object.
    located = copy.copy(error)
    located.pointer = prefix + (error.pointer or "")
    return located


def from_validation(error: ValidationError, prefix: str = "") -> NarrowsError:
    """The first error of the value at `prefix` in a body, as a `RequestError`."""
    # A union gives one error per member. The error that lies deepest says most.
    first: ErrorDetails = max(error.errors(include_url=False, include_context=True), key=lambda e: len(e["loc"]))
    # pydantic puts the names of a union's members into the path. They are no part of the body.
    parts = [str(part) for part in first["loc"] if not (isinstance(part, str) and _is_union_member(part))]
    pointer = prefix + "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)
    code = (
        "missing_field"
        if first["type"] == "missing"
        else "invalid_type"
        if first["type"].endswith("_type") or first["type"] == "is_instance_of"
        else "invalid_value"
    )
    # pydantic's own messages name Python classes for these.
    message = first["msg"]
    if first["type"] in ("model_type", "model_attributes_type") or first.get("ctx", {}).get("class") == "dict":
        message = "Input should be an object"
    elif first["type"] == "is_instance_of":
        message = "Input should be an array"
    return RequestError(message, code=code, pointer=pointer)


def _is_union_member(part: str) -> bool:
    return part in ("str", "bool", "int", "float", "NamedTool", "AllowedTools") or "[" in part
