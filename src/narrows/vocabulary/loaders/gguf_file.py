"""The vocabulary inside a GGUF file, as llama.cpp reads it: token text, token type and the ids that end a text.

Cost: 0.2 s for 49,152 tokens. End tokens are those of the metadata (eos, eot, eom) and, as in llama.cpp, the known
names among the control tokens, because converted files often name only one of several.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Union

from narrows.errors import VocabularyError
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.vocabulary.loaders import byte_level, gguf_metadata
from narrows.vocabulary.loaders.data import EndTokens, VocabularyData, assemble, is_marker
from narrows.vocabulary.loaders.decoders import byte_fallback

_KEYS = "tokenizer.ggml."
_WANTED = frozenset(
    _KEYS + key
    for key in ("model", "tokens", "token_type", "eos_token_id", "eot_token_id", "eom_token_id", "eos_token_ids")
)

# llama.cpp's token types.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6


def load(
    path: Union[str, os.PathLike[str]], eos: EndTokens = None, size: int | None = None, limits: Limits = DEFAULT_LIMITS
) -> VocabularyData:
    """Read a GGUF file of tokenizer model gpt2, llama, t5 or bert. Others: VocabularyError (`tokenizer_unsupported`).

    Also raises `file_unreadable`, `vocabulary_invalid`, `eos_missing`, and LimitError.
    """
    facts = gguf_metadata.read(path, _WANTED.__contains__)
    model = facts.get(_KEYS + "model")
    raw = facts.get(_KEYS + "tokens")
    if not isinstance(raw, list) or not all(isinstance(t, bytes) for t in raw):
        raise VocabularyError(f"{path} holds no vocabulary ({_KEYS}tokens)")
    types = facts.get(_KEYS + "token_type", [_NORMAL] * len(raw))
    if not isinstance(types, list) or len(types) != len(raw):
        raise VocabularyError(f"{path}: {_KEYS}token_type must have one entry per token")
    decode = _decoder(model, path)

    texts: dict[int, bytes] = {}
    special: dict[str, int] = {}
    last_trained = (
        max((i for i, kind in enumerate(types) if kind in (_NORMAL, _BYTE)), default=-1) if model != "gpt2" else -1
    )
    for i, (data, kind) in enumerate(zip(raw, types, strict=True)):
        name = data.decode("utf-8", "replace")
        if kind in (_CONTROL, _UNKNOWN) or (
            kind == _USER_DEFINED and is_marker(name, flagged=False, trained=i < last_trained)
        ):
            if special.setdefault(name, i) != i:
                texts[i] = b""
        elif kind == _USER_DEFINED:
            texts[i] = data
        elif kind == _BYTE:
            texts[i] = byte_fallback(name)
        elif kind == _NORMAL:
            texts[i] = decode(data, name)
    shipped = [
        i
        for key in ("eos_token_id", "eot_token_id", "eom_token_id", "eos_token_ids")
        for i in _ids(facts.get(_KEYS + key))
    ]
    width = len(raw) if size is None else size
    return assemble(texts, special, eos=eos, shipped_eos=shipped, named_eos=True, size=width, limits=limits)


def _decoder(model: Any, path: Any) -> Callable[[bytes, str], bytes]:
    if model == "gpt2":
        return lambda data, name: byte_level.decode(name)
    if model in ("llama", "t5", "bert"):
        mark = "▁".encode()
        return lambda data, name: data.replace(mark, b" ")
    raise VocabularyError(
        f"{path}: tokenizer model {model!r} is not supported",
        code="tokenizer_unsupported",
        hint="Load the model's tokenizer.json instead",
    )


def _ids(value: Any) -> list[int]:
    return [
        v for v in (value if isinstance(value, list) else [value]) if isinstance(v, int) and not isinstance(v, bool)
    ]
