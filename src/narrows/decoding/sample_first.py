"""Sample first: draw a token without the mask, check that one token, and make the mask only if it is refused.

The sampler's candidates and the mask lead to the same choice (`sampling.py`), so this changes no text. It only decides
what is cheaper: a check of one token, or a mask that is made while the model computes. `auto` counts how often one of
the candidates was allowed lately. As long as that is nearly always so, no mask is made ahead.
"""

from __future__ import annotations

from typing import Literal

StrategyMode = Literal["auto", "always", "never"]

_OFTEN = 0.9
"""Part of the steps whose candidates were enough, from which on no mask is made ahead."""
_WEIGHT = 0.15
"""Weight of the last step in the average."""


class SampleFirst:
    """Decides for one sequence whether the next mask is made ahead."""

    __slots__ = ("_average", "_mode")

    def __init__(self, mode: StrategyMode) -> None:
        self._mode = mode
        self._average = 0.8

    @property
    def wanted(self) -> bool:
        """Whether the next token is drawn before there is a mask."""
        return self._mode == "always" or (self._mode == "auto" and self._average >= _OFTEN)

    def saw(self, enough: bool) -> None:
        """Record whether one of the candidates of a step was allowed."""
        self._average += _WEIGHT * (float(enough) - self._average)
