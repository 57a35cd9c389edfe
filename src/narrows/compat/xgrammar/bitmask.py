"""Bitmasks: one bit for each token, in int32 words. Making them, looking at them as numpy arrays, applying them.

A bitmask is a torch tensor on the CPU, a numpy array, or anything else that shares its memory by DLPack. torch is
imported where a tensor is made or comes in. Scores of any torch device are masked by torch's own operations: one pass
over the scores. On the CPU the bits are unpacked by numpy.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from narrows.compat.xgrammar.exception import CompatError, WrongTypeError

if TYPE_CHECKING:
    import torch

Words = NDArray[np.int32]
_BACKENDS = ("auto", "cpu", "cuda", "triton", "torch_compile", "torch_native")


def get_bitmask_shape(batch_size: int, vocab_size: int) -> tuple[int, int]:
    """(rows, words of a row)."""
    return batch_size, (vocab_size + 31) // 32


def torch_module() -> Any:
    """torch. Raises CompatError `torch_missing`."""
    try:
        return import_module("torch")
    except ImportError:
        raise CompatError(
            "torch is not installed",
            code="torch_missing",
            hint="Install it, or use numpy.full(get_bitmask_shape(batch_size, vocab_size), -1, numpy.int32)",
        ) from None


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> torch.Tensor:
    """A tensor on the CPU, int32[batch_size, ceil(vocab_size / 32)], in which every token is allowed."""
    module = torch_module()
    tensor: torch.Tensor = module.full(get_bitmask_shape(batch_size, vocab_size), -1, dtype=module.int32)
    return tensor


def reset_token_bitmask(bitmask: Any) -> None:
    """Allow every token."""
    fill = getattr(bitmask, "fill_", None) or bitmask.fill
    fill(-1)


def array_of(name: str, value: Any, dtype: type[np.generic], dimensions: tuple[int, ...]) -> NDArray[Any]:
    """A view of an array in the memory of the CPU. Raises CompatError `bitmask_invalid` for another type or number of
    dimensions, and WrongTypeError for what shares no memory."""
    if isinstance(value, np.ndarray):
        array = value
    else:
        try:
            array = value.numpy() if hasattr(value, "data_ptr") else np.from_dlpack(value)
        except (AttributeError, TypeError) as error:
            if hasattr(value, "device"):
                raise _invalid(f"{name} must be in the memory of the CPU") from error
            raise WrongTypeError(f"{name} must be a tensor, not {type(value).__name__}") from None
        except (BufferError, RuntimeError, ValueError) as error:
            raise _invalid(f"{name} cannot be read: {error}") from error
    if array.dtype != dtype or array.ndim not in dimensions:
        shapes = " or ".join(f"{count}" for count in dimensions)
        raise _invalid(f"{name} must be {dtype.__name__} of {shapes} dimensions, not {array.dtype} of {array.ndim}")
    return array


def rows_of(bitmask: Any, vocab_size: int, dimensions: tuple[int, ...] = (1, 2)) -> Words:
    """A writable view, int32[rows, ceil(vocab_size / 32)]."""
    array = array_of("the bitmask", bitmask, np.int32, dimensions)
    words = (vocab_size + 31) // 32
    if array.shape[-1] != words or not array.flags.writeable:
        raise _invalid(f"the bitmask must be writable, with {words} words in a row, not {array.shape[-1]}")
    return array if array.ndim == 2 else array[np.newaxis]


def apply_token_bitmask_inplace(
    logits: torch.Tensor,
    bitmask: torch.Tensor,
    *,
    vocab_size: int | None = None,
    indices: Sequence[int] | torch.Tensor | None = None,
    backend: str = "auto",
) -> None:
    """Minus infinity for each token that is not allowed.

    logits, bitmask: of one or two dimensions, on the same device. vocab_size: only so many tokens are masked; else as
    many as both have, with a warning if logits has more. indices: only these rows, the same of both. backend: a name of
    xgrammar's; all do the same here.

    Raises CompatError `bitmask_invalid`.
    """
    if bitmask.device != logits.device:
        raise _invalid(f"the logits are on {logits.device}, but the bitmask is on {bitmask.device}")
    if backend not in _BACKENDS:
        raise CompatError(
            f"there is no backend {str(backend)[:40]!r}",
            code="argument_invalid",
            hint=f"There are {', '.join(_BACKENDS)}. All do the same here",
        )
    module = torch_module()
    by_numpy = logits.device.type == "cpu"
    if logits.dim() not in (1, 2) or bitmask.dim() not in (1, 2):
        raise _invalid("logits and bitmask have one or two dimensions")
    if bitmask.dtype != module.int32 or not logits.is_floating_point():
        raise _invalid("the bitmask is int32, and logits are floating-point numbers")
    covered = bitmask.shape[-1] * 32
    if vocab_size is None:
        vocab_size = min(covered, logits.shape[-1])
        if covered < logits.shape[-1]:
            warnings.warn(
                f"the bitmask has bits for {covered} tokens, but there are {logits.shape[-1]} logits: the others are "
                "left as they are. Allocate the bitmask for all of them, or give vocab_size",
                stacklevel=2,
            )
    elif not 0 <= vocab_size <= min(covered, logits.shape[-1]):
        raise _invalid(f"vocab_size is {vocab_size}, more than the bitmask or the logits have")
    scores = logits if logits.dim() == 2 else logits.unsqueeze(0)
    words = bitmask if bitmask.dim() == 2 else bitmask.unsqueeze(0)
    if indices is None:
        if scores.shape[0] != words.shape[0]:
            raise _invalid(f"there are {scores.shape[0]} rows of logits and {words.shape[0]} of the bitmask")
        scores[:, :vocab_size].masked_fill_(refused_bits(words, vocab_size, by_numpy=by_numpy), -math.inf)
        return
    rows = [int(row) for row in (indices.tolist() if hasattr(indices, "tolist") else indices)]
    if not all(0 <= row < min(scores.shape[0], words.shape[0]) for row in rows):
        raise _invalid("an index is out of range")
    if rows:
        chosen = module.tensor(rows, device=logits.device)
        refused = refused_bits(words[chosen], vocab_size, by_numpy=by_numpy)
        scores[chosen, :vocab_size] = scores[chosen, :vocab_size].masked_fill(refused, -math.inf)


def refused_bits(words: torch.Tensor, width: int, *, by_numpy: bool) -> torch.Tensor:
    """bool[rows, width]: which tokens the rows do not allow. by_numpy: for the CPU."""
    module = torch_module()
    inverted = ~words[:, : (width + 31) // 32].contiguous()
    if by_numpy:
        unpacked = np.unpackbits(inverted.numpy().view(np.uint8), axis=1, bitorder="little")
        bits: torch.Tensor = module.from_numpy(unpacked).view(module.bool)
    else:
        shifts = module.arange(32, dtype=module.int32, device=inverted.device)
        bits = (inverted.unsqueeze(-1) >> shifts & 1).flatten(1).bool()
    return bits[:, :width]


def _invalid(message: str) -> CompatError:
    return CompatError(
        message, code="bitmask_invalid", hint="allocate_token_bitmask(batch_size, vocab_size) makes a bitmask that fits"
    )
