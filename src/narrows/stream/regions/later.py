"""Where calls begin: regions that are made when a call of their shape first comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.stream.regions.enter_only import EnterOnly

if TYPE_CHECKING:
    from narrows.stream.machine import Machine, Region


class Later(EnterOnly):
    """Leads to the answer's own region, for the opener with this number of the shape with this number."""

    __slots__ = ("_shape", "_which")

    def __init__(self, shape: int, which: int) -> None:
        self._shape = shape
        self._which = which

    def enter(self, machine: Machine) -> Region:
        return machine.shapes(self._shape)[self._which].enter(machine)
