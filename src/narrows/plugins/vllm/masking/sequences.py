"""The state of one sequence between the model and the sampler. Both of vLLM's logits processor interfaces use it.

A `SequenceState` belongs to one sequence: one of the n sequences of one prompt. It gets the output tokens of the
sequence, and advances to them: by one token in an ordinary step, by several with speculation, by all when a request
returns after a preemption (vLLM announces it as a new request with an output). It never raises into vLLM, because that
would end every request. If a sequence cannot go on, its text ends, and the log says why.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch
from vllm.logger import init_logger

from narrows import Constraint, Matcher
from narrows.compile_cache import Lease
from narrows.decoding.processors import LogitsProcessorFactory
from narrows.plugins.vllm.masking.stopping_matcher import Row, StoppingMatcher, only

logger = init_logger("vllm.narrows")

Processor = Callable[[Sequence[int], torch.Tensor], torch.Tensor]
"""`(token_ids, logits) -> logits`. token_ids: the sequence's output so far, without the prompt. logits: float32[V]. It
may work in place."""


class SequenceState(ABC):
    """One sequence. `stop_token_ids`: the tokens that may end it if it cannot go on."""

    def __init__(self, stop_token_ids: Iterable[int] = ()) -> None:
        self.tokens: list[int] = []
        """The output to which the state has advanced."""
        self._ends = sorted(stop_token_ids)
        self.failed = False

    def stand_at(self, tokens: Sequence[int]) -> None:
        """Advance the state to this output, from whatever output it had. Costs the work for the new tokens."""
        known = len(self.tokens)
        if self.failed:
            return
        with self._guarded():
            if len(tokens) < known or (known and tokens[known - 1] != self.tokens[-1]):
                self.tokens = []
                self._restart()
                known = 0
            if len(tokens) > known:
                added = list(tokens[known:])
                self.tokens += added
                self._advance(added)

    @abstractmethod
    def _restart(self) -> None:
        """Go back to the beginning of the output."""

    @abstractmethod
    def _advance(self, added: list[int]) -> None:
        """Advance by these tokens, which were just appended to `self.tokens`."""

    def close(self) -> None:  # noqa: B027
        """Called when the sequence has left the batch: it has ended, or returns as a new one. No effect by default."""

    def end(self, row: torch.Tensor) -> None:
        """Forbid all tokens but the stop tokens in the row float32[V]. Without stop tokens the row does not change."""
        if self._ends:
            kept = row[self._ends].clamp(min=0)
            row.fill_(float("-inf"))
            row[self._ends] = kept

    def fail(self, error: object) -> None:
        """Log once that the sequence cannot go on, and end its text."""
        if not self.failed:
            logger.error("A sequence cannot go on after %d tokens and is ended: %s", len(self.tokens), error)
        self.failed = True

    def _guarded(self) -> _Guard:
        return _Guard(self)


class _Guard:
    """A context that turns an exception into the failure of one sequence."""

    __slots__ = ("_state",)

    def __init__(self, state: SequenceState) -> None:
        self._state = state

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self._state.fail(f"{type(error).__name__}: {error}")
        return True


class Constrained(SequenceState):
    """A sequence with a narrows constraint. The constraint may still be compiling while the model computes. It is in
    use while this object lives."""

    def __init__(self, constraint: Future[Lease[Constraint]], stop_token_ids: Iterable[int] = ()) -> None:
        super().__init__(stop_token_ids)
        self._constraint = constraint
        self._matcher: StoppingMatcher | None = None

    @property
    def matcher(self) -> StoppingMatcher:
        if self._matcher is None:
            self._matcher = StoppingMatcher(self._constraint.result().value, self._ends)
        return self._matcher

    @property
    def plain_matcher(self) -> Matcher | None:
        """The matcher, if the mask is the matcher's own and may be made in a batch of matchers. Otherwise None."""
        if self.failed:
            return None
        with self._guarded():
            return self.matcher.matcher if self.matcher.is_plain else None
        return None

    def _restart(self) -> None:
        self.matcher.reset()

    def _advance(self, added: list[int]) -> None:
        for token in added:
            if not self.matcher.accept(token):
                raise ValueError(f"token {token} does not fit the grammar")

    def fill(self, drafts: Sequence[int], rows: Row) -> None:
        """Write the mask of the next token, and one more mask after each draft. rows: int32[len(drafts) + 1,
        ceil(V/32)], C-contiguous."""
        if not self.failed:
            with self._guarded():
                if drafts:
                    self.matcher.fill_draft_masks(drafts, rows)
                else:
                    self.matcher.fill_mask(rows[0])
        if self.failed:
            if self._matcher is not None:
                self._matcher.fill_ends(rows[0])
            else:
                only(rows[0], self._ends)
            rows[1:] = rows[0]


