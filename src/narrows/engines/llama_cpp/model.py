"""One loaded model with one context: it takes tokens, gives logits, and holds the key-value cells of its sequences.

Only the decode loop's thread may use it, except `encode`, `close` and `request_abort`. It decides nothing itself.
"""

from __future__ import annotations

import ctypes as C
import logging
import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from narrows.engines.llama_cpp.adapters import set_adapters
from narrows.engines.llama_cpp.library import LlamaLibrary, load_library
from narrows.engines.llama_cpp.options import ModelOptions, refused
from narrows.errors import EngineError, InputError

_log = logging.getLogger(__name__)


class LlamaModel:
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
        self._lib = lib = library or load_library()
        self._lock = threading.Lock()
        self._model: int | None = None
        self._context: int | None = None
        self.path = os.fspath(path)
        if not os.path.isfile(self.path):
            raise EngineError(f"no model file at {self.path!r}", code="model_missing")
        model_params: Any = lib.llama_model_default_params()
        options.set_model(model_params)
        # With repacked weights, one row and several rows use different kernels: the same text would get other logits
        # in another batch. Without them seeds reproduce. Measured cost on SmolLM2 and Qwen2.5: none.
        model_params.use_extra_bufts = False
        lib.words.clear()
        self._model = lib.llama_model_load_from_file(os.fsencode(self.path), model_params)
        if not self._model:
            raise EngineError(
                f"llama.cpp cannot load {self.path!r}{lib.last_words()}",
                code="model_invalid",
                hint="Check that the file is complete and that llama.cpp supports the model",
            )
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
        self._vocab = lib.llama_model_get_vocab(self._model)
        self.vocab_size = int(lib.llama_vocab_n_tokens(self._vocab))
        self._row: Any = C.c_float * self.vocab_size
        # Partial copies and removals need a cell per token. A recurrent state has no cells.
        self.shares_prefixes = not (lib.llama_model_is_recurrent(self._model) or lib.llama_model_is_hybrid(self._model))
        self._abort = C.create_string_buffer(2)
        # llama.cpp calls this at every graph node. A Python callback would take the GIL each time. libc's strlen of a
        # two-byte buffer gives the same answer (0: go on) in plain C, as bool (*)(void *).
        self._strlen = (C.CDLL(None) if os.name != "nt" else C.CDLL("msvcrt")).strlen
        lib.llama_set_abort_callback(self._context, C.cast(self._strlen, C.c_void_p), C.addressof(self._abort))
        self._batch: Any = lib.llama_batch_init(n_batch, 0, 1)
        view = np.ctypeslib.as_array
        self._tokens, self._positions = view(self._batch.token, (n_batch,)), view(self._batch.pos, (n_batch,))
        self._wanted = view(self._batch.logits, (n_batch,))
        view(self._batch.n_seq_id, (n_batch,))[:] = 1
        self._sequences = [view(self._batch.seq_id[i], (1,)) for i in range(n_batch)]

    # Decoding.

    def decode(
        self, tokens: Sequence[int], positions: Sequence[int], sequences: Sequence[int], wanted: Sequence[bool]
    ) -> int:
        """Run one batch. 0: success. 1: no free cells, nothing changed. 2: aborted. Below 0: a failure. After 2 or a
        failure, part of the batch may stay in the cells. The GIL is released meanwhile."""
        count = len(tokens)
        self._tokens[:count], self._positions[:count], self._wanted[:count] = tokens, positions, wanted
        for i, sequence in enumerate(sequences):
            self._sequences[i][0] = sequence
        self._batch.n_tokens = count
        return int(self._lib.llama_decode(self._context, self._batch))

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
        self._abort[0] = b"\x01"

    def clear_abort(self) -> None:
        self._abort[0] = b"\x00"

    # Text.

    def encode(self, text: str, *, parse_special: bool = False, add_bos: bool = False) -> list[int]:
        """Token ids of a text. Thread-safe. Raises `InputError` code `text_not_unicode` for lone surrogates."""
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                "the text has a lone surrogate, which is not valid Unicode", code="text_not_unicode", offset=error.start
            ) from None
        with self._lock:
            if self._model is None:
                raise EngineError("the engine is closed", code="engine_closed")
            room = len(data) + 8
            ids = (C.c_int32 * room)()
            count = self._lib.llama_tokenize(self._vocab, data, len(data), ids, room, False, parse_special)
        if count < 0:
            raise EngineError(f"llama.cpp needs {-count} tokens for {len(data)} bytes")
        tokens: list[int] = ids[:count]
        return [self.bos_token_id, *tokens] if add_bos and self.bos_token_id is not None else tokens

    def piece(self, token: int) -> bytes:
        """The bytes that llama.cpp writes for a token. Control tokens have none."""
        room = 256
        while True:
            buffer = C.create_string_buffer(room)
            length = self._lib.llama_token_to_piece(self._vocab, token, buffer, room, 0, False)
            if length >= 0:
                return buffer.raw[:length]
            room = -length

    def ends(self, token: int) -> bool:
        """Whether this token ends a generation for llama.cpp."""
        return bool(self._lib.llama_vocab_is_eog(self._vocab, token))

    @property
    def bos_token_id(self) -> int | None:
        token = int(self._lib.llama_vocab_bos(self._vocab))
        return token if token >= 0 else None

    @property
    def add_bos(self) -> bool:
        return bool(self._lib.llama_vocab_get_add_bos(self._vocab))

    # Metadata.

    def special_tokens(self) -> dict[str, str]:
        """Texts of the special tokens under the names that chat templates use."""
        texts = {}
        for name in ("bos", "eos", "pad"):
            token = getattr(self._lib, f"llama_vocab_{name}")(self._vocab)
            if token >= 0:
                texts[f"{name}_token"] = self._lib.llama_vocab_get_text(self._vocab, token).decode(errors="replace")
        return texts

    def metadata(self, key: str) -> str | None:
        buffer = C.create_string_buffer(4096)
        length = self._lib.llama_model_meta_val_str(self._model, key.encode(), buffer, len(buffer))
        return buffer.value.decode(errors="replace") if length >= 0 else None

    @property
    def chat_template(self) -> str | None:
        text = self._lib.llama_model_chat_template(self._model, None)
        return text.decode(errors="replace") if text else None

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
                    self._lib.llama_batch_free(self._batch)
                self._lib.llama_free(self._context)
            if self._model:
                self._lib.llama_model_free(self._model)
            self._context = self._model = None


def _whole(data: bytearray) -> Any:
    """The bytes themselves, without a copy, as an argument for C."""
    return (C.c_char * len(data)).from_buffer(data)
