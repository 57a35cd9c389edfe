"""A part of a given text: a quotation, which cannot be invented.

What may be quoted depends on where the text may be cut:

- "characters": between any two characters (code points).
- "words": between two kinds of characters, as llguidance cuts its `substring_words`. The kinds are word characters
  (letters, numbers, marks, joiners and `_`), white space, and all others.
- "lines": at the beginnings of lines. A quotation may also end before the break of its last line. A break is `\\n` or
  `\\r\\n`.
- A list of str is cut between its items.

The empty text is a part of every text.

Cost: some 0.15 us for each byte, most of it in the core, which sorts the text's suffixes (core/automata/suffixes.hpp).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from narrows.arguments import ITERABLE, TEXT, Kind, quoted
from narrows.errors import InputError
from narrows.grammar import ir
from narrows.grammar.languages.base import FrontEnd
from narrows.grammar.options import SubstringUnit
from narrows.grammar.work import Work
from narrows.limits import DEFAULT_LIMITS, Limits

UNITS = get_args(SubstringUnit)


def substring_module(
    text: str | Iterable[str], unit: str = "characters", limits: Limits | Work = DEFAULT_LIMITS
) -> ir.Module:
    """The grammar of the parts of a text, or of a list of str as it is cut.

    Raises InputError with code `invalid_option` for a unit that does not exist, and `substring_invalid` for a list with
    another unit than the default, for an item that is no str, and for a lone surrogate. Raises LimitError
    (`grammar_bytes`, `reading_work`).
    """
    work = Work.of(limits)
    if unit not in UNITS:
        raise InputError(
            f"unit must be one of {', '.join(UNITS)}, not {quoted(unit)}", code="invalid_option", pointer="/unit"
        )
    if not isinstance(text, str):
        if unit != "characters":
            raise InputError(
                "a list is a text that has been cut, and has no unit",
                code="substring_invalid",
                hint="Join the list to one text, or leave the unit out",
            )
        return _module(ir.Substrings(_pieces(text, work), "pieces"))
    data = _encoded(text, work)
    work.spend(len(data) // 64)
    if unit == "characters":
        return _module(ir.Substrings(data))
    return _module(ir.Substrings(_words(text, data, work) if unit == "words" else _lines(data), "pieces"))


def _module(node: ir.Node) -> ir.Module:
    return ir.Module({"root": ir.Lexeme(node)}, sources={"root": "substring"})


def _encoded(text: str, work: Work, pointer: str | None = None) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"character {error.start} is a lone surrogate, which is not a character",
            code="substring_invalid",
            pointer=pointer,
        ) from error
    _check_size(len(data), work)
    return data


def _check_size(size: int, work: Work) -> None:
    if size > work.limits.grammar_bytes:
        raise work.refusal("grammar_bytes", f"the text has more than {work.limits.grammar_bytes:,} bytes")


def _pieces(items: Iterable[str], work: Work) -> bytes:
    pieces: list[bytes] = []
    size = 0
    for index, item in enumerate(items):
        if index % 16 == 0:
            work.pointer = f"/{index}"
            work.spend(12)
        if not isinstance(item, str):
            raise InputError(
                f"item {index} is a {type(item).__name__}, not a str", code="substring_invalid", pointer=f"/{index}"
            )
        pieces.append(_encoded(item, work, f"/{index}"))
        size += len(pieces[-1])
        _check_size(size, work)
    work.spend(size // 64)
    return ir.CUT.join(pieces) + ir.CUT


def _lines(data: bytes) -> bytes:
    """The end of a line is marked, and the beginning of the next one. So is the end of the text."""
    marked = data.replace(b"\n", ir.END + b"\n" + ir.CUT)
    return marked.replace(b"\r" + ir.END + b"\n", ir.END + b"\r\n") + ir.CUT


_OTHER, _WORD, _SPACE = range(3)


def _words(text: str, data: bytes, work: Work) -> bytes:
    """The text with a cut between any two characters of different kinds, and at its end."""
    points = np.frombuffer(text.encode("utf-32-le"), "<u4")
    starts = np.flatnonzero((np.frombuffer(data, np.uint8) & 0xC0) != 0x80)
    kinds = _kinds(points, work)
    cuts = starts[1:][kinds[1:] != kinds[:-1]]
    return bytes(np.insert(np.frombuffer(data, np.uint8), np.append(cuts, len(data)), ir.CUT[0]))


def _kinds(points: NDArray[np.uint32], work: Work) -> NDArray[np.uint8]:
    """The kind of each character. Each that occurs is looked up once."""
    seen = np.zeros(0x110000, bool)
    seen[points] = True
    distinct = np.flatnonzero(seen)
    work.spend(len(distinct) // 2)
    kind_of = np.zeros(len(seen), np.uint8)
    kind_of[distinct] = [_kind(chr(point)) for point in distinct]
    return kind_of[points]


_JOINERS = "\u200c\u200d"
_NOT_SPACE = "\x1c\x1d\x1e\x1f"
"""Space to Python, and not to Unicode's White_Space."""


_CIRCLED = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))
"""Symbols that Unicode calls alphabetic."""


def _kind(character: str) -> int:
    if character == "_" or character in _JOINERS or unicodedata.category(character)[0] in "LNM":
        return _WORD
    if any(low <= ord(character) <= high for low, high in _CIRCLED):
        return _WORD
    return _SPACE if character.isspace() and character not in _NOT_SPACE else _OTHER


def _fits(value: object) -> bool:
    return TEXT.fits(value) or ITERABLE.fits(value)


def _read(
    source: str | Iterable[str] | Mapping[str, Any], work: Work, unit: str = "characters"
) -> tuple[ir.Module, Mapping[str, Any]]:
    if not isinstance(source, Mapping):
        return substring_module(source, unit, work), {}
    for name in source:
        if name not in ("text", "unit"):
            raise InputError(
                f"there is no field {quoted(name)}", code="substring_invalid", hint="There are text and unit"
            )
    text: Any = source.get("text")
    unit = source.get("unit", unit)
    if not _fits(text) or isinstance(text, Mapping) or not isinstance(unit, str):
        raise InputError("text is a str or a list of str, and unit a str", code="substring_invalid", pointer="/text")
    return substring_module(text, unit, work), {}


SUBSTRING = FrontEnd(
    "substring", Kind("a str, a list of str, or text and unit in a mapping", _fits), _read, options=("unit",)
)