class ProcessorState(SequenceState):
    """A sequence with its own processor, made by `make`.

    A processor is called once for each length of the output, in order. Its state may rely on this. After a preemption
    the calls are repeated with logits of zeros, and the results are dropped. If the processor has `replay(token_ids)`,
    that is called once instead. Drafts are tried on a copy, made by its `fork()` or else by copy.deepcopy. If it has
    `close()`, that is called at the end.
    """

    def __init__(self, make: Callable[[], Processor], stop_token_ids: Iterable[int] = ()) -> None:
        super().__init__(stop_token_ids)
        self._make = make
        self._calls = 0
        self._processor: Processor | None = None
        with self._guarded():
            self._processor = make()

    def _restart(self) -> None:
        self.close()
        self._calls = 0
        self._processor = self._make()

    def _advance(self, added: list[int]) -> None:
        """No effect: `apply` makes up for the missed calls, because it knows the width of the logits."""

    def apply(self, drafts: Sequence[int], logits: torch.Tensor) -> None:
        """Call the processor for the next token, and a copy of it after each draft. logits: float32[len(drafts) + 1,
        V], changed in place."""
        if not self.failed:
            with self._guarded():
                assert self._processor is not None
                self._repeat_calls(logits[0])
                _call(self._processor, list(self.tokens), logits[0])
                self._calls += 1
                ahead, tokens = self._processor, list(self.tokens)
                if drafts:
                    fork = getattr(ahead, "fork", None)
                    ahead = fork() if callable(fork) else copy.deepcopy(ahead)
                for row, draft in zip(logits[1:], drafts, strict=True):
                    tokens.append(draft)
                    _call(ahead, list(tokens), row)
        if self.failed:
            for row in logits:
                self.end(row)

    def _repeat_calls(self, like: torch.Tensor) -> None:
        assert self._processor is not None
        missed = len(self.tokens) - self._calls
        if missed < 0:  # already called for this length: the model computes the token again
            tokens = self.tokens
            self._restart()
            self.tokens, missed = tokens, len(tokens)
        replay = getattr(self._processor, "replay", None)
        if missed and callable(replay):
            replay(list(self.tokens))
            self._calls = len(self.tokens)
            return
        for length in range(self._calls, len(self.tokens)):
            self._processor(self.tokens[:length], torch.zeros_like(like))
            self._calls += 1

    def close(self) -> None:
        release = getattr(self._processor, "close", None)
        self._processor = None
        if callable(release):
            with self._guarded():
                release()


def _call(processor: Processor, tokens: list[int], row: torch.Tensor) -> None:
    result = processor(tokens, row)
    if result is not row:
        row.copy_(result)


def on_tensors(factory: LogitsProcessorFactory) -> Callable[[], Processor]:
    """Adapts a factory of processors on NumPy arrays to torch rows on any device. Each call copies a row."""

    def make() -> Processor:
        return _OnTensors(factory.make())

    return make


class _OnTensors:
    __slots__ = ("_inner",)

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __call__(self, tokens: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        changed = self._inner(tokens, logits.detach().to("cpu", torch.float32, copy=True).numpy())
        return torch.from_numpy(np.ascontiguousarray(changed, dtype=np.float32)).to(logits.device, logits.dtype)

    def __getattr__(self, name: str) -> Any:
        if name not in ("replay", "close"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def fork(self) -> _OnTensors:
        fork = getattr(self._inner, "fork", None)
        return _OnTensors(fork() if callable(fork) else copy.deepcopy(self._inner))


def forbid(logits: torch.Tensor, indices: Sequence[int], rows: Row) -> None:
    """Set the logits of all tokens whose bit is 0 to minus infinity: row rows[i] masks logits[indices[i]]. In place, on
    any device."""
    words = torch.from_numpy(rows).to(logits.device, non_blocking=True)
    shifts = torch.arange(32, dtype=torch.int32, device=logits.device)
    blocked = ((words.unsqueeze(-1) >> shifts) & 1).eq(0).flatten(1)[:, : logits.shape[1]]
    index = torch.tensor(indices, device=logits.device)
    logits[index] = logits[index].masked_fill(blocked, float("-inf"))
