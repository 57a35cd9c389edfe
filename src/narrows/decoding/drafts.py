"""Drafts: tokens that are guessed, computed in one decode with the last token, and kept as far as they come true.

    PromptLookup   what followed the last tokens where they stood before, in the prompt or the output
    StateChoices   what was chosen the last times at the same place of the grammar, in any text

Each row of logits of the draft is sampled as if there were no draft. While the result equals the guess, the next row
counts too. So a draft changes no token, at any temperature: the sampler uses the same random numbers for a position,
drafted or not (`sampling.py`).

Cost: a look-up for each token. A wrong guess costs the computation of its tokens: on a CPU about half of a step each
for one sequence alone, and nearly a whole one beside seven others. So `Drafter` guesses only after matches of several
tokens, begins with short guesses, and guesses less often where guesses were wrong lately.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from narrows.constraint import Constraint, Matcher

DraftMode = Literal["auto", "prompt", "grammar", "never"]

_LEAST_MATCH = 2
_LONGEST_MATCH = 4
"""Tokens that must stand before a guess, at least and at most, as at the end of the text."""
_SURE = 2
"""How often in a row a place must have had the same token before it is guessed."""
_VARIES = -1
"""In place of that number: the place has different tokens in one text."""
_MOST_PLACES = 16_384
"""Most places of a constraint whose choices are remembered. Then all are forgotten."""
_FIRST_LENGTH = 3
"""Tokens of the first guess. It doubles when a guess came true as a whole."""
_RETRY = 16
"""Steps after which a sequence without luck guesses again."""


class PromptLookup:
    """The places of all short series of tokens in a text that grows."""

    __slots__ = ("_places", "_tokens")

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._places: dict[tuple[int, ...], int] = {}
        """For each series: where its last occurrence ends, not counting the end of the text."""

    def add(self, tokens: Sequence[int]) -> None:
        """Append tokens. Cost: a microsecond each."""
        known = self._tokens
        for token in tokens:
            end = len(known)
            for length in range(_LEAST_MATCH, min(_LONGEST_MATCH, end) + 1):
                self._places[tuple(known[end - length :])] = end
            known.append(token)

    def guess(self, most: int) -> list[int]:
        """What followed the longest series of last tokens where it stood before."""
        known = self._tokens
        for length in range(min(_LONGEST_MATCH, len(known)), _LEAST_MATCH - 1, -1):
            end = self._places.get(tuple(known[-length:]))
            if end is not None:
                return known[end : end + most]
        return []


class StateChoices:
    """For each place of a grammar, the token that was chosen there last, and how often in a row. All sequences of an
    engine share it."""

    def __init__(self) -> None:
        self._choices: weakref.WeakKeyDictionary[Constraint, dict[int, tuple[int, int]]] = weakref.WeakKeyDictionary()

    def chose(self, constraint: Constraint, place: int, token: int, *, varies: bool) -> None:
        """Record a choice. `place`: the matcher's `state_key` before the token. `varies`: whether the same text had
        another token at this place before, as inside a string. Such a place is never guessed."""
        choices = self._choices.setdefault(constraint, {})
        before, count = choices.get(place, (token, 0))
        if count == _VARIES:
            return
        if len(choices) >= _MOST_PLACES:
            choices.clear()
        choices[place] = (token, _VARIES if varies else count + 1 if before == token else 1)

    def guess(self, matcher: Matcher, most: int) -> list[int]:
        """The tokens that were chosen at this place and those after it, as long as the choice is sure. Only places
        that are known are looked at. The matcher does not move."""
        choices = self._choices.get(matcher.constraint, {})
        tokens: list[int] = []
        while len(tokens) < most:
            token, count = choices.get(matcher.state_key, (0, 0))
            if count < _SURE or not matcher.try_accept(token):
                break
            tokens.append(token)
        matcher.rollback(len(tokens))
        return tokens


class _Source:
    """How one source of guesses did lately."""

    __slots__ = ("_length", "_most", "_waited", "luck")

    def __init__(self, luck: float, most: int) -> None:
        self.luck = luck
        """Part of the guessed tokens that came true."""
        self._most = most
        self._length = min(_FIRST_LENGTH, most)
        self._waited = 0

    def wanted(self, running: int) -> int:
        """Most tokens to guess now. `running`: sequences that generate in the same step."""
        self._waited += 1
        return self._length if self.luck >= 1 - 0.5 / running**0.6 or self._waited >= _RETRY else 0

    def saw(self, guessed: int, came_true: int) -> None:
        self._waited = 0
        self.luck += 0.3 * (came_true / guessed - self.luck)
        self._length = min(2 * self._length, self._most) if came_true == guessed else max(2, came_true)


class Drafter:
    """The guesses of one sequence. `most`: most tokens of a guess."""

    __slots__ = ("_by_place", "_by_text", "_choices", "_last", "_lookup", "_own")

    def __init__(self, mode: DraftMode, most: int, choices: StateChoices) -> None:
        self._lookup = PromptLookup() if mode in ("auto", "prompt") else None
        self._choices = choices if mode in ("auto", "grammar") else None
        # What a text repeats is uncertain. The same place has had the same token at least twice.
        self._by_text, self._by_place = _Source(0.6, most), _Source(1.0, most)
        self._last = self._by_text
        self._own: dict[int, int] = {}
        """For each place of the grammar, the token that this text had there last."""

    def add(self, tokens: Sequence[int]) -> None:
        """Append tokens of the prompt or the output."""
        if self._lookup is not None:
            self._lookup.add(tokens)

    def chose(self, constraint: Constraint, place: int, token: int) -> None:
        """Record which token came at a place of the grammar."""
        if self._choices is not None:
            before, self._own[place] = self._own.get(place, token), token
            self._choices.chose(constraint, place, token, varies=before != token)

    def guess(self, matcher: Matcher | None, most: int, *, running: int = 1) -> list[int]:
        """At most `most` tokens that may come next. With a matcher, only those that the grammar allows, as far as that
        is known. `running`: sequences that generate in the same step, this one included."""
        tokens: list[int] = []
        if self._choices is not None and matcher is not None:
            self._last = self._by_place
            tokens = self._choices.guess(matcher, min(most, self._by_place.wanted(running)))
        if not tokens and self._lookup is not None:
            self._last = self._by_text
            tokens = self._lookup.guess(min(most, self._by_text.wanted(running)))
            if matcher is not None and tokens:
                fitting = matcher.try_accepts(tokens)
                tokens = tokens if fitting is None else tokens[:fitting]
        return tokens

    def saw(self, guessed: int, came_true: int) -> None:
        """Record how many tokens of the last guess came true."""
        self._last.saw(guessed, came_true)
