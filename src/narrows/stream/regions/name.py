"""A name that stands between markers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.stream.markers import Exit, Markers
from narrows.stream.names import UNUSUAL, is_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from narrows.stream.machine import Machine, Region


class Name:
    """A name until one of its end markers, which leads on. Blanks around it are layout; inside, only `spaced` names have them.

    At most `stream_name_chars` are held. `use(machine, name, span)` says what the name is for; what is no name goes to
    `otherwise(machine)`, with nothing of it taken.
    """

    __slots__ = ("_ends", "_forbidden", "_otherwise", "_spaced", "_use", "run")
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
        self.link(())

    def link(self, ends: Iterable[Exit]) -> None:
        self._ends = Markers(tuple(ends))
        self.run = Run.of_name(UNUSUAL + self._forbidden, self._ends.literals)

    def enter(self, machine: Machine) -> Name:
        return self

    def read(self, machine: Machine) -> Region | None:
        text, pos = machine.text, machine.pos
        at, found = self._ends.search(text, pos, machine.final)
        if found is None and machine.final and machine.started:
            at, _ = self._ends.search(text, pos, False)  # cut in the marker behind a name: half of it is markup
        raw = text[pos:at]
        name = raw.strip()
        if len(raw) > machine.limits.stream_name_chars or not is_name(name, self._spaced, self._forbidden):
            return self._otherwise(machine)
        if found is None:
            if not raw[-1:].isspace():  # a blank ends the name, or nothing does
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
        machine.take(at if found.keep else self._ends.end(text, at, found, machine.final))
        return found.region.enter(machine)

    def stop(self, machine: Machine) -> None:
        machine.cut()
