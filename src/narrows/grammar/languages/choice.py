"""One string out of a list, written exactly.

Cost: about 0.5 us per string. The core reads all strings as one automaton, whose cost depends on their bytes only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from narrows.arguments import ITERABLE
from narrows.errors import InputError
from narrows.grammar import ir
from narrows.grammar.languages.base import FrontEnd
from narrows.grammar.work import Work
from narrows.limits import DEFAULT_LIMITS, Limits


def choice_module(strings: Iterable[str], limits: Limits | Work = DEFAULT_LIMITS) -> ir.Module:
    """The grammar of these strings. Duplicates are harmless, and "" is a choice like any other.

    Raises `InputError` with code `choice_invalid` for an empty list, for a value that is not a list of str, and for a
    lone surrogate. Raises LimitError (`reading_work`) with the place in the list.
    """
    if not ITERABLE.fits(strings):
        raise InputError(
            f"choices are a list of str, not {type(strings).__name__}",
            code="choice_invalid",
            hint='Write ["yes", "no"]',
        )
    work = Work.of(limits)
    options: dict[bytes, None] = {}
    for index, text in enumerate(strings):
        if index % 16 == 0:
            work.pointer = f"/{index}"
            work.spend(12)
        if not isinstance(text, str):
            raise InputError(
                f"choice {index} must be a str, not {type(text).__name__}", code="choice_invalid", pointer=f"/{index}"
            )
        work.spend(len(text) // 256)
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


def _read(source: Iterable[str], work: Work) -> tuple[ir.Module, Mapping[str, Any]]:
    return choice_module(source, work), {}


CHOICE = FrontEnd("choice", ITERABLE, _read, written_as_json=True)
