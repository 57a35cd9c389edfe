"""Makes what nearly every JSON schema needs, while the vocabulary of a model is loaded.

The records of plain strings, of strings with a length, of the rest of a line, of the common formats and of open
objects cost up to two milliseconds each where they are first needed. All grammars of the vocabulary share them
(docs/engine.md). The patterns of the formats are read once per process.

Cost for 128,000 tokens: some 20 ms and 6 MB, and 20 ms more for the first vocabulary of a process.
`Limits.vocabulary_bytes` counts the memory. Small vocabularies are left out: there nothing is expensive.
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

STRINGS: tuple[tuple[dict[str, Any], tuple[str, ...]], ...] = (
    ({}, (r"aa\u00e9\n\\ aé",)),
    ({"maxLength": 40}, ("aa",)),
    ({"pattern": "^-.*$"}, ("-aa",)),
    ({"format": "date"}, ("2024-02-29", "2023-12-30")),
    ({"format": "time"}, ("23:59:59.25Z", "08:15:00+01:00")),
    ({"format": "date-time"}, ("2024-02-29T23:59:59.25Z", "2023-12-30t08:15:00+01:00")),
    ({"format": "duration"}, ("P1Y2M3DT4H5M6S", "P1W")),
    ({"format": "email"}, ("aa@aa.aa", "a.aa+aa-a@a-a.a.aa")),
    ({"format": "hostname"}, ("aa.aa", "a-a.aa.aa")),
    ({"format": "ipv4"}, ("255.19.1.0",)),
    ({"format": "ipv6"}, ("2001:db8:0:0:8a2e:370:7334:1", "fe80::1:aa", "::1", "::ffff:255.19.1.0")),
    ({"format": "uri"}, ("aa://aa@aa.aa:80/a.a/a?a=a&a=%20#aa", "aa:aa@aa.aa", "aa://1.1.1.1/a", "aa:/aa")),
    ({"format": "uuid"}, ("123e4567-e89b-12d3-a456-426614174000",)),
)
"""Kinds of strings that many schemas have, and strings of each: their masks are made at every byte. The formats are
those of OpenAI's structured outputs, and `uri`."""
OPEN = '{"a": 1, "a'
"""And an object with any keys."""


def schema() -> dict[str, Any]:
    """An array of these strings and an object."""
    items = [{"type": "string", **keywords} for keywords, values in STRINGS for _ in values]
    return {"type": "array", "prefixItems": [*items, {"type": "object"}], "items": False}


def text() -> bytes:
    """What stands in it, up to a key of the object."""
    strings = "".join(f'"{value}", ' for _, values in STRINGS for value in values)
    return f"[{strings}{OPEN}".encode()


def prepare(compile_it: Callable[[Grammar], Constraint], size: int) -> None:
    """Makes these masks for the vocabulary of `size` ids whose `compile` is given. What takes more than a limit
    allows is left: a grammar that needs it meets the limit, and says so."""
    row = np.zeros((size + 31) // 32, np.int32)
    with suppress(LimitError):
        matcher = compile_it(Grammar.from_json_schema(schema())).matcher()
        for byte in text():
            matcher.fill_mask(row)
            matcher.accept_bytes(bytes([byte]))
        matcher.fill_mask(row)
