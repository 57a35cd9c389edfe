"""The place where a marker may come, with nothing before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.stream.markers import Exit, Markers

if TYPE_CHECKING:
    from narrows.stream.machine import Machine, Region


class Either:
    """The place where a marker may come, with nothing before it; what does not begin with it goes to `otherwise`."""

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
        found, maybe = self._markers.match(machine.text, machine.pos, machine.final and not machine.started)
        if found is None:
            return None if maybe else self._otherwise.enter(machine)
        machine.take(machine.pos + len(found.marker))
        return found.region.enter(machine)

    def stop(self, machine: Machine) -> None:
        self._otherwise.enter(machine).stop(machine)
