"""A parser for clients that want text without blanks at its ends, as other servers trim it.

Blanks where the content begins, where it ends, and before a call or reasoning are left out; so it is with reasoning. Blanks inside stay, also
those at the beginning of text behind a call, which part it from the text before. Linear; at most `stream_name_chars` blanks are held (more
of them are text).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.events import Content, Reasoning
from narrows.stream.json_scan import WHITESPACE
from narrows.stream.parser import StreamParser, join

if TYPE_CHECKING:
    from collections.abc import Iterable

    from narrows.events import Event


class StrippingParser(StreamParser):
    """`StreamParser`, with the blanks at the ends of its text left out."""

    def feed(self, text: str) -> list[Event]:
        return self._strip(super().feed(text))

    def feed_bytes(self, data: bytes) -> list[Event]:
        return self._strip(super().feed_bytes(data))

    def feed_tokens(self, ids: Iterable[int]) -> list[Event]:
        return self._strip(super().feed_tokens(ids))

    def feed_spelled(self, text: str) -> list[Event]:
        return self._strip(super().feed_spelled(text))

    def finish(self) -> list[Event]:
        return self._strip(super().finish())

    _held: tuple[Content | Reasoning, ...] = ()
    """Blanks with which the text so far ends."""
    _said: frozenset[type[Event]] = frozenset()
    """The kinds of text of which there was any."""

    def _strip(self, events: list[Event]) -> list[Event]:
        kept: list[Event] = []
        for event in events:
            if self._held and type(event) is not type(self._held[0]):
                self._held = ()
            if isinstance(event, (Content, Reasoning)):
                kept += self._strip_text(event)
            else:
                kept.append(event)
        return join(kept) if len(kept) > 1 else kept

    def _strip_text(self, event: Content | Reasoning) -> list[Event]:
        kind = type(event)
        text, (begin, end) = event.text, event.span
        body = text.rstrip(WHITESPACE)
        blanks = len(text) - len(body)
        if kind not in self._said:
            body = body.lstrip(WHITESPACE)
            begin = min(begin + len(text) - blanks - len(body), end)
            if not body:
                return []
            self._said |= {kind}
        middle = max(end - blanks, begin)
        held = (*self._held, kind(text[len(text) - blanks :], (middle, end))) if blanks else self._held
        if not body:
            self._held = held
            if sum(len(blank.text) for blank in held) <= self._limits.stream_name_chars:
                return []
            self._held = ()
            return list(held)
        before, self._held = self._held, held[len(self._held) :]
        return [*before, kind(body, (begin, middle))]
