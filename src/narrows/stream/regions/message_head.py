"""The head of a message, which says who gets it and what it is.

An example is `<|channel|>commentary to=N <|constrain|>json<|message|>`.

Its parts are a channel, a recipient, and a word for the notation of what follows, with its marker or without. They come
in any order, each at most once; of several channels the last counts. Whitespace may stand around them. At most
`stream_name_chars` are held back. Text that is not a head is given back as text, after its first marker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from narrows.stream.json_scan import WHITESPACE
from narrows.stream.names import is_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from narrows.stream.machine import Machine, Region


NOT_IN_RECIPIENTS = "<>|={}\"'"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadMarkers:
    """How heads are written. Markers have the form that they have in the text (see `Alphabet.encode`)."""

    start: str
    """The marker that begins a message, with its author."""
    channel: str
    constrain: str
    recipient: str
    """The text before the recipient: `to=`."""
    namespace: str
    """A word with this prefix is a recipient, too."""
    end: str


@dataclass(slots=True)
class Parts:
    """The contents of a head."""

    channel: str = ""
    recipient: tuple[int, int] | None = None
    """Its span in the text."""
    notation: str | None = None
    end: int = 0
    """The position of the head's end."""


class MessageHead:
    """A head, from before its first marker to its end.

    `use(machine, parts)` takes the text that it needs and returns the region that goes on. None: this is not a head."""

    __slots__ = ("_first", "_markers", "_use")
    place = ""  # it is not known yet what the head belongs to

    def __init__(self, first: str, markers: HeadMarkers, use: Callable[[Machine, Parts], Region | None]) -> None:
        self._first = first
        self._markers = markers
        self._use = use

    def enter(self, machine: Machine) -> MessageHead:
        return self

    def read(self, machine: Machine) -> Region | None:
        text, pos = machine.text, machine.pos
        begin = len(text) - len(text[pos:].lstrip(WHITESPACE)) + len(self._first)
        limit = machine.limits.stream_name_chars
        parts = read_parts(text, begin, self._first, self._markers, limit)
        if parts is None and len(text) - begin <= limit:
            return None
        region = self._use(machine, parts) if parts is not None and parts.end - begin <= limit and parts.end else None
        if region is None:
            machine.take(begin)
            return machine.give_back()
        return region

    def stop(self, machine: Machine) -> None:
        machine.cut()


def read_parts(text: str, at: int, first: str, markers: HeadMarkers, limit: int) -> Parts | None:
    """The parts of the head whose `first` marker ends at `at`. None: more text is needed. Linear.

    For text that is not a head, `end` is 0."""
    parts = Parts()
    due = first if first in (markers.channel, markers.recipient) else ""
    if first == markers.end:
        parts.end = at
        return parts
    stops = WHITESPACE + "<" + "".join(m[0] for m in (markers.start, markers.channel, markers.constrain, markers.end))
    size, last = len(text), at + limit
    while True:
        while at < size and text[at] in WHITESPACE:
            at += 1
        if at == size or at > last:
            return None
        if not due:
            if text.startswith(markers.end, at):
                parts.end = at + len(markers.end)
                return parts
            known = next(
                (m for m in (markers.channel, markers.constrain, markers.recipient) if text.startswith(m, at)), ""
            )
            if known:
                if known == markers.constrain and parts.notation is not None:
                    return Parts()
                at, due = at + len(known), known
                if due == markers.constrain:
                    parts.notation, due = "", ""
                continue
            if any(m.startswith(text[at:]) for m in (markers.end, markers.channel, markers.constrain)):
                return None
        begin = at
        while at < size and text[at] not in stops:
            at += 1
        if at == size:
            return None
        if at == begin or not _add(parts, due, text, (begin, at), markers):
            return Parts()
        due = ""


def _add(parts: Parts, due: str, text: str, span: tuple[int, int], markers: HeadMarkers) -> bool:
    """Add one more word of a head. Returns False where it fits nowhere."""
    begin, end = span
    if due == markers.channel:
        glued = text.find(markers.recipient, begin + 1, end)  # `commentaryto=`
        parts.channel = text[begin : glued if glued >= 0 else end]
        if glued < 0:
            return True
        due, begin = markers.recipient, glued + len(markers.recipient)
    if due == markers.recipient or (markers.namespace and text.startswith(markers.namespace, begin)):
        if parts.recipient is not None or not is_name(text[begin:end], False, NOT_IN_RECIPIENTS) or begin == end:
            return False
        parts.recipient = (begin, end)
        return True
    if parts.notation:
        return False
    parts.notation = text[begin:end]
    return True
