"""What `POST /v1/messages` answers: events in Anthropic's order, and the message that they add up to.

The complete message is built by the same steps as the events. Cost: linear in the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import with_config
from typing_extensions import TypedDict  # pydantic reads it on every Python, and brings it

from narrows.errors import NarrowsError
from narrows.server import answers
from narrows.server.answer_types import OPEN, ErrorFields
from narrows.server.answering import Answer
from narrows.server.errors import body_of, status_of
from narrows.server.exchange import Event, Writer, written

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


class MessageObject(TypedDict):
    """A message."""

    id: str
    type: str
    role: str
    model: str
    content: list[dict[str, Any]]
    stop_reason: str | None
    stop_sequence: str | None
    usage: dict[str, int]


class TokenCount(TypedDict):
    """What is answered to a count."""

    input_tokens: int


@with_config(OPEN)
class MessageEvent(TypedDict):
    """An event of a stream. Its other fields depend on its type."""

    type: str


class MessagesError(TypedDict):
    """An error, in Anthropic's form with our fields beside theirs."""

    type: Literal["error"]
    error: ErrorFields


def error_body(error: NarrowsError) -> dict[str, Any]:
    """An error in Anthropic's form, with our fields beside theirs."""
    status = status_of(error)
    told = body_of(error)["error"]
    kind = _KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {**told, "type": kind}}


class MessagesWriter(Writer):
    """One message."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self._block: dict[str, Any] | None = None
        """The block that is being written. It is the last of the content."""
        self._field = ""
        """The name of its text."""
        self._pieces: list[str] = []
        self._end: answers.Chunk = {}
        self.message: MessageObject = {
            "id": answer.id,
            "type": "message",
            "role": "assistant",
            "model": answer.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": self._usage(),
        }

    def opening(self) -> Iterator[Event]:
        yield {"type": "message_start", "message": {**self.message, "content": []}}
        yield {"type": "ping"}

    def events(self, chunk: answers.Chunk) -> Iterator[Event]:
        delta = chunk["delta"]
        if chunk["finish_reason"] is not None:
            self._end = chunk
        if delta.get("reasoning_content"):
            if self._field != "thinking":
                yield from self._begin({"type": "thinking", "thinking": "", "signature": ""}, "thinking")
            yield self._more({"type": "thinking_delta", "thinking": delta["reasoning_content"]}, "thinking")
        elif delta.get("content"):
            if self._field != "text":
                yield from self._begin({"type": "text", "text": ""}, "text")
            yield self._more({"type": "text_delta", "text": delta["content"]}, "text")
        for call in delta.get("tool_calls", ()):
            function = call["function"]
            if "id" in call:
                block = {"type": "tool_use", "id": call["id"], "name": function["name"], "input": {}}
                yield from self._begin(block, "input")
            elif function["arguments"]:
                yield self._more({"type": "input_json_delta", "partial_json": function["arguments"]}, "partial_json")

    def closing(self) -> Iterator[Event]:
        yield from self._end_block()
        self.message["usage"] = self._usage()
        self.message["stop_reason"], self.message["stop_sequence"] = self._stop()
        delta = {name: self.message[name] for name in ("stop_reason", "stop_sequence")}
        yield {"type": "message_delta", "delta": delta, "usage": self.message["usage"]}
        yield {"type": "message_stop"}

    def failure(self, error: NarrowsError) -> Iterator[Event]:
        yield error_body(error)

    def whole(self, chunks: list[answers.Chunk]) -> MessageObject:
        for events in (*map(self.events, chunks), self.closing()):
            for _ in events:
                pass
        return self.message

    def framed(self, event: Event) -> bytes:
        return b"event: " + str(event["type"]).encode() + b"\ndata: " + written(event) + b"\n\n"

    def _begin(self, block: dict[str, Any], name: str) -> Iterator[Event]:
        yield from self._end_block()
        self._block, self._field, self._pieces = block, name, []
        self.message["content"].append(block)
        yield {"type": "content_block_start", "index": len(self.message["content"]) - 1, "content_block": dict(block)}

    def _more(self, delta: dict[str, Any], name: str) -> Event:
        self._pieces.append(delta[name])
        return {"type": "content_block_delta", "index": len(self.message["content"]) - 1, "delta": delta}

    def _end_block(self) -> Iterator[Event]:
        if self._block is None:
            return
        text = "".join(self._pieces)
        self._block[self._field] = _object(text) if self._field == "input" else text
        self._block, self._field = None, ""
        yield {"type": "content_block_stop", "index": len(self.message["content"]) - 1}

    def _stop(self) -> tuple[str, str | None]:
        reason, text = self._end.get("finish_reason"), self._end.get("stop_reason")
        if reason in answers.CUT:
            return "max_tokens", None
        if self.answer.choices[0].has_call:
            return "tool_use", None
        return ("stop_sequence", text) if isinstance(text, str) else ("end_turn", None)

    def _usage(self) -> dict[str, int]:
        cached = self.answer.cached_tokens
        return {
            "input_tokens": self.answer.prompt_tokens - cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached,
            "output_tokens": self.answer.completion_tokens,
        }


def _object(text: str) -> dict[str, Any]:
    """The arguments of a call. None where `max_tokens` cut them: half an object is no object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
