"""What the applications' programs share: narrows' module in the place of llguidance, and a tokenizer of transformers."""

from __future__ import annotations

import sys
from typing import Any

import real_tokenizers

from narrows.compat import llguidance

sys.modules["llguidance"] = llguidance

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"enum": ["x", "y"]}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


def tokenizer() -> Any:
    import transformers

    file = real_tokenizers.folder("llama2") / "tokenizer.json"
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(file), eos_token="</s>", pad_token="</s>")
