"""Select on an engine: score every option as a whole, and choose one (`decoding/select.py`).

    select(engine, prompt_token_ids, ["yes", "no", "not known"])

Cost: one computed token for each token of a distinct beginning of the options, and one more for each piece, after the
prompt, which is computed once. Many pieces run at once, as many as the engine has places.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from threading import Event

from narrows.arguments import FLAG, INTEGER, LIST, optional, wants
from narrows.decoding.params import SamplingParams
from narrows.decoding.select import Piece, ScoredBy, Selection, check, choose, pieces, ways
from narrows.engines.api import Engine, OutputStream, Request
from narrows.errors import EngineError, InputError

_numbers = itertools.count()


def select(
    engine: Engine,
    prompt_token_ids: Sequence[int],
    options: Sequence[str],
    *,
    by: ScoredBy = "sum",
    end: bool = True,
    temperature: float = 0.0,
    seed: int | None = None,
    request_id: str | None = None,
    client: str = "",
    stopped: Event | None = None,
) -> Selection:
    """The option that the model finds most likely after the prompt, with the scores of all.

    by: compare the sum of the log-probabilities, or that for each token or each byte (for options of different length).
    end: count the model's end token (the one that ends its turns, if there are several) as the last token of each
    option, so that "yes" means "yes" and no more. Without it, what follows the option is open.
    temperature: 0 takes the best. Otherwise an option is drawn, repeatably with a seed.
    stopped: set by another thread, it ends the work at the next option, with `EngineError` code `select_stopped`.

    Raises `InputError` code `options_invalid`, and what `Engine.generate` raises. Blocks until the scores are there.
    """
    wants(LIST, prompt_token_ids=prompt_token_ids, options=options)
    wants(FLAG, end=end)
    wants(optional(INTEGER), seed=seed)
    check(options, by)
    ends = [end_token(engine)] if end else []
    tokens = [[*engine.encode(option), *ends] for option in options]
    found = pieces(tokens)
    name = request_id or f"select-{next(_numbers)}"
    sums = _scores(engine, list(prompt_token_ids), found, name, client, stopped)
    logprobs = [sum(sums[i] for i in way) for way in ways(tokens, found)]
    return choose(options, [len(t) for t in tokens], logprobs, by=by, temperature=temperature, seed=seed)


def end_token(engine: Engine) -> int:
    """The end token that the model's own turns end with."""
    named = engine.vocabulary.special.get(engine.special_tokens.get("eos_token", ""))
    ends = engine.vocabulary.eos_ids
    if named is not None and named in ends:
        return named
    if not ends:
        raise InputError("the model has no end token", code="options_invalid", hint="Select with end=False")
    return ends[0]


def _scores(
    engine: Engine, prompt: list[int], found: Sequence[Piece], name: str, client: str, stopped: Event | None
) -> list[float]:
    """The summed log-probability of each piece."""
    sums: list[float] = []
    running: deque[OutputStream] = deque()
    waiting = deque(enumerate(found))
    try:
        while waiting or running:
            if stopped is not None and stopped.is_set():
                raise EngineError("nobody waits for the scores any more", code="select_stopped")
            while waiting and len(running) < engine.max_num_seqs:
                number, piece = waiting.popleft()
                sampling = SamplingParams(max_tokens=len(piece.tokens), logprobs=0, ignore_eos=True)
                request = Request(
                    request_id=f"{name}-{number}",
                    prompt_token_ids=[*prompt, *piece.before],
                    output_token_ids=piece.tokens,
                    score_output=True,
                    sampling=sampling,
                    client=client,
                )
                running.append(engine.generate(request))
            sums.append(_sum(running.popleft()))
    finally:
        for stream in running:
            stream.close()
    return sums


def _sum(stream: OutputStream) -> float:
    total = 0.0
    for output in stream:
        if output.error is not None:
            raise output.error
        total += sum(each.logprob for each in output.logprobs)
    return total
