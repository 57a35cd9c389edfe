"""One loaded model with one context: it takes tokens, gives logits, and holds the key-value cells of its sequences.

Only the decode loop's thread may use it, except `encode`, `close` and `request_abort`. It decides nothing itself.
"""

from __future__ import annotations

import ctypes as C
import logging
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from narrows.engines.llama_cpp.adapters import set_adapters
from narrows.engines.llama_cpp.batch import Abort, TokenBatch
from narrows.engines.llama_cpp.library import LlamaLibrary
from narrows.engines.llama_cpp.options import ModelOptions, refused
from narrows.engines.llama_cpp.text import ModelText
from narrows.errors import EngineError

_log = logging.getLogger(__name__)


class LlamaModel(ModelText):
    """A GGUF file that llama.cpp has loaded.

    n_ctx: cells of the key-value cache, shared by all sequences (rounded up to a multiple of 256 by llama.cpp).
    n_batch: most tokens of one decode. n_seq_max: sequence numbers 0..n_seq_max-1. n_outputs: most rows of logits of
    one decode.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        n_ctx: int,
        n_batch: int,
        n_seq_max: int,
        n_outputs: int,
        options: ModelOptions,
        library: LlamaLibrary | None = None,
    ) -> None:
        self._context: int | None = None

        def set_options(params: Any) -> None:
            options.set_model(params)
            # With repacked weights, one row and several rows use different kernels: the same text would get other
            # logits in another batch. Without them seeds reproduce. Measured cost on SmolLM2 and Qwen2.5: none.
            params.use_extra_bufts = False

        super().__init__(path, set_options, library=library)
        try:
            self._warn(options)
            self._open_context(n_ctx, n_batch, n_seq_max, n_outputs, options)
        except BaseException:
            self.close()
            raise

    def _warn(self, options: ModelOptions) -> None:
        """Say which options have no effect. llama.cpp itself goes on without them, too."""
        if options.n_gpu_layers and not self._lib.llama_supports_gpu_offload():
            _log.warning("n_gpu_layers is %d, but %s computes on CPUs alone", options.n_gpu_layers, self._lib.path)
        if options.use_mlock and any("mlock" in said for said in self._lib.words):
            _log.warning("use_mlock has no effect%s", self._lib.last_words())

    def _open_context(self, n_ctx: int, n_batch: int, n_seq_max: int, n_outputs: int, options: ModelOptions) -> None:
        lib = self._lib
        if lib.llama_model_has_encoder(self._model):
            raise EngineError("encoder-decoder models are not supported", code="model_unsupported")
        params: Any = lib.llama_context_default_params()
        options.set_context(params)
        params.n_ctx, params.n_batch, params.n_seq_max = n_ctx, n_batch, n_seq_max
        params.kv_unified = True  # one pool of cells: a prefix is shared by marking cells, without copying
        if hasattr(params, "n_outputs_max"):
            params.n_outputs_max = max(n_outputs, n_seq_max)
        lib.words.clear()
        self._context = lib.llama_init_from_model(self._model, params)
        if not self._context:
            for name in ("cache_type_v", "cache_type_k"):
                if getattr(options, name) != "f16":
                    raise refused(
                        name,
                        f"{getattr(options, name)} does not go with this model and flash_attn {options.flash_attn}"
                        + lib.last_words(),
                    )
            raise EngineError(
                f"llama.cpp cannot make a context{lib.last_words()}",
                code="engine_failed",
                hint="Too little memory? Lower n_ctx",
            )
        for name, expected in (
            ("n_batch", n_batch),
            ("n_ubatch", options.n_ubatch),
            ("n_seq_max", n_seq_max),
            ("n_threads", options.n_threads),
            ("n_threads_batch", options.n_threads_batch),
        ):
            reported = getattr(lib, f"llama_{name}")(self._context)
            if reported != expected:
                raise EngineError(
                    f"the context has {name} {reported} instead of {expected}: another memory layout",
                    code="llama_abi_mismatch",
                )
        self.n_ctx = int(lib.llama_n_ctx(self._context))
        if self.n_ctx < n_ctx:
            raise EngineError(
                f"the context has {self.n_ctx} cells instead of {n_ctx}: another memory layout",
                code="llama_abi_mismatch",
            )
        self.n_batch = n_batch
        set_adapters(lib, self._model, self._context, options.lora)
        self._memory = lib.llama_get_memory(self._context)
        self._row: Any = C.c_float * self.vocab_size
        # Partial copies and removals need a cell per token. A recurrent state has no cells.
        self.shares_prefixes = not (lib.llama_model_is_recurrent(self._model) or lib.llama_model_is_hybrid(self._model))
        self._abort = Abort(lib, self._context)
        self._batch = TokenBatch(lib, n_batch)
        self._options = options
        self._is_shared = False

    # Decoding.

    def decode(
        self, tokens: Sequence[int], positions: Sequence[int], sequences: Sequence[int], wanted: Sequence[bool]
    ) -> int:
        """Run one batch. 0: success. 1: no free cells, nothing changed. 2: aborted. Below 0: a failure. After 2 or a
        failure, part of the batch may stay in the cells. The GIL is released meanwhile."""
        self._batch.fill(tokens, positions, sequences, wanted)
        self._share_threads(any(sequence != sequences[0] for sequence in sequences))
        return int(self._lib.llama_decode(self._context, self._batch.value))

    def _share_threads(self, shared: bool) -> None:
        """Set the threads for steps of several tokens, by whether these are of several sequences."""
        if shared != self._is_shared:
            self._is_shared = shared
            batch = self._options.n_threads_shared if shared else self._options.n_threads_batch
            self._lib.llama_set_n_threads(self._context, self._options.n_threads, batch)

    def logits(self, index: int) -> NDArray[np.float32]:
        """The row of the batch's token `index`: a view, float32[vocab_size], valid until the next decode."""
        row = self._lib.llama_get_logits_ith(self._context, index)
        if not row:
            raise EngineError(f"llama.cpp gave no logits for row {index}")
        # Not with np.ctypeslib.as_array, which leaves a reference cycle at each call.
        return np.frombuffer(self._row.from_address(C.addressof(row.contents)), dtype=np.float32)

    def share(self, source: int, target: int, start: int, end: int) -> None:
        """Let `target` hold the cells of positions start..end-1 of `source` too. Cost: some 40 us."""
        self._lib.llama_memory_seq_cp(self._memory, source, target, start, end)

    def drop_cells(self, sequence: int, start: int = 0) -> None:
        """Remove the cells from position `start` on from a sequence."""
        self._lib.llama_memory_seq_rm(self._memory, sequence, start, -1)

    def clear_cells(self) -> None:
        self._lib.llama_memory_clear(self._memory, False)

    def save(self, sequence: int) -> bytearray:
        """The keys and values of a sequence. Cost: some 15 us for each cell of SmolLM2 (23 KB)."""
        size = self._lib.llama_state_seq_get_size(self._context, sequence)
        saved = bytearray(size)
        written = self._lib.llama_state_seq_get_data(self._context, _whole(saved), size, sequence)
        if written != size:
            raise EngineError(f"llama.cpp saved {written} bytes of a sequence, and said {size}")
        return saved

    def restore(self, sequence: int, saved: bytearray) -> None:
        """Restore saved cells, after the occupied cells, for a sequence that has none. Cost: some 4 us for each."""
        if not self._lib.llama_state_seq_set_data(self._context, _whole(saved), len(saved), sequence):
            raise EngineError("llama.cpp could not restore the cells of a sequence")

    def request_abort(self) -> None:
        """Make the running decode return 2 within milliseconds, and every later one, until `clear_abort`."""
        self._abort.request()

    def clear_abort(self) -> None:
        self._abort.clear()

    # Metadata.

    @property
    def library(self) -> LlamaLibrary:
        return self._lib

    @property
    def handle(self) -> int | None:
        """The loaded weights, for a further context on them."""
        return self._model

    @property
    def description(self) -> str:
        buffer = C.create_string_buffer(256)
        self._lib.llama_model_desc(self._model, buffer, len(buffer))
        return buffer.value.decode(errors="replace")

    @property
    def n_ctx_train(self) -> int:
        return int(self._lib.llama_model_n_ctx_train(self._model))

    def close(self) -> None:
        """Free the model. The decode loop must have ended. Idempotent."""
        with self._lock:
            if self._context:
                if hasattr(self, "_batch"):
                    self._batch.free()
                self._lib.llama_free(self._context)
            self._context = None
        super().close()


def _whole(data: bytearray) -> Any:
    """The bytes themselves, without a copy, as an argument for C."""
    return (C.c_char * len(data)).from_buffer(data)
