"""The endpoints of the playground. They check their bodies, compile in the server's queue, and work in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import APIRouter, Request
from pydantic import Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from narrows import formats, json_pieces
from narrows.errors import InputError
from narrows.grammar.languages import LANGUAGES
from narrows.server.answers import token_texts
from narrows.server.clients import client_of
from narrows.server.errors import from_validation
from narrows.server.exchange import read_body
from narrows.server.http import unless_client_leaves
from narrows.server.playground import following, streams
from narrows.server.playground.definition import SOURCE, Definition, Read, Strict, placed_at, read
from narrows.server.playground.next_token import Asked, Sampling, ask, next_token
from narrows.server.playground.pages import HEADERS, page
from narrows.server.playground.turns import Turns

if TYPE_CHECKING:
    from narrows.compile_cache import Lease
    from narrows.constraint import Constraint
    from narrows.server.compiler import Compiled
    from narrows.server.service import Service

router = APIRouter(include_in_schema=False)
B = TypeVar("B", bound=Strict)
T = TypeVar("T")

BODY_BYTES = 1_000_000
"""Bytes of a body."""
MOST_CHARACTERS = 20_000
"""Characters of a text or a prompt."""
_MOST_IDS = 4_096


class Check(Strict):
    definition: Definition


class Follow(Strict):
    definition: Definition
    text: str = Field(max_length=MOST_CHARACTERS)


class Look(Strict):
    definition: Definition
    tokens: list[int] = Field(max_length=_MOST_IDS)
    """The tokens before the place."""
    token: int
    """The token to explain."""


class Next(Strict):
    definition: Definition | None = None
    prompt: str = Field(max_length=MOST_CHARACTERS)
    chat: bool = True
    """Whether the prompt is a message of a user, for the model's chat template. Otherwise it is plain text."""
    tokens: list[int] = Field(default=[], max_length=_MOST_IDS)
    """What has been written."""
    sampling: Sampling = Sampling()


class Stream(Strict):
    format: str
    text: str = Field(max_length=streams.MOST_CHARACTERS)
    chunk: int = Field(ge=1, le=streams.MOST_CHARACTERS)
    tools: str = ""
    """A JSON list; "": any name is a call."""
    prompt: str = Field(default="", max_length=MOST_CHARACTERS)
    reasoning: str | None = "auto"


class Template(Strict):
    template: str


class Named(Strict):
    format: str


class Playground:
    """What the endpoints of one server share."""

    def __init__(self, service: Service) -> None:
        self.turns = Turns(service)
        self.texts = following.Texts(service.engine.vocabulary, token_texts(service.engine.vocabulary))
        self.about: dict[str, Any] | None = None


def _playground(request: Request) -> tuple[Service, Playground, str]:
    """The service, what the playground has there, and the client."""
    service: Service = request.app.state.service
    return service, request.app.state.playground, client_of(request, service.settings)


@router.get("/")
async def index(request: Request) -> Response:
    return _file(request, "index.html")


@router.get("/playground/{name}")
async def file(request: Request, name: str) -> Response:
    return _file(request, name)


def _file(request: Request, name: str) -> Response:
    found = page(request, name)
    if found is None:
        raise HTTPException(404, "the playground has no such file")
    return found


@router.get("/playground/api/about")
async def about(request: Request) -> Response:
    """The model, the languages and the formats."""
    service, here, _ = _playground(request)
    if here.about is None:
        here.about = await service.in_thread(0, _about, service)
    return JSONResponse(here.about, headers=HEADERS)


def _about(service: Service) -> dict[str, Any]:
    return {
        "model": service.model_names[0],
        "format": service.format.name,
        "context": service.engine.max_model_len,
        "vocabulary": service.engine.vocabulary.size,
        "languages": [{"name": name, "options": LANGUAGES[name].options} for name in LANGUAGES],
        "formats": [{"name": name, "title": formats.get(name).title} for name in formats.names()],
        "most_characters": MOST_CHARACTERS,
        "most_tokens": following.MOST_TOKENS,
    }


@router.post("/playground/api/check")
async def check(request: Request) -> Response:
    """Whether a definition is enforced, keyword by keyword."""
    service, _, client = _playground(request)
    body, size = await _read(request, service, Check)

    async def work() -> dict[str, Any]:
        started = time.perf_counter()
        one = await service.in_thread(size, read, body.definition, service)
        lease = await _compiled(service, ["reported", one.definition], client)
        try:
            compiled = lease.value
            report = compiled.report
            assert report is not None
            place = "/tools" if one.turn is not None else ""
            return {
                "report": [[pointer.removeprefix(place), status, reason] for pointer, status, reason in report.entries],
                "left_out": report.left_out,
                "enforced": not compiled.loose,
                "ms": round((time.perf_counter() - started) * 1e3, 2),
                "states": compiled.constraint.stats()["states"],
            }
        finally:
            lease.release()

    return await _answer(request, service, work)


@router.post("/playground/api/follow")
async def follow(request: Request) -> Response:
    """A text in the grammar, token by token."""
    service, here, client = _playground(request)
    body, size = await _read(request, service, Follow)

    async def work() -> dict[str, Any]:
        one = await service.in_thread(size, read, body.definition, service)
        async with _Grammar(service, one, client) as grammar:
            ids = await service.in_thread(size, following.tokens_of, service.engine, body.text, one.names_tokens)
            return await here.turns.run(
                client,
                lambda given_up: following.follow(one, grammar.constraint, grammar.by_rule, ids, here.texts, given_up),
            )

    return await _answer(request, service, work)


