"""Drafts: tokens that are guessed, computed in one decode with the last token, and kept as far as they come true.

    PromptLookup   what followed the last tokens where they stood before, in the prompt or the output
    StateChoices   what was chosen the last times at the same place of the grammar, in any text

Each row of logits of the draft is sampled as if there were no draft. While the result equals the guess, the next row
counts too. So a draft changes no token, at any temperature: the sampler uses the same random numbers for a position,
drafted or not (`sampling.py`).

Cost: a look-up for each token. A wrong guess costs the computation of its tokens, on a CPU about half of a step each.
So `Drafter` guesses only after matches of several tokens, and less often where guesses were wrong lately.
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
_MOST_PLACES = 16_384
"""Most places of a constraint whose choices are remembered. Then all are forgotten."""
_PAYS = 0.5
"""Part of the guessed tokens that must have come true lately. A guess costs about half of a step."""
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

    def chose(self, constraint: Constraint, place: int, token: int) -> None:
        """Record a choice. `place`: the matcher's `state_key` before the token."""
        choices = self._choices.setdefault(constraint, {})
        before, count = choices.get(place, (token, 0))
        if len(choices) >= _MOST_PLACES:
            choices.clear()
        choices[place] = (token, count + 1 if before == token else 1)

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


class Drafter:
    """The guesses of one sequence. `most`: most tokens of a guess."""

    __slots__ = ("_choices", "_lookup", "_luck", "_most", "_waited")

    def __init__(self, mode: DraftMode, most: int, choices: StateChoices) -> None:
        self._lookup = PromptLookup() if mode in ("auto", "prompt") else None
        self._choices = choices if mode in ("auto", "grammar") else None
        self._most = most
        self._luck = 1.0
        self._waited = 0

    def add(self, tokens: Sequence[int]) -> None:
        """Append tokens of the prompt or the output."""
        if self._lookup is not None:
            self._lookup.add(tokens)

    def chose(self, constraint: Constraint, place: int, token: int) -> None:
        """Record which token came at a place of the grammar."""
        if self._choices is not None:
            self._choices.chose(constraint, place, token)

    def guess(self, matcher: Matcher | None, most: int) -> list[int]:
        """At most `most` tokens that may come next. With a matcher, only those that the grammar allows, as far as that
        is known. Not after an end token."""
        self._waited += 1
        if self._luck < _PAYS and self._waited < _RETRY:
            return []
        most = min(most, self._most)
        tokens: list[int] = []
        if self._lookup is not None:
            tokens = self._lookup.guess(most)
            if matcher is not None and tokens:
                fitting = matcher.try_accepts(tokens)
                tokens = tokens if fitting is None else tokens[:fitting]
        if not tokens and self._choices is not None and matcher is not None:
            tokens = self._choices.guess(matcher, most)
        if tokens:
            self._waited = 0
        return tokens

    def saw(self, guessed: int, came_true: int) -> None:
        """Record how many tokens of a guess came true."""
        self._luck += 0.3 * (came_true / guessed - self._luck)
