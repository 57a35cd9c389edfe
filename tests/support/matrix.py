"""Pairs of two lists for `pytest.mark.parametrize`: by default some of them. `make fuzz` runs the others.

Each item of either list is in some pair that runs by default.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some_pairs(firsts: Iterable[Any], seconds: Iterable[Any], one_in: int = 3) -> list[Any]:
    """All pairs; those on every `one_in`th diagonal run by default."""
    seconds = list(seconds)
    return [
        pytest.param(first, second, marks=() if (i + j) % one_in == 0 else (pytest.mark.soak,))
        for i, first in enumerate(firsts)
        for j, second in enumerate(seconds)
    ]
