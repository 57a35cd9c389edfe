"""What a llama.cpp context needs beside the model: a batch of tokens, and a switch that stops a running decode."""

from __future__ import annotations

import ctypes as C
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from narrows.engines.llama_cpp.library import LlamaLibrary

SAME_BITS = 63
"""Most tokens of a batch in which llama.cpp computes each row as it would alone (`cache.py`)."""


class TokenBatch:
    """A `llama_batch` for up to `size` tokens, each of one sequence."""

    def __init__(self, library: LlamaLibrary, size: int) -> None:
        self._lib = library
        self.value: Any = library.llama_batch_init(size, 0, 1)
        view = np.ctypeslib.as_array
        self._tokens, self._positions = view(self.value.token, (size,)), view(self.value.pos, (size,))
        self._wanted = view(self.value.logits, (size,))
        view(self.value.n_seq_id, (size,))[:] = 1
        self._sequences = [view(self.value.seq_id[i], (1,)) for i in range(size)]

    def fill(
        self, tokens: Sequence[int], positions: Sequence[int], sequences: Sequence[int], wanted: Sequence[bool]
    ) -> None:
        count = len(tokens)
        self._tokens[:count], self._positions[:count], self._wanted[:count] = tokens, positions, wanted
        for i, sequence in enumerate(sequences):
            self._sequences[i][0] = sequence
        self.value.n_tokens = count

    def free(self) -> None:
        self._lib.llama_batch_free(self.value)


class Abort:
    """Makes a context's running decode return 2 within milliseconds, and every later one, until it is cleared. From any
    thread."""

    def __init__(self, library: LlamaLibrary, context: int | None) -> None:
        self._flag = C.create_string_buffer(2)
        # llama.cpp calls this at every graph node. A Python callback would take the GIL each time. libc's strlen of a
        # two-byte buffer gives the same answer (0: go on) in plain C, as bool (*)(void *).
        self._strlen = (C.CDLL(None) if os.name != "nt" else C.CDLL("msvcrt")).strlen
        library.llama_set_abort_callback(context, C.cast(self._strlen, C.c_void_p), C.addressof(self._flag))

    def request(self) -> None:
        self._flag[0] = b"\x01"

    def clear(self) -> None:
        self._flag[0] = b"\x00"
