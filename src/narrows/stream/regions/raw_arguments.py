"""The rest of a call that has broken off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.stream.markers import NO_MARKERS, Exit, Markers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.text import Text


class RawArguments:
    """The text after a call has broken off, as raw arguments, until one of the exits. The call ends incomplete."""

    __slots__ = ("_home", "_markers", "_reason")
    place = "call"

    def __init__(self, home: Text) -> None:
        self._home = home
        self._markers = NO_MARKERS
        self._reason = ""

    def link(self, exits: Iterable[Exit]) -> None:
        self._markers = Markers(tuple(exits))

    def enter(self, machine: Machine) -> RawArguments:
        return self

    def ends_here(self, machine: Machine) -> tuple[bool, bool]:
        """(whether an exit comes next, whether more text may make one). An exit that the answer's end cuts does not
        count."""
        reached, _ = self._markers.match(machine.text, machine.pos, machine.final)
        return reached is not None, self._markers.match(machine.text, machine.pos, False)[1]

    def because(self, reason: str) -> RawArguments:
        self._reason = reason
        return self

    def read(self, machine: Machine) -> Region | None:
        at, reached = self._markers.search(machine.text, machine.pos, machine.final)
        if at > machine.pos:
            machine.pass_through(at)
        if reached is None:
            return None
        machine.end_call(self._reason)
        if reached.begins:
            machine.hold(self._home, reached.inside, reached.sure)
        machine.take(at if reached.keep else at + len(reached.marker))
        return reached.region.enter(machine)

    def stop(self, machine: Machine) -> None:
        machine.pass_through(len(machine.text))
        machine.end_call(self._reason)
