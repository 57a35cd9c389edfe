"""The options of the embedded engine that are llama.cpp's own, with its names, values and meanings.

They say how a model is loaded and computed. None of them changes what narrows does with it. What llama.cpp cannot do
is refused with code `engine_option_invalid`, and `pointer` names the option.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from narrows.arguments import FLAG, INTEGER, LIST, NUMBER, TEXT, TEXT_OR_PATH, optional, wants
from narrows.engines.llama_cpp.library import LlamaLibrary
from narrows.errors import InputError

CACHE_TYPES = {
    "f32": 0, "f16": 1, "bf16": 30, "q8_0": 8, "q4_0": 2, "q4_1": 3, "iq4_nl": 20, "q5_0": 6, "q5_1": 7,
}  # fmt: skip
"""Types of the key-value cache: ggml's numbers of them, which files contain and which therefore never change."""
_FLOATS = ("f32", "f16", "bf16")
_MOST_THREADS = 512
"""ggml ends the process if there are more."""
_MOST_LAYERS = 2**31 - 1
FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}
_LOAD_MODES = {(False, False): 0, (True, False): 1, (False, True): 2, (True, True): 3}
"""llama.cpp's numbers for (use_mmap, use_mlock)."""

Lora = str | os.PathLike[str] | tuple[str | os.PathLike[str], float]


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Options of llama.cpp, checked.

    n_threads: threads for steps of one token. n_threads_batch: threads for steps of several tokens of one sequence.
    n_threads_shared: threads for steps of several sequences. n_ubatch: most
    tokens that are computed together.
    n_gpu_layers: layers that a library with a GPU puts there; below 0 means all.
    cache_type_k, cache_type_v: types of keys and values, see `CACHE_TYPES`. A quantised cache_type_v needs flash
    attention. flash_attn: on, off or auto. use_mmap: map the file instead of reading it. use_mlock: keep it in memory.
    lora: files of adapters, as (path, scale).
    """

    n_threads: int
    n_threads_batch: int
    n_threads_shared: int
    n_ubatch: int
    n_gpu_layers: int
    cache_type_k: str
    cache_type_v: str
    flash_attn: str
    use_mmap: bool
    use_mlock: bool
    lora: tuple[tuple[str, float], ...]

    def describe(self) -> dict[str, Any]:
        return {**asdict(self), "lora": [list(each) for each in self.lora]}

    def set_model(self, params: Any) -> None:
        """Write the options into a `llama_model_params`."""
        params.n_gpu_layers = self.n_gpu_layers
        if hasattr(params, "load_mode"):
            if (self.use_mmap, self.use_mlock) != (True, False):  # else llama.cpp's default, which is to map if it can
                params.load_mode = _LOAD_MODES[self.use_mmap, self.use_mlock]
        else:
            params.use_mmap, params.use_mlock = self.use_mmap, self.use_mlock

    def set_context(self, params: Any) -> None:
        """Write the options into a `llama_context_params`."""
        params.n_ubatch = self.n_ubatch
        params.n_threads, params.n_threads_batch = self.n_threads, self.n_threads_batch
        params.type_k, params.type_v = CACHE_TYPES[self.cache_type_k], CACHE_TYPES[self.cache_type_v]
        if hasattr(params, "flash_attn_type"):
            params.flash_attn_type = FLASH_ATTENTION[self.flash_attn]
        elif self.flash_attn != "auto":  # the older releases of llama-cpp-python: a yes or a no
            params.flash_attn = self.flash_attn == "on"


def model_options(
    library: LlamaLibrary,
    *,
    n_batch: int,
    n_threads: int,
    n_threads_batch: int | None = None,
    n_threads_shared: int | None = None,
    n_ubatch: int | None = None,
    n_gpu_layers: int = 0,
    cache_type_k: str = "f16",
    cache_type_v: str = "f16",
    flash_attn: str = "auto",
    use_mmap: bool = True,
    use_mlock: bool = False,
    lora: Sequence[Lora] = (),
) -> ModelOptions:
    """Check options for `library`. Raises `InputError` code `engine_option_invalid`."""
    wants(INTEGER, n_gpu_layers=n_gpu_layers)
    wants(optional(INTEGER), n_threads_batch=n_threads_batch, n_ubatch=n_ubatch)
    wants(LIST, lora=lora)
    wants(FLAG, use_mmap=use_mmap, use_mlock=use_mlock)
    wants(TEXT, cache_type_k=cache_type_k, cache_type_v=cache_type_v, flash_attn=flash_attn)
    n_threads_batch = n_threads if n_threads_batch is None else n_threads_batch
    n_threads_shared = n_threads_batch if n_threads_shared is None else n_threads_shared
    n_ubatch = min(n_batch, 512) if n_ubatch is None else n_ubatch
    for name, number in (("n_threads", n_threads), ("n_threads_batch", n_threads_batch)):
        if not 1 <= number <= _MOST_THREADS:
            raise refused(name, f"must be from 1 to {_MOST_THREADS}")
    if n_ubatch < 1:
        raise refused("n_ubatch", "must be at least 1")
    if n_ubatch > n_batch:
        raise refused("n_ubatch", f"must be at most n_batch, which is {n_batch}", "Raise n_batch, too")
    if not -_MOST_LAYERS <= n_gpu_layers <= _MOST_LAYERS:
        raise refused("n_gpu_layers", f"must be at most {_MOST_LAYERS}, and below 0 for all")
    for name, value, known in (
        ("cache_type_k", cache_type_k, CACHE_TYPES),
        ("cache_type_v", cache_type_v, CACHE_TYPES),
        ("flash_attn", flash_attn, FLASH_ATTENTION),
    ):
        if value not in known:
            raise refused(name, f"must be one of {', '.join(known)}, not {value!r}")
    if cache_type_v not in _FLOATS and flash_attn == "off":
        raise refused(
            "cache_type_v", f"{cache_type_v} needs flash attention", "Leave flash_attn at auto, or set it to on"
        )
    if use_mlock and not library.llama_supports_mlock():
        raise refused("use_mlock", "is not supported by llama.cpp on this system")
    return ModelOptions(
        n_threads, n_threads_batch, n_threads_shared, n_ubatch, n_gpu_layers, cache_type_k, cache_type_v, flash_attn,
        use_mmap, use_mlock, tuple(_adapter(each) for each in lora),
    )  # fmt: skip


def _adapter(given: Lora) -> tuple[str, float]:
    path, scale = given if isinstance(given, tuple) and len(given) == 2 else (given, 1.0)
    wants(TEXT_OR_PATH, lora=path)
    wants(NUMBER, lora=scale)
    if not os.path.isfile(path):
        raise refused("lora", f"names {os.fspath(path)!r}, and no such file exists")
    return os.fspath(path), float(scale)


def refused(option: str, why: str, hint: str | None = None) -> InputError:
    return InputError(f"{option} {why}", code="engine_option_invalid", pointer=f"/{option}", hint=hint)
