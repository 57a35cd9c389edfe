"""Makes what nearly every JSON schema needs, while the vocabulary of a model is loaded.

The records of plain strings, of strings with a length, of the rest of a line, of e-mail addresses and of open objects
cost one to three milliseconds each where they are first needed. All grammars of the vocabulary share them
(docs/engine.md).

Cost: some 20 ms and 3 MB for 128,000 tokens, once. `Limits.vocabulary_bytes` counts the memory. Small vocabularies are
left out: there nothing is expensive.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from narrows.constraint import Constraint
from narrows.errors import LimitError
from narrows.grammar.grammar import Grammar

FEW_TOKENS = 10_000
"""Fewer have nothing made ahead."""

SCHEMA: dict[str, Any] = {
    "type": "array",
    "prefixItems": [
        {"type": "string"},
        {"type": "string", "maxLength": 40},
        {"type": "string", "pattern": "^-.*$"},
        {"type": "string", "format": "email"},
        {"type": "object"},
    ],
    "items": False,
}
TEXT = '["aa", "aa", "-aa", "aa@aa.aa", {"a": 1, "a'
"""Its masks are made at every byte: at the beginning, in the middle and at the end of each kind of string."""


def prepare(compile_it: Callable[[Grammar], Constraint], size: int) -> None:
    """Makes the masks of `TEXT` for the vocabulary of `size` ids whose `compile` is given. What takes more than a limit
    allows is left: a grammar that needs it meets the limit, and says so."""
    row = np.zeros((size + 31) // 32, np.int32)
    with suppress(LimitError):
        matcher = compile_it(Grammar.from_json_schema(SCHEMA)).matcher()
        for byte in TEXT.encode():
            matcher.fill_mask(row)
            matcher.accept_bytes(bytes([byte]))
        matcher.fill_mask(row)
