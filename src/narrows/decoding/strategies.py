"""How one request is decoded, beyond sampling: which of the strategies of this package it uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from narrows.arguments import FLAG, INTEGER, quoted, wants
from narrows.decoding.drafts import DraftMode, StateChoices
from narrows.decoding.ending import WaysOut
from narrows.decoding.jump_forward import JumpForward
from narrows.decoding.params import SamplingParams
from narrows.decoding.sample_first import StrategyMode
from narrows.errors import InputError

MOST_DRAFT_TOKENS = 32
"""Most tokens of a guess that a request may ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategies:
    """The strategies of a request. Raises `InputError` code `strategy_invalid`, with a pointer."""

    sample_first: StrategyMode = "auto"
    """Draw a token before its mask is made (`sample_first.py`). Changes no text. `auto`: while nearly all draws are
    allowed. Not possible with top-p, top-k or min-p above temperature 0, with logprobs, and with logits processors."""
    jump_forward: StrategyMode = "auto"
    """Give the model what the grammar forces without drawing it (`jump_forward.py`). The text is the same; where the
    grammar leaves open how it is cut into tokens, the tokenizer decides and not the model. `auto`: wherever it is
    possible. Not possible with logprobs, and with logits processors."""
    draft: DraftMode = "auto"
    """Guess tokens and compute them with the last one (`drafts.py`). Changes no token. `prompt`: what followed the same
    tokens before. `grammar`: what came at the same place of the grammar before. `auto`: both. No guesses with a
    budget."""
    draft_tokens: int = 8
    """Most tokens of a guess."""
    budget: bool = False
    """Let only tokens pass that leave room to end the text within `max_tokens` (`ending.py`)."""

    def __post_init__(self) -> None:
        wants(FLAG, budget=self.budget)
        wants(INTEGER, draft_tokens=self.draft_tokens)
        if self.draft not in ("auto", "prompt", "grammar", "never"):
            raise InputError(
                f"draft must be auto, prompt, grammar or never, not {quoted(self.draft)}",
                code="strategy_invalid",
                pointer="/draft",
            )
        if not 1 <= self.draft_tokens <= MOST_DRAFT_TOKENS:
            raise InputError(
                f"draft_tokens must be between 1 and {MOST_DRAFT_TOKENS}, not {self.draft_tokens}",
                code="strategy_invalid",
                pointer="/draft_tokens",
            )
        for name in ("sample_first", "jump_forward"):
            value = getattr(self, name)
            if value not in ("auto", "always", "never"):
                raise InputError(
                    f"{name} must be auto, always or never, not {quoted(value)}",
                    code="strategy_invalid",
                    pointer=f"/{name}",
                )

    def samples_first(self, sampling: SamplingParams, *, processors: bool) -> bool:
        """Whether tokens may be drawn before their mask. Raises if that is asked for and not possible."""
        if self.sample_first == "never":
            return False
        obstacle = _obstacle(sampling, processors)
        if obstacle is None and sampling.temperature > 0 and not sampling.draws_from_all:
            obstacle = "top_p, top_k and min_p look at all tokens that the mask leaves"
        return self._possible("sample_first", obstacle)

    def jumps_forward(self, sampling: SamplingParams, *, processors: bool) -> bool:
        """Whether forced tokens may be left undrawn. Raises if that is asked for and not possible."""
        if self.jump_forward == "never":
            return False
        return self._possible("jump_forward", _obstacle(sampling, processors))

    def _possible(self, name: str, obstacle: str | None) -> bool:
        if obstacle is not None and getattr(self, name) == "always":
            raise InputError(
                f"{name} is not possible here: {obstacle}",
                code="strategy_invalid",
                pointer=f"/{name}",
                hint='"auto" uses it where it is possible',
            )
        return obstacle is None


def _obstacle(sampling: SamplingParams, processors: bool) -> str | None:
    if sampling.logprobs is not None:
        return "logprobs are of the tokens that the mask leaves"
    if processors:
        return "a logits processor sees every step, under its mask"
    return None


class StrategyMemory:
    """What the strategies of one engine remember for all its requests. `encode`: the model's tokenizer."""

    def __init__(self, encode: Callable[[str], Sequence[int]]) -> None:
        self.jump = JumpForward(encode)
        self.ways = WaysOut()
        self.choices = StateChoices()
