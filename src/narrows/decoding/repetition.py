"""Runs without end: the same tokens again and again, digits, white space.

A model that has begun to repeat itself seldom stops. `Repetition` watches the tokens of one sequence. What happens when
it finds something is the engine's affair (engines/sequence.py): the sequence ends, and a text that is held to a grammar
goes the shortest way to its end first.

The first three fields are vLLM's, with its meaning. Cost: some microseconds for each token, in proportion to
`max_pattern_size`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from narrows.arguments import INTEGER, optional, wants
from narrows.errors import InputError

if TYPE_CHECKING:
    from narrows.vocabulary.vocabulary import Vocabulary

MOST_PATTERN_TOKENS = 1_024
"""Most tokens of a pattern that a request may ask for."""
_DIGITS = b"0123456789"
_BLANKS = b" \t\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepetitionDetection:
    """What counts as a repetition. Raises `InputError` code `strategy_invalid`, with a pointer."""

    max_pattern_size: int = 64
    """Most tokens of what is repeated. 0: patterns are not looked for."""
    min_pattern_size: int = 1
    """Fewest tokens of what is repeated."""
    min_count: int = 16
    """How many times in a row the pattern must have come."""
    longest_run: int | None = 256
    """Most digits, or characters of white space, in a row. None: any number."""

    def __post_init__(self) -> None:
        wants(INTEGER, max_pattern_size=self.max_pattern_size, min_pattern_size=self.min_pattern_size)
        wants(INTEGER, min_count=self.min_count)
        wants(optional(INTEGER), longest_run=self.longest_run)
        if not 0 <= self.max_pattern_size <= MOST_PATTERN_TOKENS:
            _refuse("max_pattern_size", f"must be between 0 and {MOST_PATTERN_TOKENS}, not {self.max_pattern_size}")
        if not 0 <= self.min_pattern_size <= max(1, self.max_pattern_size):
            _refuse("min_pattern_size", f"must be between 0 and max_pattern_size, not {self.min_pattern_size}")
        if self.max_pattern_size and self.min_count < 2:
            _refuse("min_count", f"must be at least 2, not {self.min_count}")
        if self.longest_run is not None and self.longest_run < 1:
            _refuse("longest_run", f"must be at least 1, not {self.longest_run}")


def _refuse(field: str, why: str) -> None:
    raise InputError(f"{field} {why}", code="strategy_invalid", pointer=f"/repetition_detection/{field}")


class Repetition:
    """The repetitions of one sequence, by `wanted`. `found`: whether there was one."""

    __slots__ = (
        "_blanks",
        "_digits",
        "_lengths",
        "_longest",
        "_needed",
        "_recent",
        "_smallest",
        "_vocabulary",
        "found",
    )

    def __init__(self, wanted: RepetitionDetection, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._longest = wanted.longest_run
        self._smallest = max(1, wanted.min_pattern_size)
        sizes = np.arange(self._smallest, wanted.max_pattern_size + 1)
        self._needed = sizes * (wanted.min_count - 1)
        """For each size of pattern: so many tokens must each equal the one that stands that far before it."""
        self._lengths = np.zeros(len(sizes), dtype=np.int64)
        """How many do, up to the last token."""
        self._recent = np.full(wanted.max_pattern_size, -1, dtype=np.int64)
        """The last tokens, the latest first."""
        self._digits = self._blanks = 0
        self.found = False

    def add(self, token: int) -> None:
        """Read the next token."""
        if len(self._needed):
            self._lengths += 1
            self._lengths *= self._recent[self._smallest - 1 :] == token
            self._recent[1:] = self._recent[:-1]
            self._recent[0] = token
            self.found = self.found or bool((self._lengths >= self._needed).any())
        if self._longest is not None:
            data = self._vocabulary.token_bytes(token)
            digits, self._digits = _runs(self._digits, data, _DIGITS)
            blanks, self._blanks = _runs(self._blanks, data, _BLANKS)
            self.found = self.found or max(digits, blanks) > self._longest


def _runs(before: int, data: bytes, characters: bytes) -> tuple[int, int]:
    """After a run of `before` of these characters: its length with those that `data` begins with, and the length of the
    run that `data` ends with."""
    longer = before + len(data) - len(data.lstrip(characters))
    last = len(data) - len(data.rstrip(characters))
    return longer, longer if last == len(data) else last
