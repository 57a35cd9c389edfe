"""Whitespace between the parts of JSON, taken from a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.stream.json_scan import WHITESPACE

if TYPE_CHECKING:
    from narrows.stream.machine import Machine


def skip_whitespace(machine: Machine) -> bool:
    """Take JSON's whitespace. Returns False where the text ends with it."""
    text, pos = machine.text, machine.pos
    end = len(text)
    while pos < end and text[pos] in WHITESPACE:
        pos += 1
    if pos > machine.pos:
        machine.take(pos)
    return pos < end
