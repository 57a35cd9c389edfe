"""Several calls between one pair of markers or brackets: `f(x=1), g()` and what ends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.stream.json_scan import WHITESPACE
from narrows.stream.whitespace import skip_whitespace

if TYPE_CHECKING:
    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.text import Text


class CallList:
    """The text after a call: the separator and another call, or the end. The separator may be only whitespace."""

    __slots__ = ("_due", "_end", "_home", "_item", "_many", "_separator")
    place = "closing"

    def __init__(
        self, item: Region, due: Region, home: Text, end: tuple[str, bool], separator: str, many: bool
    ) -> None:
        """`end`: the list's end, and whether the closing marker follows it. If so, `due` goes on, else `home`."""
        self._item = item
        self._end, is_due = end
        self._due: Region = due if is_due else home
        self._home = home
        self._separator = separator.strip()
        self._many = many

    def following(self) -> Region:
        """The region that goes on after a call."""
        return self

    def enter(self, machine: Machine) -> CallList:
        machine.hold(self._home, inside=True)
        return self

    def read(self, machine: Machine) -> Region | None:
        if not skip_whitespace(machine):
            return None
        text, pos, end = machine.text, machine.pos, self._end
        if end and text.startswith(end, pos):
            machine.take(pos + len(end))
            machine.let_go()
            return self._due.enter(machine)
        if end and len(text) - pos < len(end) and end.startswith(text[pos:]):
            if machine.final:  # the answer was cut in the marker that was due
                machine.take(len(text))
            return None
        if not self._separator:
            return self._item.enter(machine) if self._many else machine.give_back()
        if text[pos] != self._separator:
            return machine.give_back()
        at = len(text) - len(text[pos + 1 :].lstrip(WHITESPACE))
        rest = text[at : at + len(end)]
        if at - pos <= machine.limits.stream_name_chars and end.startswith(rest) and end:
            if rest == end:  # Python allows a comma after the last call
                machine.take(at)
                return self
            if not machine.final:
                return None
        if not self._many:
            return machine.give_back()
        machine.take(pos + 1)
        return self._item.enter(machine)

    def stop(self, machine: Machine) -> None:
        machine.let_go()
