"""A real model's vocabulary, for tests."""

from __future__ import annotations

import pytest
from real_tokenizers import UnreachableError, folder

from narrows import Vocabulary


def llama3() -> Vocabulary:
    """Llama 3's 128,256 tokens, made anew. Skips the test where the file cannot be had."""
    try:
        return Vocabulary.from_tokenizer_json(folder("llama3_1") / "tokenizer.json")
    except UnreachableError as error:
        pytest.skip(str(error))
