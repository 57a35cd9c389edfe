"""Token healing: a prompt that ends inside a word goes on as if it had been cut where the tokenizer cuts.

A prompt such as "http:" ends with the token ":". The model has rarely seen that token before "//", because the tokenizer
writes "://" as one. Healing takes the last tokens of the prompt away, as far as longer tokens could begin with their
text, and holds the model to that text first. Then the tokens are the model's choice, and the text is the same.

Cost: one pass over the vocabulary for each token that is drawn while the text is not spelled again, some 0.3 ms for
49,152 tokens. Mostly that is one token.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from narrows.errors import InputError
from narrows.grammar.grammar import Grammar

if TYPE_CHECKING:
    from narrows.constraint import Constraint
    from narrows.vocabulary.vocabulary import Vocabulary

_MOST_TOKENS = 4
"""Most tokens that are taken away."""
_MOST_KNOWN = 64
"""Most texts before a constraint for which its grammar is kept compiled. Then all are forgotten."""


def split(prompt: Sequence[int], vocabulary: Vocabulary) -> tuple[list[int], bytes]:
    """The prompt without the tokens to be healed, and their bytes. Control tokens stay, and at least one token. Without
    an own text of whole characters, and where no longer token begins with it, nothing is taken away."""
    tokens = list(prompt)
    tail = b""
    best, kept = b"", len(tokens)
    for place in range(len(tokens) - 1, max(0, len(tokens) - 1 - _MOST_TOKENS), -1):
        data = vocabulary.token_bytes(tokens[place])
        if not data:
            break
        tail = data + tail
        if vocabulary._core.extends(tail) and _is_text(tail):
            best, kept = tail, place
    return tokens[:kept], best


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class Healing:
    """The text that a sequence without a constraint still has to spell."""

    __slots__ = ("_rest", "_vocabulary")

    def __init__(self, rest: bytes, vocabulary: Vocabulary) -> None:
        self._rest = rest
        self._vocabulary = vocabulary

    def __bool__(self) -> bool:
        return bool(self._rest)

    def mask(self) -> NDArray[np.int32]:
        """The tokens that may come next: int32[ceil(V/32)]."""
        row = np.zeros((self._vocabulary.size + 31) // 32, dtype=np.uint32)
        ids = np.array(self._vocabulary._core.along(self._rest), dtype=np.int64)
        np.bitwise_or.at(row, ids >> 5, np.uint32(1) << (ids & 31).astype(np.uint32))
        return row.view(np.int32)

    def took(self, token: int) -> None:
        """Go on after a token that the mask allows."""
        self._rest = self._rest[len(self._vocabulary.token_bytes(token)) :]


class HealedConstraints:
    """Constraints that begin with a text, compiled once for each."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Constraint, dict[bytes, Constraint]] = weakref.WeakKeyDictionary()

    def of(self, constraint: Constraint, begin: bytes, vocabulary: Vocabulary) -> Constraint:
        """The constraint after `begin`. Raises `InputError` code `healing_impossible` for one without a grammar. Cost:
        a compilation, the first time."""
        known = self._known.setdefault(constraint, {})
        if begin not in known:
            if constraint.grammar is None:
                raise InputError(
                    "a constraint without a grammar cannot begin with other text",
                    code="healing_impossible",
                    hint="Compile it from a Grammar",
                )
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[begin] = vocabulary.compile(Grammar.concat(begin.decode(), constraint.grammar))
        return known[begin]
