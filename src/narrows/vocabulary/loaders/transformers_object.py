"""The vocabulary of a `transformers` tokenizer: a fast one through its `tokenizers` object, or one that wraps a
`tiktoken.Encoding`.

The tokenizer knows one end token; models often have several. Give `eos` (`model.generation_config.eos_token_id`) and
`size` (`model.config.vocab_size`).
"""

from __future__ import annotations

from typing import Any

from narrows.errors import VocabularyError
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.vocabulary.loaders import tiktoken_encoding, tokenizers_object
from narrows.vocabulary.loaders.data import EndTokens, VocabularyData


def load(
    tokenizer: Any, eos: EndTokens = None, size: int | None = None, limits: Limits = DEFAULT_LIMITS
) -> VocabularyData:
    """Read a `PreTrainedTokenizerFast`, or a tokenizer whose `model` is a tiktoken encoding (Kimi K2 and others)."""
    end = getattr(tokenizer, "eos_token_id", None)
    shipped: list[int | str] = (
        [end] if isinstance(end, int) else [e for e in end if isinstance(e, int)] if isinstance(end, list) else []
    )
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if callable(getattr(backend, "to_str", None)):
        return tokenizers_object.load(backend, eos=eos, size=size, limits=limits, shipped_eos=shipped)
    encoding = getattr(tokenizer, "model", None)
    if callable(getattr(encoding, "decode_single_token_bytes", None)):
        return tiktoken_encoding.load(
            encoding, eos=eos if eos is not None else shipped or None, size=size, limits=limits
        )
    raise VocabularyError(
        f"a {type(tokenizer).__name__} has neither a fast backend nor a tiktoken encoding",
        code="tokenizer_unsupported",
        hint="Load it with AutoTokenizer.from_pretrained(..., use_fast=True), or from its tokenizer.json",
    )
