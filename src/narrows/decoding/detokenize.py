"""Turns token bytes into text that may be shown: whole characters, and no text that may still become a stop text.

Cost: linear in the new characters. The readers hold back no more than they must, and lose nothing: `finish` returns
what they hold at the end. The result does not depend on how the text was cut into tokens.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from narrows.events import Content, Event

_LONGEST_CACHED = 4_096
"""Most characters of a stop text whose automaton is cached."""


class Detokenizer:
    """Decodes bytes to text. Holds at most three bytes of an incomplete character. Broken UTF-8 becomes U+FFFD."""

    __slots__ = ("_decoder",)

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        """The text of these bytes, as far as its characters are whole."""
        return self._decoder.decode(data)

    def finish(self) -> str:
        """What is left: U+FFFD for a character that is not whole, else ""."""
        return self._decoder.decode(b"", True)

    @property
    def is_whole(self) -> bool:
        """Whether the last character is complete."""
        return not self._decoder.getstate()[0]


class StopTexts:
    """Finds the first of several texts in a stream of text, with one Knuth-Morris-Pratt automaton for each.

    The first is the one that ends first, and among those the one that begins first. The longest end of the text that
    could begin a stop text is held back.
    """

    __slots__ = ("_held", "_include", "_links", "_states", "_texts", "found")

    def __init__(self, texts: Sequence[str], include: bool = False) -> None:
        self._texts = tuple(texts)
        self._include = include
        self._links = [_links(text) for text in self._texts]
        self._states = [0] * len(self._texts)
        self._held = ""
        self.found: str | None = None
        """The stop text that was found. No text follows it."""

    def feed(self, text: str) -> str:
        """The text that may be shown now."""
        if self.found is not None:
            return ""
        if not self._texts:
            return text
        for place, character in enumerate(text):
            stop_text = self._step(character)
            if stop_text is not None:
                self.found = stop_text
                whole = self._held + text[: place + 1]
                self._held = ""
                return whole if self._include else whole[: len(whole) - len(stop_text)]
        whole = self._held + text
        cut = len(whole) - max(self._states)
        self._held = whole[cut:]
        return whole[:cut]

    def finish(self) -> str:
        """The text that was held back. Afterwards a stop text may begin anew."""
        held, self._held = self._held, ""
        self._states = [0] * len(self._texts)
        return held

    def _step(self, character: str) -> str | None:
        longest: str | None = None
        for i, text in enumerate(self._texts):
            state, links = self._states[i], self._links[i]
            while state and text[state] != character:
                state = links[state]
            if text[state] == character:
                state += 1
            if state == len(text):
                if longest is None or len(text) > len(longest):
                    longest = text
                state = 0
            self._states[i] = state
        return longest


def _links(text: str) -> list[int]:
    """The failure links of a text. Cached unless the text is long: all sequences of a request have the same texts."""
    return _cached_links(text) if len(text) <= _LONGEST_CACHED else _failure_links(text)


@lru_cache(maxsize=256)
def _cached_links(text: str) -> list[int]:
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
    """Finds stop texts in a parser's events. They count only in content: elsewhere they are data.

    A stop text lies within one stretch of content. An event of another kind ends the stretch and releases what is held.
    """

    __slots__ = ("_held", "_stops")

    def __init__(self, texts: Sequence[str], include: bool = False) -> None:
        self._stops = StopTexts(texts, include)
        self._held: list[Content] = []

    @property
    def found(self) -> str | None:
        """The stop text that was found, or None."""
        return self._stops.found

    def feed(self, events: Sequence[Event]) -> list[Event]:
        """The events that may be shown now. None after a stop text was found."""
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
        """The first `count` held characters, as events with their spans."""
        shown = []
        while count:
            piece = self._held.pop(0)
            if len(piece.text) > count:
                # A span counts characters, or bytes or other units of which a character may have several.
                start, end = piece.span
                middle = start + count if end - start == len(piece.text) else start
                self._held.insert(0, replace(piece, text=piece.text[count:], span=(middle, end)))
                piece = replace(piece, text=piece.text[:count], span=(start, middle))
            count -= len(piece.text)
            shown.append(piece)
        return shown
