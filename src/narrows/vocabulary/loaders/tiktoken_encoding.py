"""The vocabulary of a `tiktoken.Encoding`: its tokens are bytes already. Cost: 0.1 s for 200,000 tokens."""

from __future__ import annotations

from typing import Any

from narrows.errors import VocabularyError
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.vocabulary.loaders.data import EndTokens, VocabularyData, assemble


def load(
    encoding: Any, eos: EndTokens = None, size: int | None = None, limits: Limits = DEFAULT_LIMITS
) -> VocabularyData:
    """Read a `tiktoken.Encoding`. All its special tokens are special here; ids that stand for nothing become None.

    The end tokens are the known names among them (`<|endoftext|>`, `<|return|>`, `<|call|>`), unless `eos` says
    otherwise.
    """
    one_token = getattr(encoding, "decode_single_token_bytes", None)
    if not callable(one_token):
        raise VocabularyError(
            f"a tiktoken.Encoding is needed, not {type(encoding).__name__}", code="tokenizer_unsupported"
        )
    special = {name: encoding.encode_single_token(name) for name in encoding.special_tokens_set}
    taken = set(special.values())
    texts: dict[int, bytes] = {}
    for i in range(encoding.n_vocab):
        if i not in taken:
            try:
                texts[i] = one_token(i)
            except KeyError:
                continue
    return assemble(texts, special, eos=eos, size=size, limits=limits)
