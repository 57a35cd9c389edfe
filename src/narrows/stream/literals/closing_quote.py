"""Whether a quote ends a string, where the strings' own quotes are not escaped: told by what follows it.

Behind a value stand the brackets that are open, or a comma and what a comma leads to: a further item, a key that the tool declares, or
another name with a whole simple value. Behind the call's own bracket stands the list's end with its marker, or another call. A quote that
anything else follows is data. What is looked at is bounded by `stream_name_chars`; well-formed literals are read as what they are.
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
    """The list's end; behind it `close`."""
    separator: str = ""
    """Before another call; blanks stand for none."""
    close: str = ""
    arguments_open: str = "("


_ENDS_WORD = frozenset(",:=()[]{}\"'" + WHITESPACE)
_QUOTES = frozenset("\"'")
_OPEN = frozenset("[{(")


class AfterQuote:
    """Reads on behind a quote that may end a string. Answers are True or False; None: more text will tell."""

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
        "behind_call",
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
        """`brackets`: what closes those that are open, the call's own first; `declared`: whether the tool has this argument; `declares`:
        whether another tool has one."""
        self._text = text
        self._at = at
        self._end = min(len(text), at + longest)
        self._ran_out: bool | None = True if final or len(text) - at >= longest else None
        self._brackets = brackets
        self._declared = declared
        self._declares = declares
        self._sure = self._stray = False
        self.behind_call = False
        """The call's own bracket, and what parts it from another call, have been read."""

    def closes(self, key: bool, first: bool, call_end: CallEnd) -> bool | None:
        """`key`: the string is one; `first`: it may be one, or a set's first item."""
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
                    found = self._behind_call(call_end)
                    if not found or self._sure:
                        return found
                    depth, stray = 1, self._stray
                continue
            if char != "," or stray:  # behind a stray argument's value, a comma is enough
                return char == ","
            self._at += 1
            char = self._char()
            if char == self._brackets[depth - 1]:
                continue
            if depth > 1 or not char:
                return self._begins_value(char)
            found = self._argument(self._declared)
            if not found or self._sure:
                return found
            stray = True

    def _char(self) -> str:
        """The next character that is no blank; "" at the end."""
        text, end = self._text, self._end
        while self._at < end and text[self._at] in WHITESPACE:
            self._at += 1
        return text[self._at] if self._at < end else ""

    def _run(self, inside: Callable[[str], bool]) -> str:
        """The characters from here on that are so, but at most as many as may be looked at."""
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
        """A name that the tool declares and `=`, which is sure, or another with its value."""
        found = self._key(declared)
        return found if not found or self._sure else self._value()

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
        """A string, a number or a word; sure if it is something longer."""
        char = self._char()
        if char not in _QUOTES or not char:
            found = self._begins_value(char)
            self._sure = found is True and char in _OPEN
            return found
        self._at += 1
        while self._run(lambda c: c not in (char, "\\")) or self._at < self._end:
            if self._text[self._at : self._at + 1] == char:
                self._at += 1
                return True
            self._at = min(self._at + 2, self._end)
        return self._ran_out

    def _behind_call(self, end: CallEnd) -> bool | None:
        char, separator = self._char(), end.separator.strip()
        if not char:
            return self._ran_out
        self._sure = True
        if end.list_close and char == end.list_close:
            self._at += 1
            return self._marker(end.close)
        if not end.list_close and (found := self._marker(end.close)) is not False:
            return found
        if not end.separator or (separator and char != separator):
            return False
        self.behind_call = True
        if separator:
            self._at += 1
            if self._char() == end.list_close != "":
                self._at += 1
                return self._marker(end.close)
        return self._call(end)

    def _marker(self, marker: str) -> bool | None:
        """Whether the closing marker comes, where there is one."""
        if marker and not self._char():
            return self._ran_out
        rest = self._text[self._at : self._at + len(marker)]
        return True if rest == marker else self._ran_out if marker.startswith(rest) else False

    def _call(self, end: CallEnd) -> bool | None:
        """A name, the bracket, and the end or an argument's beginning; sure if it is a tool's."""
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
