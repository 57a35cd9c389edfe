"""Constraints for tests of masks on a GPU: four small grammars over one random vocabulary, and a row that has none."""

from __future__ import annotations

import numpy as np

from narrows import Constraint, Grammar, Vocabulary


def constraints(size: int) -> list[Constraint | None]:
    """`size` tokens, the last of which is the end. The same at each call."""
    chance = np.random.default_rng(0)
    letters = list(b'{}[]":,0123456789abcdefghijklmnopqrstuvwxyz -.')
    tokens = [bytes([letter]) for letter in letters]
    tokens += [bytes(chance.choice(letters, size=chance.integers(2, 5))) for _ in range(size - len(tokens) - 1)]
    vocabulary = Vocabulary([*tokens, b""], special={"<end>": size - 1}, eos=[size - 1])
    grammars = [
        Grammar.from_json_schema({"type": "array", "items": {"type": "integer"}, "minItems": 2}),
        Grammar.from_regex("[a-z ]{5,20}[.]"),
        Grammar.from_regex("-?[0-9]{1,3}"),
        Grammar.choice(["yes", "no", "yes and no"]),
    ]
    return [*map(vocabulary.compile, grammars), None]
