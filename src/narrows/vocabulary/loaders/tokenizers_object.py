"""The vocabulary of a `tokenizers.Tokenizer`: its own JSON, read like a tokenizer.json. Cost: 1 s for 128,000
tokens."""

from __future__ import annotations

import json
from typing import Any

from narrows.errors import VocabularyError
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.vocabulary.loaders import tokenizer_json
from narrows.vocabulary.loaders.data import EndTokens, VocabularyData


def load(
    tokenizer: Any,
    eos: EndTokens = None,
    size: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    shipped_eos: list[int | str] | None = None,
) -> VocabularyData:
    """Read a `tokenizers.Tokenizer`. It does not know its end tokens: give `eos`, or the known names are used."""
    to_str = getattr(tokenizer, "to_str", None)
    if not callable(to_str):
        raise VocabularyError(
            f"a tokenizers.Tokenizer is needed, not {type(tokenizer).__name__}", code="tokenizer_unsupported"
        )
    return tokenizer_json.from_dict(json.loads(to_str()), eos=eos, shipped_eos=shipped_eos, size=size, limits=limits)
