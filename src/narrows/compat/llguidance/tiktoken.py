"""`lltokenizer_from_encoding`: an `LLTokenizer` of a tiktoken encoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from narrows.compat.llguidance.token_table import SPECIAL
from narrows.compat.llguidance.tokenizer import LLTokenizer
from narrows.errors import VocabularyError


def lltokenizer_from_encoding(
    encoding: Any,
    *,
    n_vocab: int | None = None,
    eos_token: int | Sequence[int] | None = None,
    slices: Sequence[str] | None = None,
) -> LLTokenizer:
    """encoding: a `tiktoken.Encoding`. Raises VocabularyError (a ValueError), code `tokenizer_unsupported`."""
    if not callable(getattr(encoding, "encode_ordinary", None)):
        raise VocabularyError("a tiktoken.Encoding is needed", code="tokenizer_unsupported")
    special = {encoding.encode_single_token(name): name for name in encoding.special_tokens_set}
    raw: list[bytes] = []
    for i in range(encoding.n_vocab):
        if i in special:
            raw.append(bytes([SPECIAL]) + special[i].encode())
            continue
        try:
            raw.append(encoding.decode_single_token_bytes(i))
        except KeyError:
            raw.append(b"")
    end = encoding.eot_token if eos_token is None else eos_token
    return LLTokenizer._of_raw(raw, end, encoding.encode_ordinary, n_vocab, slices)
