"""A machine for clients that must never see half of a call: a call is announced when it is complete, with all its arguments.

A call that does not end well is no call: its text is content (or reasoning, where it began there), verbatim, up to where its markup ends.
A call longer than `stream_held_chars` is text, too, from its opening on, and flows again. What the prompt holds of a call is not the
model's, and is not given back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.events import Event, ToolCallArguments, ToolCallEnd, ToolCallStart
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.stream.held import Held
from narrows.stream.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from narrows.stream.source import Alphabet
    from narrows.stream.tools import Tools


class WholeCallsMachine(Machine):
    """`Machine`, with the open call's events and text kept until its end."""

    __slots__ = ("_call", "_raw", "_raw_from")

    def __init__(
        self, alphabet: Alphabet, tools: Tools, make_id: Callable[[int], str], limits: Limits = DEFAULT_LIMITS
    ) -> None:
        super().__init__(alphabet, tools, make_id, limits)
        self._call: list[Event] = []
        self._raw: Held | None = None  # the open call's text; None: no call is open, or it is too long to be held
        self._raw_from = 0

    def take(self, end: int) -> str:
        start = self.offset
        piece = super().take(end)
        if self.started:
            if self._raw is None:
                self._say_raw(piece, start)
            else:
                self._raw.add(piece)
                if self._raw.size > self.limits.stream_held_chars:
                    self._say_raw(self._raw.text, self._raw_from)
                    self._raw, self._call = None, []
        return piece

    def _say_raw(self, text: str, start: int) -> None:
        assert self.home is not None
        self._emit_text(self.home.kind, text, start)

    def start_call(self, name: str, span: tuple[int, int], wire_id: str | None = None) -> None:
        self._raw, self._raw_from = Held(self._held.text if self._held is not None else ""), self._held_from
        super().start_call(name, span, wire_id)
        self._call = [self.events.pop()]

    def write(self, text: str, start: int) -> None:
        before = len(self.events)
        super().write(text, start)
        self._keep(before)

    def write_held(self, text: str, span: tuple[int, int]) -> None:
        before = len(self.events)
        super().write_held(text, span)
        self._keep(before)

    def _keep(self, before: int) -> None:
        if self._raw is not None:
            self._call += self.events[before:]
        del self.events[before:]

    def end_call(self, reason: str | None = None) -> None:
        super().end_call(reason)
        end = self.events.pop()
        assert isinstance(end, ToolCallEnd)
        if end.complete and self._raw is not None:
            self.events += [*self._call, end]
        else:
            self.calls -= 1
            if self._raw is not None:
                self._say_raw(self._raw.text, self._raw_from)
        self._raw, self._call = None, []

    def replay(self, events: list[Event]) -> None:
        if not self.started:
            super().replay(events)
            return
        for position, event in enumerate(self._call):  # of the prompt: no span, and counted from here
            if isinstance(event, ToolCallStart):
                call_id = self._make_id(0) if event.index else event.id
                self._call[position] = ToolCallStart(0, call_id, event.name, (0, 0), event.known)
            elif isinstance(event, ToolCallArguments):
                self._call[position] = ToolCallArguments(0, event.text, (0, 0))
            assert not isinstance(event, ToolCallEnd)
        self._raw, self._raw_from = Held(), self.offset
