"""Beams: the most likely texts as a whole, found by keeping the best few beginnings at each step.

At each step every beginning is continued by its most likely tokens under the grammar, and the best `width` of all
continuations are kept. A text that ends leaves the beam and is a result. Log-probabilities are of the tokens that the
grammar allows, as for `SamplingParams.logprobs`.

This module knows no model. `narrows/engines/beams.py` runs it on an engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from narrows.decoding.params import MAX_LOGPROBS
from narrows.errors import InputError


@dataclass(frozen=True, slots=True)
class Beam:
    """A text, finished or not."""

    token_ids: tuple[int, ...]
    """With the end token, if it ended with one."""
    logprob: float
    """Sum of the log-probabilities of its tokens."""
    score: float
    """`logprob` divided by the number of tokens to the power of the length penalty."""
    finished: bool
    """Whether the text ended. Otherwise `max_tokens` cut it."""


class BeamSearch:
    """The state of one search. `width`: beginnings that are kept. `length_penalty`: above 0 favours longer texts
    (1: the log-probability for each token), 0 compares sums, as in vLLM and transformers. `ends`: end tokens.

    Ask `live` for the beginnings to continue, and give `step` the likeliest next tokens of each.
    """

    def __init__(self, width: int, *, max_tokens: int, ends: Sequence[int], length_penalty: float = 1.0) -> None:
        if not 1 <= width <= MAX_LOGPROBS // 2:
            raise InputError(
                f"the beam width must be between 1 and {MAX_LOGPROBS // 2}, not {width}",
                code="sampling_params_invalid",
                pointer="/n",
            )
        self._width = width
        self._max_tokens = max_tokens
        self._ends = frozenset(ends)
        self._penalty = length_penalty
        self.live: list[Beam] = [Beam((), 0.0, 0.0, False)]
        """The beginnings that are to be continued, the best first."""
        self._done: list[Beam] = []

    @property
    def wanted(self) -> int:
        """Next tokens that `step` needs of each beginning: as many as are kept may end at once."""
        return 2 * self._width

    def step(self, nexts: Sequence[Mapping[int, float]]) -> None:
        """Continue each beginning of `live`, in its order, by the next tokens with their log-probabilities. A beginning
        without a next token is a text that has ended."""
        found: list[Beam] = []
        for beam, tokens in zip(self.live, nexts, strict=True):
            if not tokens:
                self._done.append(self._beam(beam.token_ids, beam.logprob, True))
            found += [
                self._beam((*beam.token_ids, token), beam.logprob + logprob, token in self._ends)
                for token, logprob in tokens.items()
            ]
        found.sort(key=lambda beam: (-beam.logprob, beam.token_ids))
        self._done += [beam for beam in found[: self.wanted] if beam.finished]
        self.live = [beam for beam in found if not beam.finished][: self._width]
        if self.live and len(self.live[0].token_ids) >= self._max_tokens:
            self._done += self.live
            self.live = []
        if self._is_settled():
            self.live = []

    def _beam(self, tokens: tuple[int, ...], logprob: float, finished: bool) -> Beam:
        return Beam(tokens, logprob, logprob / max(1, len(tokens)) ** self._penalty, finished)

    def _is_settled(self) -> bool:
        """Whether no beginning can still become better than the results. A text that goes on loses probability, but
        with a length penalty its score may rise until `max_tokens`."""
        if len(self._done) < self._width or not self.live:
            return False
        worst = sorted((beam.score for beam in self._done), reverse=True)[self._width - 1]
        length = self._max_tokens if self._penalty > 0 else len(self.live[0].token_ids) + 1
        return bool(max(beam.logprob for beam in self.live) / length**self._penalty <= worst)

    def best(self) -> list[Beam]:
        """The best `width` texts, finished ones and those that `max_tokens` cut, the best first."""
        texts = sorted([*self._done, *self.live], key=lambda beam: (-beam.score, beam.token_ids))
        return texts[: self._width]
