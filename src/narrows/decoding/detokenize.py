"""From token bytes to text that may be shown: whole characters, and nothing that may still become a stop text.

Both readers here work per character of what is new, hold back no more than they must, and lose nothing: what they hold
at the end comes out by `finish`. How the text was cut into tokens changes nothing.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from narrows.events import Content, Event

_USUAL = 4_096
"""Characters of a stop text."""


class Detokenizer:
    """Bytes in, text out. Holds at most three bytes of an unfinished character; broken UTF-8 becomes U+FFFD."""

    __slots__ = ("_decoder",)

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        return self._decoder.decode(data)

    def finish(self) -> str:
        return self._decoder.decode(b"", True)


class StopTexts:
    """Finds the first of some texts in a stream of text, by one Knuth-Morris-Pratt automaton each.

    First means: ends first; of those, begins first. Held back is the longest end of the text that begins a stop text.
    """

    __slots__ = ("_held", "_include", "_links", "_states", "_texts", "found")

    def __init__(self, texts: Sequence[str], include: bool = False) -> None:
        self._texts = tuple(texts)
        self._include = include
        self._links = [_links(text) for text in self._texts]
        self._states = [0] * len(self._texts)
        self._held = ""
        self.found: str | None = None
        """The stop text that was met. Nothing comes out after it."""

    def feed(self, text: str) -> str:
        """What may be shown now."""
        if self.found is not None:
            return ""
        if not self._texts:
            return text
        for place, character in enumerate(text):
            met = self._step(character)
            if met is not None:
                self.found = met
                whole = self._held + text[: place + 1]
                self._held = ""
                return whole if self._include else whole[: len(whole) - len(met)]
        whole = self._held + text
        cut = len(whole) - max(self._states)
        self._held = whole[cut:]
        return whole[:cut]

    def finish(self) -> str:
        """What was held back; afterwards a stop text may begin anew."""
        held, self._held = self._held, ""
        self._states = [0] * len(self._texts)
        return held

    def _step(self, character: str) -> str | None:
        met: str | None = None
        for i, text in enumerate(self._texts):
            state, links = self._states[i], self._links[i]
            while state and text[state] != character:
                state = links[state]
            if text[state] == character:
                state += 1
            if state == len(text):
                if met is None or len(text) > len(met):
                    met = text
                state = 0
            self._states[i] = state
        return met


def _links(text: str) -> list[int]:
    """Kept for texts of usual length: all sequences of a request have the same."""
    return _kept_links(text) if len(text) <= _USUAL else _failure_links(text)


@lru_cache(maxsize=256)
def _kept_links(text: str) -> list[int]:
    return _failure_links(text)


def _failure_links(text: str) -> list[int]:
    """links[k]: the length of the longest proper prefix of text[:k] that is also its suffix."""
    links = [0, 0]
    state = 0
    for character in text[1:]:
        while state and text[state] != character:
            state = links[state]
        if text[state] == character:
            state += 1
        links.append(state)
    return links


class ContentStops:
    """Stop texts over a parser's events: they count in content alone. In arguments, names and reasoning they are data.

    A stop text is met within one stretch of content; an event of another kind ends the stretch and releases what is
    held.
    """

    __slots__ = ("_held", "_stops")

    def __init__(self, texts: Sequence[str], include: bool = False) -> None:
        self._stops = StopTexts(texts, include)
        self._held: list[Content] = []

    @property
    def found(self) -> str | None:
        return self._stops.found

    def feed(self, events: Sequence[Event]) -> list[Event]:
        """The events that may be shown now. After a stop text has been met, none."""
        shown: list[Event] = []
        for event in events:
            if self.found is not None:
                break
            if isinstance(event, Content):
                self._held.append(event)
                shown += self._release(len(self._stops.feed(event.text)))
            else:
                shown += self.finish()
                shown.append(event)
        if self.found is not None:
            self._held.clear()
        return shown

    def finish(self) -> list[Event]:
        """The content that was held back."""
        return list(self._release(len(self._stops.finish())))

    def _release(self, count: int) -> list[Content]:
        """The first `count` held characters, in pieces with their spans."""
        shown = []
        while count:
            piece = self._held.pop(0)
            if len(piece.text) > count:
                # A span counts characters, or bytes or other places of which a character may have several.
                start, end = piece.span
                middle = start + count if end - start == len(piece.text) else start
                self._held.insert(0, replace(piece, text=piece.text[count:], span=(middle, end)))
                piece = replace(piece, text=piece.text[:count], span=(start, middle))
            count -= len(piece.text)
            shown.append(piece)
        return shown