@router.post("/playground/api/look")
async def look(request: Request) -> Response:
    """One place of a text: what is allowed there, and why a token is or is not."""
    service, here, client = _playground(request)
    body, size = await _read(request, service, Look)

    async def work() -> dict[str, Any]:
        one = await service.in_thread(size, read, body.definition, service)
        async with _Grammar(service, one, client) as grammar:
            return await here.turns.run(
                client,
                lambda _: following.look_at(
                    one, grammar.constraint, grammar.by_rule, body.tokens, body.token, here.texts
                ),
            )

    return await _answer(request, service, work)


@router.post("/playground/api/next")
async def next_one(request: Request) -> Response:
    """The next token that the model would write."""
    service, here, client = _playground(request)
    body, size = await _read(request, service, Next)

    async def work() -> dict[str, Any]:
        asked, one = await service.in_thread(size, _ask, service, body)
        if one is None:
            return await next_token(service, asked, body.tokens, None, client, here.texts)
        lease = await _compiled(service, one.definition, client)
        try:
            constraint = lease.value.constraint
            allowed = await here.turns.run(client, lambda _: following.allowed_at(constraint, body.tokens))
            answer = await next_token(service, asked, body.tokens, constraint, client, here.texts)
        finally:
            lease.release()
        for token in answer["free"]:
            token["allowed"] = token["id"] in allowed
        return {**answer, "allowed": len(allowed)}

    return await _answer(request, service, work)


def _ask(service: Service, body: Next) -> tuple[Asked, Read | None]:
    """The prompt, and the definition, which for tools depends on how the prompt opens the answer. In a thread."""
    one = read(body.definition, service) if body.definition is not None else None
    tools = one.source if one is not None and one.turn is not None else []
    asked = ask(service, body.prompt, body.chat, tools, body.sampling)
    if body.definition is not None and tools:
        one = read(body.definition, service, asked.tail)
    return asked, one


@router.post("/playground/api/stream")
async def stream(request: Request) -> Response:
    """The events of a transcript that comes in chunks."""
    service, here, client = _playground(request)
    body, _ = await _read(request, service, Stream)
    fmt = streams.format_named(body.format, "/format")
    tools = None
    if body.tools.strip():
        with placed_at("/tools"):
            tools = json_pieces.parse(body.tools.encode(), service.limits)
        if not isinstance(tools, list):
            raise InputError("tools are a list", code="invalid_type", pointer="/tools")

    async def work() -> dict[str, Any]:
        return await here.turns.run(
            client,
            lambda given_up: streams.parse(fmt, body.text, body.chunk, tools, body.prompt, body.reasoning, given_up),
        )

    return await _answer(request, service, work)


@router.post("/playground/api/example")
async def example(request: Request) -> Response:
    """A transcript in a format."""
    service, here, client = _playground(request)
    body, _ = await _read(request, service, Named)
    fmt = streams.format_named(body.format, "/format")

    async def work() -> dict[str, Any]:
        return {"text": await here.turns.run(client, lambda _: streams.example(fmt))}

    return await _answer(request, service, work)


@router.post("/playground/api/detect")
async def detect(request: Request) -> Response:
    """The format of a chat template."""
    service, here, client = _playground(request)
    body, _ = await _read(request, service, Template)

    async def work() -> dict[str, Any]:
        return await here.turns.run(client, lambda _: streams.detect(body.template))

    return await _answer(request, service, work)


async def _read(request: Request, service: Service, model: type[B]) -> tuple[B, int]:
    """The body, and its size in bytes."""
    limit = min(BODY_BYTES, service.limits.body_bytes)

    def parse(body: bytes) -> B:
        try:
            return model.model_validate(json_pieces.parse(body, service.limits))
        except ValidationError as error:
            raise from_validation(error) from None

    return await read_body(request, service, parse, limit)


async def _answer(request: Request, service: Service, work: Callable[[], Any]) -> Response:
    answer = await unless_client_leaves(request, service.drain, work())
    return JSONResponse(answer, headers=HEADERS)


async def _compiled(service: Service, definition: list[Any], client: str) -> Lease[Compiled]:
    """The compiled definition. Raises the errors of compiling, with pointers into the body."""
    with placed_at(SOURCE):
        return await service.grammars.get(definition, client)


class _Grammar:
    """Leases what a text is followed with: the grammar, and where rules can be named, the same with each rule apart."""

    def __init__(self, service: Service, one: Read, client: str) -> None:
        self._service = service
        self._one = one
        self._client = client
        self._leases: list[Lease[Compiled]] = []

    async def __aenter__(self) -> _Grammar:
        try:
            for definition in self._definitions():
                self._leases.append(await _compiled(self._service, definition, self._client))
        except BaseException:
            self._release()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._release()

    def _definitions(self) -> list[list[Any]]:
        definition = self._one.definition
        return [definition, ["by_rule", definition]] if self._one.has_rules else [definition]

    def _release(self) -> None:
        for lease in self._leases:
            lease.release()

    @property
    def constraint(self) -> Constraint:
        return self._leases[0].value.constraint

    @property
    def by_rule(self) -> Constraint | None:
        return self._leases[1].value.constraint if len(self._leases) > 1 else None
