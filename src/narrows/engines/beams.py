"""Beam search and best-of-n on an engine (`decoding/beams.py`).

    beam_search(engine, prompt_token_ids, 4, max_tokens=50, constraint=constraint)
    best_of(engine, request, n=5)

Each step of a search is one request for each beginning. It begins with the tokens so far, whose cells are in the
prefix cache, and replays them in a matcher of its own. So nothing is shared that changes. Cost: a step of the engine
for each token, with `width` sequences, and a microsecond for each token so far.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from narrows.arguments import INTEGER, LIST, wants
from narrows.decoding.beams import Beam, BeamSearch
from narrows.decoding.params import SamplingParams
from narrows.decoding.strategies import Strategies
from narrows.engines.api import Engine, Output, OutputStream, Request

if TYPE_CHECKING:
    from narrows.constraint import Constraint

_numbers = itertools.count()
_ONE_STEP = Strategies(sample_first="never", jump_forward="never", draft="never")


def beam_search(
    engine: Engine,
    prompt_token_ids: Sequence[int],
    width: int,
    *,
    max_tokens: int,
    constraint: Constraint | None = None,
    length_penalty: float = 1.0,
    request_id: str | None = None,
    client: str = "",
) -> list[Beam]:
    """The `width` best texts after the prompt, the best first. Raises what `Engine.generate` raises, and the errors of
    its sequences. Blocks until the search is done."""
    wants(LIST, prompt_token_ids=prompt_token_ids)
    wants(INTEGER, width=width, max_tokens=max_tokens)
    search = BeamSearch(width, max_tokens=max_tokens, ends=engine.vocabulary.eos_ids, length_penalty=length_penalty)
    name = request_id or f"beams-{next(_numbers)}"
    for step in range(max_tokens):
        if not search.live:
            break
        sampling = SamplingParams(temperature=0, max_tokens=step + 1, logprobs=search.wanted)
        streams: list[OutputStream] = []
        try:
            for number, beam in enumerate(search.live):
                request = Request(
                    request_id=f"{name}-{step}-{number}",
                    prompt_token_ids=prompt_token_ids,
                    output_token_ids=beam.token_ids,
                    sampling=sampling,
                    constraint=constraint,
                    strategies=_ONE_STEP,
                    client=client,
                )
                streams.append(engine.generate(request))
            nexts = [_nexts(stream) for stream in streams]
        finally:
            for stream in streams:
                stream.close()
        search.step(nexts)
    return search.best()


def _nexts(stream: OutputStream) -> Mapping[int, float]:
    """The likeliest next tokens. None if the text has ended."""
    output = _collect(stream)
    return dict(output.logprobs[-1].top) if output.logprobs else {}


def best_of(engine: Engine, request: Request, n: int) -> list[Output]:
    """The `request.n` best of `n` sequences by the sum of their log-probabilities, the best first, each as one output.
    Raises what `Engine.generate` raises, and the errors of its sequences."""
    wants(INTEGER, n=n)
    sampling = request.sampling
    asked = replace(request, n=n, sampling=replace(sampling, logprobs=sampling.logprobs or 0))
    outputs = [Output(index=i) for i in range(n)]
    with engine.generate(asked) as stream:
        for output in stream:
            _check(output)
            outputs[output.index].merge(output)
    outputs.sort(key=lambda output: (-sum(each.logprob for each in output.logprobs), output.index))
    return outputs[: request.n]


def _collect(stream: OutputStream) -> Output:
    whole = Output(index=0)
    for output in stream:
        _check(output)
        whole.merge(output)
    return whole


def _check(output: Output) -> None:
    if output.error is not None:
        raise output.error
