"""The vocabulary of the model that vLLM serves. It is made once per tokenizer and process, at the first request that
needs it.

It is as wide as the model's logits. Its end tokens are those at which vLLM itself stops: the tokenizer's end token and
those of the model's generation config. Cost: 0.1 to 0.5 s, by the number of tokens.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from narrows import Vocabulary
from narrows.errors import VocabularyError

KEPT = 8
"""Most vocabularies that one process keeps. The least recently used one is dropped first."""
_lock = threading.Lock()
_cached: OrderedDict[tuple[int, int], tuple[Any, Vocabulary]] = OrderedDict()


def of_model(tokenizer: Any, model_config: Any, size: int | None = None) -> Vocabulary:
    """The vocabulary of this tokenizer under this `vllm.config.ModelConfig`. `size`: the width of the masks, if it is
    not that of the logits. Thread-safe. Raises `VocabularyError` for a tokenizer that cannot be read."""
    width = size or int(model_config.get_vocab_size())
    key = id(tokenizer), width
    with _lock:  # held meanwhile: a second thread would only do the same work
        entry = _cached.get(key)
        if entry is None:
            entry = tokenizer, _make(tokenizer, end_tokens(tokenizer, model_config), width)
            _cached[key] = entry
            while len(_cached) > KEPT:
                _cached.popitem(last=False)
        _cached.move_to_end(key)
    return entry[1]


def end_tokens(tokenizer: Any, model_config: Any) -> list[int]:
    """The ids at which vLLM itself ends a text. The tokenizer's end token comes first."""
    named = (model_config.try_get_generation_config() or {}).get("eos_token_id")
    ends = [tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])]
    return list(dict.fromkeys(t for t in ends if isinstance(t, int)))


def _make(tokenizer: Any, ends: list[int], size: int) -> Vocabulary:
    if getattr(tokenizer, "is_tekken", False):
        return _of_tekken(tokenizer.tokenizer, ends, size)
    if getattr(tokenizer, "IS_MISTRAL_TOKENIZER", False):
        raise VocabularyError(
            "SentencePiece tokenizers in Mistral's own form are not supported",
            code="tokenizer_unsupported",
            hint="Start vLLM with --tokenizer-mode hf",
        )
    return Vocabulary.from_transformers(tokenizer, eos=ends, size=size)


def _of_tekken(tekken: Any, ends: list[int], size: int) -> Vocabulary:
    """Mistral's tekken.json, as mistral-common has it: special tokens first, then bytes by rank."""
    special = {tekken.id_to_piece(token): token for token in range(tekken.num_special_tokens)}
    tokens: list[bytes | None] = [None] * tekken.num_special_tokens
    tokens += [tekken.id_to_byte_piece(token) for token in range(tekken.num_special_tokens, tekken.n_words)]
    return Vocabulary(tokens, special=special, eos=ends, size=max(size, len(tokens)))
