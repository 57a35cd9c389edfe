"""What a guessed token costs, as a part of a step, learned from the steps themselves.

It depends on the machine, the model and the number of sequences. A processor that waits for its memory computes several
tokens in little more time than one; with many sequences, or little cache, each further token takes its full share. So a
line is fitted through the times of the last steps: the time without guesses, and what each guessed token adds. The cost
is that part of a sequence's own share of a step. If a guess comes true at least as often as that, it wins time.

The line is a least-squares fit that forgets (a weighted linear regression). Until the steps have told enough, the cost
is mostly the assumed one. Where nothing is guessed for a thousand steps, it is nearly the assumed one again, so that
one bad minute does not end all guesses. Cost: some microseconds a step.
"""

from __future__ import annotations

import math

_FORGET = 0.99
"""What a step counts after the next one, as a part of before."""
_DOUBT = 8.0
"""How much the number of guessed tokens must have varied before the times count as much as the assumed cost: the sum of
squares around its mean. The tokens of all sequences count, whose variances add up."""
_LEAST = 0.05
"""The least cost of a token. Sampling it takes time, too."""
_FAR = 1.5
"""A step that takes more than so many times what was expected, or less than that part, counts as if it took so long:
the machine did something else."""


class DraftCost:
    """The cost of a guessed token for each number of sequences that generate together."""

    def __init__(self) -> None:
        self._lines: dict[int, _Line] = {}

    def of(self, running: int) -> float:
        """What a guessed token costs beside so many generating sequences (at least one), as a part of the time that a
        step takes for each of them: 0.05 to 1."""
        line = self._lines.get(running)
        return assumed(running) if line is None else line.cost

    def observe(self, running: int, guessed: int, seconds: float) -> None:
        """Record a step of so many sequences, one token each, with so many guessed ones in all. It took `seconds`."""
        line = self._lines.get(running)
        if line is None:
            line = self._lines[running] = _Line(running)
        line.add(guessed / running, seconds)


def assumed(running: int) -> float:
    """The cost before any step has told: that of a small model on two cores."""
    return 1 - 0.5 / math.pow(running, 0.6)


class _Line:
    """Seconds of a step = alone + each * guessed tokens of a sequence."""

    __slots__ = ("_assumed", "_doubt", "_seconds", "_square", "_together", "_weight", "_x", "cost")

    def __init__(self, running: int) -> None:
        self._assumed = self.cost = assumed(running)
        self._doubt = _DOUBT / running  # here tokens are counted for each sequence: a mean varies less
        self._weight = 0.0
        # Means, and sums of squares and products around them, so that nothing cancels (West 1979).
        self._x = self._seconds = self._square = self._together = 0.0

    def add(self, x: float, seconds: float) -> None:
        if self._weight:
            expected = self._seconds * (1 + self.cost * x) / (1 + self.cost * self._x)
            seconds = min(max(seconds, expected / _FAR), expected * _FAR)
        before = self._weight * _FORGET
        self._weight = before + 1
        away, late = x - self._x, seconds - self._seconds
        self._x += away / self._weight
        self._seconds += late / self._weight
        self._square = self._square * _FORGET + away * away * before / self._weight
        self._together = self._together * _FORGET + away * late * before / self._weight
        # The slope, drawn towards the assumed one.
        alone = self._seconds / (1 + self.cost * self._x)
        each = (self._together + self._doubt * self._assumed * alone) / (self._square + self._doubt)
        alone = max(self._seconds - each * self._x, 0.1 * self._seconds)
        self.cost = min(max(each / alone, _LEAST), 1.0) if alone > 0 else self._assumed
