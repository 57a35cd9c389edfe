"""LoRA adapters: small files that change a model's weights while it computes.

All sequences of an engine use the same adapters. llama.cpp frees them with the model.
"""

from __future__ import annotations

import ctypes as C
import os
from collections.abc import Sequence

from narrows.engines.llama_cpp.library import LlamaLibrary
from narrows.engines.llama_cpp.options import refused


def set_adapters(
    library: LlamaLibrary, model: int | None, context: int | None, lora: Sequence[tuple[str, float]]
) -> None:
    """Load the files of `lora`, (path, scale), and let the context use them. Raises `InputError` code
    `engine_option_invalid`."""
    if not lora:
        return
    if not hasattr(library, "llama_adapter_lora_init"):
        raise refused("lora", f"is not known to {library.path}")
    adapters = []
    for path, _ in lora:
        library.words.clear()
        adapter = library.llama_adapter_lora_init(model, os.fsencode(path))
        if not adapter:
            raise refused("lora", f"names {path!r}, which llama.cpp cannot use{library.last_words()}")
        adapters.append(adapter)
    scales = [scale for _, scale in lora]
    if hasattr(library, "llama_set_adapters_lora"):
        count = len(adapters)
        code = library.llama_set_adapters_lora(
            context, (C.c_void_p * count)(*adapters), count, (C.c_float * count)(*scales)
        )
    else:  # older releases take one at a time
        codes = [library.llama_set_adapter_lora(context, a, s) for a, s in zip(adapters, scales, strict=True)]
        code = max(codes, key=abs)
    if code != 0:
        raise refused("lora", f"was not accepted by llama.cpp (code {code})")
