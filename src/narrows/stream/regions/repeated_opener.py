"""An opener of reasoning that comes twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.stream.markers import NO_MARKERS, Exit, Markers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.text import Text


class RepeatedOpener:
    """The place after an opener of reasoning. The same opener again is layout too: both the prompt and the model have
    opened the reasoning."""

    __slots__ = ("_markers", "_next")
    place = "reasoning"

    def __init__(self, following: Text) -> None:
        self._next = following
        self._markers = NO_MARKERS

    def link(self, exits: Iterable[Exit]) -> None:
        self._markers = Markers(tuple(exits))

    def enter(self, machine: Machine) -> RepeatedOpener:
        return self

    def read(self, machine: Machine) -> Region | None:
        if machine.pos == len(machine.text):
            return None
        opener, may_come = self._markers.match(machine.text, machine.pos, machine.final)
        if opener is None:
            return None if may_come else self._next.enter(machine)
        machine.take(machine.pos + len(opener.marker))
        return opener.region.enter(machine)

    def stop(self, machine: Machine) -> None:
        self._next.stop(machine)
