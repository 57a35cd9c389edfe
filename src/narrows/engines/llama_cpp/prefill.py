"""How many tokens of prompts a step takes along beside streams, and how they are shared among the sequences whose
prompts are not computed yet.

A token late in a long prompt costs several times one at a beginning, and each stream's gap is as long as the
step. So `Pace` gives prompts at most four fifths of the time that the streams take: no step is twice as long as one of
streams alone.

`share`: a quarter goes to the one that lacks most and has got nothing for longest, by the product of the two; the rest
to the one that has the least left to compute; what they do not need goes to those with the least left. So a short
prompt waits for about a third more than its own length, however long the others are; and the long ones, in turn, go on
at a quarter of the speed at least, however many short ones arrive. A lower priority gets what a higher one leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Filling:
    """A prompt in the making."""

    missing: int
    """Tokens that are not computed, at least one."""
    urgency: int
    """Tokens until it, or one who waits for its beginning, can give a token. Less goes first."""
    priority: int = 0
    """Lower goes first."""
    rested: int = 0
    """Steps since it last got something."""


def share(filling: Sequence[Filling], room: int) -> list[int]:
    """Tokens that each may compute now, in the order given, which is that of arrival. They add up to `room`, or to all
    that is missing."""
    given = [0] * len(filling)
    for priority in sorted({f.priority for f in filling}):
        same = [i for i, f in enumerate(filling) if f.priority == priority]
        rested = max(same, key=lambda i: filling[i].rested * filling[i].missing)
        given[rested] = min(filling[rested].missing, (room + 3) // 4)
        room -= given[rested]
        for i in sorted(same, key=lambda i: filling[i].urgency):
            more = min(filling[i].missing - given[i], room)
            given[i] += more
            room -= more
    return given


class Pace:
    """Tokens of prompts for the next step beside streams, by what the last steps took: at most `most`.

    Steps that nobody notices may be as long as they like.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._alone: float | None = None
        """Seconds of a step of streams alone."""
        self._each: float | None = None
        """Seconds that a token of a prompt adds to it."""
        self._mixed = 0
        """Steps since the last of streams alone."""

    def room(self, *, generating: bool) -> int:
        """`generating`: the step has tokens of streams. Without them, as where all their masks are late, nothing is to
        be seen from it."""
        if self._mixed >= _LOOK_AFTER and generating:
            return 0  # a step of streams alone, to see what it takes by now
        if self._alone is None or self._each is None:
            return self._most
        time = max(_SHARE * self._alone, _UNNOTICED)
        return max(min(_LEAST, self._most), min(self._most, int(time / max(self._each, 1e-9))))

    def observe(self, taken: int, seconds: float) -> None:
        """A step with streams and `taken` tokens of prompts took so long."""
        if not taken:
            self._mixed = 0
            self._alone = _mean(self._alone, seconds)
            return
        self._mixed += 1
        if self._alone is not None:
            self._each = _mean(self._each, max(0.0, seconds - self._alone) / taken)


_SHARE = 0.8
"""Of the time that a step of streams alone takes: what prompts may add to it."""
_UNNOTICED = 0.02
"""Seconds that prompts may take of any step."""
_LEAST = 4
"""Tokens that they get in any step: a prompt of thousands comes to its end."""
_LOOK_AFTER = 16


def _mean(before: float | None, now: float) -> float:
    return now if before is None else 0.7 * before + 0.3 * now
