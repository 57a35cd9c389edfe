"""Characters and strings as they are spelled inside a JSON string (RFC 8259, section 7).

`escapes` says which spellings count:

* `"all"`: every spelling that a JSON reader accepts: the character itself in UTF-8 if JSON permits that (not `"`, not
  a backslash, not U+0000..U+001F), the short escapes (`\\n`, `\\/` and so on), and `\\uXXXX` with digits of either
  case, as a surrogate pair beyond U+FFFF. A pair is one character. Lone surrogates are not characters, and have no
  spelling.
* `"single"`: as in Python's literals in single quotes: the character itself, but `'` and the backslash only after a
  backslash; also `\\n`, `\\r` and `\\t`. `"none"`: always the character itself. Both are for formats whose values are
  not JSON.
* `"minimal"`: an escape only where JSON requires one: the short one if there is one, else `\\u00xx`, in lower case.
  Each sequence of characters has one spelling.
* `"controls"`: the character itself, but `"`, the backslash and control characters (U+0000..U+001F, U+007F) only as
  short or numeric escapes. Numeric escapes of other characters, and `\\/`, are left out: as llguidance writes strings.

A sequence of characters has many spellings, but a spelling stands for one sequence only. So counts and patterns over
characters hold exactly.

Cost: `char` is linear in the ranges, and its results are kept (50,000 ranges). Any character is 64 nodes with all
escapes, and 47 with minimal ones. `literal` makes one node per character; equal characters share a node.
"""

from __future__ import annotations

from itertools import product
from typing import Literal, get_args

from narrows.errors import GrammarError, InputError
from narrows.grammar import ir, utf8
from narrows.grammar.utf8 import Place, Ranges
from narrows.grammar.work import Kept

Escapes = Literal["all", "minimal", "controls", "single", "none"]

SHORT = {0x22: b'\\"', 0x5C: b"\\\\", 0x2F: b"\\/", 8: b"\\b", 12: b"\\f", 10: b"\\n", 13: b"\\r", 9: b"\\t"}
"""Code point -> its two-byte escape."""
CONTROLS = (0, 0x1F)
_DELETE = 0x7F
_SINGLE = {0x27: b"\\'", 0x5C: b"\\\\", 10: b"\\n", 13: b"\\r", 9: b"\\t"}
RAW: Ranges = utf8.difference(utf8.ANY, utf8.code_points(CONTROLS, '"\\'))
"""The characters that may stand for themselves."""


def _hex_digits(text: str) -> tuple[int, ...]:
    return tuple(ir.byte_set(digit.lower().encode() + digit.upper().encode()).bits for digit in text)


_HEX = Place(_hex_digits("0123456789abcdef"))
_ESCAPE = Place(_HEX.spell, ir.Bytes(b"\\u"))
_BMP = (_ESCAPE, _HEX, _HEX, _HEX)
_D = ir.byte_set(b"dD")
_HIGH = Place(_hex_digits("89ab"), ir.Seq((ir.Bytes(b"\\u"), _D)))  # D800..DBFF: the upper ten bits
_LOW = Place(_hex_digits("cdef"), ir.Seq((ir.Bytes(b"\\u"), _D)))  # DC00..DFFF: the lower ten
_PAIR = (_HIGH, _HEX, _HEX, _LOW, _HEX, _HEX)


def char(ranges: Ranges, escapes: Escapes = "all") -> ir.Node:
    """One character of the set (sorted disjoint ranges of code points), in each of its spellings."""
    _check(escapes)
    return _char(ranges, escapes)


_chars: Kept[ir.Node] = Kept(50_000)


def _char(ranges: Ranges, escapes: Escapes) -> ir.Node:
    known = _chars.get((ranges, escapes))
    if known is None:
        known = _spelled_char(ranges, escapes)
        _chars.put((ranges, escapes), known, 1 + len(ranges))
    return known


def _spelled_char(ranges: Ranges, escapes: Escapes) -> ir.Node:
    if escapes == "none":
        return utf8.node(ranges)
    if escapes == "all" and len(ranges) == 1 and ranges[0][0] == ranges[0][1] <= 0xFFFF:
        return ir.Literals(_spellings(ranges[0][0]))
    if escapes == "single":
        raw = utf8.difference(ranges, utf8.code_points("'\\"))
        escaped = tuple(text for point, text in _SINGLE.items() if utf8.contains(ranges, point))
        return ir.alt(*([utf8.node(raw)] if raw else []), *([ir.Literals(escaped)] if escaped else []))
    short = tuple(sorted(text for point, text in SHORT.items() if utf8.contains(ranges, point)))
    numeric = ranges
    if escapes == "minimal":
        controls = utf8.difference(utf8.clip(ranges, *CONTROLS), utf8.code_points(*SHORT))
        short = tuple(text for text in short if text != SHORT[0x2F])
        short += tuple(_minimal(point) for low, high in controls for point in range(low, high + 1))
        numeric = ()
    unescaped = RAW
    if escapes == "controls":
        short = tuple(text for text in short if text != SHORT[0x2F])
        numeric = utf8.intersection(ranges, utf8.code_points(CONTROLS, _DELETE))
        unescaped = utf8.difference(RAW, utf8.code_points(_DELETE))
    branches: list[ir.Node] = []
    if raw := utf8.intersection(ranges, unescaped):
        branches.append(utf8.node(raw))
    if short:
        branches.append(ir.Literals(short))
    if within := utf8.clip(numeric, 0, 0xFFFF):
        branches.append(utf8.positional(within, _BMP))
    if beyond := utf8.clip(numeric, 0x10000, utf8.LAST):
        branches.append(utf8.positional(((low - 0x10000, high - 0x10000) for low, high in beyond), _PAIR))
    return ir.alt(*branches)


def _spellings(point: int) -> tuple[bytes, ...]:
    """One character up to U+FFFF in each spelling. A list is one node, where sets of bytes would be ten."""
    raw = [chr(point).encode()] if utf8.contains(RAW, point) else []
    short = [SHORT[point]] if point in SHORT else []
    digits = [sorted({digit, digit.upper()}) for digit in f"{point:04x}"]
    return (*raw, *short, *["".join(("\\u", *number)).encode() for number in product(*digits)])


def literal(text: str, escapes: Escapes = "all") -> ir.Node:
    """Exactly this string, in each of its spellings, without the quotes. Raises GrammarError (`lone_surrogate`)."""
    _check(escapes)
    for offset, c in enumerate(text):
        if utf8.SURROGATES[0] <= ord(c) <= utf8.SURROGATES[1]:
            raise GrammarError(
                f"a lone surrogate, U+{ord(c):04X}, is not a character",
                code="lone_surrogate",
                offset=offset,
                hint="Write the character itself, or its surrogate pair",
            )
    if escapes == "minimal":
        return ir.Bytes(b"".join(_minimal(ord(c)) for c in text))
    return ir.seq(*(_char(((ord(c), ord(c)),), escapes) for c in text))


def minimal(text: str) -> bytes:
    """The one spelling of a string that escapes only what JSON requires, without the quotes."""
    return b"".join(_minimal(ord(c)) for c in text)


def _minimal(point: int) -> bytes:
    if point in SHORT and point != 0x2F:
        return SHORT[point]
    return b"\\u%04x" % point if point <= CONTROLS[1] else chr(point).encode()


def _check(escapes: str) -> None:
    if escapes not in get_args(Escapes):
        raise InputError(f'escapes must be "all" or "minimal", not {escapes!r}', code="invalid_escapes")
