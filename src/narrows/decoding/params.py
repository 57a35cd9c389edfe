"""The sampling parameters of a request. Names, ranges and defaults are those of vLLM and OpenAI."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from narrows.arguments import LIST, quoted
from narrows.errors import InputError

MAX_LOGPROBS = 20
"""Most log-probabilities per token that a request may ask for: OpenAI's limit and vLLM's default."""

_GREEDY_BELOW = 1e-5
"""A temperature below this counts as 0, as in vLLM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the next token is chosen. Immutable. Raises `InputError` code `sampling_params_invalid` with a pointer.

    Order of work: mask of the constraint, penalties, logit bias, logits processors, the mask again (no step can undo
    it), temperature, min-p, top-k, top-p, draw. All steps after the mask see only the tokens that the mask allows.
    """

    temperature: float = 1.0
    """0 is greedy: the token with the highest logit, the lowest id if there are several."""
    top_p: float = 1.0
    """Keep the smallest set of most likely tokens whose total probability reaches this. 1 keeps all."""
    top_k: int = 0
    """Keep the k most likely tokens, ties included. 0 or -1 keeps all."""
    min_p: float = 0.0
    """Keep the tokens whose probability is at least this fraction of the highest probability."""
    presence_penalty: float = 0.0
    """Subtracted once from the logit of each token already generated."""
    frequency_penalty: float = 0.0
    """Subtracted for each time that a token was generated."""
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens in the prompt or the output. 1 does nothing."""
    seed: int | None = None
    """Sequence i of the request has its own random generator, seeded by (seed, i). None: a random seed."""
    max_tokens: int | None = None
    """Most tokens to generate, including the end token. None: until the context is full."""
    min_tokens: int = 0
    """No end token and no stop token before this many tokens, unless the constraint allows nothing else."""
    stop: tuple[str, ...] = ()
    """Texts that end the sequence. With a parser they count only in content, not in arguments and reasoning."""
    stop_token_ids: tuple[int, ...] = ()
    """Token ids that end the sequence, in addition to the model's end tokens. Their text is left out."""
    include_stop_str_in_output: bool = False
    """Keep the stop text at the end of the output."""
    logprobs: int | None = None
    """Report the log-probability of each token, and of this many most likely tokens."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Added to the logits of these token ids."""
    ignore_eos: bool = False
    """Go on after the model's end tokens. If the constraint allows only an end token, the sequence still ends."""

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is taken: the temperature is 0, or below 1e-5."""
        return self.temperature < _GREEDY_BELOW

    @property
    def draws_from_all(self) -> bool:
        """Whether every token that the mask leaves may be drawn."""
        return self.top_p == 1 and self.top_k <= 0 and self.min_p == 0

    def __post_init__(self) -> None:
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not _is_number(value) or not math.isfinite(value):
                raise _wrong(name, f"{name} must be a number, not {quoted(value)}")
            if not low <= value <= high:
                raise _wrong(name, f"{name} must be between {low:g} and {high:g}, not {value:g}")
        if self.top_p == 0:
            raise _wrong("top_p", "top_p must be above 0 and at most 1, not 0")
        for name, least in (("top_k", -1), ("min_tokens", 0), ("max_tokens", 1), ("logprobs", 0)):
            value = getattr(self, name)
            if value is None and name in ("max_tokens", "logprobs"):
                continue
            if not _is_int(value) or value < least:
                raise _wrong(name, f"{name} must be an integer of at least {least}, not {quoted(value)}")
        if self.logprobs is not None and self.logprobs > MAX_LOGPROBS:
            raise _wrong("logprobs", f"logprobs must be at most {MAX_LOGPROBS}, not {quoted(self.logprobs)}")
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise _wrong(
                "min_tokens", f"min_tokens ({quoted(self.min_tokens)}) exceeds max_tokens ({quoted(self.max_tokens)})"
            )
        if self.seed is not None and not (_is_int(self.seed) and -(2**63) <= self.seed < 2**63):
            raise _wrong("seed", f"seed must be a 64-bit integer, not {quoted(self.seed)}")
        if not isinstance(self.stop, tuple) or not all(isinstance(s, str) for s in self.stop):
            raise _wrong("stop", "stop must be a tuple of strings")
        if "" in self.stop:
            raise _wrong("stop", "stop must not contain an empty string")
        if not LIST.fits(self.stop_token_ids) or not all(_is_int(t) for t in self.stop_token_ids):
            raise _wrong("stop_token_ids", "stop_token_ids must be a tuple of integers")
        if not isinstance(self.logit_bias, Mapping):
            raise _wrong("logit_bias", f"logit_bias must be a mapping, not {type(self.logit_bias).__name__}")
        for token, bias in self.logit_bias.items():
            if not _is_int(token) or not _is_number(bias) or math.isnan(bias):
                raise _wrong(
                    "logit_bias", f"logit_bias maps token ids to numbers, not {quoted(token)} to {quoted(bias)}"
                )


_RANGES: tuple[tuple[str, float, float], ...] = (
    ("temperature", 0, 100),
    ("top_p", 0, 1),
    ("min_p", 0, 1),
    ("presence_penalty", -2, 2),
    ("frequency_penalty", -2, 2),
    ("repetition_penalty", 0.01, 100),
)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    """Whether the value is a number within the range of a double (10**400 is not)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return isinstance(value, float) or value.bit_length() < 1024


def _wrong(name: str, message: str) -> InputError:
    return InputError(message, code="sampling_params_invalid", pointer=f"/{name}")
