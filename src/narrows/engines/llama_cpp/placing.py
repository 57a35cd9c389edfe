"""Who has to give up what, where there are too few places or cells for all. Plain functions: no model, no threads.

- `is_long`: long sequences and short ones have half of the cells each, as long as both ask for some.
- `first_to_go`: who gives up its cells so that the others can go on. It is one of the lowest priority, of the client
  that holds most, and of its sequences the last to come. The first of all never goes, so that each comes to its end
  some day.
- `first_to_yield`: who gives up its place or cells for a client that has none. Only a client that holds at least as
  much afterwards as the one that comes is asked.

What a client holds is counted in cells, those that several of its sequences share once.

Cost: linear in the places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_LONG = 512
"""Tokens of a sequence that is never long, however few cells there are."""


@dataclass(frozen=True, slots=True)
class Place:
    """A sequence that has a place."""

    client: str
    order: tuple[int, int]
    """Priority and arrival; the least is the first."""
    cells: int
    """Those that nobody else holds, and those that it was promised: what comes free when it goes."""
    long: bool = False


def is_long(tokens: int, cells: int) -> bool:
    """Whether a sequence of so many tokens takes its cells from the half of the long ones."""
    return tokens > max(_LONG, cells // 4)


def first_to_go(places: Sequence[Place], held: Mapping[str, int]) -> int | None:
    """Index of the one whose cells the others get. None where there is but one. `held`: cells of each client."""
    first = min((place.order for place in places), default=None)
    others = [i for i, place in enumerate(places) if place.order != first]
    return max(others, key=lambda i: _rank(places[i], held), default=None)


def first_to_yield(
    places: Sequence[Place], held: Mapping[str, int], *, priority: int, cells: int | None = None, long: bool = False
) -> int | None:
    """Index of the one that makes way for a sequence of a client without a place. None where nobody need.

    `held`: cells of each client. `cells`: those that the sequence needs; None where it is a place that is missing.
    `long`: those of the long ones are what is missing.
    """
    count = Counter(place.client for place in places)
    first = min((place.order for place in places), default=None)

    def may_yield(place: Place) -> bool:
        if place.order == first or place.order[0] < priority or count[place.client] < 2 or (long and not place.long):
            return False
        return cells is None or held[place.client] - place.cells >= cells

    size = count if cells is None else held
    able = [i for i, place in enumerate(places) if may_yield(place)]
    return max(able, key=lambda i: _rank(places[i], size), default=None)


def _rank(place: Place, size: Mapping[str, int]) -> tuple[int, int, int]:
    priority, arrival = place.order
    return priority, size[place.client], arrival
