"""A machine for clients that must never see half of a call.

A call is announced when it is complete, with all its arguments. A call that does not end well is no call: its text is
content, verbatim, or reasoning if the call began there. So is the markup after it that would have ended it, and the
markup around it, unless a complete call stands there too. If the answer had to be a call, a call that the token budget
cut is left out.

A call longer than `stream_held_chars` is text too, from its opening marker on, and streams from then on. The prompt's
part of a call is never given back as text, because the model did not write it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.events import Content, Event, Reasoning, ToolCallArguments, ToolCallEnd, ToolCallStart
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.stream.held import Held
from narrows.stream.machine import NOTHING_DUE, Due, Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from narrows.stream.machine import Home
    from narrows.stream.source import Alphabet
    from narrows.tools.request import Tools


class WholeCallsMachine(Machine):
    """`Machine` that keeps the open call's events and text until the call's end."""

    __slots__ = ("_call", "_inside", "_markup_kind", "_raw", "_raw_from")

    def __init__(
        self,
        alphabet: Alphabet,
        tools: Tools,
        make_id: Callable[[int], str],
        limits: Limits = DEFAULT_LIMITS,
        due: Due = NOTHING_DUE,
    ) -> None:
        super().__init__(alphabet, tools, make_id, limits, due)
        self._call: list[Event] = []
        self._raw: Held | None = None  # the open call's text; None: no call is open, or it is too long to be held back
        self._raw_from = 0
        self._inside = False  # the held text stands inside markup that earlier calls have opened
        self._markup_kind: type[Content] | type[Reasoning] | None = None
        """After a call that is given back as text: the kind of text that its remaining markup is."""

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
        elif self._markup_kind is not None and not self.holding:
            self._emit_text(self._markup_kind, piece, start)
        return piece

    def say(self, kind: type[Content] | type[Reasoning], end: int) -> None:
        markup_kind, self._markup_kind = self._markup_kind, None
        super().say(kind, end)
        self._markup_kind = markup_kind

    def hold(self, home: Home, inside: bool = False, sure: bool = True) -> None:
        super().hold(home, inside, sure)
        self._inside = inside

    def let_go(self) -> None:
        if not self._inside:
            self.leave_call()
        elif self._markup_kind is not None and self._held is not None:
            self._emit_text(self._markup_kind, self._held.text, self._held_from)
        super().let_go()

    def leave_call(self) -> None:
        self._markup_kind = None

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
            self._markup_kind = None
        else:
            assert self.home is not None
            self.calls -= 1
            self._markup_kind = self.home.kind
            cut = self.ended and (self.due.call or self.due.grammar)  # a call that the budget cut is not text either
            if self._raw is not None and not cut:
                self._say_raw(self._raw.text, self._raw_from)
        self._raw, self._call = None, []

    def replay(self, events: list[Event]) -> None:
        if not self.started:
            super().replay(events)
            return
        # The events are the prompt's: they get no span, and calls are counted from here.
        for position, event in enumerate(self._call):
            if isinstance(event, ToolCallStart):
                call_id = self._make_id(0) if event.index else event.id
                self._call[position] = ToolCallStart(0, call_id, event.name, (0, 0), event.known)
            elif isinstance(event, ToolCallArguments):
                self._call[position] = ToolCallArguments(0, event.text, (0, 0))
            assert not isinstance(event, ToolCallEnd)
        self._raw, self._raw_from = Held(), self.offset
