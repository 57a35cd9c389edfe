"""A context that turns sequences of tokens into vectors, beside the one that generates, on the same loaded weights.

What it computes, and the names of its options, are those of llama.cpp's server with `--embeddings`: pooling, and how
vectors are normalised. Cost: memory for `tokens` rows of logits, which llama.cpp makes too (512 rows of SmolLM2:
0.2 GB), and the time of a prompt.
"""

from __future__ import annotations

import ctypes as C
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from narrows.arguments import FLAG, INTEGER, TEXT, optional, wants
from narrows.engines.llama_cpp.adapters import set_adapters
from narrows.engines.llama_cpp.batch import SAME_BITS, Abort, TokenBatch
from narrows.engines.llama_cpp.library import LlamaLibrary
from narrows.engines.llama_cpp.model import LlamaModel
from narrows.engines.llama_cpp.options import ModelOptions, refused
from narrows.errors import EngineError

POOLING = {"none": 0, "mean": 1, "cls": 2, "last": 3}
"""llama.cpp's numbers. `rank` is the one that is missing: its vectors are scores of a reranker."""
_RANK = 4
_OF_MODEL = -1
_FUNCTIONS = ("llama_pooling_type", "llama_get_embeddings_seq", "llama_get_embeddings_ith", "llama_model_n_embd")
MOST_SEQUENCES = 64
"""Inputs of one decode."""


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    """pooling: see `POOLING`; None is the model's own. normalize: 2 makes the length 1, -1 leaves the vector as it is,
    0 makes the largest number 32,760, 1 the sum of absolute values 1, and a larger p the p-norm 1. tokens: most tokens
    of an input, and of a decode."""

    pooling: str | None = None
    normalize: int = 2
    tokens: int = 512

    def __post_init__(self) -> None:
        if self.pooling == "rank":
            raise refused("pooling", "rank scores documents, which is not supported", "Take none, mean, cls or last")
        if self.pooling is not None and self.pooling not in POOLING:
            raise refused("pooling", f"must be one of {', '.join(POOLING)}, not {self.pooling!r}")
        if self.normalize < -1:
            raise refused("embd_normalize", f"must be at least -1, not {self.normalize}")
        if self.tokens < 1:
            raise refused("embd_batch", f"must be at least 1, not {self.tokens}")


def embedding_options(
    library: LlamaLibrary, embeddings: bool, pooling: str | None, embd_normalize: int | None, embd_batch: int | None
) -> EmbeddingOptions | None:
    """The engine's arguments, checked. None without `embeddings`. Raises `InputError` code `engine_option_invalid`."""
    wants(FLAG, embeddings=embeddings)
    wants(optional(TEXT), pooling=pooling)
    wants(optional(INTEGER), embd_normalize=embd_normalize, embd_batch=embd_batch)
    given = {"pooling": pooling, "embd_normalize": embd_normalize, "embd_batch": embd_batch}
    for name, value in given.items():
        if value is not None and not embeddings:
            raise refused(name, "goes with embeddings", "Add --embeddings")
    if not embeddings:
        return None
    for name in _FUNCTIONS:
        if not hasattr(library, name):
            raise refused("embeddings", f"are not to be had from {library.path}, which has no {name}")
    default = EmbeddingOptions()
    return EmbeddingOptions(
        pooling,
        default.normalize if embd_normalize is None else embd_normalize,
        default.tokens if embd_batch is None else embd_batch,
    )


