"""How many prompt tokens a step computes beside streams, and which prompts get them.

A token late in a long prompt costs several times as much as one at the beginning, and the gap between two tokens of a
stream is as long as the step. So `Pace` gives prompts at most four fifths of the time that the streams take: no step
takes twice the time of a step of streams alone.

`share` gives a quarter to one prompt: the one with the largest product of missing tokens and steps since it last got
tokens. The rest goes to the prompts with the fewest tokens left, in that order. So a short prompt waits for about a
third more than its own length, however long the others are. The long prompts, in turn, go on at a quarter of the speed
at least, however many short ones arrive. A lower priority gets only what the higher ones leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Filling:
    """A prompt that is not fully computed."""

    missing: int
    """Number of tokens that are not computed, at least one."""
    urgency: int
    """Tokens to compute until it, or a sequence that waits for its prefix, can generate. The least goes first."""
    priority: int = 0
    """The lowest number goes first."""
    rested: int = 0
    """Steps since it last got tokens."""


def share(filling: Sequence[Filling], room: int) -> list[int]:
    """Number of tokens of each prompt to compute now, in the order of `filling`, which is that of arrival. The sum is
    `room`, or all missing tokens if they are fewer."""
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


def share_bursts(missing: Sequence[int], room: int) -> list[int]:
    """Number of tokens of each generating sequence to compute now: one, and as many more as it misses and there is
    room for, in their order. There is room for one of each."""
    spare = room - len(missing)
    bursts = []
    for each in missing:
        more = min(each - 1, spare)
        spare -= more
        bursts.append(1 + more)
    return bursts


class Pace:
    """Chooses the number of prompt tokens for the next step beside streams, at most `most`, from the times of the last
    steps.

    Steps are not limited while they are too short to be noticed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._alone: float | None = None
        """Seconds that a step of streams alone takes."""
        self._each: float | None = None
        """Seconds that a prompt token adds to such a step."""
        self._mixed = 0
        """Number of steps with prompt tokens since the last step of streams alone."""

    def room(self, *, generating: bool) -> int:
        """Prompt tokens for the next step. `generating`: whether the step has tokens of streams. A step without them,
        as when all their masks are late, says nothing about the time of streams alone."""
        if generating and (self._alone is None or self._mixed >= _LOOK_AFTER):
            return 0  # a step of streams alone, to measure its time
        if self._alone is None:
            return self._most
        if self._each is None:
            return min(_FIRST, self._most)
        time = max(_SHARE * self._alone, _UNNOTICED)
        return max(min(_LEAST, self._most), min(self._most, int(time / max(self._each, 1e-9))))

    def observe(self, taken: int, seconds: float) -> None:
        """Record that a step with streams and `taken` prompt tokens took `seconds`."""
        if not taken:
            self._mixed = 0
            self._alone = _mean(self._alone, seconds)
            return
        self._mixed += 1
        if self._alone is not None:
            self._each = _mean(self._each, max(0.0, seconds - self._alone) / taken)


_SHARE = 0.8
"""The part of the time of a step of streams alone that prompts may add to it."""
_UNNOTICED = 0.02
"""Seconds that prompts may take of any step."""
_LEAST = 4
"""Prompt tokens that every step computes at least, so that prompts of thousands of tokens get done."""
_FIRST = 8
"""Prompt tokens of the first step beside streams, before it is known what they take."""
_LOOK_AFTER = 16
"""Steps with prompt tokens after which a step of streams alone is measured again."""


def _mean(before: float | None, now: float) -> float:
    return now if before is None else 0.7 * before + 0.3 * now
