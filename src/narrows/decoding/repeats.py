"""A model that makes the same call twice in a row will often never stop: small ones under `tool_choice="required"`
above all. Two calls in turn are the same: A, B, A, B.

`RepeatedCall` stands between a parser and the reader of its events. A call that is written as one that would close such
a round is held back for as long as it is the same, and left out where it ends so: clients that run calls would run it
twice, and those that expect one answer would ask again. A call that only means the same (other whitespace, another
order of keys) has been passed on by then; the answer ends after it. Memory is that of the last calls' arguments.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from narrows.events import Event, ToolCallArguments, ToolCallEnd, ToolCallStart

LONGEST_ROUND = 8
"""Calls."""

_Call = tuple[str, str]
"""Name and arguments."""


class RepeatedCall:
    """`feed` passes events on up to a call that closes a round of calls, made again; from there on, nothing. `finish`
    gives what is still held back."""

    __slots__ = ("_alike", "_arguments", "_calls", "_closing", "_held", "_length", "_name", "found")

    def __init__(self) -> None:
        self.found = False
        self._name = ""
        self._arguments: list[str] = []
        self._length = 0
        """Characters of the arguments so far."""
        self._calls: list[_Call] = []
        """The last calls."""
        self._closing: list[_Call] = []
        """Those that would close a round if the open call were one of them."""
        self._alike: list[str] = []
        """The arguments of those that begin like the open call's."""
        self._held: list[Event] | None = None
        """The open call, while it is written like one of them; None: it is not."""

    def feed(self, events: Sequence[Event]) -> list[Event]:
        passed: list[Event] = []
        for event in events:
            if self.found:
                break
            if isinstance(event, ToolCallStart):
                self._name, self._arguments, self._length = event.name, [], 0
                self._closing = [call for call in _closing(self._calls) if call[0] == event.name]
                self._alike = [arguments for _, arguments in self._closing]
                self._held = [] if self._closing else None
            elif isinstance(event, ToolCallArguments):
                self._arguments.append(event.text)
                self._alike = [other for other in self._alike if other.startswith(event.text, self._length)]
                self._length += len(event.text)
                if not self._alike:
                    passed += self.finish()
            elif isinstance(event, ToolCallEnd):
                self.found = self._is_repeated()
                if self._held is not None and self.found:
                    self._held = None
                    break  # none of it has been passed on
                passed += self.finish()
            if self._held is None:
                passed.append(event)
            else:
                self._held.append(event)
        return passed

    def finish(self) -> list[Event]:
        """What is held back, and no longer is."""
        held, self._held = self._held, None
        return held or []

    def _is_repeated(self) -> bool:
        """The open call has ended, well or not."""
        arguments = "".join(self._arguments)
        self._arguments = []
        closing, self._closing = self._closing, []
        self._calls = [*self._calls, (self._name, arguments)][-2 * LONGEST_ROUND :]
        return any(arguments == other or _canonical(arguments) == _canonical(other) for _, other in closing)


def _closing(calls: list[_Call]) -> list[_Call]:
    """The calls of which one more would make the last calls a round that was made before: A after A; B after A, B,
    A."""
    return [
        calls[-size]
        for size in range(1, LONGEST_ROUND + 1)
        if 2 * size - 1 <= len(calls) and calls[len(calls) - size + 1 :] == calls[-2 * size + 1 : len(calls) - size]
    ]


def _canonical(arguments: str) -> str:
    """One spelling for equal JSON; the text itself where Python cannot read it (a number of thousands of digits)."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
