"""The few characters around a marker that belong to it: at most so many newlines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narrows.stream.machine import Machine, Region


class Layout:
    """Takes up to these characters, if they come: the newlines around a marker. Then the next region.

    `thinking`, `wrapped`: whether reasoning, or content that is set off, is open from here on (None: as before)."""

    __slots__ = ("_expected", "_next", "_thinking", "_wrapped", "place")

    def __init__(
        self, expected: str, following: Region, thinking: bool | None = None, wrapped: bool | None = None
    ) -> None:
        self._expected = expected
        self._next = following
        self._thinking = thinking
        self._wrapped = wrapped
        self.place = "reasoning" if thinking else "wrapped" if wrapped else "content"

    def enter(self, machine: Machine) -> Layout:
        machine.layout_at = 0
        if self._thinking is not None:
            machine.thinking = self._thinking
        if self._wrapped is not None:
            machine.unwrapped = machine.wrapped and not self._wrapped
            machine.wrapped = self._wrapped
        return self

    def read(self, machine: Machine) -> Region | None:
        while machine.layout_at < len(self._expected):
            if machine.pos == len(machine.text):
                return None
            if machine.text[machine.pos] != self._expected[machine.layout_at]:
                break
            machine.take(machine.pos + 1)
            machine.layout_at += 1
        return self._next.enter(machine)

    def stop(self, machine: Machine) -> None:
        pass
