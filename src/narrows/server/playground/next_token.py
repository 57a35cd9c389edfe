"""What the model would write next, with the grammar and without: two requests of one token each to the engine.

They wait for their turn like all other requests. The prompt's cells are kept by the engine, so a step takes about as
long as one of a stream.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from narrows.engines.api import MAX_LOGPROBS, Output, Request, SamplingParams
from narrows.server import protocol
from narrows.server.playground.definition import Strict
from narrows.server.protocol import ChatRequest, CompletionRequest

if TYPE_CHECKING:
    from narrows.constraint import Constraint
    from narrows.server.playground.following import Texts
    from narrows.server.service import Service


class Sampling(Strict):
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """The prompt's tokens, and the end of the prompt that opens the answer."""

    ids: list[int]
    tail: str
    sampling: SamplingParams


def ask(service: Service, prompt: str, is_chat: bool, tools: list[dict[str, Any]], sampling: Sampling) -> Asked:
    """Renders and cuts the prompt. In a thread. Raises the errors of /v1."""
    values: dict[str, Any] = {**sampling.model_dump(exclude_none=True), "max_tokens": 1}
    if not is_chat:
        plain = protocol.read(CompletionRequest, {**values, "prompt": prompt, "logprobs": MAX_LOGPROBS}, service.limits)
        params, [ids] = service.prompts.plain(plain)
        return Asked(ids, "", params)
    values["messages"] = [{"role": "user", "content": prompt}]
    params, rendered, ids = service.prompts.chat(
        protocol.read(ChatRequest, values, service.limits), tools, MAX_LOGPROBS
    )
    return Asked(ids, rendered.tail, params)


async def next_token(
    service: Service, asked: Asked, written: Sequence[int], constraint: Constraint | None, client: str, texts: Texts
) -> dict[str, Any]:
    """The token that the model chooses after `written`, and the likeliest ones. With a seed, each place of the text has
    a number of its own, so that a run can be repeated."""
    sampling = replace(asked.sampling, max_tokens=len(written) + 1)
    if sampling.seed is not None:
        sampling = replace(sampling, seed=(sampling.seed + len(written)) % 2**62)
    name = f"playground-{uuid.uuid4().hex}"
    requests = {
        kind: Request(
            request_id=f"{name}-{kind}",
            prompt_token_ids=asked.ids,
            output_token_ids=list(written),
            sampling=sampling,
            constraint=constraint if kind == "held" else None,
            client=client,
        )
        for kind in (("free", "held") if constraint is not None else ("free",))
    }
    streams = {}
    outputs: dict[str, Output] = {}
    try:
        for kind, request in requests.items():
            streams[kind] = service.engine.generate(request)
        for kind, stream in streams.items():
            async for output in stream:
                if kind in outputs:
                    outputs[kind].merge(output)
                else:
                    outputs[kind] = output
    finally:
        for stream in streams.values():
            stream.close()
    answer: dict[str, Any] = {kind: _likeliest(output, texts) for kind, output in outputs.items()}
    chosen = outputs["held" if constraint is not None else "free"]
    if chosen.error is not None:
        raise chosen.error
    new = chosen.token_ids[len(written) :]
    token = new[0] if new else None
    answer["token"] = None if token is None else texts.of(token)
    return answer


def _likeliest(output: Output, texts: Texts) -> list[dict[str, Any]]:
    """The likeliest tokens with their probabilities, likeliest first."""
    if not output.logprobs:
        return []
    [first, *_] = output.logprobs
    return [{**texts.of(token), "p": round(math.exp(logprob), 6)} for token, logprob in first.top]
