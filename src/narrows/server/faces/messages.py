"""Anthropic's Messages API: `/v1/messages`. docs/apis.md says what is there and what is left out."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from narrows.server import exchange
from narrows.server.answering import Answer
from narrows.server.faces.messages_request import CountRequest, MessagesChat, MessagesRequest, read_messages
from narrows.server.faces.messages_writer import MessageEvent, MessageObject, MessagesError, MessagesWriter, TokenCount
from narrows.server.openapi import body_of_page, response_of_page

router = APIRouter()


@router.post(
    "/v1/messages",
    openapi_extra=body_of_page(MessagesRequest),
    responses=response_of_page(
        MessageObject, "The message; with `stream`, events that add up to it", event=MessageEvent, error=MessagesError
    ),
    summary="Answer a conversation of blocks",
)
async def messages(request: Request) -> Response:
    def writer(answer: Answer, chat: MessagesChat) -> MessagesWriter:
        return MessagesWriter(answer)

    return await exchange.chat(request, read_messages, "msg_", writer)


@router.post(
    "/v1/messages/count_tokens",
    openapi_extra=body_of_page(CountRequest),
    responses=response_of_page(TokenCount, "The number of tokens", error=MessagesError),
    summary="Count the tokens of a prompt",
)
async def count_tokens(request: Request) -> dict[str, Any]:
    return {"input_tokens": await exchange.count(request, partial(read_messages, model=CountRequest))}
