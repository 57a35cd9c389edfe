"""One of a few markers, after whitespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.stream.markers import NO_MARKERS, Exit, Markers
from narrows.stream.whitespace import skip_whitespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from narrows.stream.machine import Machine, Region


class Expect:
    """Whitespace, then one of a few markers. Anything else goes to `otherwise(machine)`, with nothing of it taken."""

    __slots__ = ("_markers", "_otherwise", "_run")
    place = "call"

    def __init__(self, otherwise: Callable[[Machine], Region]) -> None:
        self._otherwise = otherwise
        self._markers = NO_MARKERS
        self._run: Run | None = None

    def link(self, exits: Iterable[Exit]) -> None:
        self._markers = Markers(tuple(exits))
        self._run = None

    @property
    def run(self) -> Run:
        """The core's own reading of the whitespace and the marker."""
        if self._run is None:
            self._run = Run.of_markers(self._markers.literals, whitespace_before=True)
        return self._run

    def enter(self, machine: Machine) -> Expect:
        return self

    def read(self, machine: Machine) -> Region | None:
        if not skip_whitespace(machine):
            # The core must not skip whitespace that is held back.
            machine.run = self.run if machine.started else self._markers.begun
            return None
        marker, maybe = self._markers.match(machine.text, machine.pos, machine.final)
        if marker is not None:
            if not marker.keep:
                machine.take(self._markers.end(machine.text, machine.pos, marker, machine.final))
            return marker.region.enter(machine)
        if maybe:
            machine.run = self.run if machine.started else self._markers.begun
            return None
        if machine.final and machine.started and self._markers.match(machine.text, machine.pos, False)[1]:
            return None  # the call is cut in a marker: half of it is markup, and no argument
        return self._otherwise(machine)

    def stop(self, machine: Machine) -> None:
        machine.cut()
