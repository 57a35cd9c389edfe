"""How one notation writes the arguments of a call as literals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narrows.stream.literals.closing_quote import CallEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How arguments and values are written. Delimiters are as they stand in the text (see `Alphabet.encode`)."""

    assign: str
    """Between the name and the value of an argument."""
    close: str
    """What ends the arguments."""
    quotes: tuple[str, ...]
    """What strings stand between."""
    escapes: bool
    """Backslashes are Python's (which JSON's are among); else a string's text is as it stands."""
    bare_keys: bool
    """Keys of objects are written without quotes, as arguments are."""
    bare_strings: bool
    """A value that is no literal is a string; else the call breaks off there."""
    loose_quotes: CallEnd | None
    """A quote that nothing follows that may stand behind a string belongs to the string (see `quotes`): some templates escape nothing."""
