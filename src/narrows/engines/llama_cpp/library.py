"""Finds llama.cpp's shared library, checks its memory layout, and types the functions that narrows calls.

A compiled library does not describe the layout of its structures, and a wrong layout corrupts memory silently. So:
1. An explicit path (argument or NARROWS_LLAMA_LIB) comes first. Next is an installed `llama_cpp` (llama-cpp-python),
   with its own definitions of the structures. Last is `xllamacpp`, in exactly the version whose layout is written here.
2. The documented defaults must stand at the expected offsets. Otherwise `EngineError` code `llama_abi_mismatch`.
3. The context must report the sizes that were set through the structure (`model.py` checks this).

Functions are called through `ctypes.CDLL`, which releases the GIL during each call.
"""

from __future__ import annotations

import ctypes as C
import importlib
import importlib.metadata
import importlib.util
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narrows.errors import EngineError

PINNED_XLLAMACPP = "2026.10.11549"
ENVIRONMENT_VARIABLE = "NARROWS_LLAMA_LIB"

_i32, _u32, _f32, _ptr, _bool = C.c_int32, C.c_uint32, C.c_float, C.c_void_p, C.c_bool


class ModelParams(C.Structure):
    """`llama_model_params` of llama.cpp b11549."""

    _fields_ = [
        ("devices", _ptr), ("tensor_buft_overrides", _ptr),
        ("n_gpu_layers", _i32), ("split_mode", _i32), ("load_mode", _i32), ("lazy_mode", _i32), ("main_gpu", _i32),
        ("tensor_split", _ptr), ("progress_callback", _ptr), ("progress_callback_user_data", _ptr),
        ("kv_overrides", _ptr),
        ("vocab_only", _bool), ("check_tensors", _bool), ("use_extra_bufts", _bool), ("no_host", _bool),
        ("no_alloc", _bool), ("load_mtp", _bool),
    ]  # fmt: skip


class ContextParams(C.Structure):
    """`llama_context_params` of llama.cpp b11549."""

    _fields_ = [
        ("n_ctx", _u32), ("n_batch", _u32), ("n_ubatch", _u32), ("n_seq_max", _u32), ("n_rs_seq", _u32),
        ("n_outputs_max", _u32), ("n_outputs_max_per_seq", _u32), ("n_threads", _i32), ("n_threads_batch", _i32),
        ("ctx_type", _i32), ("rope_scaling_type", _i32), ("pooling_type", _i32), ("attention_type", _i32),
        ("flash_attn_type", _i32), ("rope_freq_base", _f32), ("rope_freq_scale", _f32), ("yarn_ext_factor", _f32),
        ("yarn_attn_factor", _f32), ("yarn_beta_fast", _f32), ("yarn_beta_slow", _f32), ("yarn_orig_ctx", _u32),
        ("defrag_thold", _f32), ("cb_eval", _ptr), ("cb_eval_user_data", _ptr), ("type_k", _i32), ("type_v", _i32),
        ("moe_cache_size", C.c_size_t), ("abort_callback", _ptr), ("abort_callback_data", _ptr),
        ("embeddings", _bool), ("offload_kqv", _bool), ("no_perf", _bool), ("op_offload", _bool), ("swa_full", _bool),
        ("kv_unified", _bool), ("samplers", _ptr), ("n_samplers", C.c_size_t), ("ctx_other", _ptr),
    ]  # fmt: skip


class Batch(C.Structure):
    """`llama_batch`, unchanged for years."""

    _fields_ = [
        ("n_tokens", _i32), ("token", C.POINTER(_i32)), ("embd", _ptr), ("pos", C.POINTER(_i32)),
        ("n_seq_id", C.POINTER(_i32)), ("seq_id", C.POINTER(C.POINTER(_i32))), ("logits", C.POINTER(C.c_int8)),
    ]  # fmt: skip


