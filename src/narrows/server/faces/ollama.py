"""Ollama's API: `/api/chat`, `/api/generate`, and what it says of the model. docs/apis.md says what is left out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from fastapi import APIRouter, Request
from pydantic import with_config
from starlette.responses import Response
from typing_extensions import NotRequired, TypedDict  # pydantic reads it on every Python, and brings it

from narrows import __version__
from narrows.errors import NarrowsError
from narrows.limits import Limits
from narrows.server import answers, exchange
from narrows.server.answer_types import OPEN
from narrows.server.answering import Answer
from narrows.server.errors import body_of
from narrows.server.exchange import Event, Writer, models_of, written
from narrows.server.faces.ollama_request import (
    OllamaChat,
    OllamaChatRequest,
    OllamaGenerateRequest,
    read_chat,
    read_generate,
)
from narrows.server.faces.reading import top
from narrows.server.fields import Model
from narrows.server.openapi import body_of_page, response_of_page
from narrows.server.protocol import GenerationRequest
from narrows.server.service import Service

router = APIRouter()


class ChatAnswer(TypedDict):
    """An answer, or a line of a stream."""

    model: str
    created_at: str
    done: bool
    message: NotRequired[dict[str, Any]]
    response: NotRequired[str]
    thinking: NotRequired[str]
    done_reason: NotRequired[str]
    total_duration: NotRequired[int]
    load_duration: NotRequired[int]
    prompt_eval_count: NotRequired[int]
    prompt_eval_duration: NotRequired[int]
    eval_count: NotRequired[int]
    eval_duration: NotRequired[int]


@with_config(OPEN)
class OllamaError(TypedDict):
    """An error, with our fields beside the message."""

    error: str
    code: str


def error_body(error: NarrowsError) -> dict[str, Any]:
    """An error in Ollama's form, with our fields beside the message."""
    told = body_of(error)["error"]
    message = told.pop("message")
    return {"error": message, **told}


class OllamaWriter(Writer):
    """One answer: a line of JSON for each piece."""

    media_type = "application/x-ndjson"

    def __init__(self, answer: Answer, in_message: bool) -> None:
        super().__init__(answer)
        self._in_message = in_message
        self._began = time.perf_counter_ns()
        self._first = 0
        self._call: dict[str, Any] | None = None
        self._arguments: list[str] = []
        self._reason = "stop"
        at = datetime.fromtimestamp(answer.created, timezone.utc).isoformat().replace("+00:00", "Z")
        self._head = {"model": answer.model, "created_at": at}

    def events(self, chunk: answers.Chunk) -> Iterator[Event]:
        delta = chunk["delta"]
        if chunk["finish_reason"] is not None:
            self._reason = "length" if chunk["finish_reason"] in answers.CUT else "stop"
        if delta and "role" not in delta and not self._first:
            self._first = time.perf_counter_ns()
        if delta.get("reasoning_content"):
            yield self._line("", thinking=delta["reasoning_content"])
        elif delta.get("content"):
            yield from self._end_call()
            yield self._line(delta["content"])
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                yield from self._end_call()
                self._call, self._arguments = call["function"], []
            else:
                self._arguments.append(call["function"]["arguments"])

    def closing(self) -> Iterator[Event]:
        if not self.answer.choices[0].in_call:
            yield from self._end_call()
        yield {**self._line(""), **self._end()}

    def failure(self, error: NarrowsError) -> Iterator[Event]:
        yield error_body(error)

    def whole(self, chunks: list[answers.Chunk]) -> dict[str, Any]:
        lines = [line for chunk in chunks for line in self.events(chunk)]
        lines += self.closing()
        parts = [line["message"] if self._in_message else line for line in lines]
        name = "content" if self._in_message else "response"
        fields: dict[str, Any] = {name: "".join(part[name] for part in parts)}
        thinking = "".join(part.get("thinking", "") for part in parts)
        if thinking:
            fields["thinking"] = thinking
        calls = [call for part in parts for call in part.get("tool_calls", ())]
        if calls:
            fields["tool_calls"] = calls
        last = {key: value for key, value in lines[-1].items() if key not in ("message", "response")}
        return {**last, **({"message": {"role": "assistant", **fields}} if self._in_message else fields)}

    def framed(self, event: Event) -> bytes:
        return written(event) + b"\n"

    def _line(self, text: str, **more: Any) -> Event:
        if self._in_message:
            return {**self._head, "message": {"role": "assistant", "content": text, **more}, "done": False}
        return {**self._head, "response": text, **more, "done": False}

    def _end_call(self) -> Iterator[Event]:
        """A call, when it is whole: Ollama's clients get its arguments as an object."""
        if self._call is None:
            return
        function = {"name": self._call["name"], "arguments": json.loads("".join(self._arguments) or "{}")}
        self._call = None
        yield self._line("", tool_calls=[{"function": function}])

    def _end(self) -> Event:
        now = time.perf_counter_ns()
        first = self._first or now
        return {
            "done": True,
            "done_reason": self._reason,
            "total_duration": now - self._began,
            "load_duration": 0,
            "prompt_eval_count": self.answer.prompt_tokens,
            "prompt_eval_duration": first - self._began,
            "eval_count": self.answer.completion_tokens,
            "eval_duration": now - first,
        }


