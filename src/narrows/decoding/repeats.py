"""A model that makes the same call twice in a row will often never stop: small ones under `tool_choice="required"` above all.

`RepeatedCall` stands between a parser and the reader of its events. A call that is written as the one before it is held back for as long as it
is the same, and left out where it ends so: clients that run calls would run it twice, and those that expect one answer would ask again.
A call that only means the same (other blanks, another order of keys) has been passed on by then; the answer ends behind it.
Memory is that of the last two calls' arguments.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from narrows.events import Event, ToolCallArguments, ToolCallEnd, ToolCallStart


class RepeatedCall:
    """`feed` passes events on up to a call that is the one before it, again; from there on, nothing. `finish` gives what is still held back."""

    __slots__ = ("_arguments", "_held", "_last", "_length", "_name", "found")

    def __init__(self) -> None:
        self.found = False
        self._name = ""
        self._arguments: list[str] = []
        self._length = 0
        """Characters of the arguments so far."""
        self._last: tuple[str, str] | None = None
        """Name and arguments of the call before, if it was complete."""
        self._held: list[Event] | None = None
        """The open call, while it is the same as the last; None: it is another."""

    def feed(self, events: Sequence[Event]) -> list[Event]:
        passed: list[Event] = []
        for event in events:
            if self.found:
                break
            if isinstance(event, ToolCallStart):
                self._name, self._arguments, self._length = event.name, [], 0
                self._held = [] if self._last is not None and self._last[0] == event.name else None
            elif isinstance(event, ToolCallArguments):
                self._arguments.append(event.text)
                same = self._held is not None and self._goes_on_alike(event.text)
                self._length += len(event.text)
                if not same:
                    passed += self.finish()
            elif isinstance(event, ToolCallEnd):
                self.found = self._is_repeated(event.complete)
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

    def _goes_on_alike(self, text: str) -> bool:
        return self._last is not None and self._last[1].startswith(text, self._length)

    def _is_repeated(self, complete: bool) -> bool:
        """The open call has ended."""
        arguments = "".join(self._arguments)
        last, self._last = self._last, (self._name, arguments) if complete else None
        self._arguments = []
        if not complete or last is None or last[0] != self._name:
            return False
        return arguments == last[1] or _canonical(arguments) == _canonical(last[1])


def _canonical(arguments: str) -> str:
    """One spelling for equal JSON; the text itself where Python cannot read it (a number of thousands of digits)."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
