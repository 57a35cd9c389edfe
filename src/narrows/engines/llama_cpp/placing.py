"""Who has to give up what, where there are too few places or cells for all. Plain functions: no model, no threads.

- `is_long`: long sequences and short ones have half of the cells each, as long as both ask for some.
- `first_to_go`: who gives up its cells so that the others can go on. It is one of the lowest priority, of the client that holds most, and of
  its sequences the last to come. The first of all never goes, so that each comes to its end some day.
- `first_to_yield`: who gives up its place or cells for a client that has none. Only a client that holds at least as much afterwards as
  the one that comes is asked.

Cost: linear in the places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_LONG = 512
"""Tokens of a sequence that is never long, however few cells there are."""


@dataclass(frozen=True, slots=True)
class Place:
    """A sequence that has a place."""

    client: str
    order: tuple[int, int]
    """Priority and arrival; the least is the first."""
    tokens: int
    """Prompt and output, computed or not."""
    long: bool = False


def is_long(tokens: int, cells: int) -> bool:
    """Whether a sequence of so many tokens takes its cells from the half of the long ones."""
    return tokens > max(_LONG, cells // 4)


def first_to_go(places: Sequence[Place]) -> int | None:
    """Index of the one whose cells the others get. None where there is but one."""
    held = _tokens_by_client(places)
    first = min((place.order for place in places), default=None)
    others = [i for i, place in enumerate(places) if place.order != first]
    return max(others, key=lambda i: _rank(places[i], held), default=None)


def first_to_yield(
    places: Sequence[Place], *, priority: int, tokens: int | None = None, long: bool = False
) -> int | None:
    """Index of the one that makes way for a sequence of a client without a place. None where nobody need.

    `tokens`: cells that it needs; None where it is a place that is missing. `long`: those of the long ones are what is missing.
    """
    held = _tokens_by_client(places)
    count = Counter(place.client for place in places)
    first = min((place.order for place in places), default=None)

    def may_yield(place: Place) -> bool:
        if place.order == first or place.order[0] < priority or count[place.client] < 2 or (long and not place.long):
            return False
        return tokens is None or held[place.client] - place.tokens >= tokens

    size = count if tokens is None else held
    able = [i for i, place in enumerate(places) if may_yield(place)]
    return max(able, key=lambda i: _rank(places[i], size), default=None)


def _rank(place: Place, size: Counter[str]) -> tuple[int, int, int]:
    priority, arrival = place.order
    return priority, size[place.client], arrival


def _tokens_by_client(places: Sequence[Place]) -> Counter[str]:
    held: Counter[str] = Counter()
    for place in places:
        held[place.client] += place.tokens
    return held
