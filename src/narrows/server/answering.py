"""An answer while it comes: the outputs of the engine as chunks, and what it has used so far."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from narrows.compile_cache import Lease
from narrows.engines.api import Output, OutputStream
from narrows.errors import LimitError, NarrowsError
from narrows.server import answers
from narrows.server.answer_types import Usage
from narrows.server.compiler import Compiled
from narrows.server.errors import at
from narrows.server.shared import Shared

AT_ONCE = 1_000
"""Log-probabilities of one output that are written on the event loop. Each costs about 3 us."""
_LOGPROB_BYTES, _TOKEN_BYTES = 60, 5
"""Bytes of one log-probability, and of one token's text, as JSON: estimates."""


@dataclass(slots=True)
class Answer:
    """A request that the engine has taken. Iterate `batches`, and always `close` it."""

    shared: Shared
    id: str
    created: int
    model: str
    """The first of the model's names."""
    choices: list[Any]
    streams: list[tuple[OutputStream, int]]
    """Each with the index of its first choice."""
    prompt_tokens: int
    opening: list[answers.Chunk]
    constraint_pointer: str | None = None
    """Where in the request body the constraint stands. For limits that are met while the answer is generated."""
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    loose: tuple[str, ...] = ()
    """Pointers into the request body, to keywords of its schemas that are not enforced."""
    errors: list[NarrowsError] = field(default_factory=list)
    lease: Lease[Compiled] | None = None
    """The compiled grammar's."""
    logprob_values: int = 0
    """The number of log-probabilities so far."""
    batch_bytes: int = 0
    """The size of the last batch's log-probabilities as JSON, about."""
    _cached_seen: set[int] = field(default_factory=set)

    async def batches(self, on_first: Callable[[], None] = lambda: None) -> AsyncIterator[list[answers.Chunk]]:
        """The chunks as they come. Each batch holds the chunks of one output."""
        if self.opening:
            yield self.opening
        async for base, output in _outputs_of(self.streams):
            on_first()
            self.completion_tokens += len(output.token_ids)
            self.reasoning_tokens += output.reasoning_tokens
            self._count_cached(base, output)
            if output.error is not None:
                if isinstance(output.error, LimitError) and output.error.pointer is None and self.constraint_pointer:
                    output.error = at(output.error, self.constraint_pointer)
                self.errors.append(output.error)
            values = answers.logprob_values(output.logprobs)
            self.logprob_values += values
            self.batch_bytes = _LOGPROB_BYTES * values
            feed = self.choices[base + output.index].feed
            chunks = (
                feed(output)
                if values <= AT_ONCE
                else await self.shared.threads.in_thread(_LOGPROB_BYTES * values, feed, output)
            )
            if chunks:
                yield chunks

    def _count_cached(self, base: int, output: Output) -> None:
        # n sequences share one prompt: the tokens that the first found in the cache count for the request.
        if output.index == 0 and base not in self._cached_seen:
            self._cached_seen.add(base)
            self.cached_tokens += output.cached_tokens

    @property
    def json_bytes(self) -> int:
        """The answer's size as JSON so far, about."""
        return _TOKEN_BYTES * self.completion_tokens + _LOGPROB_BYTES * self.logprob_values

    def usage(self) -> Usage:
        """OpenAI's usage object, as of now."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning_tokens},
        }

    def close(self) -> None:
        """Abort the sequences that still run, and release the grammar. Idempotent."""
        for stream, _ in self.streams:
            stream.close()
        if self.lease is not None:
            self.lease.release()


async def _outputs_of(streams: list[tuple[OutputStream, int]]) -> AsyncIterator[tuple[int, Output]]:
    """The outputs of all streams as they come, each with the index of its stream's first choice."""
    if len(streams) == 1:
        stream, base = streams[0]
        async for output in stream:
            yield base, output
        return
    waiting: dict[asyncio.Future[Output], tuple[OutputStream, int]] = {}

    def ask(stream: OutputStream, base: int) -> None:
        waiting[asyncio.ensure_future(stream.__anext__())] = (stream, base)

    try:
        for stream, base in streams:
            ask(stream, base)
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for future in done:
                stream, base = waiting.pop(future)
                try:
                    output = future.result()
                except StopAsyncIteration:
                    continue
                ask(stream, base)
                yield base, output
    finally:
        for future in waiting:
            future.cancel()
