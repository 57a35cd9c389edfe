"""The base class of regions that do one thing when they are entered, and then name the region that goes on.

Such a region never waits for text, so it is neither read nor stopped. It costs one call where it is entered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narrows.stream.machine import Machine, Region


class EnterOnly(ABC):
    """A region whose `enter` returns another region. A subclass writes `enter`, and `place` where it is not in a call."""

    __slots__ = ()
    place = "call"

    @abstractmethod
    def enter(self, machine: Machine) -> Region:
        """Do the work, and return the region that reads next: the result of its own `enter`."""

    def read(self, machine: Machine) -> Region | None:
        raise AssertionError(f"{type(self).__name__} is entered, and never read")

    def stop(self, machine: Machine) -> None:
        raise AssertionError(f"{type(self).__name__} is entered, and never stopped")
