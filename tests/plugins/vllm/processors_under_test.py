"""Logits processors that count, right and wrong, for an engine's `logits_processors`. A request picks one by `extra_args={"count": name}`.

Each forces the digits 0, 1, 2 ... by what it remembers, so that a state which is shared, lost or repeated shows in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

from narrows.plugins.vllm.processors import per_sequence

DIGITS: list[int] = []
"""Token ids of "0" to "9"; set before the engine is made."""


class Counter:
    """Forces the next digit, whatever the tokens say."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, tokens: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        wanted = DIGITS[self.count % 10]
        self.count += 1
        logits.fill_(float("-inf"))
        logits[wanted] = 0
        return logits


def _asked_for(params: Any, name: str) -> bool:
    return (params.extra_args or {}).get("count") == name


PerSequence = per_sequence(lambda params: Counter() if _asked_for(params, "per sequence") else None)
"""One counter per sequence, brought back after a preemption."""


class Shared(AdapterLogitsProcessor):
    """One counter for everybody: what a processor object in a request was, before there were factories."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.counter = Counter()

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: Any) -> Counter | None:
        return self.counter if _asked_for(params, "shared") else None


class WithoutReplay(AdapterLogitsProcessor):
    """A factory: one counter per sequence, which starts anew after a preemption."""

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: Any) -> Counter | None:
        return Counter() if _asked_for(params, "without replay") else None
