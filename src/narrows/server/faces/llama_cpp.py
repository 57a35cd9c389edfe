"""llama.cpp's `/completion`, `/apply-template` and `/props`, and `/tokenize` and `/detokenize`, which vLLM has too.

Field names are those of llama.cpp's `tools/server/README.md`. `/tokenize` and `/detokenize` take the fields of both
servers, and answer with the fields of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from pydantic import InstanceOf
from starlette.responses import Response
from typing_extensions import NotRequired, TypedDict  # pydantic reads it on every Python, and brings it

from narrows.errors import InputError, NarrowsError
from narrows.limits import Limits
from narrows.server import answers, exchange, protocol
from narrows.server.answering import Answer
from narrows.server.errors import body_of
from narrows.server.exchange import Event, Writer, models_of
from narrows.server.faces.reading import left_out, top
from narrows.server.fields import Model, Numbers, Strings, check_items
from narrows.server.openapi import answer_of_page, body_of_page
from narrows.server.places import Places
from narrows.server.protocol import ChatRequest, CompletionRequest, GenerationRequest

router = APIRouter()
_SAME = "temperature top_k top_p min_p presence_penalty frequency_penalty stop ignore_eos".split()
_INSTEAD = {
    "response_format": "json_schema",
    "response_format of type json_object": "json_schema",
    "max_tokens": "n_predict",
}


class LlamaCppRequest(Model):
    """POST /completion. The shared fields of the server's page may stand beside these, so `grammar` and `json_schema`
    may."""

    prompt: str | Numbers
    n_predict: int | None = None
    stream: bool | None = None
    seed: int | None = None
    repeat_penalty: float | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: Strings | None = None
    ignore_eos: bool | None = None
    n_probs: int | None = None
    model: str | None = None


class LlamaCppAnswer(TypedDict):
    """A completion, or an event of a stream."""

    content: str
    stop: bool
    index: int
    id_slot: NotRequired[int]
    model: NotRequired[str]
    prompt: NotRequired[str]
    stop_type: NotRequired[str]
    stopping_word: NotRequired[str]
    tokens_predicted: NotRequired[int]
    tokens_evaluated: NotRequired[int]
    tokens_cached: NotRequired[int]
    truncated: NotRequired[bool]


@dataclass(slots=True)
class LlamaCppCompletion:
    """A body that was read."""

    inner: CompletionRequest
    unknown: list[str]

    def unknown_fields(self) -> list[str]:
        """For a warning."""
        return self.unknown


def read_completion(body: Any, limits: Limits) -> LlamaCppCompletion:
    """The body as a plain completion. Raises `InputError` and `LimitError` with pointers into the body."""
    sent, plain = top(LlamaCppRequest, body, limits, _INSTEAD)
    if sent.n_probs:
        raise left_out("n_probs", "/n_probs", "Use logprobs in /v1/completions")
    plain |= {"prompt": sent.prompt, "model": sent.model, "stream": bool(sent.stream)}
    given = {name: getattr(sent, name) for name in _SAME}
    given |= {"max_tokens": sent.n_predict, "seed": sent.seed, "repetition_penalty": sent.repeat_penalty}
    if sent.n_predict in (-1, -2):
        given["max_tokens"] = None
    if sent.seed == -1:
        given["seed"] = None
    plain |= {name: value for name, value in given.items() if value is not None}
    places = Places({"/max_tokens": "/n_predict", "/repetition_penalty": "/repeat_penalty"})
    inner = protocol.read(CompletionRequest, plain, limits, places)
    inner.run_to_the_end()
    return LlamaCppCompletion(inner, sorted(sent.model_extra or {}))


class _Completion(Writer):
    """One completion."""

    def __init__(self, answer: Answer, parsed: LlamaCppCompletion) -> None:
        super().__init__(answer)
        prompt = parsed.inner.prompt
        self._prompt = prompt if isinstance(prompt, str) else ""
        self._end: answers.Chunk = {}

    def events(self, chunk: answers.Chunk) -> Iterator[Event]:
        if chunk["finish_reason"] is not None:
            self._end = chunk
        if chunk["text"]:
            yield {"index": 0, "content": chunk["text"], "stop": False}

    def closing(self) -> Iterator[Event]:
        yield dict(self._whole(""))

    def failure(self, error: NarrowsError) -> Iterator[Event]:
        yield body_of(error)

    def whole(self, chunks: list[answers.Chunk]) -> LlamaCppAnswer:
        return self._whole("".join(event["content"] for chunk in chunks for event in self.events(chunk)))

    def _whole(self, text: str) -> LlamaCppAnswer:
        word = self._end.get("stop_reason")
        was_cut = self._end["finish_reason"] in answers.CUT
        return {
            "index": 0,
            "content": text,
            "id_slot": 0,
            "stop": True,
            "model": self.answer.model,
            "prompt": self._prompt,
            "stop_type": "limit" if was_cut else "word" if isinstance(word, str) else "eos",
            "stopping_word": word if isinstance(word, str) else "",
            "tokens_predicted": self.answer.completion_tokens,
            "tokens_evaluated": self.answer.prompt_tokens,
            "tokens_cached": self.answer.cached_tokens,
            "truncated": False,
        }


_COMPLETION = body_of_page(LlamaCppRequest)
_ANSWER = answer_of_page(LlamaCppAnswer, "The completion; with `stream`, events that add up to it", LlamaCppAnswer)


@router.post("/completion", openapi_extra=_COMPLETION, responses=_ANSWER, summary="llama.cpp's completion")
async def completion(request: Request) -> Response:
    return await exchange.completion(request, read_completion, "cmpl-", _Completion)


class TokenizeRequest(Model):
    """POST /tokenize: llama.cpp's fields, or vLLM's."""

    content: str | None = None
    add_special: bool | None = None
    parse_special: bool | None = None
    model: str | None = None
    prompt: str | None = None
    add_special_tokens: bool | None = None


class Tokens(TypedDict):
    """What is answered: llama.cpp's field and vLLM's."""

    tokens: list[int]
    count: int
    max_model_len: int


class DetokenizeRequest(Model):
    """POST /detokenize."""

    tokens: InstanceOf[list[int]]
    model: str | None = None


class Text(TypedDict):
    """What is answered: llama.cpp's `content` and vLLM's `prompt`, the same text."""

    content: str
    prompt: str


class _Simple:
    """A body without an answer of the model."""

    def __init__(self, sent: Any) -> None:
        self.sent = sent
        self.inner = GenerationRequest(model=sent.model)

    def unknown_fields(self) -> list[str]:
        return sorted(self.sent.model_extra or {})


def _read_simple(body: Any, limits: Limits, model: type[Model]) -> _Simple:
    return _Simple(top(model, body, limits, {})[0])


@router.post(
    "/tokenize",
    openapi_extra=body_of_page(TokenizeRequest),
    responses=answer_of_page(Tokens, "The token ids"),
    summary="Token ids of a text",
)
async def tokenize(request: Request) -> Tokens:
    service, parsed, size = await exchange.read(request, partial(_read_simple, model=TokenizeRequest))
    sent = parsed.sent
    if (sent.content is None) == (sent.prompt is None):
        raise InputError("one of content and prompt is needed", pointer="/content", code="missing_field")
    if sent.prompt is not None:  # vLLM's
        special, begin = True, sent.add_special_tokens is not False
    else:
        special, begin = sent.parse_special is not False, bool(sent.add_special)
    text = sent.content if sent.prompt is None else sent.prompt
    encode = partial(service.engine.encode, parse_special=special, add_bos=begin and service.engine.add_bos)
    tokens = await service.in_thread(size, encode, text)
    return {"tokens": tokens, "count": len(tokens), "max_model_len": service.engine.max_model_len}


@router.post(
    "/detokenize",
    openapi_extra=body_of_page(DetokenizeRequest),
    responses=answer_of_page(Text, "The text"),
    summary="The text of token ids",
)
async def detokenize(request: Request) -> Text:
    service, parsed, size = await exchange.read(request, partial(_read_simple, model=DetokenizeRequest))
    tokens = parsed.sent.tokens
    check_items(tokens, int, "/tokens")
    known = service.engine.vocabulary.size
    for i, token in enumerate(tokens):
        if not 0 <= token < known:
            raise InputError(f"token ids are 0 to {known - 1}", pointer=f"/tokens/{i}", code="token_invalid")
    text = await service.in_thread(size, service.engine.decode, tokens)
    return {"content": text, "prompt": text}


class Applied(TypedDict):
    """A rendered prompt."""

    prompt: str


@router.post(
    "/apply-template",
    openapi_extra=body_of_page(ChatRequest),
    responses=answer_of_page(Applied, "The prompt that the chat would have"),
    summary="Render a conversation",
)
async def apply_template(request: Request) -> Applied:
    service, chat, size = await exchange.read(request, partial(protocol.read, ChatRequest))
    return {"prompt": await service.render_chat(chat, size)}


class Props(TypedDict):
    """What is known of the model."""

    model_path: str
    chat_template: str
    total_slots: int
    default_generation_settings: dict[str, Any]


@router.get("/props", responses=answer_of_page(Props, "The model"), summary="llama.cpp's properties")
async def props(request: Request, model: str | None = None) -> Props:
    service = models_of(request).named(model)
    return {
        "model_path": service.engine.model_name,
        "chat_template": service.template.source,
        "total_slots": service.engine.max_num_seqs,
        "default_generation_settings": {"n_ctx": service.engine.max_model_len},
    }
