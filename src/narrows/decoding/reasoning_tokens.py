"""Counts the tokens of one answer that are reasoning: those that its reasoning has characters of.

So a marker is no reasoning, however many tokens it takes, and the count does not depend on how the answer comes. A
token that holds reasoning and something else counts. Cost: a microsecond for each token.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from narrows.events import Event, Reasoning


class ReasoningTokens:
    """Give it each token with `token`, and then the events that came with it to `count`."""

    __slots__ = ("_begun", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int, int]] = deque()
        """Tokens that no event has reached: start, end, number of tokens."""
        self._begun = 0
        """Tokens since then that are the beginning of a character."""

    def token(self, start: int, end: int) -> None:
        """One more token, whose text goes from `start` to `end`, in the unit of the events' spans."""
        self._begun += 1
        if end > start:
            self._waiting.append((start, end, self._begun))
            self._begun = 0

    def count(self, events: Iterable[Event]) -> int:
        """How many tokens these events show to be reasoning, which earlier ones did not."""
        found = 0
        waiting = self._waiting
        for event in events:
            start, end = event.span
            while waiting and waiting[0][0] < end:
                _, last, tokens = waiting[0]
                if last > start and isinstance(event, Reasoning):
                    found += tokens
                elif last > end:
                    break  # what follows may be reasoning
                waiting.popleft()
        return found
