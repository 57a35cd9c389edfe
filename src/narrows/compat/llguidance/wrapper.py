"""`TokenizerWrapper`: a tokenizer of the caller's own, as a list of tokens and a function from text to ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class TokenizerWrapper:
    """Around an object with `tokens` (bytes by id), `eos_token_id`, `bos_token_id` and, if it has them,
    `special_token_ids`. The object is called with a text, as bytes if it takes them, and returns ids."""

    eos_token_id: int
    bos_token_id: int | None
    tokens: Sequence[bytes]
    special_token_ids: Sequence[int]

    def __init__(self, gtokenizer: Any) -> None:
        self.eos_token_id = gtokenizer.eos_token_id
        self.bos_token_id = gtokenizer.bos_token_id
        self.tokens = gtokenizer.tokens
        self.special_token_ids = getattr(gtokenizer, "special_token_ids", [])
        self.is_tokenizer_wrapper = True
        self._gtokenizer = gtokenizer
        self._accepts_bytes = True
        try:
            gtokenizer(b"test")
        except Exception:  # whatever the object raises for bytes
            self._accepts_bytes = False

    def __call__(self, s: str) -> list[int]:
        return list(self._gtokenizer(s.encode() if self._accepts_bytes else s))