class EmbeddingContext:
    """Vectors of tokens. For one thread at a time, except `abort`. The model must outlive it.

    A decode has one input of up to `tokens` tokens, or several with up to `together` in all."""

    def __init__(self, model: LlamaModel, options: EmbeddingOptions, computing: ModelOptions) -> None:
        self._lib = lib = model.library
        self._options = options
        if options.pooling is None and _own_pooling(model) == _RANK:
            raise refused("embeddings", "are not to be had of a model that ranks documents")
        self.tokens = options.tokens if model.n_ctx_train <= 0 else min(options.tokens, model.n_ctx_train)
        # So that a text has the same vector whatever is beside it. Measured: above it, two vectors of the same text had
        # a cosine of 0.9995. On a GPU it would be too few.
        self.together = self.tokens if computing.n_gpu_layers else min(self.tokens, SAME_BITS)
        params: Any = lib.llama_context_default_params()
        computing.set_context(params)
        params.n_ctx = params.n_batch = params.n_ubatch = self.tokens
        params.n_seq_max = min(MOST_SEQUENCES, self.tokens)
        params.n_threads = params.n_threads_batch = computing.n_threads_shared
        params.embeddings = True
        params.pooling_type = _OF_MODEL if options.pooling is None else POOLING[options.pooling]
        params.kv_unified = True  # one pool of cells, so that an input may take all of them
        if hasattr(params, "n_outputs_max"):
            params.n_outputs_max = self.tokens
        lib.words.clear()
        self._context: int | None = lib.llama_init_from_model(model.handle, params)
        if not self._context:
            raise EngineError(
                f"llama.cpp cannot make a context for embeddings{lib.last_words()}",
                code="engine_failed",
                hint="Too little memory? Lower embd_batch",
            )
        try:
            set_adapters(lib, model.handle, self._context, computing.lora)
            self.pooling = _name_of(int(lib.llama_pooling_type(self._context)))
            self._memory = lib.llama_get_memory(self._context)
            size = getattr(lib, "llama_model_n_embd_out", lib.llama_model_n_embd)
            self.size = int(size(model.handle))
            self._row: Any = C.c_float * self.size
            self.abort = Abort(lib, self._context)
            self._batch = TokenBatch(lib, self.tokens)
        except BaseException:
            lib.llama_free(self._context)
            self._context = None
            raise

    @property
    def sequences(self) -> int:
        """Most inputs of one decode."""
        return min(MOST_SEQUENCES, self.tokens)

    def compute(self, inputs: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        """The vectors of inputs that fit one decode together: float32[size] each. Without pooling, float32[tokens,
        size], as the model gives them. Raises `EngineError`."""
        tokens = [token for ids in inputs for token in ids]
        positions = [position for ids in inputs for position in range(len(ids))]
        owners = [owner for owner, ids in enumerate(inputs) for _ in ids]
        if self._memory:
            self._lib.llama_memory_clear(self._memory, False)
        self._batch.fill(tokens, positions, owners, [True] * len(tokens))
        code = int(self._lib.llama_decode(self._context, self._batch.value))
        if code == 2:
            raise EngineError("the engine is closed", code="engine_closed")
        if code != 0:
            raise EngineError(f"llama.cpp could not compute embeddings (code {code}){self._lib.last_words()}")
        if self.pooling != "none":
            return [normalized(self._vector("seq", owner), self._options.normalize) for owner in range(len(inputs))]
        rows = iter(range(len(tokens)))
        return [np.stack([self._vector("ith", next(rows)) for _ in ids]) for ids in inputs]

    def _vector(self, kind: str, number: int) -> NDArray[np.float32]:
        """A copy of the vector of a sequence, or of a token."""
        found = getattr(self._lib, f"llama_get_embeddings_{kind}")(self._context, number)
        if not found:
            raise EngineError("llama.cpp gave no embeddings")
        row = np.frombuffer(self._row.from_address(C.addressof(found.contents)), dtype=np.float32)
        return np.array(row)

    def close(self) -> None:
        """Free the context. Idempotent. Nothing may be computed any more."""
        if self._context:
            self._batch.free()
            self._lib.llama_free(self._context)
        self._context = None


def normalized(vector: NDArray[np.float32], p: int) -> NDArray[np.float32]:
    """The vector, scaled as `EmbeddingOptions.normalize` says. Zeros stay zeros."""
    if p < 0:
        return vector
    magnitudes = np.abs(vector, dtype=np.float64)
    length = magnitudes.max() / 32760.0 if p == 0 else (magnitudes**p).sum() ** (1.0 / p)
    scaled: NDArray[np.float32] = (vector / length if length > 0 else vector * 0).astype(np.float32)
    return scaled


def _own_pooling(model: LlamaModel) -> int | None:
    said = model.metadata(f"{model.metadata('general.architecture')}.pooling_type")
    return int(said) if said is not None and said.isdecimal() else None


def _name_of(number: int) -> str:
    return next((name for name, each in POOLING.items() if each == number), "none")
