"""How the room for prompts in one step is shared among the sequences whose prompts are not computed yet.

Half goes to the one that came first, half to the one that has the least left to compute; what they do not need goes to those with
the least left. So a short prompt waits for about twice its own length, however long the others are, and the one that came first goes on at
half the speed of the machine at least, however many short ones arrive. A lower priority gets what a higher one leaves.
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


def share(filling: Sequence[Filling], room: int) -> list[int]:
    """Tokens that each may compute now, in the order given, which is that of arrival. They add up to `room`, or to all that is missing."""
    given = [0] * len(filling)
    for priority in sorted({f.priority for f in filling}):
        same = [i for i, f in enumerate(filling) if f.priority == priority]
        first = min(filling[same[0]].missing, (room + 1) // 2)
        given[same[0]] = first
        room -= first
        for i in sorted(same, key=lambda i: filling[i].urgency):
            more = min(filling[i].missing - given[i], room)
            given[i] += more
            room -= more
    return given
