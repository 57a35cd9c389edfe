"""One string out of a list, written exactly.

Cost: some 100 ns a string; the core reads all of them as one automaton, so that 100,000 choices cost what their bytes cost.
"""

from __future__ import annotations

from collections.abc import Iterable

from narrows.arguments import ITERABLE
from narrows.errors import InputError
from narrows.grammar import ir


def choice_module(strings: Iterable[str]) -> ir.Module:
    """The grammar of these strings. Duplicates are harmless, and "" is a choice like any other.

    Raises `InputError` with code `choice_invalid` for an empty list, for what is not a list of str, and for a lone surrogate.
    """
    if not ITERABLE.fits(strings):
        raise InputError(
            f"choices are a list of str, not {type(strings).__name__}",
            code="choice_invalid",
            hint='Write ["yes", "no"]',
        )
    options: dict[bytes, None] = {}
    for index, text in enumerate(strings):
        if not isinstance(text, str):
            raise InputError(
                f"choice {index} is a {type(text).__name__}, not a str", code="choice_invalid", pointer=f"/{index}"
            )
        try:
            options[text.encode()] = None
        except UnicodeEncodeError as error:
            raise InputError(
                f"choice {index} holds a lone surrogate, which is not a character",
                code="choice_invalid",
                pointer=f"/{index}",
            ) from error
    if not options:
        raise InputError("there is nothing to choose from", code="choice_invalid")
    return ir.Module({"root": ir.Lexeme(ir.Literals(tuple(options)))}, sources={"root": "choice"})
