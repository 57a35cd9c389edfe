"""Content that is a JSON value. A string is decoded as it streams; any other value is passed on as it stands.

| state | what comes | next state |
| --- | --- | --- |
| `VALUE` | `"` | `IN_STRING` |
| | anything else: the value begins | `IN_OTHER_VALUE`, and read again |
| `IN_STRING` | the closing quote | the content ends |
| `IN_OTHER_VALUE` | the end of the value, or an error in it | the content ends |

Whitespace may stand before the value.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from narrows.events import Content
from narrows.stream.json_scan import WHITESPACE, JsonScanner
from narrows.stream.states import State
from narrows.stream.whitespace import skip_whitespace

if TYPE_CHECKING:
    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.text import Text

_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_REPLACEMENT = "\ufffd"


VALUE = State("a value")
IN_STRING = State("more of a string")
IN_OTHER_VALUE = State("more of another value")


class JsonContent:
    """One JSON value as content; then `after`. At most an escape sequence is held back."""

    __slots__ = ("_after", "_scanner", "_state")
    place = "call"

    def __init__(self, after: Region) -> None:
        self._after = after
        self._state = VALUE
        self._scanner: JsonScanner | None = None

    def enter(self, machine: Machine) -> JsonContent:
        self._state = VALUE
        self._scanner = None
        return self

    def read(self, machine: Machine) -> Region | None:
        if self._state is IN_STRING:
            return self._read_string(machine)
        if self._scanner is not None:
            return self._read_value(machine, self._scanner)
        if not skip_whitespace(machine):
            return None
        if machine.text[machine.pos] == '"':
            machine.take(machine.pos + 1)
            self._state = IN_STRING
        else:
            self._state = IN_OTHER_VALUE
            self._scanner = JsonScanner(machine.limits.stream_depth)
        machine.let_go()
        return self

    def _read_value(self, machine: Machine, scanner: JsonScanner) -> Region | None:
        machine.say(Content, scanner.scan(machine.text, machine.pos))
        return self._after.enter(machine) if scanner.done or scanner.fault is not None else None

    def _read_string(self, machine: Machine) -> Region | None:
        text = machine.text
        while machine.pos < len(text):
            quote = text.find('"', machine.pos)
            stop = quote if quote >= 0 else len(text)
            slash = text.find("\\", machine.pos, stop)
            if slash >= 0:
                stop = slash
            if stop > machine.pos:
                machine.say(Content, stop)
            if stop == len(text):
                break
            if slash < 0:
                machine.take(stop + 1)
                return self._after.enter(machine)
            escape = _escape(text, stop, machine.final)
            if escape is None:
                break
            char, end = escape
            machine.say_as(Content, char, end)
        return None

    def stop(self, machine: Machine) -> None:
        if self._state is not VALUE:
            machine.say(Content, len(machine.text))
        else:
            machine.cut()


class EndOfObject:
    """The bracket that closes the object around a value, if it comes next; then text. Whitespace before anything else
    belongs to the text."""

    __slots__ = ("_after",)
    place = "closing"

    def __init__(self, after: Text) -> None:
        self._after = after

    def enter(self, machine: Machine) -> EndOfObject:
        return self

    def read(self, machine: Machine) -> Region | None:
        text, pos = machine.text, machine.pos
        at = len(text) - len(text[pos:].lstrip(WHITESPACE))
        if at - pos <= machine.limits.stream_name_chars:
            if at == len(text):
                return None
            if text[at] == "}":
                machine.take(at + 1)
        return self._after.enter(machine)

    def stop(self, machine: Machine) -> None:
        self._after.enter(machine).stop(machine)


def _escape(text: str, at: int, final: bool) -> tuple[str, int] | None:
    """(the character of the escape at `at`, where the escape ends). None where more text is needed.

    A backslash without a valid escape is a character itself. Half a surrogate pair is U+FFFD."""
    if at + 1 == len(text):
        return ("\\", at + 1) if final else None
    kind = text[at + 1]
    if kind != "u":
        return (_ESCAPES[kind], at + 2) if kind in _ESCAPES else ("\\", at + 1)
    first = _hex(text, at)
    if first is None:
        return ("\\", at + 1) if final or not _may_be_hex(text[at + 2 : at + 6], 4) else None
    if not 0xD800 <= first < 0xDC00:
        return (chr(first) if not 0xDC00 <= first < 0xE000 else _REPLACEMENT, at + 6)
    second = _hex(text, at + 6)
    if second is None:
        rest = text[at + 6 : at + 12]
        waits = len(rest) < 6 and "\\u".startswith(rest[:2]) and _may_be_hex(rest[2:], 4)
        return None if waits and not final else (_REPLACEMENT, at + 6)
    if not 0xDC00 <= second < 0xE000:
        return _REPLACEMENT, at + 6
    return json.loads(f'"{text[at : at + 12]}"'), at + 12


def _hex(text: str, at: int) -> int | None:
    """The code of the complete `\\\\uXXXX` at `at`. None where there is none."""
    digits = text[at + 2 : at + 6]
    if text[at : at + 2] != "\\u" or len(digits) < 4 or not _may_be_hex(digits, 4):
        return None
    return int(digits, 16)


def _may_be_hex(digits: str, count: int) -> bool:
    return len(digits) <= count and all(c in "0123456789abcdefABCDEF" for c in digits)