_ANSWER = response_of_page(
    ChatAnswer,
    "The answer; without `stream: false`, a line of JSON for each piece",
    event=ChatAnswer,
    stream="application/x-ndjson",
    error=OllamaError,
)


@router.post("/api/chat", openapi_extra=body_of_page(OllamaChatRequest), responses=_ANSWER, summary="Ollama's chat")
async def chat(request: Request) -> Response:
    def writer(answer: Answer, chat: OllamaChat) -> OllamaWriter:
        return OllamaWriter(answer, in_message=True)

    return await exchange.chat(request, read_chat, "", writer)


@router.post(
    "/api/generate", openapi_extra=body_of_page(OllamaGenerateRequest), responses=_ANSWER, summary="Ollama's generate"
)
async def generate(request: Request) -> Response:
    def writer(answer: Answer, chat: OllamaChat) -> OllamaWriter:
        return OllamaWriter(answer, in_message=False)

    return await exchange.chat(request, read_generate, "", writer)


class Version(TypedDict):
    """narrows' own version."""

    version: str


class Tags(TypedDict):
    """The models."""

    models: list[dict[str, Any]]


class Shown(TypedDict):
    """A model."""

    modelfile: str
    parameters: str
    template: str
    details: dict[str, Any]
    model_info: dict[str, Any]
    capabilities: list[str]


class ShowRequest(Model):
    """POST /api/show."""

    model: str
    verbose: bool | None = None


@router.get("/api/version", responses=response_of_page(Version, "narrows' own version"), summary="The version")
async def show_version() -> Version:
    return {"version": __version__}


@router.get(
    "/api/tags", responses=response_of_page(Tags, "The models, under each of their names"), summary="The models"
)
async def tags(request: Request) -> Tags:
    models = models_of(request)
    at = datetime.fromtimestamp(models.shared.created, timezone.utc).isoformat().replace("+00:00", "Z")
    return {
        "models": [
            {"name": name, "model": name, "modified_at": at, "size": 0, "digest": "", "details": _details()}
            for name in models.by_name
        ]
    }


@router.post(
    "/api/show",
    openapi_extra=body_of_page(ShowRequest),
    responses=response_of_page(Shown, "The model"),
    summary="One model",
)
async def show(request: Request) -> Shown:
    service, _, _ = await exchange.read(request, _read_show)
    info = {"general.architecture": "unknown", "unknown.context_length": service.engine.max_model_len}
    return {
        "modelfile": "",
        "parameters": "",
        "template": service.template.source,
        "details": _details(),
        "model_info": info,
        "capabilities": _capabilities(service),
    }


class _Show:
    def __init__(self, sent: ShowRequest) -> None:
        self.inner = GenerationRequest(model=sent.model)
        self._unknown = sorted(sent.model_extra or {})

    def unknown_fields(self) -> list[str]:
        return self._unknown


def _read_show(body: Any, limits: Limits) -> _Show:
    return _Show(top(ShowRequest, body, limits, {})[0])


def _details() -> dict[str, Any]:
    """What is known of the model's file: nothing, but Ollama's clients want the fields."""
    return {"format": "", "family": "", "families": None, "parameter_size": "", "quantization_level": ""}


def _capabilities(service: Service) -> list[str]:
    thinking = ["thinking"] if service.reasoning else []
    return ["completion", *(["tools"] if service.reads_calls else []), *thinking]
