"""The JSON values of one answer as they become whole, in its content and in the arguments of its calls; and an answer
that ends early, when a value is there.

Cost: that of `JsonValues`, twice if some values end the answer. With log-probabilities, 24 bytes a token.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Union

from narrows.arguments import FLAG, FUNCTION, INTEGER, LIST, optional, wants
from narrows.errors import NarrowsError
from narrows.events import Content, Event, ToolCallArguments, ToolCallEnd, ToolCallStart
from narrows.json_values import JsonValues, WholeValue
from narrows.json_values.selection import Patterns
from narrows.json_values.token_sums import TokenSums
from narrows.limits import DEFAULT_LIMITS, LIMITS, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOptions:
    """Which values of an answer are reported, and which of them end it. Raises `InputError` code `pointer_invalid`."""

    depth: int | None = 2
    """Report the values down to this level of each JSON text, where the text's own value is at level 0. None: all."""
    pointers: Sequence[str] | None = None
    """Report the values at these JSON pointers instead. A step `*` stands for any item or member. () reports none."""
    stop_at: Sequence[str] = ()
    """End the answer when a value at one of these pointers is whole. `*` is as above."""
    content: bool = True
    """Whether the content is a JSON text. False: only the arguments of calls are read."""
    parse_float: Callable[[str], Any] = float
    """As in `json.loads`."""
    limits: Limits = DEFAULT_LIMITS
    """Bounds on the texts that are read: `stream_depth`, `body_values`, `stream_name_chars`."""

    def __post_init__(self) -> None:
        wants(optional(INTEGER), depth=self.depth)
        wants(optional(LIST), pointers=self.pointers)
        wants(LIST, stop_at=self.stop_at)
        wants(FLAG, content=self.content)
        wants(FUNCTION, parse_float=self.parse_float)
        wants(LIMITS, limits=self.limits)
        Patterns([*(() if self.pointers is None else self.pointers), *self.stop_at])


@dataclass(slots=True)
class AnswerValue:
    """A value of an answer that has become whole. Its span counts the characters of the content, or of the call's
    arguments."""

    value: WholeValue
    """The value, and its place in the text."""
    call: int | None = None
    """The index of the call in whose arguments it stands. None: it stands in the content."""


@dataclass(slots=True)
class UnreadText:
    """No further values of a text are reported, and why: it is not JSON, or it reaches a limit."""

    error: NarrowsError
    """What the text is not, or which limit it reaches."""
    call: int | None = None
    """The index of the call whose arguments it is. None: the content."""


AnswerNews = Union[AnswerValue, UnreadText]


class AnswerValues:
    """Reads the values out of a parser's events."""

    def __init__(self, options: ValueOptions) -> None:
        self._options = options
        self._tokens: TokenSums | None = None
        self._token_end = 0
        self._content = _Text(options, None) if options.content else None
        self._call: _Text | None = None
        self.stopped: str | None = None
        """The pointer of the value that ends the answer, once it is whole."""

    def token(self, end: int, logprob: float) -> None:
        """The next token, before its events. `end`: where its text ends, in the unit of the events' spans."""
        if self._tokens is None:
            self._tokens = TokenSums()
        self._tokens.add(self._token_end, end, logprob)
        self._token_end = end

    def feed(self, events: Sequence[Event]) -> list[AnswerNews]:
        """The values that the events make whole."""
        news: list[AnswerNews] = []
        for event in events:
            text: _Text | None = None
            if isinstance(event, Content):
                text = self._content
            elif isinstance(event, ToolCallStart):
                self._call = _Text(self._options, event.index)
            elif isinstance(event, ToolCallArguments):
                text = self._call
            elif isinstance(event, ToolCallEnd) and self._call is not None:
                if event.complete:
                    self._take(self._call, self._call.finish(), news)
                self._call = None
            if text is not None and isinstance(event, (Content, ToolCallArguments)):
                self._take(text, text.feed(event.text, event.span), news)
        return news

    def finish(self) -> list[AnswerNews]:
        """The answer has come to its end: a number that is the whole content is whole now."""
        news: list[AnswerNews] = []
        if self._content is not None:
            self._take(self._content, self._content.finish(), news)
        return news

    def _take(self, text: _Text, found: list[WholeValue], news: list[AnswerNews]) -> None:
        for value in found:
            if self._tokens is not None:
                value.logprob, value.tokens = self._tokens.over(*text.place(value.span))
            news.append(AnswerValue(value, text.call))
        if text.error is not None and not text.error_told:
            text.error_told = True
            news.append(UnreadText(text.error, text.call))
        if self.stopped is None:
            self.stopped = text.stopped


class _Text:
    """One JSON text: the content, or the arguments of a call."""

    def __init__(self, options: ValueOptions, call: int | None) -> None:
        self.call = call
        self.error: NarrowsError | None = None
        self.error_told = False
        self.stopped: str | None = None
        self._values = JsonValues(
            depth=options.depth,
            pointers=options.pointers,
            parse_float=options.parse_float,
            limits=options.limits,
        )
        self._ends = JsonValues(pointers=options.stop_at, limits=options.limits) if len(options.stop_at) else None
        # The text in stretches that came in one piece each: where they begin, and their ranges in the input.
        self._size = 0
        self._starts: list[int] = []
        self._ranges: list[tuple[int, int]] = []

    def feed(self, text: str, span: tuple[int, int]) -> list[WholeValue]:
        self._note(len(text), span)
        found: list[WholeValue] = []
        if self.error is None:
            with suppress(NarrowsError):
                found = self._values.feed(text)
            self.error = self._values.fault
        self._look_for_end(lambda ends: ends.feed(text))
        return found

    def finish(self) -> list[WholeValue]:
        found: list[WholeValue] = []
        if self.error is None:
            with suppress(NarrowsError):  # it was cut
                found = self._values.finish()
        self._look_for_end(lambda ends: ends.finish())
        return found

    def _look_for_end(self, read: Callable[[JsonValues], list[WholeValue]]) -> None:
        if self._ends is not None and self._ends.fault is None and self.stopped is None:
            with suppress(NarrowsError):
                self.stopped = next((value.pointer for value in read(self._ends)), None)

    def _note(self, size: int, span: tuple[int, int]) -> None:
        """A stretch of text, and where it stands in the input."""
        if self._starts:
            start, (begin, end) = self._starts[-1], self._ranges[-1]
            if end - begin == self._size - start and span == (end, end + size):
                self._ranges[-1] = begin, span[1]
                self._size += size
                return
        self._starts.append(self._size)
        self._ranges.append(span)
        self._size += size

    def place(self, span: tuple[int, int]) -> tuple[int, int]:
        """The range of the input that a range of the text comes from. If a stretch was not written as it stands (an
        argument in XML), any part of it comes from the whole stretch."""
        return self._character(span[0])[0], self._character(span[1] - 1)[1]

    def _character(self, at: int) -> tuple[int, int]:
        stretch = bisect_right(self._starts, at) - 1
        start, (begin, end) = self._starts[stretch], self._ranges[stretch]
        after = self._starts[stretch + 1] if stretch + 1 < len(self._starts) else self._size
        if end - begin != after - start:
            return begin, end
        return begin + at - start, begin + at - start + 1
