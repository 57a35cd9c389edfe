"""Masks against steps: a token is in a mask exactly if the matcher accepts it.

A step reads bytes, and knows none of the records and lists that masks are made from. Cost: a step of each token, at
about half of the places of a text.
"""

from __future__ import annotations

from random import Random

import numpy as np

import narrows


def vocabulary(tokens: list[bytes]) -> narrows.Vocabulary:
    """The tokens, and one that ends a text."""
    return narrows.Vocabulary([*tokens, b""], special={"<end>": len(tokens)}, eos=[len(tokens)])


def check(constraint: narrows.Constraint, tokens: list[bytes], text: bytes, rng: Random) -> int:
    """Compares at the end of a text, and at some places before it, token by token; the most tokens that were allowed."""
    end = len(tokens)
    matcher = constraint.matcher()
    row = np.zeros((end + 32) // 32, dtype=np.int32)
    most = 0
    while True:
        matcher.fill_mask(row)
        allowed = np.unpackbits(row.view(np.uint8), bitorder="little")[: end + 1].astype(bool)
        if not text or rng.random() < 0.5:
            stepped = np.array([matcher.accepts([t]) == 1 for t in range(end + 1)])
            wrong = [tokens[t] if t < end else "<end>" for t in np.flatnonzero(allowed != stepped)[:5]]
            assert not wrong, f"mask and step differ before {text!r}: {wrong}"
        most = max(most, int(allowed.sum()))
        if not text:
            return most
        begins = [t for t in tokens if text.startswith(t)]
        token = max(begins, key=len) if rng.random() < 0.7 else rng.choice(begins)
        assert matcher.accept(tokens.index(token)), (token, text)
        text = text[len(token) :]
