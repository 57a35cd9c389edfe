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
    """Strings have Python's escapes, which include JSON's; else a string's text is as it stands."""
    bare_keys: bool
    """Keys of objects are written without quotes, like the names of arguments."""
    bare_strings: bool
    """A value that is no literal is a string; else the call breaks off there."""
    loose_quotes: CallEnd | None
    """Not None: quotes in strings are not escaped, and what follows a quote decides (see `closing_quote`)."""
