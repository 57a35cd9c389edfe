"""Which matcher belongs to which row of a batch, from the tokens of the rows alone.

`generate` hands over no state: at each step it shows the rows, which it has chosen among, copied and put into another
order (beams), or cut back (assisted decoding). So each row is compared with those of the step before. A row that
continues one of them takes over its matcher, rolled back to the tokens that both have. If several rows continue one,
the others get forks. Nothing is shared by two rows, and no row depends on its place.

Cost: where all rows are those of the step before with one more token, a comparison of the arrays and one `accept` for
each row. Otherwise linear in the tokens that were generated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from narrows.constraint import Constraint, Matcher
from narrows.errors import InputError

Ids = NDArray[np.int64]


@dataclass(slots=True)
class Row:
    """A row of the batch, with its matcher."""

    matcher: Matcher | None
    """None: the row is free."""
    read: int = 0
    """So many of the generated tokens the matcher has read."""
    is_lost: bool = False
    """A token came that was not allowed: where nothing else is left, a beam search takes such tokens, with a score of
    minus infinity."""

    @property
    def is_open(self) -> bool:
        """Whether its next token is to be masked. After an end token, `generate` pads."""
        return self.matcher is not None and not self.is_lost and not self.matcher.is_finished

    def go_on(self, tokens: Sequence[int]) -> None:
        """Reads the tokens after those that it has read."""
        if self.matcher is None or self.is_lost:
            return
        for token in tokens:
            if self.matcher.is_finished:
                return
            if not self.matcher.accept(token):
                self.is_lost = True
                return
            self.read += 1

    def copy(self) -> Row:
        """An independent row at the same place."""
        return Row(None if self.matcher is None else self.matcher.fork(), self.read, self.is_lost)

    def back_to(self, length: int) -> None:
        """To the first `length` generated tokens."""
        if self.matcher is None or length > self.read:
            return
        self.matcher.rollback(self.read - length)
        self.read = length
        self.is_lost = False


class Rows:
    """The rows of one call of `generate` after the other."""

    def __init__(self, constraints: Sequence[Constraint | None]) -> None:
        """`constraints`: of each prompt; None leaves its rows free."""
        self._constraints = constraints
        self._ids: Ids | None = None
        self._prompt = 0
        self._rows: list[Row] = []

    def at(self, ids: Ids) -> list[Row]:
        """The rows at these tokens: int64[rows, tokens], the prompts included. Raises InputError (`rows_invalid`) if
        the rows are not the same number for each prompt."""
        if self._begins_anew(ids):
            self._begin(ids)
        else:
            self._follow(ids)
        self._ids = ids
        return self._rows

    def _begins_anew(self, ids: Ids) -> bool:
        """Whether these are the prompts of another call. Within a call, no step is longer than one token."""
        known = self._ids
        if known is None or len(ids) != len(known):
            return True
        length = ids.shape[1]
        if length <= self._prompt or length > known.shape[1] + 1:
            return True
        return not np.array_equal(ids[:, : self._prompt], known[:, : self._prompt])

    def _begin(self, ids: Ids) -> None:
        each, rest = divmod(len(ids), len(self._constraints))
        if rest or not each:
            raise InputError(
                f"there are {len(ids)} rows for {len(self._constraints)} constraints",
                code="rows_invalid",
                hint="Give one constraint, or one for each prompt",
            )
        self._prompt = ids.shape[1]
        self._rows = [
            Row(None if constraint is None else constraint.matcher())
            for constraint in self._constraints
            for _ in range(each)
        ]

    def _follow(self, ids: Ids) -> None:
        known = self._ids
        assert known is not None
        prompt, length = self._prompt, ids.shape[1]
        if length == known.shape[1] + 1 and np.array_equal(ids[:, prompt:-1], known[:, prompt:]):
            for row, token in zip(self._rows, ids[:, -1].tolist(), strict=True):
                row.go_on((token,))
            return
        each = len(ids) // len(self._constraints)
        chosen: list[tuple[int, int]] = []
        for index in range(len(ids)):
            first = index // each * each
            place, common = _nearest(ids[index, prompt:], known[first : first + each, prompt:])
            chosen.append((first + place, common))
        before, last_use = self._rows, {place: index for index, (place, _) in enumerate(chosen)}
        rows: list[Row] = []
        for index, (place, common) in enumerate(chosen):
            row = before[place] if last_use[place] == index else before[place].copy()
            row.back_to(common)
            row.go_on(ids[index, prompt + row.read :].tolist())
            rows.append(row)
        self._rows = rows


def _nearest(row: Ids, known: Ids) -> tuple[int, int]:
    """Which of the known rows shares the most tokens from the start, and how many."""
    width = min(len(row), known.shape[1])
    if not width:
        return 0, 0
    differs = known[:, :width] != row[:width]
    common = np.where(differs.any(axis=1), differs.argmax(axis=1), width)
    place = int(common.argmax())
    return place, int(common[place])
