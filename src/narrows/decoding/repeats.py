"""Ends an answer whose calls repeat. A model that makes the same call twice in a row will often never stop, above all a
small one under `tool_choice="required"`. A repeated series of calls counts too: A, B, A, B.

`RepeatedCall` passes a parser's events on to their reader. It holds a call back while the call has the same text as one
that would complete a repeated series. If the call ends like this, it is left out: a client that runs calls would run it
twice, and a client that expects one answer would ask again. A call with the same meaning but other text (other
whitespace, another order of keys) has already been passed on, and the answer ends after it. Memory: the arguments of
the last calls.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from narrows.events import Event, ToolCallArguments, ToolCallEnd, ToolCallStart

LONGEST_ROUND = 8
"""Most calls of a series."""

_Call = tuple[str, str]
"""(name, arguments)."""


class RepeatedCall:
    """`feed` returns the events up to a call that completes a repeated series, and none after it. `finish` returns what
    is still held back. `found`: whether there was such a call."""

    __slots__ = ("_alike", "_arguments", "_calls", "_closing", "_held", "_length", "_name", "found")

    def __init__(self) -> None:
        self.found = False
        self._name = ""
        self._arguments: list[str] = []
        self._length = 0
        """Number of characters of the arguments so far."""
        self._calls: list[_Call] = []
        """The last calls."""
        self._closing: list[_Call] = []
        """The calls that would complete a repeated series if the open call equals one of them."""
        self._alike: list[str] = []
        """Those of their arguments that begin with the open call's arguments so far."""
        self._held: list[Event] | None = None
        """The events of the open call while its text equals the beginning of one of them. Otherwise None."""

    def feed(self, events: Sequence[Event]) -> list[Event]:
        """The events that may be passed on now. Cost: a comparison for each piece of arguments."""
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
        """Release the events that are held back, and return them."""
        held, self._held = self._held, None
        return held or []

    def _is_repeated(self) -> bool:
        """Called when the open call ends, complete or not. Whether it completes a repeated series."""
        arguments = "".join(self._arguments)
        self._arguments = []
        closing, self._closing = self._closing, []
        self._calls = [*self._calls, (self._name, arguments)][-2 * LONGEST_ROUND :]
        return any(arguments == other or _canonical(arguments) == _canonical(other) for _, other in closing)


def _closing(calls: list[_Call]) -> list[_Call]:
    """The calls of which one more would complete a repeated series: A after A; B after A, B, A."""
    return [
        calls[-size]
        for size in range(1, LONGEST_ROUND + 1)
        if 2 * size - 1 <= len(calls) and calls[len(calls) - size + 1 :] == calls[-2 * size + 1 : len(calls) - size]
    ]


def _canonical(arguments: str) -> str:
    """The same text for equal JSON. If Python cannot read it (a number of thousands of digits), the text itself."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
