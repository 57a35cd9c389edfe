"""A chat completion over HTTP, streamed or complete, as one value that can be compared. What a stream must never do is checked while it is read."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from server import MODEL

_SECONDS = 300


@dataclass(slots=True)
class Call:
    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class Answer:
    """One choice. `deltas` are a stream's pieces, each with the seconds since the request; empty for a complete answer."""

    content: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    finish_reason: str | None = None
    token_ids: list[int] = field(default_factory=list)
    deltas: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    steps: list[list[int]] = field(default_factory=list)
    """The token ids of each delta."""

    def said(self) -> tuple[Any, ...]:
        """Everything that a user sees, as text: content that is missing and content that is empty are the same."""
        return (
            self.content,
            self.reasoning,
            [(call.id, call.name, call.arguments) for call in self.calls],
            self.finish_reason,
        )


class Refused(Exception):
    """The server's error answer."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


class Client:
    """`url` is the server's, without a path. Thread-safe."""

    def __init__(self, url: str) -> None:
        # vLLM closes a connection that was idle for 5 s. Who gives it up later, as httpx does by default, may write into one that is being closed.
        limits = httpx.Limits(max_connections=64, keepalive_expiry=2)
        self.http = httpx.Client(base_url=url, timeout=_SECONDS, limits=limits)

    def complete(self, messages: list[dict[str, Any]], **options: Any) -> list[Answer]:
        """One answer per choice."""
        reply = self.http.post("/v1/chat/completions", json=_body(messages, options))
        if reply.status_code != 200:
            raise Refused(reply.status_code, reply.json())
        return [_whole(choice) for choice in sorted(reply.json()["choices"], key=lambda choice: choice["index"])]

    def stream(self, messages: list[dict[str, Any]], **options: Any) -> list[Answer]:
        answers = [Answer() for _ in range(options.get("n", 1))]
        started = time.perf_counter()
        body = _body(messages, options) | {"stream": True}
        with self.http.stream("POST", "/v1/chat/completions", json=body) as reply:
            if reply.status_code != 200:
                reply.read()
                raise Refused(reply.status_code, reply.json())
            for event in _events(reply):
                if "error" in event:
                    raise Refused(200, event)
                for choice in event["choices"]:
                    _add(answers[choice["index"]], choice, time.perf_counter() - started)
        return answers

    def alive(self) -> bool:
        return self.http.get("/health").status_code == 200


def _body(messages: list[dict[str, Any]], options: dict[str, Any]) -> dict[str, Any]:
    return {"model": MODEL, "messages": messages, "temperature": 0, "return_token_ids": True, **options}


def _whole(choice: dict[str, Any]) -> Answer:
    message = choice["message"]
    return Answer(
        content=message.get("content") or "",
        reasoning=message.get("reasoning") or message.get("reasoning_content") or "",
        calls=[
            Call(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or []
        ],
        finish_reason=choice["finish_reason"],
        token_ids=choice.get("token_ids") or [],
    )


def _events(reply: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in reply.iter_lines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line[len("data: ") :])


def _add(answer: Answer, choice: dict[str, Any], seconds: float) -> None:
    assert answer.finish_reason is None, "a delta after the one with finish_reason"
    delta = choice["delta"]
    answer.deltas.append((seconds, delta))
    answer.content += delta.get("content") or ""
    answer.reasoning += delta.get("reasoning") or delta.get("reasoning_content") or ""
    answer.steps.append(choice.get("token_ids") or [])
    answer.token_ids += answer.steps[-1]
    for piece in delta.get("tool_calls") or []:
        function = piece.get("function") or {}
        if piece["index"] == len(answer.calls):
            answer.calls.append(Call(piece["id"], function["name"], function.get("arguments") or ""))
            continue
        assert piece["index"] == len(answer.calls) - 1, "calls must come one after another"
        assert piece.get("id") is None, "a call's id must come once"
        assert function.get("name") is None, "a call's name must come once"
        answer.calls[-1].arguments += function.get("arguments") or ""
    answer.finish_reason = choice.get("finish_reason")
