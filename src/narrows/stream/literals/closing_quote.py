"""Whether a quote ends a string, in a notation that does not escape the quotes inside its strings.

What follows the quote decides:

- After a value: the closing brackets that are due, or a comma and what may follow a comma. That is another item, a key
  that the tool declares, or another name with a whole simple value.
- After the call's own bracket: the end of the list with its marker, or another call.
- A quote that anything else follows is text.

At most `stream_name_chars` characters after the quote are looked at. Text without quotes inside its strings is always
read as what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from narrows.stream.json_scan import WHITESPACE
from narrows.stream.literals.constants import literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnd:
    """What may follow the arguments' closing bracket. Markers are as they stand in the text."""

    list_close: str = ""
    """The end of the list; `close` follows it."""
    separator: str = ""
    """Before another call; only whitespace: nothing."""
    close: str = ""
    arguments_open: str = "("


_ENDS_WORD = frozenset(",:=()[]{}\"'" + WHITESPACE)
_QUOTES = frozenset("\"'")
_OPEN = frozenset("[{(")


class AfterQuote:
    """Reads on after a quote that may end a string. Its methods return True, False, or None where more text is needed.

    After True, `_sure` tells that no further text can change the answer."""

    __slots__ = (
        "_at",
        "_brackets",
        "_declared",
        "_declares",
        "_end",
        "_ran_out",
        "_stray",
        "_sure",
        "_text",
        "after_call",
    )

    def __init__(
        self,
        text: str,
        at: int,
        final: bool,
        longest: int,
        brackets: Sequence[str],
        declared: Callable[[str], bool],
        declares: Callable[[str, str], bool],
    ) -> None:
        """`brackets`: the closing brackets of the open ones, the call's own first.

        `declared(name)`: whether the tool has this argument. `declares(tool, name)`: the same for a named tool."""
        self._text = text
        self._at = at
        self._end = min(len(text), at + longest)
        self._ran_out: bool | None = True if final or len(text) - at >= longest else None
        self._brackets = brackets
        self._declared = declared
        self._declares = declares
        self._sure = self._stray = False
        self.after_call = False
        """The call's own bracket and the separator before another call have been read."""

    def closes(self, key: bool, first: bool, call_end: CallEnd) -> bool | None:
        """Whether the quote ends the string. `key`: the string is a key. `first`: it is a key or a set's first item."""
        depth, stray = len(self._brackets), False
        while True:
            char = self._char()
            if char == ":" and (key or first):
                return True
            if not char or key:
                return False if char else self._ran_out
            if char == self._brackets[depth - 1]:
                self._at += 1
                depth -= 1
                if depth == 0:
                    fits = self._after_call(call_end)
                    if not fits or self._sure:
                        return fits
                    depth, stray = 1, self._stray
                continue
            if char != "," or stray:  # after the value of an argument that the tool does not declare, a comma is enough
                return char == ","
            self._at += 1
            char = self._char()
            if char == self._brackets[depth - 1]:
                continue
            if depth > 1 or not char:
                return self._begins_value(char)
            fits = self._argument(self._declared)
            if not fits or self._sure:
                return fits
            stray = True

    def _char(self) -> str:
        """The next character after whitespace; "" at the end."""
        text, end = self._text, self._end
        while self._at < end and text[self._at] in WHITESPACE:
            self._at += 1
        return text[self._at] if self._at < end else ""

    def _run(self, inside: Callable[[str], bool]) -> str:
        """The next characters for which `inside` is true, up to the end of what may be read."""
        begin = self._at
        while self._at < self._end and inside(self._text[self._at]):
            self._at += 1
        return self._text[begin : self._at]

    def _begins_value(self, char: str) -> bool | None:
        if not char:
            return self._ran_out
        if char in _QUOTES or char in _OPEN:
            return True
        word = self._run(lambda c: c not in _ENDS_WORD)
        return self._ran_out if self._at == self._end else literal(word, 1, python=True) is not None

    def _argument(self, declared: Callable[[str], bool]) -> bool | None:
        """A name and `=`; sure if the tool declares it, else its value must follow."""
        fits = self._key(declared)
        return fits if not fits or self._sure else self._value()

    def _key(self, declared: Callable[[str], bool]) -> bool | None:
        name = self._run(lambda c: c.isalnum() or c == "_")
        char = self._char()
        if not name or (char and char != "="):
            return False
        if not char:
            return self._ran_out
        self._at += 1
        self._sure = declared(name)
        if self._sure or self._at < self._end:
            return self._sure or self._text[self._at] != "="
        return self._ran_out

    def _value(self) -> bool | None:
        """A string, a number or a word, or the beginning of something longer, which is sure."""
        char = self._char()
        if char not in _QUOTES or not char:
            fits = self._begins_value(char)
            self._sure = fits is True and char in _OPEN
            return fits
        self._at += 1
        while self._run(lambda c: c not in (char, "\\")) or self._at < self._end:
            if self._text[self._at : self._at + 1] == char:
                self._at += 1
                return True
            self._at = min(self._at + 2, self._end)
        return self._ran_out

    def _after_call(self, end: CallEnd) -> bool | None:
        char, separator = self._char(), end.separator.strip()
        if not char:
            return self._ran_out
        self._sure = True
        if end.list_close and char == end.list_close:
            self._at += 1
            return self._marker(end.close)
        if not end.list_close and (fits := self._marker(end.close)) is not False:
            return fits
        if not end.separator or (separator and char != separator):
            return False
        self.after_call = True
        if separator:
            self._at += 1
            if self._char() == end.list_close != "":
                self._at += 1
                return self._marker(end.close)
        return self._call(end)

    def _marker(self, marker: str) -> bool | None:
        """Whether the closing marker comes; True where the format has none."""
        if marker and not self._char():
            return self._ran_out
        rest = self._text[self._at : self._at + len(marker)]
        return True if rest == marker else self._ran_out if marker.startswith(rest) else False

    def _call(self, end: CallEnd) -> bool | None:
        """A call's name, its bracket, and its end or first argument; sure if a tool declares that argument."""
        if not self._char():
            return self._ran_out
        name = self._run(lambda c: c.isalnum() or c in "_.:/-")
        char = self._char()
        if not name or (char and char != end.arguments_open):
            return False
        self._at += 1
        char = self._char()
        if not char:
            return self._ran_out
        self._stray = char != self._brackets[0]
        if not self._stray:
            self._sure = False
            return True
        return self._argument(partial(self._declares, name))
