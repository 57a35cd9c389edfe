"""A small vocabulary, and sequences over it whose masks are known by other means: what the tests of both runners share."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import cache
from typing import Any

import torch

from narrows import Constraint, Grammar, Vocabulary
from narrows.compile_cache import Lease
from narrows.plugins.vllm.masking.sequences import Constrained, ProcessorState

EOS = 0
SIZE = 40
VOCABULARY = Vocabulary([None, *(b"%d" % digit for digit in range(10)), b"12", b"3-", b"-"], eos=[EOS], size=SIZE)
REGEXES = ["[0-9]{1,12}", "(12|3-)*", "1[0-9]{2}-[0-9]{3}"]
COUNT = len(REGEXES)
"""The kind of a request whose processor counts; beyond it are requests that nothing holds."""


@cache
def constraint(regex: str) -> Constraint:
    return VOCABULARY.compile(Grammar.from_regex(regex))


def constrained(regex: str | Future[Lease[Constraint]], stops: Sequence[int] = (EOS,)) -> Constrained:
    compiled: Future[Lease[Constraint]] = Future()
    if isinstance(regex, str):
        compiled.set_result(Lease(constraint(regex)))
    else:
        compiled = regex
    return Constrained(compiled, stops)


class Counting:
    """Allows one digit, by how often it was called, and its neighbour, so that texts differ."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, tokens: list[int], logits: torch.Tensor) -> torch.Tensor:
        kept = logits[_counted(self.count)].clone()
        logits.fill_(float("-inf"))
        logits[_counted(self.count)] = kept
        self.count += 1
        return logits


def _counted(count: int) -> list[int]:
    return sorted({count % 10 + 1, (count + 1) % 10 + 1})


def counting(params: Any) -> ProcessorState:
    return ProcessorState(Counting, [EOS])


def allowed(row: torch.Tensor) -> list[int]:
    return [token for token, value in enumerate(row.tolist()) if value != float("-inf")]


def expected(kind: int, text: Sequence[int]) -> list[int]:
    """The tokens that may follow, by asking a fresh matcher about each."""
    if kind > COUNT:
        return list(range(SIZE))
    if kind == COUNT:
        return _counted(len(text))
    if text and text[-1] == EOS:
        return [EOS]
    matcher = constraint(REGEXES[kind]).matcher()
    matcher.replay(text)
    return [token for token in range(SIZE) if matcher.accepts([token])]
