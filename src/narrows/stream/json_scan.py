"""JSON inside a stream: the scanner that finds where a value ends, and the characters that matter around it.

`JsonScanner` is of the core (core/stream/json_scanner.hpp): fed in pieces, about a nanosecond a character, memory a bit per open
bracket. `scan(text, pos)` reads from `pos` to the end of the text or of the value and returns how far. Then `done` says that the value
has ended (a number outside any bracket ends at the first character that is not its own, or at `end_of_text`); `kind` is its first
character, "" before that.

Two kinds of trouble are told apart. A `flaw` (a raw control character or an unknown escape inside a string) leaves the structure
readable: scanning goes on. A `fault` (anything else) stops the scan at the offending character, and the caller decides what becomes of
the rest; a caller sets it, too, to end a scan.
"""

from __future__ import annotations

from narrows._core import JsonScanner

__all__ = ["BLANK", "JsonScanner"]

BLANK = " \t\n\r"
