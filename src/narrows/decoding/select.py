"""Select: the option of several that the model finds most likely as a whole.

A grammar of options chooses token by token: the first token decides, whatever comes later. Here the log-probability of
every whole option is computed, and the best one is taken, or one is drawn. Options that begin alike share what they
have in common: each distinct beginning is computed once (`pieces`).

This module knows no model. `narrows/engines/select.py` runs it on an engine.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from narrows.errors import InputError

ScoredBy = Literal["sum", "token", "byte"]


@dataclass(frozen=True, slots=True)
class OptionScore:
    """One option, and how likely the model finds it."""

    text: str
    """The option, as it was given."""
    tokens: int
    """Its tokens, with the end token if that is counted."""
    logprob: float
    """Sum of the log-probabilities of its tokens."""
    score: float
    """What options are compared by: `logprob`, or that for each token or byte."""
    probability: float
    """The option's part of all options: e to the score, divided by the sum over the options."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen option, and the scores of all in the order in which they were given."""

    index: int
    """Of the chosen option."""
    text: str
    """The chosen option."""
    scores: tuple[OptionScore, ...]
    """One for each option."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens that one or several options have in common, after `before`."""

    before: tuple[int, ...]
    tokens: tuple[int, ...]
    """At least one."""


def pieces(options: Sequence[Sequence[int]]) -> list[Piece]:
    """The distinct pieces of options, the shortest beginnings first. A piece ends where options part or end. The
    log-probability of an option is the sum over the pieces on its way. Cost: linear in the tokens."""
    children: dict[tuple[int, ...], set[int]] = {}
    ends = {tuple(option) for option in options}
    for option in ends:
        for place in range(len(option)):
            children.setdefault(option[:place], set()).add(option[place])
    found: list[Piece] = []
    starts: list[tuple[int, ...]] = [()]
    while starts:
        after: list[tuple[int, ...]] = []
        for before in starts:
            for token in sorted(children.get(before, ())):
                path = (*before, token)
                while len(nexts := children.get(path, set())) == 1 and path not in ends:
                    path = (*path, *nexts)
                found.append(Piece(before, path[len(before) :]))
                after.append(path)
        starts = after
    return found


def ways(options: Sequence[Sequence[int]], found: Sequence[Piece]) -> list[list[int]]:
    """For each option, the indices of its pieces."""
    by_end = {piece.before + piece.tokens: i for i, piece in enumerate(found)}
    result = []
    for option in options:
        path = tuple(option)
        indices = []
        while path:
            index = by_end[path]
            indices.append(index)
            path = found[index].before
        result.append(indices[::-1])
    return result


def choose(
    texts: Sequence[str],
    tokens: Sequence[int],
    logprobs: Sequence[float],
    *,
    by: ScoredBy = "sum",
    temperature: float = 0.0,
    seed: int | None = None,
) -> Selection:
    """The option with the best score, the first if there are several. With a temperature, an option is drawn with the
    probabilities of the scores divided by it. `tokens` and `logprobs`: number and sum for each option."""
    length = {"sum": [1] * len(texts), "token": list(tokens), "byte": [len(t.encode()) for t in texts]}[by]
    scores = [logprob / max(1, size) for logprob, size in zip(logprobs, length, strict=True)]
    scored = [
        OptionScore(text, count, logprob, score, probability)
        for text, count, logprob, score, probability in zip(
            texts, tokens, logprobs, scores, _softmax(scores), strict=True
        )
    ]
    if temperature > 0:
        weights = _softmax([score / temperature for score in scores])
        index = random.Random(seed).choices(range(len(texts)), weights)[0]
    else:
        index = max(range(len(texts)), key=lambda i: (scores[i], -i))
    return Selection(index, texts[index], tuple(scored))


def check(options: Sequence[str], by: str) -> None:
    """Raises `InputError` code `options_invalid`."""
    if not options:
        raise InputError("there is no option", code="options_invalid", hint="Give at least one")
    for index, option in enumerate(options):
        if not isinstance(option, str) or not option:
            raise InputError(
                f"option {index} must be a text that is not empty", code="options_invalid", pointer=f"/{index}"
            )
    if len(set(options)) < len(options):
        again = next(i for i, option in enumerate(options) if option in options[:i])
        raise InputError(f"option {again} is there twice", code="options_invalid", pointer=f"/{again}")
    if by not in ("sum", "token", "byte"):
        raise InputError(f"options are scored by sum, token or byte, not by {by!r}", code="options_invalid")


def _softmax(scores: Sequence[float]) -> list[float]:
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    total = sum(weights)
    return [weight / total for weight in weights]
