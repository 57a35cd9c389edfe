"""Logits processors for vLLM's V2 model runner, by request slot. With speculation a request has several rows.

A row of logits follows a token that the model was fed. The first row of a request follows its last committed token,
each later row a draft. Committed tokens are on the device in `req_states.all_token_ids`, drafts only in
`ctx.input_ids`. One copy to the host per step brings what is needed. A request with more than one new token needs a
second copy.

vLLM reuses slots. It adds a preempted request anew, with its output as a part of the prefill. So the request's state is
made anew and advanced to that output.

Written for the interface in vLLM 0.32 and 0.33. Tested against its contract, and with 0.32's runner on the CPU, where
an interpreter runs the Triton kernels. Not tested on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from vllm.v1.worker.gpu.sample.logits_processor import LogitsContext, LogitsProcessor, LogitsProcRequestState

from narrows.plugins.vllm.masking.sequences import Constrained, ProcessorState, SequenceState, forbid


@dataclass(slots=True)
class _Row:
    index: int
    """Index of the row in the logits."""
    position: int
    """Position in the whole sequence of the token that the model was fed."""
    token: int


class OnV2(LogitsProcessor):
    """`make(sampling_params)` returns the state of a new sequence, or None if there is nothing to do for it."""

    def __init__(self, make: Callable[[Any], SequenceState | None], req_states: LogitsProcRequestState) -> None:
        self._make = make
        self._requests = req_states
        self._slots: dict[int, SequenceState] = {}

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """A request enters this slot. The request that held it before has ended."""
        before = self._slots.pop(req_idx, None)
        if before is not None:
            before.close()
        state = self._make(sampling_params)
        if state is None:
            return False
        self._slots[req_idx] = state
        return True

    def apply(self, logits: torch.Tensor, ctx: LogitsContext) -> torch.Tensor:
        if not self._slots or not any(int(slot) in self._slots for slot in ctx.idx_mapping_np):
            return logits
        masked: list[int] = []
        masks: list[np.ndarray[Any, np.dtype[np.int32]]] = []
        for slot, rows in self._rows_by_slot(ctx).items():
            state = self._slots[slot]
            output = self._output(slot, rows[0], state)
            if output is None:
                continue
            state.stand_at(output)
            drafts = [row.token for row in rows[1:]]
            if isinstance(state, Constrained):
                mask = np.empty((len(rows), (logits.shape[1] + 31) // 32), dtype=np.int32)
                state.fill(drafts, mask)
                masks.append(mask)
                masked += [row.index for row in rows]
            elif isinstance(state, ProcessorState):
                indices = [row.index for row in rows]
                chosen = logits[indices]
                state.apply(drafts, chosen)
                logits[indices] = chosen
        if masks:
            forbid(logits, masked, np.concatenate(masks))
        return logits

    def _rows_by_slot(self, ctx: LogitsContext) -> dict[int, list[_Row]]:
        """The rows of narrows' requests by slot, in the order of the drafts. Makes one copy from the device."""
        kinds = (ctx.expanded_idx_mapping, ctx.expanded_local_pos, ctx.pos, ctx.input_ids)
        table = torch.stack([kind.to(torch.int64) for kind in kinds], dim=1).tolist()
        by_slot: dict[int, list[tuple[int, _Row]]] = {}
        for index, (slot, order, position, token) in enumerate(table):
            if slot in self._slots:
                by_slot.setdefault(slot, []).append((order, _Row(index, position, token)))
        return {slot: [row for _, row in sorted(rows, key=lambda pair: pair[0])] for slot, rows in by_slot.items()}

    def _output(self, slot: int, first: _Row, state: SequenceState) -> list[int] | None:
        """The committed output up to the token that the first row follows. None during the prefill."""
        prompt = int(self._requests.prompt_len.np[slot])
        if first.position + 1 < int(self._requests.prefill_len.np[slot]):
            return None
        length = first.position + 1 - prompt
        known = state.tokens
        if length == len(known):
            return known
        if length == len(known) + 1:
            return [*known, first.token]
        tokens: list[int] = self._requests.all_token_ids.gpu[slot, prompt : prompt + length].tolist()
        return tokens
