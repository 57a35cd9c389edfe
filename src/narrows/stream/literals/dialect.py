"""How one notation writes the arguments of a call as literals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narrows.stream.literals.closing_quote import CallEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How arguments and values are written. Delimiters have the form that they have in the text (`Alphabet.encode`)."""

    assign: str
    """Between the name and the value of an argument."""
    close: str
    """The marker that ends the arguments."""
    quotes: tuple[str, ...]
    """The quotes of strings."""
    escapes: bool
    """Strings have Python's escapes, which include JSON's. Otherwise a string's text is verbatim."""
    bare_keys: bool
    """Keys of objects have no quotes, like the names of arguments."""
    bare_strings: bool
    """A value that is not a literal is a string. Otherwise the call breaks off there."""
    loose_quotes: CallEnd | None
    """Not None: quotes in strings are not escaped, and the text after a quote decides (see `closing_quote`)."""
