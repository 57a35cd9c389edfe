"""The closer of what a call stood in, after the call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narrows.stream.machine import Machine, Region


class LateCloser:
    """A closer of reasoning, or of content that was set off, after a call. It is layout if the call stood in what it
    closes, else text.

    `reasoning`, `content`: the region after it (None: it closes nothing of that kind)."""

    __slots__ = ("_content", "_reasoning")
    place = "after"

    def __init__(self, reasoning: Region | None, content: Region | None) -> None:
        self._reasoning = reasoning
        self._content = content

    def enter(self, machine: Machine) -> LateCloser:
        return self

    def read(self, machine: Machine) -> Region | None:
        if machine.thinking and self._reasoning is not None:
            machine.thinking = False
            machine.let_go()
            return self._reasoning.enter(machine)
        if machine.wrapped and self._content is not None:
            machine.wrapped = False
            machine.let_go()
            return self._content.enter(machine)
        return machine.give_back()

    def stop(self, machine: Machine) -> None:
        pass
