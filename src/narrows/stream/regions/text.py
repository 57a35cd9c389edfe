"""Regions of running text: content, reasoning, and the few characters of layout that belong to a marker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.events import Content, Reasoning
from narrows.stream.json_scan import WHITESPACE
from narrows.stream.machine import BEFORE_CALLS
from narrows.stream.markers import Exit, Markers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from narrows.stream.machine import Machine, Region


class Text:
    """Content or reasoning until one of its exits.

    With `fresh`, blanks at the beginning wait for what follows: before a marker they are layout, before text they are text,
    verbatim. At the end of the answer they are layout where a call came before, text otherwise.
    """

    __slots__ = ("_fresh", "_markers", "_run", "fresh", "kind", "place", "said", "then")

    def __init__(self, kind: type[Content] | type[Reasoning], place: str, fresh: bool = False) -> None:
        self.kind = kind
        self.place = place
        self.fresh = fresh
        self.then: Text | None = None
        """The region that goes on once any text has been read (None: this one)."""
        self._fresh = fresh
        self.said = False
        """Text has been read on this visit."""
        self._markers = Markers(())
        self._run: Run | None = None

    def link(self, exits: Iterable[Exit]) -> None:
        self._markers = Markers(tuple(exits))
        self._run = Run.of_text(self._markers.literals, self.kind)

    def enter(self, machine: Machine) -> Text:
        self._fresh, self.said = self.fresh, False
        return self

    def resume(self, machine: Machine) -> Text:
        """Go on in the middle of text."""
        region = self.then or self
        region._fresh, region.said = False, True
        return region

    def is_markup(self, machine: Machine) -> bool:
        """Whether the rest of an answer that is over can only have become markup: where nothing but calls was to come."""
        due = machine.due
        calls_alone = due.call or (due.grammar and (machine.calls or machine.unwrapped))
        if self.place not in BEFORE_CALLS or not calls_alone:
            return False
        if self.said and not due.grammar:  # text where only calls were to come: this model writes what it likes
            return False
        text, pos = machine.text, machine.pos
        if not text[pos:].strip(WHITESPACE):
            return True
        at, found = self._markers.search(text, pos, False)
        # A whole marker that opens no call: the answer waited for the rest of a longer one.
        waits = found is None or (due.call and not found.begins)
        return waits and at < len(text) and not text[pos:at].strip(WHITESPACE)

    def read(self, machine: Machine) -> Region | None:
        text, pos = machine.text, machine.pos
        if machine.ended and pos < len(text) and self.is_markup(machine):
            machine.take(len(text))
            return None
        if self._fresh:
            first = len(text) - len(text[pos:].lstrip(WHITESPACE))
            if first - pos <= machine.limits.stream_name_chars:
                if first == len(text):
                    machine.run = self._markers.begun if first == pos else None
                    return None
                if machine.final and self.place == "closing" and self._markers.broke_off(text, first):
                    machine.take(len(text))  # the answer was cut in the marker that was due
                    return None
                found, maybe = self._markers.match(text, first, machine.final)
                if found is not None:
                    return self._leave(machine, found, first)
                if maybe:
                    machine.run = self._markers.begun if first == pos else None
                    return None
            self._fresh = False
        if self.then is not None:
            found, maybe = self._markers.match(text, pos, machine.final)
            if found is not None:
                return self._leave(machine, found, pos)
            return None if maybe or pos == len(text) else self.resume(machine)
        at, found = self._markers.search(text, pos, machine.final)
        if at > pos:
            self.said = True
            machine.say(self.kind, at)
        if found is None and machine.offset >= 0:
            machine.run = self._run
        return None if found is None else self._leave(machine, found, at)

    def _leave(self, machine: Machine, found: Exit, at: int) -> Region:
        if found.begins:
            machine.hold(self, found.inside, found.sure)
        if found.apart and not found.begins:
            machine.take(at)
            machine.leave_call()
        if found.keep and found.begins:
            pass  # what opens is read there, with the blanks before it
        elif found.keep:
            machine.say(self.kind, at)
        else:
            machine.take(at if found.keep else at + len(found.marker))
        return found.region.enter(machine)

    def stop(self, machine: Machine) -> None:
        if self._fresh and machine.calls:
            machine.take(len(machine.text))
        else:
            machine.say(self.kind, len(machine.text))


class Layout:
    """At most these characters, if they come: the newlines around a marker. Then the next region.

    `thinking`, `wrapped`: what holds from here on of reasoning and of content that is set off (None: as before)."""

    __slots__ = ("_at", "_expected", "_next", "_thinking", "_wrapped", "place")

    def __init__(
        self, expected: str, following: Region, thinking: bool | None = None, wrapped: bool | None = None
    ) -> None:
        self._expected = expected
        self._next = following
        self._thinking = thinking
        self._wrapped = wrapped
        self._at = 0
        self.place = "reasoning" if thinking else "wrapped" if wrapped else "content"

    def enter(self, machine: Machine) -> Layout:
        self._at = 0
        if self._thinking is not None:
            machine.thinking = self._thinking
        if self._wrapped is not None:
            machine.unwrapped = machine.wrapped and not self._wrapped
            machine.wrapped = self._wrapped
        return self

    def read(self, machine: Machine) -> Region | None:
        while self._at < len(self._expected):
            if machine.pos == len(machine.text):
                return None
            if machine.text[machine.pos] != self._expected[self._at]:
                break
            machine.take(machine.pos + 1)
            self._at += 1
        return self._next.enter(machine)

    def stop(self, machine: Machine) -> None:
        pass


class Repeated:
    """The place behind a reasoning opener: the same opener again is layout too (a prompt had opened it, the model as well)."""

    __slots__ = ("_markers", "_next")
    place = "reasoning"

    def __init__(self, following: Text) -> None:
        self._next = following
        self._markers = Markers(())

    def link(self, exits: Iterable[Exit]) -> None:
        self._markers = Markers(tuple(exits))

    def enter(self, machine: Machine) -> Repeated:
        return self

    def read(self, machine: Machine) -> Region | None:
        if machine.pos == len(machine.text):
            return None
        found, maybe = self._markers.match(machine.text, machine.pos, machine.final)
        if found is None:
            return None if maybe else self._next.enter(machine)
        machine.take(machine.pos + len(found.marker))
        return found.region.enter(machine)

    def stop(self, machine: Machine) -> None:
        self._next.stop(machine)


class LateClose:
    """A closer behind a call: layout where it closes what the call stood in, reasoning or content that was set off, else text.

    `reasoning`, `content`: what goes on behind it (None: it closes none of that kind)."""

    __slots__ = ("_content", "_reasoning")
    place = "after"

    def __init__(self, reasoning: Region | None, content: Region | None) -> None:
        self._reasoning = reasoning
        self._content = content

    def enter(self, machine: Machine) -> LateClose:
        return self

    def read(self, machine: Machine) -> Region | None:
        if machine.thinking and self._reasoning is not None:
            machine.thinking = False
            machine.let_go()
            return self._reasoning.enter(machine)
        if machine.wrapped and self._content is not None:
            machine.wrapped = False
            machine.let_go()
            return self._content.enter(machine)
        return machine.give_back()

    def stop(self, machine: Machine) -> None:
        pass


class Spoken:
    """A marker that is left in the content. Then the next region."""

    __slots__ = ("_marker", "_next")
    place = "content"

    def __init__(self, marker: str, following: Region) -> None:
        self._marker = marker
        self._next = following

    def enter(self, machine: Machine) -> Spoken:
        return self

    def read(self, machine: Machine) -> Region | None:
        machine.say(Content, machine.pos + len(self._marker))
        return self._next.enter(machine)

    def stop(self, machine: Machine) -> None:
        pass
