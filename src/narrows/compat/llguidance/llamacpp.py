"""`lltokenizer_from_vocab`: an `LLTokenizer` of a vocabulary of llama-cpp-python."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import llama_cpp

from narrows.compat.llguidance.token_table import SPECIAL
from narrows.compat.llguidance.tokenizer import LLTokenizer
from narrows.errors import VocabularyError

_MOST_BYTES = 16 * 1024


def lltokenizer_from_vocab(
    vocab: Any,
    n_vocab: int | None = None,
    eos_token: int | Sequence[int] | None = None,
    slices: Sequence[str] | None = None,
) -> LLTokenizer:
    """vocab: a `llama_cpp.llama_vocab_p`. Raises VocabularyError (a ValueError)."""
    raw = [_piece(vocab, i) for i in range(llama_cpp.llama_vocab_n_tokens(vocab))]
    if n_vocab is not None and len(raw) < n_vocab:
        raw += [b""] * (n_vocab - len(raw))
    end = llama_cpp.llama_vocab_eos(vocab) if eos_token is None else eos_token

    def encode(text: str) -> list[int]:
        data = text.encode()
        ids = (llama_cpp.llama_token * (len(data) + 2))()
        count = llama_cpp.llama_tokenize(vocab, data, len(data), ids, len(ids), False, False)
        if count < 0:
            raise VocabularyError("llama.cpp could not tokenize the text", code="tokenizer_failed")
        return list(ids[:count])

    return LLTokenizer._of_raw(raw, end, encode, slices=slices)


def _piece(vocab: Any, i: int) -> bytes:
    """The bytes of a token; a control token after the byte 0xFF."""
    buffer = ctypes.create_string_buffer(_MOST_BYTES + 1)
    count = llama_cpp.llama_token_to_piece(vocab, i, buffer, _MOST_BYTES, 0, True)
    if count < 0:
        raise VocabularyError(f"token {i} has more than {_MOST_BYTES} bytes", code="vocabulary_invalid")
    piece = buffer.raw[:count]
    kind = llama_cpp.llama_token_get_attr(vocab, i)
    named = kind & llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED and piece.startswith(b"<") and piece.endswith(b">")
    return bytes([SPECIAL]) + piece if kind & llama_cpp.LLAMA_TOKEN_ATTR_CONTROL or named else piece
