"""The values of a streamed answer: what a request asks for, and how chunks have them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from narrows.engines.api import AnswerValue, UnreadText, ValueOptions
from narrows.errors import InputError
from narrows.grammar.languages.json_schema import JSON_SCHEMA
from narrows.limits import Limits
from narrows.server.errors import body_of
from narrows.server.protocol import GenerationRequest

if TYPE_CHECKING:
    from narrows.server.constraints import Wanted

VALUES = "/stream_options/include_values"
STOP = "/stop_at_pointer"


def value_options(
    request: GenerationRequest, content: Wanted | None, calls: bool, limits: Limits
) -> ValueOptions | None:
    """What the engine has to report and to look for. None if the request asks for nothing.

    `content`: the shape of the content. `calls`: whether there may be calls. Raises `InputError` code `invalid_value`
    where neither is JSON.
    """
    reported = request.reported_values()
    stops = request.stop_pointers()
    if reported is None and not stops:
        return None
    is_json = content is not None and content.language is JSON_SCHEMA
    if not is_json and not calls:
        name = "stop_at_pointer" if reported is None else "include_values"
        raise InputError(
            f"{name} needs an answer in JSON",
            code="invalid_value",
            pointer=STOP if reported is None else VALUES,
            hint="Ask for JSON with response_format or structured_outputs, or for calls with tools",
        )
    return ValueOptions(
        pointers=() if reported is None else reported if isinstance(reported, list) else None,
        stop_at=stops,
        content=is_json,
        parse_float=_float,
        limits=limits,
    )


def entry(news: AnswerValue | UnreadText) -> dict[str, Any]:
    """An entry of a chunk's `values`."""
    call = {} if news.call is None else {"tool_call_index": news.call}
    if isinstance(news, UnreadText):
        return {**call, "error": body_of(news.error)["error"]}
    value = news.value
    written = {**call, "pointer": value.pointer, "value": value.value, "span": list(value.span)}
    return written if value.logprob is None else {**written, "logprob": value.logprob, "tokens": value.tokens}


def _float(text: str) -> float | None:
    """A number beyond a float's range is null in JSON, as JavaScript writes it."""
    value = float(text)
    return value if math.isfinite(value) else None
