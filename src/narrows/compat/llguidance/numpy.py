"""Masks in numpy arrays: int32[batch, ceil(V/32)]."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from narrows.compat.llguidance.executor import LLExecutor
from narrows.compat.llguidance.interpreter import LLInterpreter
from narrows.compat.llguidance.matcher import LLMatcher

Mask = NDArray[np.int32]


def get_bitmask_shape(batch_size: int, vocab_size: int) -> tuple[int, int]:
    """The shape of int32 masks: a row for each sequence, a bit for each token."""
    return batch_size, (vocab_size + 31) // 32


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> Mask:
    """Every token is allowed."""
    return np.full(get_bitmask_shape(batch_size, vocab_size), -1, dtype=np.int32)


def apply_token_bitmask_inplace_kernel(logits: NDArray[Any], mask: Mask) -> None:
    """logits: float[batch, vocab]; mask: int32[batch, words], no narrower than the logits."""
    bits = np.unpackbits(np.ascontiguousarray(mask).view(np.uint8), axis=1, bitorder="little")
    logits[bits[:, : logits.shape[1]] == 0] = -np.inf


def apply_token_bitmask_inplace(logits: NDArray[Any], mask: Mask) -> None:
    """Minus infinity for each token that is not allowed, and for those beyond the mask."""
    logits = logits[None] if logits.ndim == 1 else logits
    mask = mask[None] if mask.ndim == 1 else mask
    assert mask.dtype == np.int32, "Mask must be int32"
    assert logits.ndim == 2, "Logits must be 2D"
    assert len(logits) == len(mask), "Batch size mismatch"
    width = 32 * mask.shape[1]
    logits[:, width:] = -np.inf
    apply_token_bitmask_inplace_kernel(logits[:, :width], mask)


def fill_next_token_bitmask(interp: LLMatcher | LLInterpreter, bitmask: Mask, index: int = 0) -> None:
    """Writes the mask into a row."""
    _check(bitmask)
    row = bitmask[index, :]
    assert row.flags["C_CONTIGUOUS"], "Mask must be contiguous"
    interp.unsafe_compute_mask_ptr(row.ctypes.data, row.size * row.itemsize)


def fill_next_token_bitmask_par(executor: LLExecutor, matchers: list[tuple[LLMatcher, int]], bitmask: Mask) -> None:
    """Writes each matcher's mask into the row of its index."""
    _check(bitmask)
    assert bitmask.flags["C_CONTIGUOUS"], "Mask must be contiguous"
    batch, words = bitmask.shape
    executor.unsafe_compute_mask_ptr(matchers, bitmask.ctypes.data, words * 4, batch)


def fill_next_token_bitmask_par_with_draft_tokens(
    executor: LLExecutor, matchers: list[tuple[LLMatcher, int, list[int]]], bitmask: Mask
) -> None:
    """The same, and after each mask those along the draft tokens."""
    _check(bitmask)
    assert bitmask.flags["C_CONTIGUOUS"], "Mask must be contiguous"
    batch, words = bitmask.shape
    executor.unsafe_compute_mask_ptr_with_draft_token(matchers, bitmask.ctypes.data, words * 4, batch)


def consume_token_par(executor: LLExecutor, matchers: list[tuple[LLMatcher, int]]) -> list[bool]:
    """Whether each matcher took its token."""
    return executor.consume_token_par(matchers)


def _check(bitmask: Mask) -> None:
    assert bitmask.dtype == np.int32, "Mask must be int32"
    assert bitmask.ndim == 2, "Mask must be 2D"
