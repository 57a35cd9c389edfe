"""Logits processors for vLLM's V1 model runner. vLLM reports changes of the batch, and each request has one row.

A state advances only in `apply`. When vLLM calls `update_state` under asynchronous scheduling, the last tokens of the
output list are placeholders (-1). vLLM replaces them in place shortly before it samples, and may shorten the list. So
only the content of the list at the time of `apply` counts.
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
    """`make(sampling_params)` returns the state of a new sequence, or None if there is nothing to do for it."""

    def __init__(self, make: Callable[[Any], SequenceState | None]) -> None:
        self._make = make
        self._rows: dict[int, tuple[SequenceState, list[int]]] = {}
        self._batch: Any = None
        self._batch_kept_tokens = False

    def is_argmax_invariant(self) -> bool:
        return False

    def watch(self, input_batch: Any) -> None:
        """Make vLLM keep the output's tokens up to date while its batch has a sequence of narrows.

        Under asynchronous scheduling vLLM does so only for processors from its command line, not for those from entry
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
            moved, replaced = rows.pop(start, None), rows.pop(to, None)
            if moved is not None:
                rows[to] = moved
            if replaced is not None:
                if direction == MoveDirectionality.SWAP:
                    rows[start] = replaced
                else:
                    replaced[0].close()
        self._tell_batch()

    def _drop(self, index: int) -> None:
        dropped = self._rows.pop(index, None)
        if dropped is not None:
            dropped[0].close()

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        constrained: list[tuple[int, Constrained]] = []
        for index, (state, output) in self._rows.items():
            if output and output[-1] < 0:
                state.fail("vLLM did not report the sampled tokens; add the processor to --logits-processors")
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
    """The masks of many sequences, if possible in one call into the core."""
    matchers = [state.plain_matcher for state in states]
    if None not in matchers:
        try:
            fill_masks(cast("list[Matcher]", matchers), rows)
        except NarrowsError:  # one of them exceeded a limit: find out which
            pass
        else:
            return
    for state, row in zip(states, rows, strict=True):
        state.fill((), row[np.newaxis])


def watch(input_batch: Any) -> None:
    """Called with each input batch of V1. Its processors may include narrows'."""
    for processor in input_batch.logitsprocs.all:
        if isinstance(processor, OnV1):
            processor.watch(input_batch)
