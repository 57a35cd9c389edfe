"""Token healing: a prompt that ends inside a word goes on as if it had been cut where the tokenizer cuts.

A prompt such as "http:" ends with the token ":". The model has rarely seen that token before "//", because the
tokenizer writes "://" as one. Healing takes the last tokens of the prompt away, as far as longer tokens could begin
with their text, and holds the model to that text first. Then the tokens are the model's choice, and the text is the
same.

Cost: one pass over the vocabulary for each token that is drawn while the text is not spelled again, some 0.3 ms for
49,152 tokens. Mostly that is one token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from narrows.vocabulary.vocabulary import Vocabulary

_MOST_TOKENS = 4
"""Most tokens that are taken away."""


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
    """The text that a sequence still has to spell. With a constraint, the guide makes its masks (engines/guide.py)."""

    __slots__ = ("_rest", "_vocabulary")

    def __init__(self, rest: bytes, vocabulary: Vocabulary) -> None:
        self._rest = rest
        self._vocabulary = vocabulary

    def __bool__(self) -> bool:
        return bool(self._rest)

    @property
    def rest(self) -> bytes:
        """What is still to be spelled."""
        return self._rest

    def mask(self) -> NDArray[np.int32]:
        """The tokens that may come next, without a constraint: int32[ceil(V/32)]."""
        row = np.zeros((self._vocabulary.size + 31) // 32, dtype=np.uint32)
        ids = np.array(self._vocabulary._core.along(self._rest), dtype=np.int64)
        np.bitwise_or.at(row, ids >> 5, np.uint32(1) << (ids & 31).astype(np.uint32))
        return row.view(np.int32)

    def took(self, token: int) -> bytes:
        """Go on after a token that the mask allows. Returns its bytes after the rest."""
        data = self._vocabulary.token_bytes(token)
        beyond = data[len(self._rest) :]
        self._rest = self._rest[len(data) :]
        return beyond
