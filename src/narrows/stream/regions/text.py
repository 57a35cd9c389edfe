"""Running text: content or reasoning, until a marker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.events import Content, Reasoning
from narrows.stream.json_scan import WHITESPACE
from narrows.stream.machine import BEFORE_CALLS
from narrows.stream.markers import NO_MARKERS, Exit, Markers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from narrows.stream.machine import Machine, Region


class Text:
    """Content or reasoning until one of its exits.

    With `fresh`, whitespace at the beginning waits for what follows: before a marker it is layout, before text it is
    text, verbatim. At the end of the answer it is layout if a call came before, and text otherwise.

    Once linked it does not change: any number of answers may read in it. The machine knows what a visit has read.
    """

    __slots__ = ("_markers", "_run", "fresh", "kind", "place", "then")

    def __init__(self, kind: type[Content] | type[Reasoning], place: str, fresh: bool = False) -> None:
        self.kind = kind
        self.place = place
        self.fresh = fresh
        self.then: Text | None = None
        """The region that goes on once any text has been read (None: this one)."""
        self._markers = NO_MARKERS
        self._run: Run | None = None

    def link(self, exits: Iterable[Exit]) -> None:
        self._markers = Markers(tuple(exits))
        self._run = None

    def enter(self, machine: Machine) -> Text:
        machine.fresh, machine.has_text = self.fresh, False
        return self

    def resume(self, machine: Machine) -> Text:
        """Go on in the middle of text."""
        machine.fresh, machine.has_text = False, True
        return self.then or self

    def is_markup(self, machine: Machine) -> bool:
        """Whether the answer is over and its unread rest can only be markup, since only calls could come here."""
        due = machine.due
        calls_alone = due.call or (due.grammar and (machine.calls or machine.unwrapped))
        if self.place not in BEFORE_CALLS or not calls_alone:
            return False
        if machine.has_text and not due.grammar:  # the model has written text where only calls were to come
            return False
        text, pos = machine.text, machine.pos
        if not text[pos:].strip(WHITESPACE):
            return True
        at, leaving = self._markers.search(text, pos, False)
        # A whole marker that opens no call: the answer has waited for the rest of a longer marker.
        waits = leaving is None or (due.call and not leaving.begins)
        return waits and at < len(text) and not text[pos:at].strip(WHITESPACE)

    def read(self, machine: Machine) -> Region | None:
        text, pos = machine.text, machine.pos
        if machine.ended and pos < len(text) and self.is_markup(machine):
            machine.take(len(text))
            return None
        if machine.fresh:
            first = len(text) - len(text[pos:].lstrip(WHITESPACE))
            if first - pos <= machine.limits.stream_name_chars:
                if first == len(text):
                    machine.run = self._markers.begun if first == pos else None
                    return None
                if machine.final and self.place == "closing" and self._markers.broke_off(text, first):
                    machine.take(len(text))  # the answer was cut in the marker that was due
                    return None
                leaving, maybe = self._markers.match(text, first, machine.final)
                if leaving is not None:
                    return self._leave(machine, leaving, first)
                if maybe:
                    machine.run = self._markers.begun if first == pos else None
                    return None
            machine.fresh = False
        if self.then is not None:
            leaving, maybe = self._markers.match(text, pos, machine.final)
            if leaving is not None:
                return self._leave(machine, leaving, pos)
            return None if maybe or pos == len(text) else self.resume(machine)
        at, leaving = self._markers.search(text, pos, machine.final)
        if at > pos:
            machine.has_text = True
            machine.say(self.kind, at)
        if leaving is None and machine.offset >= 0:
            if self._run is None:
                self._run = Run.of_text(self._markers.literals, self.kind)
            machine.run = self._run
        return None if leaving is None else self._leave(machine, leaving, at)

    def _leave(self, machine: Machine, leaving: Exit, at: int) -> Region:
        if leaving.begins:
            machine.hold(self, leaving.inside, leaving.sure)
        if leaving.apart and not leaving.begins:
            machine.take(at)
            machine.leave_call()
        if leaving.keep and leaving.begins:
            pass  # what opens is read there, with the whitespace before it
        elif leaving.keep:
            machine.say(self.kind, at)
        else:
            machine.take(at if leaving.keep else at + len(leaving.marker))
        return leaving.region.enter(machine)

    def stop(self, machine: Machine) -> None:
        if machine.fresh and machine.calls:
            machine.take(len(machine.text))
        else:
            machine.say(self.kind, len(machine.text))
