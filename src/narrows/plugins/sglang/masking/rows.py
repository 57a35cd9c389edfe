"""Masks as SGLang has them: an int32 tensor of ceil(V / 32) words for each row of the batch. Bit t % 32 of word t // 32
stands for token t, and 1 means allowed. They are filled on the CPU and applied on the device.

On GPUs and NPUs, masks are applied by SGLang's own kernels, the same as for its other backends. Elsewhere by torch.

Cost: filling is a copy for each row whose mask is known; applying is one pass over the logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sglang.srt.constrained.torch_ops.token_filter_torch_ops import set_token_filter_torch
from sglang.srt.utils import is_hip
from sglang.srt.utils.common import is_pin_memory_available

Words = NDArray[np.int32]
FREE = -1
"""The word that allows all of its 32 tokens."""


def allocate(vocab_size: int, batch_size: int) -> Any:
    """int32[batch_size, ceil(vocab_size / 32)] that allows all. In pinned memory where there is any, so that moving it
    to the device need not be waited for."""
    shape = batch_size, (vocab_size + 31) // 32
    return torch.full(shape, FREE, dtype=torch.int32, pin_memory=is_pin_memory_available())


def move(mask: Any, device: Any) -> Any:
    """The mask on this device."""
    return mask.to(device, non_blocking=True)


def words(mask: Any) -> Words:
    """The mask, which is on the CPU, as an array over the same memory."""
    array: Words = mask.numpy()
    return array


def allow_only(row: Words, tokens: Sequence[int]) -> None:
    """Allow these tokens alone."""
    row.fill(0)
    bits = row.view(np.uint32)
    for token in tokens:
        bits[token >> 5] |= np.uint32(1) << np.uint32(token & 31)


def apply(logits: Any, mask: Any) -> None:
    """Set the logits of what is not allowed to minus infinity, in place. Both are on one device. Logits beyond the
    mask's width stay as they are."""
    kind = logits.device.type
    if kind in ("cuda", "xpu", "musa"):
        _gpu_kernel()(logits, mask)
    elif kind == "npu":
        import sgl_kernel_npu  # noqa: F401 (defines the operator)

        torch.ops.npu.apply_token_bitmask(logits, mask)
    else:
        apply_by_torch(logits, mask)


def apply_by_torch(logits: Any, mask: Any) -> None:
    """As `apply`, by torch's operators alone."""
    width = min(logits.shape[-1], mask.shape[-1] * 32)
    places = torch.arange(32, dtype=torch.int32, device=mask.device)
    denied = ((mask.unsqueeze(-1) >> places) & 1 == 0).flatten(-2)[..., :width]
    logits[..., :width].masked_fill_(denied, float("-inf"))


def _gpu_kernel() -> Any:
    if is_hip():
        from sgl_kernel import apply_token_bitmask_inplace_cuda

        return apply_token_bitmask_inplace_cuda
    from sglang.kernels.ops.grammar.bitmask_ops import apply_token_bitmask_inplace_triton

    return apply_token_bitmask_inplace_triton


def filter_tokens(
    mask: Any, token_ids: Sequence[int], row: int, is_allowed: bool = True, reset_vocab_mask: bool = True
) -> None:
    """Allow or forbid these tokens in a row. `reset_vocab_mask`: and turn all others the other way first."""
    if mask.device.type == "cuda" and not is_hip():
        from sglang.kernels.ops.grammar.token_filter_ops import set_token_filter_triton

        set_token_filter_triton(mask, token_ids, row, is_allowed=is_allowed, reset_vocab_mask=reset_vocab_mask)
    else:
        set_token_filter_torch(mask, token_ids, row, is_allowed=is_allowed, reset_vocab_mask=reset_vocab_mask)
