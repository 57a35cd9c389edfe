"""Regions for what stands between markers: a name, or one of a few literals after blanks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.stream.json_scan import BLANK, quote
from narrows.stream.markers import Exit, Markers
from narrows.stream.regions.json_call import skip_blanks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from narrows.stream.machine import Machine, Region


UNUSUAL = "".join(map(chr, range(33))) + "\x7f"
LONGEST_NAME = 64
"""Characters of the names, with the markup around them, that the core reads by itself (core/stream/run.hpp)."""


TOO_MANY_KEYS = "the call has too many arguments [limit stream_keys]"


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


def next_key(machine: Machine | None, name: str, place: int) -> str | None:
    """What the core writes for the name of a further argument of the open call (`Run.link`); None where a region must see it."""
    if machine is None or not machine.wrote_arguments or not name or not name.isascii():
        return None
    given = machine.given
    if given.get(name, place) != place or len(given) >= machine.limits.stream_keys:
        return None
    given[name] = place
    return f", {quote(name)}: "


def is_name(name: str, spaced: bool, forbidden: str) -> bool:
    """Whether these characters can stand in a name: no control characters, nothing `forbidden` (which no identifier holds), no blanks
    unless `spaced`; and no U+FFFD, so that bytes that are no UTF-8 are no name however they come."""
    if name.isidentifier():
        return True
    if "\ufffd" in name or any(c in name for c in forbidden):
        return False
    if name.isprintable() and (spaced or " " not in name):
        return True
    return not any(c < " " or "\ud800" <= c <= "\udfff" or (c.isspace() and not spaced) for c in name)


class Second:
    """Two ways that begin with the same character: the next one (blanks apart) decides; "" is for all others. Takes nothing."""

    __slots__ = ("_first", "_seconds")
    place = "call"

    def __init__(self, first: str, seconds: dict[str, Region]) -> None:
        self._first = first
        self._seconds = seconds

    def enter(self, machine: Machine) -> Second:
        return self

    def read(self, machine: Machine) -> Region | None:
        text, at = machine.text, machine.pos + len(self._first)
        last = at + machine.limits.stream_name_chars
        while at < len(text) and at < last and text[at] in BLANK:
            at += 1
        if at >= len(text):
            return None
        region = self._seconds.get(text[at]) or self._seconds.get("")
        return machine.give_back() if region is None else region.enter(machine)

    def stop(self, machine: Machine) -> None:
        machine.cut()


class Expect:
    """Blanks, then one of a few markers. Anything else goes to `otherwise(machine)`, with nothing of it taken."""

    __slots__ = ("_markers", "_otherwise", "run")
    place = "call"

    def __init__(self, otherwise: Callable[[Machine], Region]) -> None:
        self._otherwise = otherwise
        self.link(())

    def link(self, exits: Iterable[Exit]) -> None:
        self._markers = Markers(tuple(exits))
        self.run = Run.of_markers(self._markers.literals, blanks=True)

    def enter(self, machine: Machine) -> Expect:
        return self

    def read(self, machine: Machine) -> Region | None:
        if not skip_blanks(machine):
            machine.run = self.run if machine.started else self._markers.begun  # what is held, no one skips
            return None
        found, maybe = self._markers.match(machine.text, machine.pos, machine.final)
        if found is not None:
            if not found.keep:
                machine.take(self._markers.end(machine.text, machine.pos, found, machine.final))
            return found.region.enter(machine)
        if maybe:
            machine.run = self.run if machine.started else self._markers.begun
            return None
        if machine.final and machine.started and self._markers.match(machine.text, machine.pos, False)[1]:
            return None  # a call that is cut in a marker: half of it is markup, and no argument
        return self._otherwise(machine)

    def stop(self, machine: Machine) -> None:
        machine.cut()
