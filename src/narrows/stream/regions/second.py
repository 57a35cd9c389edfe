"""Two ways that begin with the same character: the next character decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.stream.json_scan import WHITESPACE

if TYPE_CHECKING:
    from narrows.stream.machine import Machine, Region


class Second:
    """The character after `first` and whitespace decides which region reads both. "" stands for all other characters.
    Nothing is taken here."""

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
        while at < len(text) and at < last and text[at] in WHITESPACE:
            at += 1
        if at >= len(text):
            return None
        region = self._seconds.get(text[at]) or self._seconds.get("")
        return machine.give_back() if region is None else region.enter(machine)

    def stop(self, machine: Machine) -> None:
        machine.cut()
