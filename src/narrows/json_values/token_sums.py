"""Sums of the log-probabilities of the tokens that a part of a text consists of.

A token counts where at least one character of it lies in the part. So a token that lies in two parts counts in both,
and the sums of neighbours may add up to more than the sum of all. A token without text, such as the first half of a
character, counts where it stands inside of the part.

Cost: 24 bytes a token, and a binary search a sum.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right

from narrows.errors import InputError


class TokenSums:
    __slots__ = ("_ends", "_impossible", "_starts", "_sums")

    def __init__(self) -> None:
        self._starts = array("q")
        self._ends = array("q")
        self._sums = array("d", [0.0])
        self._impossible: list[int] = []
        """The tokens whose log-probability is minus infinity."""

    def add(self, start: int, end: int, logprob: float) -> None:
        """The next token, and where its text stands. Raises `InputError` for what is no log-probability."""
        try:
            logprob = float(logprob)
        except OverflowError:
            logprob = math.nan
        if math.isnan(logprob) or logprob == math.inf:
            raise InputError("a log-probability is a number below infinity", code="logprob_invalid")
        if logprob == -math.inf:
            self._impossible.append(len(self._starts))
            logprob = 0.0
        self._starts.append(start)
        self._ends.append(end)
        self._sums.append(self._sums[-1] + logprob)

    def over(self, start: int, end: int) -> tuple[float | None, int]:
        """The sum for the half-open part, and the number of its tokens. (None, 0) if there is none."""
        first = bisect_right(self._ends, start)
        after = bisect_left(self._starts, end)
        if after <= first:
            return None, 0
        if bisect_left(self._impossible, after) > bisect_left(self._impossible, first):
            return -math.inf, after - first
        return self._sums[after] - self._sums[first], after - first
