"""Several call objects after one marker: an array of them, or one after the other.

| state | what comes | next state |
| --- | --- | --- |
| `OPENING` | the opening bracket | `FIRST_CALL` |
| `FIRST_CALL`, `NEXT_CALL` | `{` | the call is read, then `MORE_OR_END` |
| `MORE_OR_END` | the separator, or `{` where there need be none | `NEXT_CALL` |
| | the closing bracket, perhaps after a last separator | the array ends |
| | anything else | the array ends before it |
| any other | anything else | all is given back as text |

An array without an opening bracket begins with `FIRST_CALL`. Whitespace may stand between these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.stream.json_scan import WHITESPACE
from narrows.stream.regions.enter_only import EnterOnly
from narrows.stream.states import State
from narrows.stream.whitespace import skip_whitespace

if TYPE_CHECKING:
    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.text import Text


OPENING = State("the opening bracket")
FIRST_CALL = State("the first call")
MORE_OR_END = State("a separator, another call or the end")
NEXT_CALL = State("another call")


class CallArray:
    """Several call objects: `[{...}, {...}]`, or objects one after the other. `item` reads each and returns here.

    `begin` is `[` or nothing, `separator` a comma, a semicolon or nothing, and `end` is `]` or nothing. Where the
    separator is `optional`, the next object may follow at once. After the end comes `after`. Text that is not a call is
    given back to `home`.
    """

    __slots__ = ("_after", "_begin", "_end", "_home", "_item", "_many", "_optional", "_separator",
                 "_state")  # fmt: skip

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
        self._state = OPENING

    @property
    def place(self) -> str:
        return "closing" if self._state is MORE_OR_END else "call"

    def link(self, item: Region) -> None:
        self._item = item

    def enter(self, machine: Machine) -> CallArray:
        self._state = OPENING if self._begin else FIRST_CALL
        return self

    def following(self) -> Region:
        """The region that goes on after an item."""
        return _AfterItem(self)

    def resume(self, machine: Machine) -> CallArray:
        """An item has ended."""
        self._state = MORE_OR_END
        return self

    def read(self, machine: Machine) -> Region | None:
        if self._state is MORE_OR_END:
            return self._read_more(machine)
        while skip_whitespace(machine):
            char = machine.text[machine.pos]
            if char == "{" and self._state is not OPENING:
                return self._item.enter(machine)
            if char != self._begin or self._state is not OPENING:
                return machine.give_back()
            machine.take(machine.pos + 1)
            self._state = FIRST_CALL
        return None

    def _read_more(self, machine: Machine) -> Region | None:
        """Read on after an item. Whitespace stays unread until it is clear that it is a part of the array."""
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
            end = len(text) - len(text[at + 1 :].lstrip(WHITESPACE))
            if end - pos <= machine.limits.stream_name_chars:
                if end == len(text) and not machine.final:
                    return None
                if text.startswith(self._end, end):  # a separator after the last call
                    machine.take(end + 1)
                    return self._after.enter(machine)
        if not self._many or not (char == self._separator or (self._optional and char == "{")):
            return self._after.enter(machine)
        machine.hold(self._home, inside=True)
        machine.take(at if char == "{" else at + 1)
        self._state = NEXT_CALL
        return self

    def stop(self, machine: Machine) -> None:
        if self._state is MORE_OR_END:
            self._after.enter(machine).stop(machine)
        else:
            machine.cut()


class _AfterItem(EnterOnly):
    """The region after an item. It continues the array; entering the array itself would begin a new one."""

    __slots__ = ("_array",)

    def __init__(self, array: CallArray) -> None:
        self._array = array

    def enter(self, machine: Machine) -> Region:
        return self._array.resume(machine)
