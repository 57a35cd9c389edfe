"""BatchGrammarMatcher: the same call for many matchers.

Masks of a batch are made in one call of the engine, without the GIL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from narrows.compat.xgrammar.bitmask import array_of, rows_of
from narrows.compat.xgrammar.exception import CompatError, as_theirs
from narrows.compat.xgrammar.matcher import GrammarMatcher
from narrows.constraint import fill_masks


class BatchGrammarMatcher:
    """Has no state of the matchers."""

    def __init__(self, max_threads: int | Literal["auto"] = "auto") -> None:
        if max_threads != "auto" and (not isinstance(max_threads, int) or max_threads < 1):
            raise CompatError('max_threads is "auto", or at least 1', code="argument_invalid", pointer="/max_threads")
        self._threads = None if max_threads == "auto" else max_threads

    def batch_fill_next_token_bitmask(
        self,
        matchers: Sequence[GrammarMatcher],
        bitmask: Any,
        indices: Sequence[int] | None = None,
        debug_print: bool = False,
    ) -> None:
        """Write the mask of each matcher into its row: `indices[i]`, or i.

        bitmask: int32[rows, ceil(vocab_size / 32)], in the memory of the CPU. Nothing is written if this raises:
        CompatError `argument_invalid`, `bitmask_invalid`, and `matcher_terminated` for a matcher after its stop token.
        """
        if indices is not None:
            _check_lengths(matchers, indices, "indices")
        if not matchers:
            return
        rows = rows_of(bitmask, matchers[0]._stops.size, (2,))
        places = list(range(len(matchers))) if indices is None else [int(place) for place in indices]
        if not all(0 <= place < len(rows) for place in places):
            raise CompatError(f"the bitmask has {len(rows)} rows", code="bitmask_invalid", pointer="/indices")
        for matcher in matchers:
            matcher._check_open("there is no mask")
        distinct = list(dict.fromkeys(matchers))
        made = np.empty((len(distinct), rows.shape[1]), np.int32)
        with as_theirs():
            fill_masks([matcher._matcher for matcher in distinct], made, self._threads)
        for matcher, row in zip(distinct, made, strict=True):
            matcher._complete(row)
        if len(distinct) < len(matchers):
            place_of = {matcher: place for place, matcher in enumerate(distinct)}
            made = made[[place_of[matcher] for matcher in matchers]]
        rows[places] = made

    @staticmethod
    def batch_fill_temperature(
        matchers: Sequence[GrammarMatcher], temperatures: Any, indices: Sequence[int] | None = None
    ) -> None:
        """Write the `temperature` of each matcher, or -1. temperatures: float32, one dimension."""
        if indices is not None:
            _check_lengths(matchers, indices, "indices")
        values = array_of("temperatures", temperatures, np.float32, (1,))
        places = range(len(matchers)) if indices is None else indices
        if not all(0 <= place < len(values) for place in places):
            raise CompatError(f"there are {len(values)} temperatures", code="argument_invalid", pointer="/indices")
        for matcher, place in zip(matchers, places, strict=True):
            values[place] = -1.0 if matcher.temperature is None else matcher.temperature

    @staticmethod
    def batch_accept_token(
        matchers: Sequence[GrammarMatcher], tokens: Sequence[int], debug_print: bool = False
    ) -> list[bool]:
        """Append a token to each. False for those that it does not fit."""
        _check_lengths(matchers, tokens, "tokens")
        return [matcher.accept_token(token) for matcher, token in zip(matchers, tokens, strict=True)]

    @staticmethod
    def batch_accept_string(
        matchers: Sequence[GrammarMatcher], strings: Sequence[str | bytes], debug_print: bool = False
    ) -> list[bool]:
        """Append a text to each. False for those that it does not fit."""
        _check_lengths(matchers, strings, "strings")
        return [matcher.accept_string(text) for matcher, text in zip(matchers, strings, strict=True)]

    @staticmethod
    def batch_rollback(matchers: Sequence[GrammarMatcher], num_tokens: Sequence[int] | int = 1) -> None:
        """Take steps of each back: the same number, or one for each."""
        counts = [num_tokens] * len(matchers) if isinstance(num_tokens, int) else num_tokens
        _check_lengths(matchers, counts, "num_tokens")
        for matcher, count in zip(matchers, counts, strict=True):
            matcher.rollback(count)


def _check_lengths(matchers: Sequence[GrammarMatcher], others: Sequence[Any], name: str) -> None:
    if len(matchers) != len(others):
        raise CompatError(
            f"there are {len(matchers)} matchers and {len(others)} {name}",
            code="argument_invalid",
            pointer=f"/{name}",
        )
