"""A tag's attributes until the tag's end: ` name="get_weather" type="string">`.

Quotes may be `"`, `'` or missing. Whitespace may stand around `=`. A `/` before the tag's end closes the tag at once.
The tag's end counts only outside of quotes. At most `stream_name_chars` are held back. Text that is not a list of
attributes goes to `otherwise`, and none of it is taken.

This region keeps no state between deltas: each delta is scanned from the first attribute on, which `stream_name_chars`
bounds. `scan` returns where the tag ends, or why it has not ended:

| result | what more text may be |
| --- | --- |
| `BAD` | none: this is not a list of attributes |
| `WAIT` | `=`, a value, or what follows a value |
| `IN_NAME` | more of a name |
| `IN_DOUBLE`, `IN_SINGLE` | more of a value in double or single quotes |
| `AT_END` | more of the tag's end |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.stream.json_scan import WHITESPACE

if TYPE_CHECKING:
    from collections.abc import Callable

    from narrows.stream.machine import Machine, Region

AttributeSpans = dict[str, tuple[int, int]]
"""Attribute -> the span of its value in the text."""


class Attributes:
    """`use(machine, spans, end)` takes the text that it needs, in order, and returns the region after the tag. None:
    this is not such a tag."""

    __slots__ = ("_end", "_otherwise", "_runs", "_use")
    place = "call"

    def __init__(
        self,
        end: str,
        use: Callable[[Machine, AttributeSpans, int], Region | None],
        otherwise: Callable[[Machine], Region],
    ) -> None:
        self._end = end
        self._use = use
        self._otherwise = otherwise
        self._runs = _RUNS | {AT_END: Run.of_name(_ASCII, (end,))}

    def enter(self, machine: Machine) -> Attributes:
        return self

    def read(self, machine: Machine) -> Region | None:
        text, pos = machine.text, machine.pos
        spans: AttributeSpans = {}
        at = scan(text, pos, self._end, spans)
        if at < BAD:
            if not machine.final and len(text) - pos <= machine.limits.stream_name_chars:
                machine.run = self._runs.get(at if pos < len(text) else IN_NAME)
                return None
            return self._otherwise(machine) if not machine.final else None
        if at == BAD or at - pos > machine.limits.stream_name_chars:
            return self._otherwise(machine)
        region = self._use(machine, spans, at)
        return self._otherwise(machine) if region is None else region

    def stop(self, machine: Machine) -> None:
        machine.cut()


BAD, WAIT, IN_NAME, IN_DOUBLE, IN_SINGLE, AT_END = range(-1, -7, -1)
"""The results of `scan` where the tag has not ended; see above."""
_ASCII = "".join(map(chr, range(128)))
_NOT_IN_NAMES = "".join(c for c in _ASCII if not (c.isalnum() or c in "_-:."))
_RUNS = {IN_NAME: Run.of_name(_NOT_IN_NAMES), IN_DOUBLE: Run.of_name('"'), IN_SINGLE: Run.of_name("'")}
CLOSED = "/"
"""The name under which `scan` reports a tag that closes at once."""


def scan(text: str, at: int, end: str, spans: AttributeSpans) -> int:
    """Read attributes from `at` on into `spans`. Returns the place after `end`, or one of the results above. Linear."""
    size = len(text)
    while True:
        while at < size and text[at] in WHITESPACE:
            at += 1
        if text.startswith(end, at):
            return at + len(end)
        if end.startswith(text[at:]):
            return AT_END
        if text[at] == "/":
            spans[CLOSED] = (at, at + 1)
            at += 1
            continue
        begin, at = at, max(text.find("=", at), at)
        if not text[begin:at].isalnum():
            at = begin
            while at < size and (text[at].isalnum() or text[at] in "_-:."):
                at += 1
            if at == size:
                return IN_NAME
        name = text[begin:at]
        while at < size and text[at] in WHITESPACE:
            at += 1
        if at == size:
            return WAIT
        if not name or text[at] != "=" or name in spans or CLOSED in spans:
            return BAD
        at += 1
        while at < size and text[at] in WHITESPACE:
            at += 1
        if at == size:
            return WAIT
        quote = text[at]
        if quote in "\"'":
            close = text.find(quote, at + 1)
            if close < 0:
                return IN_DOUBLE if quote == '"' else IN_SINGLE
            spans[name] = (at + 1, close)
            at = close + 1
            continue
        begin = at
        while not text.startswith(end, at):
            if at == size or end.startswith(text[at:]):
                return WAIT
            if text[at] in WHITESPACE:
                break
            at += 1
        spans[name] = (begin, at)
