"""An opener of reasoning that comes twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.stream.markers import Exit, Markers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.text import Text


class RepeatedOpener:
    """The place after an opener of reasoning: the same opener again is layout, too. The prompt had opened it, and
    so did the model."""

    __slots__ = ("_markers", "_next")
    place = "reasoning"

    def __init__(self, following: Text) -> None:
        self._next = following
        self._markers = Markers(())

    def link(self, exits: Iterable[Exit]) -> None:
        self._markers = Markers(tuple(exits))

    def enter(self, machine: Machine) -> RepeatedOpener:
        return self

    def read(self, machine: Machine) -> Region | None:
        if machine.pos == len(machine.text):
            return None
        found, maybe = self._markers.match(machine.text, machine.pos, machine.final)
        if found is None:
            return None if maybe else self._next.enter(machine)
        machine.take(machine.pos + len(found.marker))
        return found.region.enter(machine)

    def stop(self, machine: Machine) -> None:
        self._next.stop(machine)
