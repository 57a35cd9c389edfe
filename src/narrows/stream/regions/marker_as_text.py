"""A marker that is part of the content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.events import Content

if TYPE_CHECKING:
    from narrows.stream.machine import Machine, Region


class MarkerAsText:
    """A marker that is left in the content. Then the next region."""

    __slots__ = ("_marker", "_next")
    place = "content"

    def __init__(self, marker: str, following: Region) -> None:
        self._marker = marker
        self._next = following

    def enter(self, machine: Machine) -> MarkerAsText:
        return self

    def read(self, machine: Machine) -> Region | None:
        machine.say(Content, machine.pos + len(self._marker))
        return self._next.enter(machine)

    def stop(self, machine: Machine) -> None:
        pass
