"""Text Generation Inference's `/generate` and `/generate_stream`. Field names are those of its API page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from pydantic import with_config
from starlette.responses import Response
from typing_extensions import TypedDict  # pydantic reads it on every Python, and brings it

from narrows.errors import NarrowsError
from narrows.limits import Limits
from narrows.server import answers, exchange
from narrows.server.answer_types import OPEN
from narrows.server.answering import Answer
from narrows.server.errors import body_of, status_of
from narrows.server.exchange import Event, Writer
from narrows.server.faces.reading import Fields, left_out, top
from narrows.server.fields import Model, Object
from narrows.server.openapi import body_of_page, response_of_page
from narrows.server.places import Places
from narrows.server.protocol import CompletionRequest, read

router = APIRouter()
_SAME = {
    "max_new_tokens": "max_tokens",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "seed": "seed",
    "stop": "stop",
    "repetition_penalty": "repetition_penalty",
    "frequency_penalty": "frequency_penalty",
}
"""A parameter -> our field."""
_ABSENT = ("best_of", "decoder_input_details", "top_n_tokens", "truncate", "typical_p", "watermark", "adapter_id")
_OTHERS = ("grammar", "do_sample", "return_full_text", "details", *_ABSENT)
_GRAMMARS = {"json": "json", "json_schema": "json", "regex": "regex"}
"""A grammar's type -> our entry."""
_INSTEAD = {
    "structured_outputs": "parameters.grammar",
    "structured_outputs.grammar": "parameters.grammar",
    "response_format": "parameters.grammar",
    "max_tokens": "parameters.max_new_tokens",
}


class GenerateRequest(Model):
    """POST /generate and /generate_stream. The shared fields of the server's page may stand beside these."""

    inputs: str
    parameters: Object | None = None
    model: str | None = None
    """Ours: TGI serves one model."""


class Generated(TypedDict):
    """What is generated."""

    generated_text: str
    details: dict[str, Any] | None


class GeneratedToken(TypedDict):
    """A piece of the text, which may be several tokens: so it has no id."""

    id: int | None
    text: str
    logprob: float | None
    special: bool


class GenerateEvent(TypedDict):
    """An event of a stream. The last one has the whole text, and the details."""

    index: int
    token: GeneratedToken
    generated_text: str | None
    details: dict[str, Any] | None


@with_config(OPEN)
class TgiError(TypedDict):
    """An error, with our fields beside TGI's."""

    error: str
    error_type: str
    code: str


@dataclass(slots=True)
class TgiCompletion:
    """A body that was read."""

    inner: CompletionRequest
    before: str
    """What the text begins with."""
    details: bool
    unknown: list[str]

    def unknown_fields(self) -> list[str]:
        """For a warning."""
        return self.unknown


def read_generate(body: Any, limits: Limits, stream: bool) -> TgiCompletion:
    """The body as a plain completion. Raises `InputError` and `LimitError` with pointers into the body."""
    sent, plain = top(GenerateRequest, body, limits, _INSTEAD)
    given = Fields(sent.parameters or {}, "/parameters")
    given.only((*_SAME, *_OTHERS))
    for name in _ABSENT:
        value = given.all.get(name)
        if value not in (None, False) and (value is True or value != 1):  # `best_of` and `typical_p` mean nothing at 1
            raise left_out(name, given.at(name))
    places = {"/prompt": "/inputs"}
    plain |= {"prompt": sent.inputs, "model": sent.model, "stream": stream}
    for name, ours in _SAME.items():
        places[f"/{ours}"] = given.at(name)
        if given.all.get(name) is not None:
            plain[ours] = given.all[name]
    if not given.flag("do_sample") and "temperature" not in plain:
        plain["temperature"] = 0.0  # the likeliest token, unless the request asks for samples
    plain.setdefault("max_tokens", 100)
    if given.all.get("grammar") is not None:
        grammar = Fields(given.all["grammar"], given.at("grammar"))
        grammar.only(("type", "value"))
        kind, value, place = grammar.one_of("type", _GRAMMARS), grammar.all.get("value"), grammar.at("value")
        if kind == "json_schema":
            named = Fields(value, place)
            named.only(("name", "schema"))
            value, place = named.all.get("schema"), named.at("schema")
        plain["structured_outputs"] = {**(plain.get("structured_outputs") or {}), _GRAMMARS[kind]: value}
        places[f"/structured_outputs/{_GRAMMARS[kind]}"] = place
        places["/structured_outputs"] = grammar.pointer
    before = sent.inputs if given.flag("return_full_text") else ""
    inner = read(CompletionRequest, plain, limits, Places(places))
    return TgiCompletion(inner, before, bool(given.flag("details")), sorted(sent.model_extra or {}))


