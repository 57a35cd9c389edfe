"""What `POST /v1/responses` answers: events in OpenAI's order, and the response that they lead to.

The complete answer is what the last event of the stream holds. So both are the same by construction. Cost: linear in
the text.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pydantic import with_config
from typing_extensions import TypedDict  # pydantic reads it on every Python, and brings it

from narrows.errors import NarrowsError
from narrows.server import answers
from narrows.server.answer_types import OPEN
from narrows.server.answering import Answer
from narrows.server.errors import body_of
from narrows.server.exchange import Event, Writer, written
from narrows.server.faces.custom_input import InputText
from narrows.server.faces.responses_listing import with_ids
from narrows.server.faces.responses_references import item_id
from narrows.server.faces.responses_request import ResponsesChat
from narrows.server.remembered import Response

Item = dict[str, Any]
_MANY = 10_000
"""Items of a conversation that are written on the event loop."""


class ResponseObject(TypedDict):
    """A response."""

    id: str
    object: str
    created_at: int
    completed_at: int | None
    status: str
    error: dict[str, Any] | None
    incomplete_details: dict[str, Any] | None
    output: list[Item]
    usage: dict[str, Any] | None
    model: str
    background: bool
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    metadata: dict[str, Any]
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: str | None
    reasoning: dict[str, Any]
    safety_identifier: str | None
    service_tier: str
    store: bool
    temperature: float
    text: dict[str, Any]
    tool_choice: Any
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: float
    truncation: str
    user: str | None


@with_config(OPEN)
class ResponseEvent(TypedDict):
    """An event of a stream. Its other fields depend on its type."""

    type: str
    sequence_number: int


class ResponsesWriter(Writer):
    """One response."""

    echoes = True

    def __init__(self, answer: Answer, chat: ResponsesChat, client: str) -> None:
        super().__init__(answer)
        self._client = client
        self._chat = chat
        self._custom = chat.custom
        self._count = 0
        self._item: Item | None = None
        """The item that is being written. It is the last of the output."""
        self._part: dict[str, Any] = {}
        """Its part, for a message and for reasoning."""
        self._pieces: list[str] = []
        """Its text so far."""
        self._input: InputText | None = None
        """Reads the input, for a call of a custom tool."""
        self._reason: str | None = None
        settings = answer.shared.settings
        self._stores = chat.sent.store is not False and settings.stored_responses > 0
        self.response = _response(answer, chat, self._stores)
        self._output = self.response["output"]

    def opening(self) -> Iterator[Event]:
        yield self._event("response.created", response={**self.response, "output": []})
        yield self._event("response.in_progress", response={**self.response, "output": []})

    def events(self, chunk: answers.Chunk) -> Iterator[Event]:
        delta = chunk["delta"]
        self._reason = chunk["finish_reason"]
        if delta.get("reasoning_content"):
            yield from self._text("reasoning", delta["reasoning_content"], None)
        elif delta.get("content"):
            logprobs = chunk["logprobs"]["content"] if chunk.get("logprobs") else []
            yield from self._text("message", delta["content"], logprobs)
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                yield from self._end_item()
                yield self._begin_call(call)
            else:
                yield from self._arguments(call["function"]["arguments"])

    def closing(self) -> Iterator[Event]:
        was_cut = self._reason in answers.CUT
        if self._item is None and not self._output:
            yield from self._text("message", "", [])
        is_call = self._item is not None and self._item["type"].endswith("_call")
        open_ended = self.answer.choices[0].in_call if is_call else was_cut
        yield from self._end_item("incomplete" if open_ended else "completed")
        if was_cut:
            self.response["status"] = "incomplete"
            self.response["incomplete_details"] = {"reason": "max_output_tokens"}
        else:
            self.response["status"] = "completed"
            self.response["completed_at"] = int(time.time())
        self.response["usage"] = _usage(self.answer)
        yield self._event(f"response.{self.response['status']}", response=self.response)

    def failure(self, error: NarrowsError) -> Iterator[Event]:
        count = self._count
        for _ in self._end_item("incomplete"):
            pass  # its end is told by the response alone: a client could take what is there for the whole
        self._count = count
        told = body_of(error)["error"]
        code = "server_error" if told["type"] == "server_error" else "invalid_prompt"
        self.response["status"] = "failed"
        self.response["error"] = {
            "code": code,
            "message": told["message"],
            "param": told["param"],
            "type": told["code"],
        }
        self.response["usage"] = _usage(self.answer)
        yield self._event("response.failed", response=self.response)

    def whole(self, chunks: list[answers.Chunk]) -> ResponseObject:
        for events in (*map(self.events, chunks), self.closing()):
            for _ in events:
                pass
        return self.response

    def framed(self, event: Event) -> bytes:
        return b"event: " + str(event["type"]).encode() + b"\ndata: " + written(event) + b"\n\n"

    async def keep(self, body: bytes | None) -> None:
        if self._stores:
            size = self.answer.json_bytes + self.echoed + _MANY * (len(self._chat.items) > _MANY)
            kept = await self.answer.shared.threads.in_thread(size, self._kept, body)
            self.answer.shared.remembered.keep(self.answer.id, kept)

    def _kept(self, body: bytes | None) -> Response:
        items = written([*with_ids(self._chat.items, self.answer.id), *self._output])
        response = written(self.response) if body is None else body
        return Response(self._client, response, items, len(self._output))

    # Items.

    def _text(self, kind: str, text: str, logprobs: list[Any] | None) -> Iterator[Event]:
        """More text of a message or of reasoning. `logprobs`: of a message."""
        if self._item is None or self._item["type"] != kind:
            yield from self._end_item()
            yield from self._begin_text(kind)
        self._pieces.append(text)
        fields: dict[str, Any] = {"delta": text}
        if logprobs is not None:
            self._part["logprobs"] += logprobs
            fields["logprobs"] = _told(logprobs)
        if text:
            yield self._of_part(f"response.{self._part['type']}.delta", **fields)

    def _begin_text(self, kind: str) -> Iterator[Event]:
        if kind == "message":
            item: Item = {"type": kind, "status": "in_progress", "role": "assistant", "content": []}
            self._part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        else:
            item = {"type": kind, "status": "in_progress", "summary": [], "content": []}
            self._part = {"type": "reasoning_text", "text": ""}
        yield self._begin("msg" if kind == "message" else "rs", item)
        yield self._of_part("response.content_part.added", part=dict(self._part, **_fresh(self._part)))

    def _begin_call(self, call: dict[str, Any]) -> Event:
        name = call["function"]["name"]
        fields = {"status": "in_progress", "call_id": call["id"], "name": name}
        if name in self._custom:
            self._input = InputText()
            return self._begin("ctc", {"type": "custom_tool_call", **fields, "input": ""})
        self._input = None
        return self._begin("fc", {"type": "function_call", **fields, "arguments": ""})

    def _begin(self, prefix: str, item: Item) -> Event:
        number = len(self._output)
        self._item = {"id": item_id(prefix, self.answer.id, number), **item}
        self._output.append(self._item)
        self._pieces = []
        return self._event("response.output_item.added", output_index=number, item=dict(self._item))

    def _arguments(self, text: str) -> Iterator[Event]:
        kind = "function_call_arguments"
        if self._input is not None:
            kind, text = "custom_tool_call_input", self._input.feed(text)
        if text:
            self._pieces.append(text)
            yield self._of_item(f"response.{kind}.delta", delta=text)

    def _end_item(self, status: str = "completed") -> Iterator[Event]:
        item = self._item
        if item is None:
            return
        text = "".join(self._pieces)
        if item["type"] == "function_call":
            item["arguments"] = text
            yield self._of_item("response.function_call_arguments.done", arguments=text)
        elif item["type"] == "custom_tool_call":
            item["input"] = text
            yield self._of_item("response.custom_tool_call_input.done", input=text)
        else:
            part = self._part
            part["text"] = text
            item["content"] = [part]
            logprobs = {"logprobs": _told(part["logprobs"])} if "logprobs" in part else {}
            yield self._of_part(f"response.{part['type']}.done", text=text, **logprobs)
            yield self._of_part("response.content_part.done", part=part)
        item["status"] = status
        yield self._event("response.output_item.done", output_index=len(self._output) - 1, item=item)
        self._item = None

    # Events.

    def _event(self, kind: str, **fields: Any) -> Event:
        self._count += 1
        return {"type": kind, "sequence_number": self._count - 1, **fields}

    def _of_item(self, kind: str, **fields: Any) -> Event:
        assert self._item is not None
        return self._event(kind, item_id=self._item["id"], output_index=len(self._output) - 1, **fields)

    def _of_part(self, kind: str, **fields: Any) -> Event:
        return self._of_item(kind, content_index=0, **fields)


def _fresh(part: dict[str, Any]) -> dict[str, Any]:
    """The lists of a part that has begun, as ones that do not grow."""
    return {name: [] for name, value in part.items() if isinstance(value, list)}


def _told(logprobs: list[Any]) -> list[dict[str, Any]]:
    """Log-probabilities as events have them: without the bytes, which the part has."""
    return [
        {
            "token": entry["token"],
            "logprob": entry["logprob"],
            "top_logprobs": [{"token": one["token"], "logprob": one["logprob"]} for one in entry["top_logprobs"]],
        }
        for entry in logprobs
    ]


def _response(answer: Answer, chat: ResponsesChat, stores: bool) -> ResponseObject:
    """The response before its output, with what the request asked for."""
    sent = chat.sent
    text, reasoning = sent.text or {}, sent.reasoning or {}
    return {
        "id": answer.id,
        "object": "response",
        "created_at": answer.created,
        "completed_at": None,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "output": [],
        "usage": None,
        "model": answer.model,
        "background": False,
        "instructions": sent.instructions,
        "max_output_tokens": sent.max_output_tokens,
        "max_tool_calls": sent.max_tool_calls,
        "metadata": sent.metadata or {},
        "parallel_tool_calls": sent.parallel_tool_calls is not False,
        "previous_response_id": sent.previous_response_id,
        "prompt_cache_key": sent.prompt_cache_key,
        "reasoning": {"effort": reasoning.get("effort"), "summary": None},
        "safety_identifier": sent.safety_identifier,
        "service_tier": "default",
        "store": stores,
        "temperature": 1.0 if sent.temperature is None else sent.temperature,
        "text": {"format": text.get("format") or {"type": "text"}, "verbosity": text.get("verbosity") or "medium"},
        "tool_choice": "auto" if sent.tool_choice is None else sent.tool_choice,
        "tools": sent.tools or [],
        "top_logprobs": sent.top_logprobs or 0,
        "top_p": 1.0 if sent.top_p is None else sent.top_p,
        "truncation": "disabled",
        "user": sent.user,
    }


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage()
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {**usage["prompt_tokens_details"], "cache_write_tokens": 0},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": usage["completion_tokens_details"],
        "total_tokens": usage["total_tokens"],
    }
