"""Ending in time: with the number of tokens known, every token leaves enough of them to end the text.

The shortest way out is known at every place (`Matcher.shortest_end`). A token is allowed only if the text can still be
ended with the tokens that are left after it. So JSON, calls and grammars are whole when `max_tokens` is reached. While
many tokens are left, this allows what the grammar allows, and the distribution is that of the mask alone.

The way out is not always the one with the fewest tokens, because it is found by bytes. So the way that was found is
kept, and its next token is always allowed. Cost: a way out takes some 5 us to find, once for each state of a
constraint. A mask of the tokens that end in time takes 0.1 us for each token of the mask.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from narrows.errors import LimitError

if TYPE_CHECKING:
    from narrows.constraint import Constraint, Matcher

_MOST_KNOWN = 4_096
"""Most ways out that are remembered for a constraint. Then all are forgotten."""
_NEAR = 8
"""So many tokens before the way out is as long as what is left, masks are made ahead: most tokens no longer fit."""

Way = tuple[int, ...]


class WaysOut:
    """The shortest ways out of all constraints of one engine, by the state of the matcher."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Constraint, dict[int, Way]] = weakref.WeakKeyDictionary()

    def known(self, matcher: Matcher) -> Way | None:
        """The way out of the matcher's place if it was found before. Never waits."""
        ways = self._known.get(matcher.constraint)
        return None if ways is None else ways.get(matcher.state_key)

    def find(self, matcher: Matcher) -> Way:
        """The way out of the matcher's place. Raises `InputError` code `not_spellable`."""
        known = self.known(matcher)
        if known is not None:
            return known
        way = tuple(matcher.shortest_end())
        ways = self._known.setdefault(matcher.constraint, {})
        if len(ways) >= _MOST_KNOWN:
            ways.clear()
        ways[matcher.state_key] = way
        return way


class Ending:
    """What one sequence has left. `left`: tokens that may still come."""

    __slots__ = ("_way", "_ways", "left")

    def __init__(self, ways: WaysOut, left: int) -> None:
        self._ways = ways
        self.left = left
        self._way: Way = ()

    def begin(self, matcher: Matcher) -> None:
        """Find the first way out. Raises `LimitError` code `max_tokens_too_small` if even that is too long."""
        self._way = self._ways.find(matcher)
        if len(self._way) > self.left:
            raise LimitError(
                f"the shortest text needs {len(self._way)} tokens, and max_tokens allows {self.left}",
                code="max_tokens_too_small",
                limit="max_tokens",
                hint=f"Set max_tokens to at least {len(self._way)}",
            )

    @property
    def way(self) -> Way:
        """A way out of the place that fits into what is left."""
        return self._way

    @property
    def is_near(self) -> bool:
        """Whether most tokens no longer fit into what is left."""
        return len(self._way) + _NEAR >= self.left

    def fits(self, matcher: Matcher, token: int, *, find: bool) -> bool | None:
        """Whether the text, to which `token` was just added, can end with what is left after it. If so, the token is
        counted. Without `find`, None if the way out is not known."""
        kept = self._way[1:] if self._way[:1] == (token,) else None
        way = self._ways.find(matcher) if find else self._ways.known(matcher)
        if way is None and kept is None:
            return None
        if way is None or (kept is not None and len(kept) <= len(way)):
            way = kept
        assert way is not None
        if len(way) > self.left - 1:
            return False
        self._way = way
        self.left -= 1
        return True

    def fill_mask(self, matcher: Matcher, row: NDArray[np.int32]) -> None:
        """The mask of the tokens that leave enough room to end. If that takes too much work, the next token of the way
        out alone. If nothing is left, no token."""
        if self.left < 1:
            row[:] = 0
            return
        try:
            matcher.fill_ending_mask(self.left - 1, row)
        except LimitError:
            if not self._way:
                raise
            row[:] = 0
        if self._way:
            token = self._way[0]
            row.view(np.uint32)[token >> 5] |= np.uint32(1 << (token & 31))

    def fill_draft_masks(self, matcher: Matcher, draft: Sequence[int], rows: NDArray[np.int32]) -> None:
        """The mask of this place, and those after each of the guessed tokens: int32[len(draft) + 1, words]. Rows after
        a token that does not fit stay as they are. Nothing is accepted."""
        before, accepted = self.state(), 0
        try:
            for token, row in zip(draft, rows, strict=False):
                self.fill_mask(matcher, row)
                if not matcher.accept(token):
                    return
                accepted += 1
                if not self.fits(matcher, token, find=True):
                    return
            self.fill_mask(matcher, rows[-1])
        finally:
            matcher.rollback(accepted)
            self.restore(before)

    def state(self) -> tuple[int, Way]:
        """What `restore` takes back to."""
        return self.left, self._way

    def restore(self, state: tuple[int, Way]) -> None:
        """Go back to what `state` returned, when tokens that were read are taken back."""
        self.left, self._way = state
