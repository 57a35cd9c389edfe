"""A name that stands between markers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.stream.markers import NO_MARKERS, Exit, Markers
from narrows.stream.names import UNUSUAL, is_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from narrows.stream.machine import Machine, Region


class Name:
    """A name until one of its end markers, which names the region that goes on.

    Whitespace around the name is layout. Inside, only `spaced` names have any. At most `stream_name_chars` are held
    back. `use(machine, name, span)` gets the name. Text that is not a name goes to `otherwise(machine)`, with nothing
    of it taken.
    """

    __slots__ = ("_ends", "_forbidden", "_otherwise", "_run", "_spaced", "_use")
    place = "call"

    def __init__(
        self,
        use: Callable[[Machine, str, tuple[int, int]], None],
        otherwise: Callable[[Machine], Region],
        spaced: bool = False,
        forbidden: str = "",
    ) -> None:
        self._use = use
        self._otherwise = otherwise
        self._spaced = spaced
        self._forbidden = forbidden
        self._ends = NO_MARKERS
        self._run: Run | None = None

    def link(self, ends: Iterable[Exit]) -> None:
        self._ends = Markers(tuple(ends))
        self._run = None

    @property
    def run(self) -> Run:
        """The core's own reading of the name."""
        if self._run is None:
            self._run = Run.of_name(UNUSUAL + self._forbidden, self._ends.literals)
        return self._run

    def enter(self, machine: Machine) -> Name:
        return self

    def read(self, machine: Machine) -> Region | None:
        text, pos = machine.text, machine.pos
        at, end = self._ends.search(text, pos, machine.final)
        if end is None and machine.final and machine.started:
            # Where the text ends in the marker after the name, half of the marker is markup.
            at, _ = self._ends.search(text, pos, False)
        raw = text[pos:at]
        name = raw.strip()
        if len(raw) > machine.limits.stream_name_chars or not is_name(name, self._spaced, self._forbidden):
            return self._otherwise(machine)
        if end is None:
            if not raw[-1:].isspace():  # after whitespace only an end marker is right, or this is no name
                machine.run = self.run
            return None
        if not name:
            return self._otherwise(machine)
        if name != raw:
            pos += len(raw) - len(raw.lstrip())
            machine.take(pos)
        start = machine.offset
        machine.take(pos + len(name))
        self._use(machine, name, (start, machine.offset))
        machine.take(at if end.keep else self._ends.end(text, at, end, machine.final))
        return end.region.enter(machine)

    def stop(self, machine: Machine) -> None:
        machine.cut()
