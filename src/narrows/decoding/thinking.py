"""A budget of tokens for reasoning. When it is used up, the marker that closes the reasoning comes next, and the model
goes on with its answer.

The stream parser says where the text stands, so a marker inside a call's arguments, or in the content, is never taken
for reasoning, and no call is cut. Reasoning that comes in several parts has one budget for all. Nothing is changed in
the middle of a character. Cost: one look at the parser for each token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from narrows.arguments import INTEGER, LIST, wants
from narrows.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingBudget:
    """At most `tokens` tokens of reasoning. Raises `InputError` code `strategy_invalid`."""

    tokens: int
    end: Sequence[int]
    """The ids of the marker that closes the reasoning (`ReasoningStyle.closer`)."""

    def __post_init__(self) -> None:
        wants(INTEGER, tokens=self.tokens)
        wants(LIST, end=self.end)
        if self.tokens < 0:
            raise InputError(
                f"a thinking budget cannot be negative: {self.tokens}",
                code="strategy_invalid",
                pointer="/thinking_token_budget",
            )
        if not self.end:
            raise InputError("no tokens close the reasoning", code="strategy_invalid", pointer="/thinking_token_budget")


class Thinking:
    """What one sequence has left of its budget."""

    __slots__ = ("_inside", "_left")

    def __init__(self, budget: ThinkingBudget, place: str) -> None:
        """`place`: where the answer begins (`StreamParser.place`)."""
        self._left = budget.tokens
        self._inside = place == "reasoning"

    def saw(self, place: str) -> None:
        """A token has come. `place`: where the text stands after it."""
        if self._inside:
            self._left -= 1
        self._inside = place == "reasoning"

    @property
    def used_up(self) -> bool:
        """Whether the reasoning must be closed here."""
        return self._inside and self._left <= 0
