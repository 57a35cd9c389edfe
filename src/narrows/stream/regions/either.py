"""A marker that may come or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.stream.markers import Exit, Markers

if TYPE_CHECKING:
    from narrows.stream.machine import Machine, Region


class Either:
    """One marker, if it comes next. Anything else goes to `otherwise`."""

    __slots__ = ("_markers", "_otherwise", "run")
    place = "call"

    def __init__(self, marker: Exit, otherwise: Region) -> None:
        self._markers = Markers((marker,))
        self._otherwise = otherwise
        self.run = Run.of_markers((marker.marker,))

    def enter(self, machine: Machine) -> Either:
        return self

    def read(self, machine: Machine) -> Region | None:
        # Where a call is cut in the marker, half of it is no argument.
        reached, maybe = self._markers.match(machine.text, machine.pos, machine.final and not machine.started)
        if reached is None:
            return None if maybe else self._otherwise.enter(machine)
        machine.take(machine.pos + len(reached.marker))
        return reached.region.enter(machine)

    def stop(self, machine: Machine) -> None:
        self._otherwise.enter(machine).stop(machine)
