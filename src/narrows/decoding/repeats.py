"""A model that makes the same call twice in a row will often never stop: small ones under `tool_choice="required"` above all.

`RepeatedCall` watches the events of one sequence. Two calls in a row are the same where names and arguments are, arguments compared as JSON:
blanks and the order of keys mean nothing. Memory is that of the last two calls' arguments.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from narrows.events import Event, ToolCallArguments, ToolCallEnd, ToolCallStart


class RepeatedCall:
    """`feed` passes events on up to the end of a call that is the one before it, again; from there on, nothing."""

    __slots__ = ("_arguments", "_last", "_name", "found")

    def __init__(self) -> None:
        self.found = False
        self._name = ""
        self._arguments: list[str] = []
        self._last: tuple[str, str] | None = None

    def feed(self, events: Sequence[Event]) -> list[Event]:
        passed: list[Event] = []
        for event in events:
            if self.found:
                break
            passed.append(event)
            if isinstance(event, ToolCallStart):
                self._name, self._arguments = event.name, []
            elif isinstance(event, ToolCallArguments):
                self._arguments.append(event.text)
            elif isinstance(event, ToolCallEnd):
                self._end(event.complete)
        return passed

    def _end(self, complete: bool) -> None:
        if not complete:
            self._last = None
            return
        call = self._name, _canonical("".join(self._arguments))
        self._arguments = []
        self.found = call == self._last
        self._last = call


def _canonical(arguments: str) -> str:
    """One spelling for equal JSON; the text itself where Python cannot read it (a number of thousands of digits)."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
