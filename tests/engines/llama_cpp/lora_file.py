"""Writes a LoRA adapter for the small model, as a GGUF file: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

_STRING, _FLOAT = 8, 6
_F32 = 0
_ALIGNMENT = 32


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def write_adapter(path: Path, *, width: int, tensor: str, strength: float) -> None:
    """An adapter of rank 1 for a square matrix `tensor` of `width` rows, with random values times `strength`."""
    random = np.random.default_rng(1)
    fields = [
        _text("general.type") + struct.pack("<I", _STRING) + _text("adapter"),
        _text("general.architecture") + struct.pack("<I", _STRING) + _text("llama"),
        _text("adapter.type") + struct.pack("<I", _STRING) + _text("lora"),
        _text("adapter.lora.alpha") + struct.pack("<If", _FLOAT, 1.0),
    ]
    tensors = {
        f"{tensor}.lora_a": ((width, 1), random.normal(size=width).astype("<f4") * strength),
        f"{tensor}.lora_b": ((1, width), random.normal(size=width).astype("<f4") * strength),
    }
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields)) + b"".join(fields)
    body = b""
    for name, (shape, values) in tensors.items():
        head += _text(name) + struct.pack("<IQQIQ", len(shape), *shape, _F32, len(body))
        body += values.tobytes() + bytes(-values.nbytes % _ALIGNMENT)
    path.write_bytes(head + bytes(-len(head) % _ALIGNMENT) + body)
