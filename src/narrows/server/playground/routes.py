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
from narrows.server.clients import client_of
from narrows.server.errors import from_validation
from narrows.server.exchange import models_of, read_body, shared_of
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
    from narrows.server.models import Models
    from narrows.server.service import Service

router = APIRouter(include_in_schema=False)
B = TypeVar("B", bound="Body")
T = TypeVar("T")

BODY_BYTES = 1_000_000
"""Bytes of a body."""
MOST_CHARACTERS = 20_000
"""Characters of a text or a prompt."""
_MOST_IDS = 4_096


class Body(Strict):
    model: str | None = None
    """One of the server's names. None: the first."""


class Check(Body):
    definition: Definition


class Follow(Body):
    definition: Definition
    text: str = Field(max_length=MOST_CHARACTERS)


class Look(Body):
    definition: Definition
    tokens: list[int] = Field(max_length=_MOST_IDS)
    """The tokens before the place."""
    token: int
    """The token to explain."""


class Next(Body):
    definition: Definition | None = None
    prompt: str = Field(max_length=MOST_CHARACTERS)
    chat: bool = True
    """Whether the prompt is a message of a user, for the model's chat template. Otherwise it is plain text."""
    tokens: list[int] = Field(default=[], max_length=_MOST_IDS)
    """What has been written."""
    sampling: Sampling = Sampling()


class Stream(Body):
    format: str
    text: str = Field(max_length=streams.MOST_CHARACTERS)
    chunk: int = Field(ge=1, le=streams.MOST_CHARACTERS)
    tools: str = ""
    """A JSON list; "": any name is a call."""
    prompt: str = Field(default="", max_length=MOST_CHARACTERS)
    reasoning: str | None = "auto"


class Template(Body):
    template: str


class Named(Body):
    format: str


class Playground:
    """What the endpoints of one server share."""

    def __init__(self, models: Models) -> None:
        self.models = models
        self.turns = Turns(models.shared.threads)
        self._texts = {one.name: following.Texts(one.engine.vocabulary, one.describe) for one in models}
        self.about: dict[str, dict[str, Any]] = {}

    def texts(self, service: Service) -> following.Texts:
        """The texts of a model's tokens."""
        return self._texts[service.name]


def _playground(request: Request) -> tuple[Playground, str]:
    """What the endpoints share, and the client."""
    return request.app.state.playground, client_of(request, shared_of(request).settings)


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
async def about(request: Request, model: str | None = None) -> Response:
    """The model, the languages and the formats."""
    here, _ = _playground(request)
    service = here.models.named(model)
    if service.name not in here.about:
        here.about[service.name] = await service.in_thread(0, _about, service, [one.name for one in here.models])
    return JSONResponse(here.about[service.name], headers=HEADERS)


def _about(service: Service, models: list[str]) -> dict[str, Any]:
    return {
        "model": service.name,
        "models": models,
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
    _, client = _playground(request)
    service, body, size = await _read(request, Check)

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

    return await _answer(request, work)


@router.post("/playground/api/follow")
async def follow(request: Request) -> Response:
    """A text in the grammar, token by token."""
    here, client = _playground(request)
    service, body, size = await _read(request, Follow)

    async def work() -> dict[str, Any]:
        one = await service.in_thread(size, read, body.definition, service)
        async with _Grammar(service, one, client) as grammar:
            ids = await service.in_thread(size, following.tokens_of, service.engine, body.text, one.names_tokens)
            return await here.turns.run(
                client,
                lambda given_up: following.follow(
                    one, grammar.constraint, grammar.by_rule, ids, here.texts(service), given_up
                ),
            )

    return await _answer(request, work)


@router.post("/playground/api/look")
async def look(request: Request) -> Response:
    """One place of a text: what is allowed there, and why a token is or is not."""
    here, client = _playground(request)
    service, body, size = await _read(request, Look)

    async def work() -> dict[str, Any]:
        one = await service.in_thread(size, read, body.definition, service)
        async with _Grammar(service, one, client) as grammar:
            return await here.turns.run(
                client,
                lambda _: following.look_at(
                    one, grammar.constraint, grammar.by_rule, body.tokens, body.token, here.texts(service)
                ),
            )

    return await _answer(request, work)


@router.post("/playground/api/next")
async def next_one(request: Request) -> Response:
    """The next token that the model would write."""
    here, client = _playground(request)
    service, body, size = await _read(request, Next)

    async def work() -> dict[str, Any]:
        asked, one = await service.in_thread(size, _ask, service, body)
        if one is None:
            return await next_token(service, asked, body.tokens, None, client, here.texts(service))
        lease = await _compiled(service, one.definition, client)
        try:
            constraint = lease.value.constraint
            allowed = await here.turns.run(client, lambda _: following.allowed_at(constraint, body.tokens))
            answer = await next_token(service, asked, body.tokens, constraint, client, here.texts(service))
        finally:
            lease.release()
        for token in answer["free"]:
            token["allowed"] = token["id"] in allowed
        return {**answer, "allowed": len(allowed)}

    return await _answer(request, work)


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
    here, client = _playground(request)
    _, body, _ = await _read(request, Stream)
    fmt = streams.format_named(body.format, "/format")
    tools = None
    if body.tools.strip():
        with placed_at("/tools"):
            tools = json_pieces.parse(body.tools.encode(), shared_of(request).limits)
        if not isinstance(tools, list):
            raise InputError("tools are a list", code="invalid_type", pointer="/tools")

    async def work() -> dict[str, Any]:
        return await here.turns.run(
            client,
            lambda given_up: streams.parse(fmt, body.text, body.chunk, tools, body.prompt, body.reasoning, given_up),
        )

    return await _answer(request, work)


@router.post("/playground/api/example")
async def example(request: Request) -> Response:
    """A transcript in a format."""
    here, client = _playground(request)
    _, body, _ = await _read(request, Named)
    fmt = streams.format_named(body.format, "/format")

    async def work() -> dict[str, Any]:
        return {"text": await here.turns.run(client, lambda _: streams.example(fmt))}

    return await _answer(request, work)


@router.post("/playground/api/detect")
async def detect(request: Request) -> Response:
    """The format of a chat template."""
    here, client = _playground(request)
    _, body, _ = await _read(request, Template)

    async def work() -> dict[str, Any]:
        return await here.turns.run(client, lambda _: streams.detect(body.template))

    return await _answer(request, work)


async def _read(request: Request, model: type[B]) -> tuple[Service, B, int]:
    """The model that the body names, the body, and its size in bytes."""
    shared = shared_of(request)
    limit = min(BODY_BYTES, shared.limits.body_bytes)

    def parse(body: bytes) -> B:
        try:
            return model.model_validate(json_pieces.parse(body, shared.limits))
        except ValidationError as error:
            raise from_validation(error) from None

    body, size = await read_body(request, shared, parse, limit)
    return models_of(request).named(body.model), body, size


async def _answer(request: Request, work: Callable[[], Any]) -> Response:
    answer = await unless_client_leaves(request, shared_of(request).drain, work())
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
