"""The region for several call objects behind one marker: an array of them, or one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.stream.json_scan import WHITESPACE
from narrows.stream.regions.enter_only import EnterOnly
from narrows.stream.whitespace import skip_whitespace

if TYPE_CHECKING:
    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.text import Text


class CallArray:
    """Several call objects, read by `item`, which comes back here: the inside of `[{...}, {...}]`, or objects one after the other.

    `begin` is `[` or nothing, `separator` a comma, a semicolon or nothing, `end` is `]` or nothing; blanks may stand around them. Where the
    separator is `optional`, the next object may follow at once.
    After the end comes `after`; what is no call after all is given back to `home`.
    """

    __slots__ = ("_after", "_begin", "_count", "_end", "_expect", "_home", "_item", "_many", "_optional", "_separator")

    def __init__(
        self,
        after: Region,
        home: Text,
        many: bool,
        begin: str = "[",
        separator: str = ",",
        end: str = "]",
        optional: bool = False,
    ) -> None:
        self._after = after
        self._home = home
        self._many = many
        self._begin = begin
        self._separator = separator
        self._optional = optional or not separator
        self._end = end
        self._item: Region = self
        self._expect = "begin"
        self._count = 0

    @property
    def place(self) -> str:
        return "closing" if self._expect == "more" else "call"

    def link(self, item: Region) -> None:
        self._item = item

    def enter(self, machine: Machine) -> CallArray:
        self._expect = "begin" if self._begin else "first"
        self._count = 0
        return self

    def following(self) -> Region:
        """The region that an item hands over to."""
        return _AfterItem(self)

    def resume(self, machine: Machine) -> CallArray:
        """An item has ended."""
        self._count += 1
        self._expect = "more"
        return self

    def read(self, machine: Machine) -> Region | None:
        if self._expect == "more":
            return self._read_more(machine)
        while skip_whitespace(machine):
            char = machine.text[machine.pos]
            if char == "{" and self._expect != "begin":
                return self._item.enter(machine)
            if char != self._begin or self._expect != "begin":
                return machine.give_back()
            machine.take(machine.pos + 1)
            self._expect = "first"
        return None

    def _read_more(self, machine: Machine) -> Region | None:
        """Behind an item. Blanks stay unread until it is clear what follows: if not more of the array, they are no part of it."""
        text, pos = machine.text, machine.pos
        at = len(text) - len(text[pos:].lstrip(WHITESPACE))
        if at - pos > machine.limits.stream_name_chars:
            return self._after.enter(machine)
        if at == len(text):
            return None
        char = text[at]
        if self._end and char == self._end:
            machine.take(at + 1)
            return self._after.enter(machine)
        if self._end and char == self._separator:
            behind = len(text) - len(text[at + 1 :].lstrip(WHITESPACE))
            if behind - pos <= machine.limits.stream_name_chars:
                if behind == len(text) and not machine.final:
                    return None
                if text.startswith(self._end, behind):  # a comma behind the last
                    machine.take(behind + 1)
                    return self._after.enter(machine)
        if not self._many or not (char == self._separator or (self._optional and char == "{")):
            return self._after.enter(machine)
        machine.hold(self._home, inside=True)
        machine.take(at if char == "{" else at + 1)
        self._expect = "item"
        return self

    def stop(self, machine: Machine) -> None:
        if self._expect == "more":
            self._after.enter(machine).stop(machine)
        else:
            machine.cut()


class _AfterItem(EnterOnly):
    """Where an item leads to: the array goes on, instead of beginning anew."""

    __slots__ = ("_array",)

    def __init__(self, array: CallArray) -> None:
        self._array = array

    def enter(self, machine: Machine) -> Region:
        return self._array.resume(machine)
