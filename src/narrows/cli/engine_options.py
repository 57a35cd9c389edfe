"""llama.cpp's options of the commands that run a model: its names, values and meanings.

A command lists those that it has, and `arguments` turns them into the arguments of `LlamaCppEngine`. The engine
checks them. `FLAGS` has the option of each argument, for errors.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import typer


class CacheType(str, Enum):
    F32, F16, BF16, Q8_0, Q4_0, Q4_1, IQ4_NL, Q5_0, Q5_1 = (
        "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1",
    )  # fmt: skip


class FlashAttention(str, Enum):
    ON, OFF, AUTO = "on", "off", "auto"


Threads = Annotated[
    int | None, typer.Option("--threads", "-t", metavar="N", help="Threads for steps of one token.", min=1)
]
ThreadsBatch = Annotated[
    int | None,
    typer.Option(
        "--threads-batch",
        "-tb",
        metavar="N",
        help="Threads for steps of several tokens. Default: as --threads, if that is given.",
        min=1,
    ),
]
ContextSize = Annotated[
    int | None,
    typer.Option("--ctx-size", "-c", metavar="N", help="Tokens of the KV cache, for all sequences together.", min=16),
]
BatchSize = Annotated[
    int | None, typer.Option("--batch-size", "-b", metavar="N", help="Most tokens of one step.", min=1)
]
UbatchSize = Annotated[
    int | None,
    typer.Option("--ubatch-size", "-ub", metavar="N", help="Most tokens of a step that are computed together.", min=1),
]
CacheTypeK = Annotated[CacheType | None, typer.Option("--cache-type-k", "-ctk", help="Type of the KV cache's keys.")]
CacheTypeV = Annotated[
    CacheType | None,
    typer.Option("--cache-type-v", "-ctv", help="Type of its values. A quantised one needs flash attention."),
]
FlashAttn = Annotated[FlashAttention | None, typer.Option("--flash-attn", "-fa", help="Flash attention.")]
GpuLayers = Annotated[
    str | None,
    typer.Option(
        "--n-gpu-layers",
        "--gpu-layers",
        "-ngl",
        metavar="N",
        help="Layers on the GPU, or 'all'. It needs a library for a GPU.",
    ),
]
NoMmap = Annotated[bool, typer.Option("--no-mmap", help="Read the model's file instead of mapping it.")]
Mlock = Annotated[bool, typer.Option("--mlock", help="Keep the model in memory; it is never swapped out.")]
LoraFiles = Annotated[
    list[str] | None, typer.Option("--lora", metavar="FILE", help="A LoRA adapter (GGUF); may be repeated.")
]
LoraScaled = Annotated[
    list[str] | None,
    typer.Option("--lora-scaled", metavar="FILE:SCALE", help="An adapter with a scale; may be repeated."),
]

EmbeddingsOn = Annotated[
    bool,
    typer.Option("--embeddings", "--embedding", help="Serve /v1/embeddings, too, in a context of their own."),
]
Pooling = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="How embeddings are pooled: none, mean, cls or last. Without it, the model's."),
]
EmbdNormalize = Annotated[
    int | None,
    typer.Option(
        "--embd-normalize",
        metavar="N",
        help="2 (if not given) makes their length 1; -1 leaves them as they are, 0 scales to 32760, N is the N-norm.",
    ),
]
EmbdBatchSize = Annotated[
    int | None,
    typer.Option(
        "--embd-batch-size", metavar="N", help="Most tokens of an input for embeddings; 512 if not given.", min=1
    ),
]

FLAGS = {
    "n_threads": "--threads",
    "n_threads_batch": "--threads-batch",
    "n_ctx": "--ctx-size",
    "n_batch": "--batch-size",
    "n_ubatch": "--ubatch-size",
    "cache_type_k": "--cache-type-k",
    "cache_type_v": "--cache-type-v",
    "flash_attn": "--flash-attn",
    "n_gpu_layers": "--n-gpu-layers",
    "use_mmap": "--no-mmap",
    "use_mlock": "--mlock",
    "lora": "--lora",
    "embeddings": "--embeddings",
    "pooling": "--pooling",
    "embd_normalize": "--embd-normalize",
    "embd_batch": "--embd-batch-size",
    "max_num_seqs": "--max-num-seqs",
    "max_model_len": "--max-model-len",
    "max_queue": "--max-queue",
    "cache_ram": "--cache-ram",
    "prefix_cache_tokens": "--prefix-cache-tokens",
}


def arguments(
    *,
    threads: int | None,
    threads_batch: int | None,
    ctx_size: int | None,
    batch_size: int | None,
    ubatch_size: int | None,
    cache_type_k: CacheType | None,
    cache_type_v: CacheType | None,
    flash_attn: FlashAttention | None,
    n_gpu_layers: str | None,
    no_mmap: bool,
    mlock: bool,
    lora: list[str] | None,
    lora_scaled: list[str] | None,
) -> dict[str, Any]:
    """The arguments of `LlamaCppEngine`. None is the engine's default."""
    return {
        "n_threads": threads,
        "n_threads_batch": threads_batch,
        "n_ctx": ctx_size,
        "n_batch": batch_size,
        "n_ubatch": ubatch_size,
        "cache_type_k": None if cache_type_k is None else cache_type_k.value,
        "cache_type_v": None if cache_type_v is None else cache_type_v.value,
        "flash_attn": None if flash_attn is None else flash_attn.value,
        "n_gpu_layers": None if n_gpu_layers is None else _layers(n_gpu_layers),
        "use_mmap": False if no_mmap else None,
        "use_mlock": True if mlock else None,
        "lora": [*(lora or ()), *map(_scaled, lora_scaled or ())] or None,
    }


def _layers(text: str) -> int:
    if text == "all":
        return -1
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a number nor 'all'", param_hint="--n-gpu-layers") from None


def _scaled(text: str) -> tuple[str, float]:
    path, _, scale = text.rpartition(":")
    try:
        number = float(scale)
    except ValueError:
        path = ""
    if not path:
        raise typer.BadParameter(f"{text!r} is not FILE:SCALE, such as style.gguf:0.5", param_hint="--lora-scaled")
    return path, number
