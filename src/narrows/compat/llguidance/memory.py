"""Masks at addresses of memory, as llguidance's functions take them."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from narrows.compat.llguidance import misuse
from narrows.errors import InputError


def rows_at(pointer: int, row_bytes: int, count: int, words: int) -> NDArray[np.int32]:
    """int32[count, words] of the memory at an address. Raises InputError (`mask_invalid`), a ValueError."""
    pointer, row_bytes = misuse.count("trg_pointer", pointer), misuse.count("trg_byte_size", row_bytes)
    if not pointer:
        raise InputError("Null pointer", code="mask_invalid")
    if pointer % 4:
        raise InputError("Pointer not aligned", code="mask_invalid")
    if row_bytes != words * 4:
        raise InputError(f"Invalid buffer size: {row_bytes} bytes, not {words * 4}", code="mask_invalid")
    memory = (ctypes.c_int32 * (count * words)).from_address(pointer)
    return np.frombuffer(memoryview(memory).cast("B"), dtype=np.int32).reshape(count, words)
