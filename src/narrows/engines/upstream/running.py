"""One sequence of a request at the upstream: asks, reads the events, and checks what comes.

Every token goes through the matcher of the request's constraint before anything else sees it. So whatever the upstream
makes of a grammar, no text that leaves it reaches a client as an answer. A matcher's call that may take long is made in
a thread: other streams do not wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from narrows.engines.sequence import Sequence
from narrows.engines.upstream.client import Client, message_of
from narrows.engines.upstream.pieces import Piece
from narrows.engines.upstream.servers import Server
from narrows.errors import EngineError
from narrows.grammar.export import Written

if TYPE_CHECKING:
    from narrows.constraint import Matcher

_DRAIN_SECONDS = 1.0
"""How long a complete answer's last events are waited for, so that the connection can serve again."""


async def run(sequence: Sequence, server: Server, client: Client, grammar: Written | None, room: int) -> int:
    """Generate one sequence. Returns the prompt tokens that were in the upstream's cache.

    room: the most tokens of its output. Raises what ends the sequence with an error; cancelling it ends the upstream's
    work."""
    request = sequence.request
    sequence.open()
    matcher = request.constraint.matcher() if request.constraint is not None else None
    if matcher is not None and request.output_token_ids:
        await asyncio.to_thread(matcher.replay, request.output_token_ids)
    if sequence.finished:
        return 0
    seed = request.sampling.seed
    body = server.body(
        request,
        list(sequence.tokens),
        None if seed is None else _wrapped(seed + sequence.index),
        room - sequence.output_length,
        grammar,
    )
    read = server.reader(request)
    cached = 0
    async with client.events(server.path, body) as events:
        async for data in events:
            piece = read(_event(data))
            cached = piece.cached_tokens or cached
            is_over = await _take(sequence, matcher, piece)
            if piece.finish is not None and not is_over:
                _check_end(matcher, piece)
                sequence.finish(piece.finish)
                is_over = True
            if is_over:
                if sequence.ended_by_itself:
                    cached = await _drained(events, read) or cached
                return cached
    raise EngineError(
        "the connection to the upstream was lost before the answer was complete: it ended", code="upstream_lost"
    )


def _wrapped(seed: int) -> int:
    """As a 64-bit integer."""
    return (seed + 2**63) % 2**64 - 2**63


def _event(data: str) -> dict[str, Any]:
    try:
        event = json.loads(data)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise EngineError(f"the upstream sent what is no event: {data[:80]!r}", code="upstream_failed")
    if "error" in event:
        raise EngineError(f"the upstream failed: {message_of(event) or data[:200]}", code="upstream_failed")
    return event


async def _take(sequence: Sequence, matcher: Matcher | None, piece: Piece) -> bool:
    """Give the tokens to the sequence. Returns whether it has ended."""
    for at, token in enumerate(piece.tokens):
        if sequence.finished:
            return True
        if matcher is not None and not await _fits(matcher, token):
            raise EngineError(
                f"the upstream's answer leaves the grammar: {matcher.explain(token)}",
                code="upstream_left_grammar",
                hint="The answer so far is not complete. Does the upstream enforce grammars?",
            )
        sequence.take(token, piece.logprobs[at] if piece.logprobs else None)
    return sequence.finished


async def _fits(matcher: Matcher, token: int) -> bool:
    known = matcher.try_accept(token)
    return await asyncio.to_thread(matcher.accept, token) if known is None else known


def _check_end(matcher: Matcher | None, piece: Piece) -> None:
    """Raises where the upstream ends a text that the grammar wants to go on."""
    if matcher is not None and piece.finish == "stop" and not (matcher.is_accepting or matcher.is_finished):
        raise EngineError(
            "the upstream ended its answer before the grammar allows it",
            code="upstream_left_grammar",
            hint="The answer so far is not complete. Does the upstream enforce grammars?",
        )


async def _drained(events: AsyncIterator[str], read: Any) -> int:
    """Read the rest of a complete answer."""
    cached = 0
    with contextlib.suppress(EngineError, asyncio.TimeoutError):
        cached = await asyncio.wait_for(_rest(events, read), _DRAIN_SECONDS)
    return cached


async def _rest(events: AsyncIterator[str], read: Any) -> int:
    cached = 0
    async for data in events:
        cached = read(_event(data)).cached_tokens or cached
    return cached
