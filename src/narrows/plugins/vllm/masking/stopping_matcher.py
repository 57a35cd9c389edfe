"""A matcher of one sequence that also knows the stop tokens of the request, as vLLM needs it.

A request may have stop tokens that are no end tokens of the vocabulary (`stop_token_ids`). They are allowed where the
text may end. Elsewhere they are allowed only if no other token is: then the request's own stop cuts the text, as a stop
string would. After the end only end tokens are allowed, so that `ignore_eos` adds nothing to a complete text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from narrows import Constraint

Row = NDArray[np.int32]


class StoppingMatcher:
    """Belongs to one sequence and one thread at a time. Costs little more than its matcher."""

    __slots__ = ("_after_end", "_ends", "_stops", "matcher")

    def __init__(self, constraint: Constraint, stop_token_ids: Iterable[int] | None = None) -> None:
        vocabulary = constraint.vocabulary
        self.matcher = constraint.matcher()
        end_ids = vocabulary.eos_ids
        self._stops = tuple(
            sorted(t for t in set(stop_token_ids or ()) - set(end_ids) if 0 <= t < vocabulary.size),
        )
        self._ends = end_ids + self._stops
        self._after_end = 0

    @property
    def is_finished(self) -> bool:
        """Whether an end or stop token has been accepted."""
        return self._after_end > 0 or self.matcher.is_finished

    @property
    def is_plain(self) -> bool:
        """Whether the mask is the matcher's own, so that it may be made in a batch of matchers."""
        return not self._stops and not self.is_finished

    def fill_mask(self, row: Row) -> None:
        """Write the mask of the next token, int32[ceil(V/32)]. Never all zero if the model has an end token."""
        if self.is_finished:
            self.fill_ends(row)
            return
        self.matcher.fill_mask(row)
        if self._stops:
            self._place_stops(row, self.matcher.is_accepting)

    def fill_ends(self, row: Row) -> None:
        """Allow only the tokens that end the text."""
        only(row, self._ends)

    def fill_draft_masks(self, tokens: Sequence[int], rows: Row) -> None:
        """Write the masks along a chain of drafts. Row i is the mask after the first i tokens. After a token that does
        not fit, the rows repeat the last mask. The position does not change.

        rows: int32[len(tokens) + 1, ceil(V/32)], C-contiguous.
        """
        fitting = self.accepts(tokens)
        if self.is_plain:
            self.matcher.fill_draft_masks(tokens[:fitting], rows[: fitting + 1])
            if fitting and tokens[fitting - 1] in self._ends:
                self.fill_ends(rows[fitting])
        else:
            done = 0
            for index in range(fitting + 1):
                self.fill_mask(rows[index])
                if index < fitting and self.accept(tokens[index]):
                    done += 1
            self.rollback(done)
        rows[fitting + 1 :] = rows[fitting]

    def accept(self, token: int) -> bool:
        """Append this token. False if it does not fit; then nothing changes."""
        if self.is_finished:
            if token not in self._ends:
                return False
            self._after_end += 1
            return True
        if self.matcher.accept(token):
            return True
        if token in self._stops and self.matcher.is_accepting:
            self._after_end += 1
            return True
        return False

    def accepts(self, tokens: Sequence[int]) -> int:
        """How many leading tokens would be accepted, up to the first that ends the text. Changes nothing."""
        if self.is_finished:
            return 0
        count = self.matcher.accepts(tokens)
        if count == len(tokens) or tokens[count] not in self._stops:
            return count
        ahead = self.matcher.fork()
        for token in tokens[:count]:
            ahead.accept(token)
        return count + 1 if ahead.is_accepting and not ahead.is_finished else count

    def rollback(self, count: int) -> None:
        """Take the last `count` accepted tokens back."""
        after_end = min(count, self._after_end)
        self._after_end -= after_end
        if count > after_end:
            self.matcher.rollback(count - after_end)

    def reset(self) -> None:
        """Go back to the start of the text."""
        self.matcher.reset()
        self._after_end = 0

    def __len__(self) -> int:
        """Number of accepted tokens."""
        return len(self.matcher) + self._after_end

    def _place_stops(self, row: Row, accepting: bool) -> None:
        if accepting:
            _set_bits(row, self._stops)
            return
        words = [t >> 5 for t in self._stops]
        before = row[words]
        bits = row.view(np.uint32)
        for token in self._stops:
            bits[token >> 5] &= ~(np.uint32(1) << np.uint32(token & 31))
        if not row.any():
            row[words] = before


def only(row: Row, tokens: Iterable[int]) -> None:
    """Allow only these tokens."""
    row.fill(0)
    _set_bits(row, tokens)


def _set_bits(row: Row, tokens: Iterable[int]) -> None:
    bits = row.view(np.uint32)
    for token in tokens:
        bits[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
