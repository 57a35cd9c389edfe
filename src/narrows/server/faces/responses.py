"""OpenAI's Responses API: `/v1/responses`. docs/apis.md says what is there and what is left out."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from fastapi import APIRouter, Request
from starlette.responses import Response
from typing_extensions import TypedDict  # pydantic reads it on every Python, and brings it

from narrows.server import exchange
from narrows.server.answering import Answer
from narrows.server.clients import client_of
from narrows.server.errors import RequestError
from narrows.server.exchange import shared_of
from narrows.server.faces.reading import left_out
from narrows.server.faces.responses_listing import PARAMETERS, Asked, ItemList, page
from narrows.server.faces.responses_request import ResponsesChat, ResponsesRequest, read_responses
from narrows.server.faces.responses_writer import ResponseEvent, ResponseObject, ResponsesWriter
from narrows.server.http import unless_client_leaves
from narrows.server.openapi import answer_of_page, body_of_page
from narrows.server.remembered import Remembered
from narrows.server.remembered import Response as Kept

router = APIRouter()


class Deleted(TypedDict):
    """What is answered to a deletion."""

    id: str
    object: str
    deleted: bool


class InputTokens(TypedDict):
    """What is answered to a count."""

    object: Literal["response.input_tokens"]
    input_tokens: int


@router.post(
    "/v1/responses",
    openapi_extra=body_of_page(ResponsesRequest),
    responses=answer_of_page(ResponseObject, "The response; with `stream`, events that lead to it", ResponseEvent),
    summary="Answer items of a conversation",
)
async def create(request: Request) -> Response:
    client = client_of(request, shared_of(request).settings)
    remembered, owner = _remembered(request)

    def writer(answer: Answer, chat: ResponsesChat) -> ResponsesWriter:
        return ResponsesWriter(answer, chat, client)

    reader = partial(read_responses, before=lambda name: remembered.get(name, owner))
    return await exchange.chat(request, reader, "resp_", writer)


@router.post(
    "/v1/responses/input_tokens",
    openapi_extra=body_of_page(ResponsesRequest),
    responses=answer_of_page(InputTokens, "The number of tokens"),
    summary="Count the tokens of a prompt",
)
async def input_tokens(request: Request) -> InputTokens:
    remembered, owner = _remembered(request)
    reader = partial(read_responses, before=lambda name: remembered.get(name, owner))
    return {"object": "response.input_tokens", "input_tokens": await exchange.count(request, reader)}


@router.get(
    "/v1/responses/{response_id}",
    responses=answer_of_page(ResponseObject, "The response as it was answered"),
    summary="A response that is remembered",
)
async def retrieve(request: Request, response_id: str) -> Response:
    kept = _kept(request, response_id)
    for name in ("stream", "starting_after"):
        if request.query_params.get(name, "false").lower() not in ("false", ""):
            raise left_out(
                f"{name} of a response that is not in the background",
                f"/{name}",
                "The response is complete: read it without",
            )
    return Response(kept.body, media_type="application/json")


@router.get(
    "/v1/responses/{response_id}/input_items",
    openapi_extra=PARAMETERS,
    responses=answer_of_page(ItemList, "Items of the conversation before the answer, the newest first"),
    summary="What a response was made from",
)
async def input_items(request: Request, response_id: str) -> Response:
    kept = _kept(request, response_id)
    shared = shared_of(request)
    asked = Asked(request.query_params)
    listing = shared.threads.in_thread(len(kept.items), page, kept, asked, shared.limits)
    return Response(await unless_client_leaves(request, shared.drain, listing), media_type="application/json")


@router.post(
    "/v1/responses/{response_id}/cancel",
    responses=answer_of_page(ResponseObject, "Never: no response is in the background"),
    summary="Refused, as for any response that is not in the background",
)
async def cancel(request: Request, response_id: str) -> Response:
    _kept(request, response_id)
    raise RequestError(
        "a synchronous response cannot be cancelled",
        code="response_not_cancellable",
        pointer="/response_id",
        hint="It is complete. To end one that is being written, close its connection",
    )


@router.delete(
    "/v1/responses/{response_id}",
    responses=answer_of_page(Deleted, "The response is forgotten"),
    summary="Forget a response",
)
async def delete(request: Request, response_id: str) -> dict[str, Any]:
    remembered, owner = _remembered(request)
    if not remembered.forget(response_id, owner):
        raise _not_found(response_id)
    return {"id": response_id, "object": "response", "deleted": True}


def _remembered(request: Request) -> tuple[Remembered, str | None]:
    """The responses, and whose of them the request may see. With several API keys, each sees its own."""
    shared = shared_of(request)
    several = len(shared.settings.api_keys) > 1
    return shared.remembered, client_of(request, shared.settings) if several else None


def _kept(request: Request, response_id: str) -> Kept:
    remembered, owner = _remembered(request)
    kept = remembered.get(response_id, owner)
    if kept is None:
        raise _not_found(response_id)
    return kept


def _not_found(response_id: str) -> RequestError:
    return RequestError(
        f"there is no response {response_id[:128]!r}",
        code="response_not_found",
        hint="It was never stored, or had to make room for others",
    )
