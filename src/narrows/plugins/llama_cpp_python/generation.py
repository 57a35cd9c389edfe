"""The tokens of one answer of a `Llama`, as `Llama.create_completion` makes them: the same state cache, seeds and ends.

`create_completion` itself gives text alone, without control tokens. Many formats write their markers as such, so the
handler reads tokens.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from narrows.errors import InputError
from narrows.plugins.llama_cpp_python.logits_processor import Logits
from narrows.plugins.llama_cpp_python.position import Ids

Processor = Callable[[Ids, Logits], Logits]


@dataclass(slots=True)
class Generation:
    """One answer. Iterate `tokens` to its end, or close it."""

    llm: Any
    prompt: list[int]
    max_tokens: int | None
    """None, and what is not positive: as many as the context has room for."""
    seed: int | None
    processors: list[Processor]
    sampling: Mapping[str, Any]
    """Arguments of `Llama.generate`."""
    written: list[int] = field(default_factory=list)
    """The tokens so far."""

    def __post_init__(self) -> None:
        """Raises InputError for a prompt that is empty, or fills the context."""
        room = int(self.llm.n_ctx()) - len(self.prompt)
        if not self.prompt or room < 1:
            raise InputError(
                f"the prompt has {len(self.prompt)} tokens, and the context {self.llm.n_ctx()}",
                code="context_length_exceeded" if self.prompt else "prompt_empty",
                pointer="/messages",
                hint="Load the model with a larger n_ctx" if self.prompt else None,
            )
        given = self.max_tokens
        self.max_tokens = room if given is None or given <= 0 else min(given, room)

    def tokens(self) -> Iterator[int]:
        """The tokens, end tokens included: whoever reads them ends it. Not more than `max_tokens`."""
        llm = self.llm
        self._load_state()
        llm.set_seed(random.Random(llm._seed).randint(0, 2**32) if self.seed is None else self.seed)
        for token in llm.generate(self.prompt, logits_processor=self.processors or None, **self.sampling):
            self.written.append(int(token))
            yield int(token)
            if len(self.written) == self.max_tokens:
                return

    def save_state(self, count: int) -> None:
        """Keep the state in the cache of the `Llama`, if it has one, for the prompt and the first `count` tokens."""
        cache = self.llm.cache
        if cache is not None:
            cache[self.prompt + self.written[:count]] = self.llm.save_state()

    def _load_state(self) -> None:
        llm = self.llm
        if llm.cache is None:
            return
        try:
            state = llm.cache[self.prompt]
        except KeyError:
            return
        common = llm.longest_token_prefix
        if common(state.input_ids.tolist(), self.prompt) > common(llm._input_ids.tolist(), self.prompt):
            llm.load_state(state)


def biased(logit_bias: Mapping[Any, Any], size: int) -> Processor:
    """A logits processor that adds to the logits of these tokens. Raises InputError, code `logit_bias_invalid`."""
    try:
        bias = {int(token): float(value) for token, value in logit_bias.items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise _invalid("logit_bias maps token ids to numbers") from error
    if any(not 0 <= token < size for token in bias):
        raise _invalid(f"logit_bias names tokens outside 0..{size - 1}")
    tokens = np.array(list(bias), dtype=np.intp)
    values = np.array(list(bias.values()), dtype=np.single)

    def add(input_ids: Ids, logits: Logits) -> Logits:
        logits[tokens] += values
        return logits

    return add


def _invalid(message: str) -> InputError:
    return InputError(message, code="logit_bias_invalid", pointer="/logit_bias")


def stop_texts(stop: str | Sequence[str] | None) -> list[str]:
    """The stop texts, without empty ones. Raises InputError, code `stop_invalid`."""
    texts = [stop] if isinstance(stop, str) else list(stop or ())
    if not all(isinstance(text, str) for text in texts):
        raise InputError("stop is a string or a list of strings", code="stop_invalid", pointer="/stop")
    return [text for text in texts if text]
