"""Writes an answer as OpenAI's chat completion: as chunks, and complete. The complete one is made from the chunks, so
the two agree."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from narrows.stream.deltas import Delta, message_of

Chunk = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What all chunks of one answer have."""

    model: str
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4()}")
    created: int = field(default_factory=lambda: int(time.time()))

    def first(self) -> Chunk:
        """The chunk with the role, before all others."""
        return self.chunk({"role": "assistant", "content": ""})

    def chunk(self, delta: Delta) -> Chunk:
        """The chunk with this delta."""
        return self._chunk(delta, None)

    def last(self, finish_reason: str, prompt_tokens: int, completion_tokens: int) -> Chunk:
        """The chunk with the finish_reason. It has the usage, too: a client cannot ask for a chunk of its own."""
        usage = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        }
        return {**self._chunk({}, finish_reason), "usage": usage}

    def complete(self, chunks: Iterable[Chunk]) -> dict[str, Any]:
        """The answer that all these chunks are. The last one must be there."""
        deltas = []
        chunk: Chunk = {}
        for chunk in chunks:
            deltas.append(chunk["choices"][0]["delta"])
        choice = {
            "index": 0,
            "message": message_of(deltas),
            "logprobs": None,
            "finish_reason": chunk["choices"][0]["finish_reason"],
        }
        return {**self._head("chat.completion"), "choices": [choice], "usage": chunk["usage"]}

    def _chunk(self, delta: Delta, finish_reason: str | None) -> Chunk:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**self._head("chat.completion.chunk"), "choices": [choice]}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}
