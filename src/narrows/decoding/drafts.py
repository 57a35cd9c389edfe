"""Drafts: tokens that are guessed, computed in one decode with the last token, and kept as far as they come true.

    PromptLookup   what followed the last tokens where they stood before, in the prompt or the output
    StateChoices   what was chosen the last times at the same place of the grammar, in any text

Each row of logits of the draft is sampled as if there were no draft. While the result equals the guess, the next row
counts too. So a draft changes no token, at any temperature: the sampler uses the same random numbers for a position,
drafted or not (`sampling.py`).

A wrong guess costs the computation of its tokens (`draft_cost.py`). So `Drafter` guesses as many tokens as are likely
enough to come true all together. How likely that is, each token tells, because it also shows whether a guess that was
not made would have come true.

Cost: some microseconds for each token, one for each of the prompt.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from narrows.constraint import Constraint, Matcher

DraftMode = Literal["auto", "prompt", "grammar", "never"]

_LONGEST_MATCH = 3
"""Most tokens of a series that is looked up. Longer matches grow from shorter ones, token by token."""
_NONE = -1
"""The series of so many tokens where there are not so many yet."""
_ODDS_BY_MATCH = (0.35, 0.45, 0.55, 0.65, 0.75, 0.9)
"""How often the next token comes true at first, after matches of 1, 2, 3, 4, 5 to 7, and more tokens."""
_ODDS_BY_PLACE = 0.9
"""The same for a place of the grammar that had one token so far."""
_FIRST_WEIGHT = 4.0
"""The number of observations that the numbers above count as."""
_FORGET = 0.95
"""What an observation counts after the next of its kind, as a part of before."""
_SURE = 2
"""How often in a row a place must have had the same token before it is guessed."""
_VARIES = -1
"""In place of that number: the place has different tokens in one text."""
_MOST_PLACES = 16_384
"""Most places of a constraint whose choices are remembered. Then all are forgotten."""


class _Rate:
    """How often one kind of guess comes true. `shared`: the rate of all texts of a constraint, which this text begins
    with, and which learn from it too."""

    __slots__ = ("_shared", "_true", "_weight")

    def __init__(self, first: float, shared: _Rate | None = None) -> None:
        self._true, self._weight, self._shared = first * _FIRST_WEIGHT, _FIRST_WEIGHT, shared

    @property
    def value(self) -> float:
        return self._true / self._weight

    def saw(self, came_true: bool) -> None:
        self._true = self._true * _FORGET + came_true
        self._weight = self._weight * _FORGET + 1
        if self._shared is not None:
            self._shared.saw(came_true)

    def of_one_text(self) -> _Rate:
        return _Rate(self.value, self)


class Odds:
    """The odds of each kind of guess."""

    __slots__ = ("by_match", "by_place")

    def __init__(self, shared: Odds | None = None) -> None:
        if shared is None:
            self.by_match = [_Rate(first) for first in _ODDS_BY_MATCH]
            self.by_place = _Rate(_ODDS_BY_PLACE)
        else:
            self.by_match = [odds.of_one_text() for odds in shared.by_match]
            self.by_place = shared.by_place.of_one_text()

    def after(self, match: int) -> _Rate:
        """The odds of the token after a match of so many tokens."""
        return self.by_match[min(match, 5) - 1 if match < 8 else 5]


class PromptLookup:
    """Where the end of a text stood before, in a text that grows: the place of the longest match.

    A series of tokens that had different tokens after it is not used: `": "` stands before each value of an object.
    """

    __slots__ = ("_match", "_odds", "_place", "_places", "_refused", "_series", "_tokens")

    def __init__(self, odds: Odds) -> None:
        self._odds = odds
        self._tokens: list[int] = []
        self._series = (_NONE,) * _LONGEST_MATCH
        """The last token, the last two, and so on, each as one number."""
        self._places: tuple[dict[int, int], ...] = tuple({_NONE: _VARIES} for _ in self._series)
        """For each of these series: where its last occurrence ends, not counting the end of the text. _VARIES if not
        all of them had the same token after them."""
        self._place = 0
        """Index of the token after the match, in the earlier text."""
        self._match = 0
        """Length of the match, in tokens. 0: there is none."""
        self._refused = -1
        """Index in the earlier text of a token that the grammar refuses here. That it does not come teaches nothing."""

    def add_prompt(self, tokens: Sequence[int]) -> None:
        """Append tokens that tell nothing of what the model does. Cost: a microsecond each."""
        self._index(tokens)
        self._match = 0

    def add(self, token: int) -> None:
        """Append a token of the output, which tells how likely guesses come true. Cost: some microseconds."""
        came_true = self._match > 0 and self._tokens[self._place] == token
        if self._match and self._place != self._refused:
            self._odds.after(self._match).saw(came_true)
        self._index((token,))
        if came_true:
            self._place, self._match = self._place + 1, self._match + 1
        else:
            self._match, self._refused = 0, -1
        if self._match < _LONGEST_MATCH:
            self._find()

    def _index(self, tokens: Sequence[int]) -> None:
        """Append the tokens, and record what stands before each."""
        known, series = self._tokens, self._series
        for token in tokens:
            end = len(known)
            for places, number in zip(self._places, series, strict=True):
                before = places.setdefault(number, end)
                if before != end and before != _VARIES:
                    places[number] = end if known[before] == token else _VARIES
            known.append(token)
            one, two, _ = series
            series = token, _followed(one, token), _followed(two, token)
        self._series = series

    def _find(self) -> None:
        """Go to a longer match if there is one. Leave a match that had different tokens after it."""
        for length in range(_LONGEST_MATCH, max(0, self._match - 1), -1):
            series = self._series[length - 1]
            place = self._places[length - 1].get(series)
            if place is not None and series != _NONE:
                if place == _VARIES:
                    self._match = 0
                elif length > self._match:
                    self._place, self._match = place, length
                return

    def guess(self, most: int, worth: float, matcher: Matcher | None = None) -> list[int]:
        """What followed the match, as far as all of it comes true with a probability of at least `worth`, and as far as
        the matcher allows it, if that is known. The matcher does not move."""
        if not self._match:
            return []
        odds, count = 1.0, 0
        most = min(most, len(self._tokens) - self._place)
        while count < most:
            odds *= self._odds.after(self._match + count).value
            if odds < worth:
                break
            count += 1
        if matcher is not None:
            tokens = self._tokens[self._place : self._place + max(count, 1)]
            fitting = matcher.try_accepts(tokens)
            if fitting is not None and fitting < len(tokens):
                self._refused = self._place + fitting
                count = fitting
        return self._tokens[self._place : self._place + count]


class StateChoices:
    """For each place of a grammar, the token that was chosen there last, and how often in a row. For each grammar, how
    often guesses came true lately. All sequences of an engine share it."""

    def __init__(self) -> None:
        self._choices: weakref.WeakKeyDictionary[Constraint, dict[int, tuple[int, int]]] = weakref.WeakKeyDictionary()
        self._odds: weakref.WeakKeyDictionary[Constraint, Odds] = weakref.WeakKeyDictionary()

    def odds(self, constraint: Constraint | None) -> Odds:
        """The odds with which a text begins. Texts without a constraint have nothing in common."""
        return Odds() if constraint is None else Odds(self._odds.setdefault(constraint, Odds()))

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

    def sure(self, constraint: Constraint, place: int) -> int | None:
        """The token that is guessed at this place, if there is one."""
        token, count = self._choices.get(constraint, {}).get(place, (0, 0))
        return token if count >= _SURE else None

    def guess(self, matcher: Matcher, most: int) -> list[int]:
        """The tokens that were chosen at this place and those after it, as long as the choice is sure. Only places
        that are known are looked at. The matcher does not move."""
        tokens: list[int] = []
        while len(tokens) < most:
            token = self.sure(matcher.constraint, matcher.state_key)
            if token is None or not matcher.try_accept(token):
                break
            tokens.append(token)
        matcher.rollback(len(tokens))
        return tokens


class Drafter:
    """The guesses of one sequence. `most`: most tokens of a guess. `constraint`: what the sequence is held to."""

    __slots__ = ("_choices", "_lookup", "_most", "_odds", "_own")

    def __init__(self, mode: DraftMode, most: int, choices: StateChoices, constraint: Constraint | None = None) -> None:
        self._odds = choices.odds(constraint)
        self._lookup = PromptLookup(self._odds) if mode in ("auto", "prompt") else None
        self._choices = choices if mode in ("auto", "grammar") else None
        self._most = most
        self._own: dict[int, int] = {}
        """For each place of the grammar, the token that this text had there last."""

    def add_prompt(self, tokens: Sequence[int]) -> None:
        """Append tokens of the prompt."""
        if self._lookup is not None:
            self._lookup.add_prompt(tokens)

    def add(self, token: int) -> None:
        """Append a token of the output."""
        if self._lookup is not None:
            self._lookup.add(token)

    def chose(self, constraint: Constraint, place: int, token: int) -> None:
        """Record which token came at a place of the grammar."""
        if self._choices is not None:
            sure = self._choices.sure(constraint, place)
            if sure is not None:
                self._odds.by_place.saw(sure == token)
            before, self._own[place] = self._own.get(place, token), token
            self._choices.chose(constraint, place, token, varies=before != token)

    def guess(self, matcher: Matcher | None, most: int, *, cost: float = 0.5) -> list[int]:
        """At most `most` tokens that may come next. With a matcher, only those that the grammar allows, as far as that
        is known. `cost`: what a guessed token costs, as a part of a step (`DraftCost.of`)."""
        tokens: list[int] = []
        most = min(most, self._most)
        if self._choices is not None and matcher is not None and most > 0:
            tokens = self._choices.guess(matcher, min(most, _length(self._odds.by_place.value, cost)))
        if not tokens and self._lookup is not None:
            tokens = self._lookup.guess(most, cost, matcher)
        return tokens


def _followed(series: int, token: int) -> int:
    """A series and the token after it, as one number."""
    return series << 21 | token if series != _NONE else _NONE


def _length(odds: float, worth: float) -> int:
    """How many tokens come true all together with a probability of at least `worth`, if each has these odds."""
    if odds < worth:
        return 0
    return int(log(worth) / log(odds)) if odds < 1 else _MOST_PLACES