def error_body(error: NarrowsError) -> dict[str, Any]:
    """An error in TGI's form, with our fields beside it."""
    told = body_of(error)["error"]
    kind = {429: "overloaded", 503: "overloaded"}.get(status_of(error))
    kind = kind or ("validation" if status_of(error) < 500 else "generation")
    return {**told, "error": told.pop("message"), "error_type": kind}


class _Generation(Writer):
    """One text."""

    def __init__(self, answer: Answer, parsed: TgiCompletion) -> None:
        super().__init__(answer)
        self._parsed = parsed
        self._pieces = [parsed.before]
        self._count = 0
        self._end: answers.Chunk = {}

    def events(self, chunk: answers.Chunk) -> Iterator[Event]:
        if chunk["finish_reason"] is not None:
            self._end = chunk
        if chunk["text"]:
            self._pieces.append(chunk["text"])
            yield self._event(chunk["text"])

    def closing(self) -> Iterator[Event]:
        yield {**self._event(""), **self._generated(True)}

    def failure(self, error: NarrowsError) -> Iterator[Event]:
        yield error_body(error)

    def whole(self, chunks: list[answers.Chunk]) -> Generated:
        for chunk in chunks:
            for _ in self.events(chunk):
                pass
        return self._generated(self._parsed.details)

    def framed(self, event: Event) -> bytes:
        return b"data:" + exchange.written(event) + b"\n\n"

    def _event(self, text: str) -> Event:
        self._count += 1
        # A piece may be several tokens, or the rest of one: so it has no id.
        token = {"id": None, "text": text, "logprob": None, "special": not text}
        return {"index": self._count, "token": token, "generated_text": None, "details": None}

    def _generated(self, details: bool) -> Generated:
        reason = "length" if self._end["finish_reason"] in answers.CUT else "eos_token"
        if reason != "length" and isinstance(self._end.get("stop_reason"), str):
            reason = "stop_sequence"
        facts = {
            "finish_reason": reason,
            "generated_tokens": self.answer.completion_tokens,
            "input_length": self.answer.prompt_tokens,
            "seed": self._parsed.inner.seed,
            "prefill": [],
            "tokens": [],
        }
        return {"generated_text": "".join(self._pieces), "details": facts if details else None}


_BODY = body_of_page(GenerateRequest)
_ANSWER = response_of_page(Generated, "The text", error=TgiError)
_STREAM = response_of_page(Generated, "Events that add up to the text", event=GenerateEvent, error=TgiError)
_STREAM[200]["content"].pop("application/json")


@router.post("/generate", openapi_extra=_BODY, responses=_ANSWER, summary="TGI's generate")
async def generate(request: Request) -> Response:
    return await exchange.completion(request, partial(read_generate, stream=False), "cmpl-", _Generation)


@router.post("/generate_stream", openapi_extra=_BODY, responses=_STREAM, summary="TGI's generate, as a stream")
async def generate_stream(request: Request) -> Response:
    return await exchange.completion(request, partial(read_generate, stream=True), "cmpl-", _Generation)
