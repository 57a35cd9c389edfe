"""Masks in torch tensors: int32[batch, ceil(V/32)], filled on the CPU and applied anywhere."""

from __future__ import annotations

import torch

from narrows.compat.llguidance.executor import LLExecutor
from narrows.compat.llguidance.interpreter import LLInterpreter
from narrows.compat.llguidance.matcher import LLMatcher
from narrows.compat.llguidance.numpy import get_bitmask_shape

__all__ = [
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "apply_token_bitmask_inplace_kernel",
    "consume_token_par",
    "fill_next_token_bitmask",
    "fill_next_token_bitmask_par",
    "fill_next_token_bitmask_par_with_draft_tokens",
    "get_bitmask_shape",
]


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> torch.Tensor:
    """Every token is allowed. Pinned, if there is a GPU and it can be."""
    shape = get_bitmask_shape(batch_size, vocab_size)
    try:
        return torch.full(shape, -1, dtype=torch.int32, pin_memory=torch.cuda.is_available())
    except RuntimeError:
        return torch.full(shape, -1, dtype=torch.int32)


def apply_token_bitmask_inplace_kernel(logits: torch.Tensor, mask: torch.Tensor) -> None:
    """logits: float[batch, vocab]; mask: int32[batch, words] on the same device, no narrower than the logits."""
    shifts = torch.arange(32, device=mask.device, dtype=torch.int32)
    bits = (mask.unsqueeze(-1) >> shifts & 1).flatten(1)
    logits.masked_fill_(bits[:, : logits.shape[1]] == 0, -torch.inf)


def apply_token_bitmask_inplace(logits: torch.Tensor, mask: torch.Tensor) -> None:
    """Minus infinity for each token that is not allowed, and for those beyond the mask."""
    logits = logits.unsqueeze(0) if logits.dim() == 1 else logits
    mask = mask.unsqueeze(0) if mask.dim() == 1 else mask
    assert mask.dtype == torch.int32, "Mask must be int32"
    assert logits.dim() == 2, "Logits must be 2D"
    assert logits.shape[0] == mask.shape[0], "Batch size mismatch"
    width = 32 * mask.shape[1]
    if logits.shape[1] > width:
        logits[:, width:] = -torch.inf
        logits = logits[:, :width]
    apply_token_bitmask_inplace_kernel(logits, mask)


def fill_next_token_bitmask(interp: LLMatcher | LLInterpreter, bitmask: torch.Tensor, index: int = 0) -> None:
    """Writes the mask into a row."""
    _check(bitmask)
    row = bitmask[index, :]
    assert row.is_contiguous(), "Mask must be contiguous"
    interp.unsafe_compute_mask_ptr(row.data_ptr(), row.numel() * row.element_size())


def fill_next_token_bitmask_par(
    executor: LLExecutor, matchers: list[tuple[LLMatcher, int]], bitmask: torch.Tensor
) -> None:
    """Writes each matcher's mask into the row of its index."""
    _check(bitmask)
    assert bitmask.is_contiguous(), "Mask must be contiguous"
    batch, words = bitmask.shape
    executor.unsafe_compute_mask_ptr(matchers, bitmask.data_ptr(), words * 4, batch)


def fill_next_token_bitmask_par_with_draft_tokens(
    executor: LLExecutor, matchers: list[tuple[LLMatcher, int, list[int]]], bitmask: torch.Tensor
) -> None:
    """The same, and after each mask those along the draft tokens."""
    _check(bitmask)
    assert bitmask.is_contiguous(), "Mask must be contiguous"
    batch, words = bitmask.shape
    executor.unsafe_compute_mask_ptr_with_draft_token(matchers, bitmask.data_ptr(), words * 4, batch)


def consume_token_par(executor: LLExecutor, matchers: list[tuple[LLMatcher, int]]) -> list[bool]:
    """Whether each matcher took its token."""
    return executor.consume_token_par(matchers)


def _check(bitmask: torch.Tensor) -> None:
    assert bitmask.dtype == torch.int32, "Mask must be int32"
    assert bitmask.is_cpu, "Mask must be on CPU"
    assert bitmask.dim() == 2, "Mask must be 2D"