# The defaults that llama.h documents. If they are not at the expected offsets, the memory layout is another one.
_MODEL_SENTINELS: dict[str, tuple[object, ...]] = {
    "n_gpu_layers": (-1, 999),
    "load_mode": (-1,),
    "split_mode": (1,),
    "main_gpu": (0,),
    "vocab_only": (False,),
    "check_tensors": (False,),
}
_CONTEXT_SENTINELS: dict[str, tuple[object, ...]] = {
    "n_ctx": (512,), "n_batch": (2048,), "n_ubatch": (512,), "n_seq_max": (1,), "rope_scaling_type": (-1,),
    "pooling_type": (-1,), "attention_type": (-1,), "yarn_ext_factor": (-1.0,), "yarn_orig_ctx": (0,),
    "defrag_thold": (-1.0,), "type_k": (1,), "type_v": (1,), "flash_attn_type": (-1,), "cb_eval": (None,),
    "abort_callback": (None,),
    "embeddings": (False,), "offload_kqv": (True,), "no_perf": (True,), "kv_unified": (False,),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LlamaLibrary:
    """A loaded and checked library: its functions by their names in llama.h, and its structures."""

    path: str
    source: str
    """`explicit`, `llama_cpp` or `xllamacpp`."""
    handle: C.CDLL
    functions: dict[str, Callable[..., Any]]
    model_params: type[C.Structure]
    context_params: type[C.Structure]
    batch: type[C.Structure]
    words: deque[str]
    """The last warnings and errors that the library has logged."""

    def last_words(self) -> str:
        """What the library said last, as the end of a message. Empty if it said nothing."""
        said = " ".join(" ".join(self.words).split())
        return f": {said}" if said else ""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            return self.functions[name]
        except KeyError:
            raise AttributeError(name) from None


_loaded: dict[str, LlamaLibrary] = {}


def load_library(path: str | os.PathLike[str] | None = None) -> LlamaLibrary:
    """The library, loaded once per process and file. Raises `EngineError` whose hint says what to install."""
    # A spinning OpenMP thread on a shared machine can take up to 40 times the time of the work. The library reads these
    # variables when it is loaded, so they are set before.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    source, file, structures = _resolve(os.fspath(path) if path is not None else None)
    library = _loaded.get(file)
    if library is None:
        library = _loaded[file] = _open(source, file, structures)
    return library


def _resolve(path: str | None) -> tuple[str, str, Any]:
    explicit = path or os.environ.get(ENVIRONMENT_VARIABLE)
    if explicit:
        if not os.path.isfile(explicit):
            raise EngineError(
                f"no file at {explicit!r}",
                code="llama_library_missing",
                hint=f"Check the path or {ENVIRONMENT_VARIABLE}",
            )
        return "explicit", explicit, None
    installed = importlib.util.find_spec("llama_cpp")
    # A mere folder of this name, such as one in the working directory, is found too, but has no origin.
    if installed is not None and installed.origin is not None:
        bindings = importlib.import_module("llama_cpp.llama_cpp")
        handle = getattr(bindings, "_lib", None)
        if handle is not None:
            return "llama_cpp", str(handle._name), bindings
    spec = importlib.util.find_spec("xllamacpp")
    if spec is None or not spec.submodule_search_locations:
        raise EngineError(
            "llama.cpp's library was not found",
            code="llama_library_missing",
            hint=f'pip install "narrows[serve]", or set {ENVIRONMENT_VARIABLE} to the path of a libllama',
        )
    version = importlib.metadata.version("xllamacpp")
    if version != PINNED_XLLAMACPP:
        raise EngineError(
            f"xllamacpp {version} is installed, but narrows only knows the memory layout of {PINNED_XLLAMACPP}",
            code="llama_abi_mismatch",
            hint=f"pip install xllamacpp=={PINNED_XLLAMACPP}",
        )
    files = [f for folder in spec.submodule_search_locations for f in sorted(Path(folder).glob("xllamacpp*.so"))]
    if not files:
        raise EngineError(
            "this build of xllamacpp exports no C functions",
            code="llama_library_missing",
            hint="On Windows install llama-cpp-python instead",
        )
    return "xllamacpp", str(files[0]), None


def _open(source: str, path: str, bindings: Any) -> LlamaLibrary:
    try:
        handle = C.CDLL(path)
    except OSError as error:
        hint = "On Debian and Ubuntu: apt install libgomp1" if "libgomp" in str(error) else None
        raise EngineError(f"cannot load {path}: {error}", code="llama_library_broken", hint=hint) from error
    model_params: type[C.Structure] = getattr(bindings, "llama_model_params", ModelParams)
    context_params: type[C.Structure] = getattr(bindings, "llama_context_params", ContextParams)
    batch: type[C.Structure] = getattr(bindings, "llama_batch", Batch)
    functions: dict[str, Callable[..., Any]] = {}
    for name, result, arguments in _signatures(model_params, context_params, batch):
        try:
            # A new function object, so that the types of other users of the same library do not change.
            functions[name] = C.CFUNCTYPE(result, *arguments)((name, handle))
        except AttributeError as error:
            if name not in _OPTIONAL:
                raise EngineError(
                    f"{path} does not export {name}", code="llama_abi_mismatch", hint=_PIN_HINT
                ) from error
    _check_defaults("llama_model_params", functions["llama_model_default_params"](), _MODEL_SENTINELS)
    _check_defaults("llama_context_params", functions["llama_context_default_params"](), _CONTEXT_SENTINELS)
    functions["llama_log_set"](_listen, None)
    functions["llama_backend_init"]()
    return LlamaLibrary(path, source, handle, functions, model_params, context_params, batch, _words)


_PIN_HINT = f"Install xllamacpp=={PINNED_XLLAMACPP} or llama-cpp-python, or unset {ENVIRONMENT_VARIABLE}"


def _check_defaults(structure: str, value: Any, sentinels: dict[str, tuple[object, ...]]) -> None:
    for name, allowed in sentinels.items():
        default = getattr(value, name, allowed[0])  # the definition of another release may lack the field
        if allowed == (None,) and not default:  # a null function pointer of a typed definition
            continue
        if default not in allowed:
            raise EngineError(
                f"{structure}.{name} is {default!r}, not the documented {allowed[0]!r}: another memory layout",
                code="llama_abi_mismatch",
                hint=_PIN_HINT,
            )


_LogCallback = C.CFUNCTYPE(None, C.c_int, C.c_char_p, _ptr)
_WARNING = 3
_words: deque[str] = deque(maxlen=8)


def _hear(level: int, text: bytes | None, data: int | None) -> None:
    if level >= _WARNING and text:
        _words.append(text.decode(errors="replace"))


_listen = _LogCallback(_hear)  # kept alive: the library calls it until the process ends
_OPTIONAL = (
    "llama_adapter_lora_init", "llama_set_adapters_lora", "llama_set_adapter_lora", "llama_pooling_type",
    "llama_get_embeddings_seq", "llama_get_embeddings_ith", "llama_model_n_embd", "llama_model_n_embd_out",
)  # fmt: skip
"""Functions that some releases lack. Only adapters and embeddings need them."""


def _signatures(model_params: Any, context_params: Any, batch: Any) -> list[tuple[str, Any, tuple[Any, ...]]]:
    ids = C.POINTER(_i32)
    return [
        ("llama_log_set", None, (_LogCallback, _ptr)),
        ("llama_backend_init", None, ()),
        ("llama_model_default_params", model_params, ()),
        ("llama_context_default_params", context_params, ()),
        ("llama_model_load_from_file", _ptr, (C.c_char_p, model_params)),
        ("llama_model_free", None, (_ptr,)),
        ("llama_init_from_model", _ptr, (_ptr, context_params)),
        ("llama_free", None, (_ptr,)),
        ("llama_n_ctx", _u32, (_ptr,)),
        ("llama_n_batch", _u32, (_ptr,)),
        ("llama_n_ubatch", _u32, (_ptr,)),
        ("llama_n_seq_max", _u32, (_ptr,)),
        ("llama_n_threads", _i32, (_ptr,)),
        ("llama_n_threads_batch", _i32, (_ptr,)),
        ("llama_set_n_threads", None, (_ptr, _i32, _i32)),
        ("llama_supports_gpu_offload", _bool, ()),
        ("llama_supports_mlock", _bool, ()),
        ("llama_adapter_lora_init", _ptr, (_ptr, C.c_char_p)),
        ("llama_set_adapters_lora", _i32, (_ptr, C.POINTER(_ptr), C.c_size_t, C.POINTER(_f32))),
        ("llama_set_adapter_lora", _i32, (_ptr, _ptr, _f32)),
        ("llama_set_abort_callback", None, (_ptr, _ptr, _ptr)),
        ("llama_model_n_ctx_train", _i32, (_ptr,)),
        ("llama_model_desc", _i32, (_ptr, C.c_char_p, C.c_size_t)),
        ("llama_model_is_recurrent", _bool, (_ptr,)),
        ("llama_model_is_hybrid", _bool, (_ptr,)),
        ("llama_model_has_encoder", _bool, (_ptr,)),
        ("llama_model_chat_template", C.c_char_p, (_ptr, C.c_char_p)),
        ("llama_model_meta_val_str", _i32, (_ptr, C.c_char_p, C.c_char_p, C.c_size_t)),
        ("llama_model_get_vocab", _ptr, (_ptr,)),
        ("llama_vocab_n_tokens", _i32, (_ptr,)),
        ("llama_vocab_get_text", C.c_char_p, (_ptr, _i32)),
        ("llama_vocab_is_eog", _bool, (_ptr, _i32)),
        ("llama_vocab_get_add_bos", _bool, (_ptr,)),
        ("llama_vocab_bos", _i32, (_ptr,)),
        ("llama_vocab_eos", _i32, (_ptr,)),
        ("llama_vocab_pad", _i32, (_ptr,)),
        ("llama_tokenize", _i32, (_ptr, C.c_char_p, _i32, ids, _i32, _bool, _bool)),
        ("llama_token_to_piece", _i32, (_ptr, _i32, C.c_char_p, _i32, _i32, _bool)),
        ("llama_batch_init", batch, (_i32, _i32, _i32)),
        ("llama_batch_free", None, (batch,)),
        ("llama_decode", _i32, (_ptr, batch)),
        ("llama_get_logits_ith", C.POINTER(_f32), (_ptr, _i32)),
        ("llama_get_memory", _ptr, (_ptr,)),
        ("llama_pooling_type", _i32, (_ptr,)),
        ("llama_get_embeddings_seq", C.POINTER(_f32), (_ptr, _i32)),
        ("llama_get_embeddings_ith", C.POINTER(_f32), (_ptr, _i32)),
        ("llama_model_n_embd", _i32, (_ptr,)),
        ("llama_model_n_embd_out", _i32, (_ptr,)),
        ("llama_memory_clear", None, (_ptr, _bool)),
        ("llama_state_seq_get_size", C.c_size_t, (_ptr, _i32)),
        ("llama_state_seq_get_data", C.c_size_t, (_ptr, C.c_char_p, C.c_size_t, _i32)),
        ("llama_state_seq_set_data", C.c_size_t, (_ptr, C.c_char_p, C.c_size_t, _i32)),
        ("llama_memory_seq_cp", None, (_ptr, _i32, _i32, _i32, _i32)),
        ("llama_memory_seq_rm", _bool, (_ptr, _i32, _i32, _i32)),
    ]
