"""Which sequence gives up its cells or its place when there are too few. Plain functions: no model, no threads.

- `is_long`: whether a sequence counts as long. Long and short sequences have half of the cells each, as long as both
  kinds need cells.
- `first_to_go`: the sequence that gives up its cells so that the others can go on. It has the lowest priority. Among
  those it belongs to the client that holds most, and among that client's sequences it arrived last. The first sequence
  of all never goes, so that every sequence ends some day.
- `first_to_yield`: the sequence that gives up its place or cells for a client that has no place. A client yields only
  if it still holds at least as much afterwards as the new client gets.

What a client holds is counted in cells. Cells that several of its sequences share count once.

Cost: linear in the number of places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_LONG = 512
"""A sequence of at most so many tokens is never long, however few cells there are."""


@dataclass(frozen=True, slots=True)
class Place:
    """A sequence that has a place."""

    client: str
    order: tuple[int, int]
    """(priority, arrival). The least is the first in order."""
    cells: int
    """Cells that no other sequence holds, and cells that it was promised. So many come free when it goes."""
    long: bool = False


def is_long(tokens: int, cells: int) -> bool:
    """Whether a sequence of `tokens` tokens is long: it takes its cells from the half of the long sequences."""
    return tokens > max(_LONG, cells // 4)


def first_to_go(places: Sequence[Place], held: Mapping[str, int]) -> int | None:
    """Index of the place whose cells the others get. None if there is only one. `held`: cells of each client."""
    first = min((place.order for place in places), default=None)
    others = [i for i, place in enumerate(places) if place.order != first]
    return max(others, key=lambda i: _rank(places[i], held), default=None)


def first_to_yield(
    places: Sequence[Place], held: Mapping[str, int], *, priority: int, cells: int | None = None, long: bool = False
) -> int | None:
    """Index of the place that yields to a sequence of a client without a place. None if no place may yield.

    `held`: cells of each client. `cells`: cells that the sequence needs, or None if it lacks a place.
    `long`: whether it lacks cells of the half of the long sequences.
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
