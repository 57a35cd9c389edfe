"""A stand-in for `llama_cpp.Llama`, without a model: `generate` asks logits processors as llama-cpp-python does, with its
cached prompts and its drafts. The logits of a place are random, but always the same after the same tokens."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

Draft = Callable[[list[int]], list[int]]


class FakeLlama:
    def __init__(self, width: int, ends: Sequence[int], draft: Draft | None = None) -> None:
        self._width = width
        self._draft = draft
        self._sampler: FakeSampler | None = None
        self._model = SimpleNamespace(vocab=frozenset(ends))
        self._ids: list[int] = []
        self.places_kept = 0
        """How many tokens of prompts and drafts did not have to be evaluated again."""

    def n_vocab(self) -> int:
        return self._width

    def detokenize(self, tokens: list[int]) -> bytes:
        return b""

    def logits_after(self, ids: Sequence[int]) -> np.ndarray[Any, Any]:
        seed = zlib.crc32(np.array(ids, dtype=np.int32).tobytes())
        return np.random.default_rng(seed).normal(size=self._width).astype(np.single)

    def generate(self, prompt: Sequence[int], logits_processor: Any = None, reset: bool = True) -> Iterator[int]:
        """Greedy."""
        self._sampler = FakeSampler(list(logits_processor or ()))
        prompt = list(prompt)
        if reset and self._ids[: len(prompt)] != prompt:
            shorter = min(len(self._ids), len(prompt))
            common = next((i for i in range(shorter) if self._ids[i] != prompt[i]), shorter)
            self.places_kept += common
            self._ids = self._ids[:common]
        elif reset:
            self.places_kept += len(prompt)
            self._ids = list(prompt)
        self._ids += prompt[len(self._ids) :] if reset else prompt
        place = len(self._ids)
        while True:
            while place <= len(self._ids):
                shown = np.zeros(self._width, dtype=[("id", np.intc), ("logit", np.single), ("p", np.single)])
                shown["logit"] = self.logits_after(self._ids[:place])
                for processor in self._sampler.processors:
                    shown["logit"][:] = processor(np.array(self._ids, dtype=np.intc), shown["logit"])
                token = int(shown["logit"].argmax())
                yield token
                if place < len(self._ids) and token != self._ids[place]:
                    del self._ids[place:]
                self.places_kept += place < len(self._ids)
                place += 1
            drafted = self._draft([*self._ids, token]) if self._draft is not None else []
            self._ids += [token, *drafted]


class FakeSampler:
    """What `Llama` makes for each generation. A generator uses that of the `Llama`, be it its own or not."""

    def __init__(self, processors: list[Any]) -> None:
        self.processors = processors
