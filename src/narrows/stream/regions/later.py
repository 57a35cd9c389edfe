"""A region that is made when it is first entered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.stream.regions.enter_only import EnterOnly

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from narrows.stream.machine import Machine, Region


class Later(EnterOnly):
    """One of the regions that `make` returns. `make` is called each time, and makes them once."""

    __slots__ = ("_make", "_which")

    def __init__(self, make: Callable[[], Sequence[Region]], which: int) -> None:
        self._make = make
        self._which = which

    def enter(self, machine: Machine) -> Region:
        return self._make()[self._which].enter(machine)
