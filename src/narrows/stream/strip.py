"""A parser that leaves out whitespace at the ends of text, as other servers do.

Whitespace is left out at the beginning and the end of the content, and before a call or reasoning. The same holds for
reasoning. Whitespace inside stays. So does whitespace where text begins after a call, since it separates this text from
the text before. Linear. At most `stream_name_chars` of whitespace are held back; more than that is text.
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
    """`StreamParser` without the whitespace at the ends of its text."""

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
    """The whitespace at the end of the text so far."""
    _seen: frozenset[type[Event]] = frozenset()
    """The kinds of text that have come so far."""

    def _strip(self, events: list[Event]) -> list[Event]:
        stripped: list[Event] = []
        for event in events:
            if self._held and type(event) is not type(self._held[0]):
                self._held = ()
            if isinstance(event, (Content, Reasoning)):
                stripped += self._strip_text(event)
            else:
                stripped.append(event)
        return join(stripped) if len(stripped) > 1 else stripped

    def _strip_text(self, event: Content | Reasoning) -> list[Event]:
        kind = type(event)
        text, (begin, end) = event.text, event.span
        body = text.rstrip(WHITESPACE)
        spaces = len(text) - len(body)
        if kind not in self._seen:
            body = body.lstrip(WHITESPACE)
            begin = min(begin + len(text) - spaces - len(body), end)
            if not body:
                return []
            self._seen |= {kind}
        middle = max(end - spaces, begin)
        held = (*self._held, kind(text[len(text) - spaces :], (middle, end))) if spaces else self._held
        if not body:
            self._held = held
            if sum(len(piece.text) for piece in held) <= self._limits.stream_name_chars:
                return []
            self._held = ()
            return list(held)
        before, self._held = self._held, held[len(self._held) :]
        return [*before, kind(body, (begin, middle))]
