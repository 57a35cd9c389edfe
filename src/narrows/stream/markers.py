"""Find the first of a few literal markers in a text that is still growing.

The search hops between occurrences of the markers' first characters with `str.find`, so plain text costs almost nothing. It
holds back only what may still become a marker: at most the longest marker less its last character.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from narrows._core import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narrows.stream.machine import Region


@dataclass(frozen=True, slots=True)
class Exit:
    """A marker and the region that it leads to. With `keep` the marker is left in the input for that region to read."""

    marker: str
    region: Region
    keep: bool = False
    begins: bool = False
    """The marker opens a call: its text is held until the call has started, to be given back if none does."""
    inside: bool = False
    """It opens a further call inside markup that earlier calls stand in."""


class Markers:
    """A set of exits to look for. Where one marker begins another, the longer one wins, so the shorter waits for it."""

    __slots__ = ("begun", "exits", "firsts", "literals", "longest")

    def __init__(self, exits: Sequence[Exit]) -> None:
        self.exits = tuple(sorted(exits, key=lambda e: -len(e.marker)))
        self.longest = max((len(e.marker) for e in exits), default=0)
        self.literals = tuple(e.marker for e in self.exits)
        self.begun = Run.of_markers(self.literals)
        """What is unread is the beginning of one of the markers: so may more be."""
        self.firsts = "".join(sorted({e.marker[0] for e in exits}))
        """Text without these characters holds no marker, nor the beginning of one."""

    def search(self, text: str, pos: int, final: bool) -> tuple[int, Exit | None]:
        """(where, exit). Without an exit, the text before `where` holds no marker and what follows may be one's beginning."""
        end = len(text)
        nexts = [(found, first) for first in self.firsts if (found := text.find(first, pos)) >= 0]
        while nexts:
            at, first = min(nexts)
            for exit in self.exits:
                if text.startswith(exit.marker, at):
                    return at, exit
                if not final and end - at < len(exit.marker) and exit.marker.startswith(text[at:]):
                    return at, None
            nexts.remove((at, first))
            if (found := text.find(first, at + 1)) >= 0:
                nexts.append((found, first))
        return end, None

    def broke_off(self, text: str, pos: int) -> bool:
        """Whether the text from `pos` on is the beginning of a marker that opens no call, and not itself a marker."""
        rest = text[pos:]
        return rest not in self.literals and any(e.marker.startswith(rest) for e in self.exits if not e.begins)

    def match(self, text: str, pos: int, final: bool) -> tuple[Exit | None, bool]:
        """(exit at `pos`, or None; whether more text may still make one)."""
        for exit in self.exits:
            if text.startswith(exit.marker, pos):
                return exit, False
            if not final and len(text) - pos < len(exit.marker) and exit.marker.startswith(text[pos:]):
                return None, True
        return None, False
