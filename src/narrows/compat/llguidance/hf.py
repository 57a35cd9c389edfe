"""`from_tokenizer`: an `LLTokenizer` of a fast tokenizer of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from narrows.compat.llguidance.tokenizer import LLTokenizer
from narrows.errors import VocabularyError


def from_tokenizer(
    hf_tokenizer: Any,
    n_vocab: int | None = None,
    eos_token: int | Sequence[int] | None = None,
    slices: Sequence[str] | None = None,
) -> LLTokenizer:
    """Costs about a second for 128,000 tokens. n_vocab: the width of the logits. Raises VocabularyError (a ValueError),
    code `tokenizer_unsupported`, for a tokenizer that is not a fast one."""
    to_str = getattr(getattr(hf_tokenizer, "backend_tokenizer", None), "to_str", None)
    if not callable(to_str):
        raise VocabularyError("Only fast tokenizers are supported", code="tokenizer_unsupported")
    end = getattr(hf_tokenizer, "eos_token_id", None) if eos_token is None else eos_token
    return LLTokenizer(to_str(), n_vocab=n_vocab, eos_token=end, slices=slices)
