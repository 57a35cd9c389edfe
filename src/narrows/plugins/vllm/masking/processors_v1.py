"""vLLM's V1 model runner: logits processors that are told how the batch changes, and work on one row per request.

State advances in `apply` alone. When `update_state` is called under asynchronous scheduling, the last tokens are
placeholders (-1) which vLLM replaces in place shortly before it samples; the list may also have become shorter. So only
the list's content counts, when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from vllm.v1.sample.logits_processor.interface import BatchUpdate, LogitsProcessor, MoveDirectionality

from narrows import Matcher, fill_masks
from narrows.errors import NarrowsError
from narrows.plugins.vllm.masking.sequences import Constrained, ProcessorState, SequenceState, forbid


class OnV1(LogitsProcessor):
    """`make(sampling_params)` gives the state of a new sequence, None where nothing is to be done for it."""

    def __init__(self, make: Callable[[Any], SequenceState | None]) -> None:
        self._make = make
        self._rows: dict[int, tuple[SequenceState, list[int]]] = {}
        self._batch: Any = None
        self._batch_kept_tokens = False

    def is_argmax_invariant(self) -> bool:
        return False

    def watch(self, input_batch: Any) -> None:
        """Let vLLM keep the output's tokens up to date while a sequence of ours is in its batch.

        Under asynchronous scheduling it does so only for processors from its command line, not for those from entry
        points.
        """
        self._batch = input_batch
        self._batch_kept_tokens = input_batch.logitsprocs_need_output_token_ids
        self._tell_batch()

    def _tell_batch(self) -> None:
        if self._batch is not None:
            self._batch.logitsprocs_need_output_token_ids = self._batch_kept_tokens or bool(self._rows)

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        if batch_update is None:
            return
        rows = self._rows
        for index in batch_update.removed:
            self._drop(index)
        for index, params, _, output in batch_update.added:
            self._drop(index)
            state = self._make(params)
            if state is not None:
                rows[index] = state, output
        for start, to, direction in batch_update.moved:
            moved, there = rows.pop(start, None), rows.pop(to, None)
            if moved is not None:
                rows[to] = moved
            if there is not None:
                if direction == MoveDirectionality.SWAP:
                    rows[start] = there
                else:
                    there[0].close()
        self._tell_batch()

    def _drop(self, index: int) -> None:
        dropped = self._rows.pop(index, None)
        if dropped is not None:
            dropped[0].close()

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        constrained: list[tuple[int, Constrained]] = []
        for index, (state, output) in self._rows.items():
            if output and output[-1] < 0:
                state.fail(
                    "vLLM did not say which tokens were sampled before; name the processor in --logits-processors"
                )
            state.stand_at(output)
            if isinstance(state, Constrained):
                constrained.append((index, state))
            elif isinstance(state, ProcessorState):
                state.apply((), logits[index : index + 1])
        if constrained:
            rows = np.empty((len(constrained), (logits.shape[1] + 31) // 32), dtype=np.int32)
            fill(([state for _, state in constrained]), rows)
            forbid(logits, [index for index, _ in constrained], rows)
        return logits


def fill(states: Sequence[Constrained], rows: np.ndarray[Any, np.dtype[np.int32]]) -> None:
    """The masks of many sequences: in one call into the core if nothing stands against it."""
    matchers = [state.plain_matcher for state in states]
    if None not in matchers:
        try:
            fill_masks(cast("list[Matcher]", matchers), rows)
        except NarrowsError:  # one of them met a limit: find out which
            pass
        else:
            return
    for state, row in zip(states, rows, strict=True):
        state.fill((), row[np.newaxis])


def watch(input_batch: Any) -> None:
    """Called with each of V1's input batches; its processors may be ours."""
    for processor in input_batch.logitsprocs.all:
        if isinstance(processor, OnV1):
            processor.watch(input_batch)
