"""The states that a region can be in between two deltas.

Each region with states names them as constants of its module. A table in the module's docstring shows the transitions.
States are compared with `is`. They are not an enum: reading an enum's member takes a tenth of a microsecond in Python
3.10 and 3.11, and a region compares several for each bracket or comma.
"""

from __future__ import annotations


class State:
    """One state of a region. `expected`: what comes next, in words for an error's message."""

    __slots__ = ("expected",)

    def __init__(self, expected: str) -> None:
        self.expected = expected

    def __repr__(self) -> str:
        return f"State({self.expected!r})"
