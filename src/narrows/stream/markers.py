"""Find the first of a few literal markers in a text that is still growing.

The core searches (core/stream/markers.hpp), at about a nanosecond a character. Only text that may still become a marker
is held back: at most the longest marker without its last character.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from narrows._core import Markers as MarkerSearch
from narrows._core import Run
from narrows.stream.json_scan import WHITESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from narrows.stream.machine import Region


@dataclass(frozen=True, slots=True)
class Exit:
    """A marker and the region that it leads to. With `keep` the marker stays in the input, for that region to read."""

    marker: str
    region: Region
    keep: bool = False
    begins: bool = False
    """The marker opens a call. Its text is held until the call has started; if none does, it is given back."""
    inside: bool = False
    """The marker opens a further call inside markup that holds earlier calls."""
    apart: bool = False
    """The marker has nothing to do with calls: it opens or closes reasoning or content, or ends the turn."""
    sure: bool = True
    """A grammar allows nothing but a call after the marker."""


class Markers:
    """A set of exits to look for. Where one marker begins another, the longer one wins, so the shorter waits for it."""

    __slots__ = ("_begun", "_search", "exits", "literals")

    def __init__(self, exits: Sequence[Exit]) -> None:
        self.exits = tuple(sorted(exits, key=lambda e: -len(e.marker)))
        self.literals = tuple([e.marker for e in self.exits])
        # Made when they are first used: most regions of an answer are never entered.
        self._search: MarkerSearch | None = None
        self._begun: Run | None = None

    @property
    def begun(self) -> Run:
        """The run for unread text that is the beginning of one of the markers."""
        if self._begun is None:
            self._begun = Run.of_markers(self.literals)
        return self._begun

    def _in_core(self) -> MarkerSearch:
        if self._search is None:
            self._search = MarkerSearch(self.literals)
        return self._search

    def search(self, text: str, pos: int, final: bool) -> tuple[int, Exit | None]:
        """(where, exit). Without an exit, the text before `where` holds no marker. The text after it may be the
        beginning of one."""
        at, which = (self._search or self._in_core()).search(text, pos, final)
        return at, self.exits[which] if which >= 0 else None

    def end(self, text: str, at: int, leaving: Exit, final: bool) -> int:
        """Where the markup of the marker at `at` ends. Where the answer ends inside a longer marker, that half is
        markup too."""
        half = final and self._in_core().match(text, at, False) == _BEGUN
        return len(text) if half else at + len(leaving.marker)

    def broke_off(self, text: str, pos: int) -> bool:
        """Whether the text from `pos` on is the beginning of a marker that opens no call, and not itself a marker."""
        rest = text[pos:]
        return rest not in self.literals and any(e.marker.startswith(rest) for e in self.exits if not e.begins)

    def match(self, text: str, pos: int, final: bool) -> tuple[Exit | None, bool]:
        """(the exit at `pos` or None, whether more text may still make one)."""
        which = (self._search or self._in_core()).match(text, pos, final)
        return (self.exits[which], False) if which >= 0 else (None, which == _BEGUN)


NO_MARKERS = Markers(())
"""Of a region that is not linked yet."""


class Ahead:
    """A marker counts only if one of these literals follows it, perhaps after whitespace, or the text ends. With
    `lines`, that whitespace must begin with a line's end: tags with a space between them are prose."""

    __slots__ = ("_lines", "_match", "run")

    def __init__(self, literals: Iterable[str], lines: bool = False) -> None:
        self._lines = lines
        ordered = tuple(sorted(set(literals), key=lambda literal: -len(literal)))
        self._match = MarkerSearch(ordered).match
        self.run = Run.of_markers(ordered, whitespace_before=True)
        """The same for the core (`Run.link`)."""

    def follows(self, text: str, at: int, final: bool, max_spaces: int) -> bool | None:
        """Whether one of the literals stands at `at`. None: more text is needed to know."""
        window = text[at : at + max_spaces + 1]
        spaces = len(window) - len(window.lstrip(WHITESPACE))
        if spaces > max_spaces or (self._lines and spaces and window[0] not in "\r\n" and at + spaces < len(text)):
            return False
        if at + spaces == len(text):
            return True if final else None
        which = self._match(text, at + spaces, False)
        if which == _BEGUN:
            return True if final else None
        return which >= 0


_BEGUN = -2
