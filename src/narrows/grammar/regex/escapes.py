"""The text of a regular expression while it is read, and the meaning of a backslash in each dialect, inside and outside
classes.

Cost: constant per escape, except for the first use of a Unicode set (classes.py).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn, Union

from narrows.errors import GrammarError, UnsupportedError
from narrows.grammar import utf8
from narrows.grammar.regex import classes, emoji, tree
from narrows.grammar.regex.tree import Edge
from narrows.grammar.utf8 import Ranges
from narrows.grammar.work import Work

_HEX = "0123456789abcdefABCDEF"
_OCTAL = "01234567"
_DECIMAL = "0123456789"
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_ECMA_CASELESS_WORD = utf8.union(classes.ASCII_WORD, utf8.code_points(0x17F, 0x212A))
"""`\\w` under the flag i: the long s and the Kelvin sign fold to word characters."""


@dataclass(frozen=True, slots=True)
class Atom:
    """One character out of a set. `point` is the character if it was written by itself: such an atom may be the end of
    a range. (In ECMA a lone surrogate has a point and an empty set.) `folded`: the set needs no more case folding."""

    ranges: Ranges
    point: int | None = None
    folded: bool = False


class Source:
    """A pattern and a position in it. It charges the work of reading."""

    __slots__ = ("_edges", "_results", "pos", "text", "work")

    def __init__(self, text: str, work: Work) -> None:
        self.text = text
        self.pos = 0
        self.work = work
        self._edges: dict[tuple[str, int], Edge] = {}
        self._results: dict[tuple[int, str], tuple[Ranges, Ranges]] = {}
        """(id of a set, the dialect it was folded in, or "" for its complement) -> (the set, the result). The set is
        held so that its id is not reused."""

    def complement(self, ranges: Ranges) -> Ranges:
        known = self._results.get((id(ranges), ""))
        if known is None:
            self.work.spend(1 + len(ranges) // 2)
            known = self._results[id(ranges), ""] = ranges, utf8.complement(ranges)
        return known[1]

    def fold(self, ranges: Ranges, dialect: str) -> Ranges:
        """The set, and all characters that are equal to one of it except for case."""
        known = self._results.get((id(ranges), dialect))
        if known is None:
            self.work.spend(classes.fold_cost(ranges))
            known = self._results[id(ranges), dialect] = ranges, classes.fold(ranges, dialect)
        return known[1]

    def boundary(self, make: Callable[[Ranges, int], Edge], inside: Ranges, offset: int) -> Edge:
        """`make(inside, offset)`. The sets of each kind of boundary are computed once."""
        known = self._edges.get((make.__name__, id(inside)))
        if known is None:
            self.work.spend(2 * len(inside))
            known = self._edges[make.__name__, id(inside)] = make(inside, offset)
        return Edge(known.pairs, offset)

    def union(self, sets: Iterable[Ranges]) -> Ranges:
        """The union. A set object that is given twice is charged once."""
        distinct = list({id(ranges): ranges for ranges in sets}.values())
        self.work.spend(1 + sum(map(len, distinct)) // 2)
        return distinct[0] if len(distinct) == 1 else utf8.union(*distinct)

    @property
    def at_end(self) -> bool:
        return self.pos >= len(self.text)

    def peek(self, ahead: int = 0) -> str:
        """The character `ahead` places after this one; "" beyond the end."""
        return self.text[self.pos + ahead : self.pos + ahead + 1]

    def take(self) -> str:
        char = self.peek()
        self.pos += 1
        return char

    def at(self, text: str) -> bool:
        return self.text.startswith(text, self.pos)

    def skip(self, text: str) -> bool:
        """Steps over `text` if it stands here, and says whether it did."""
        if self.at(text):
            self.pos += len(text)
            return True
        return False

    def run(self, alphabet: str, most: int) -> str:
        """Takes up to `most` characters of the alphabet."""
        start = self.pos
        while self.pos < min(start + most, len(self.text)) and self.text[self.pos] in alphabet:
            self.pos += 1
        return self.text[start : self.pos]

    def until(self, end: str, message: str, offset: int) -> str:
        """Takes the text up to `end`, and steps over `end`. Fails with `message` if there is no `end`."""
        stop = self.text.find(end, self.pos)
        if stop < 0:
            self.fail(message, offset)
        start, self.pos = self.pos, stop + len(end)
        return self.text[start:stop]

    def fail(self, message: str, offset: int, hint: str | None = None) -> NoReturn:
        raise GrammarError(f"bad regular expression: {message}", code="regex_invalid", offset=offset, hint=hint)

    def unsupported(self, feature: str, offset: int, hint: str = "Rewrite the pattern without it") -> NoReturn:
        raise UnsupportedError(
            f"{feature} in a regular expression is not supported", code="regex_unsupported", offset=offset, hint=hint
        )


def word(dialect: str, flags: frozenset[str]) -> Ranges:
    """The characters of `\\w`; `\\b` uses the same set."""
    if dialect == "ecma":
        return _ECMA_CASELESS_WORD if "i" in flags else classes.ASCII_WORD
    if dialect == "rust":
        return classes.unicode_word()
    return classes.ASCII_WORD if "a" in flags else classes.python_word()


def _shorthand(letter: str, dialect: str, flags: frozenset[str]) -> Ranges:
    if letter == "w":
        return word(dialect, flags)
    if letter == "d":
        ascii_only = dialect == "ecma" or "a" in flags
        return classes.DIGITS if ascii_only else classes.category("Nd") or ()
    if dialect == "python":
        return classes.ASCII_SPACE if "a" in flags else classes.python_space()
    return classes.ECMA_SPACE if dialect == "ecma" else classes.WHITE_SPACE


def read(source: Source, dialect: str, flags: frozenset[str], *, in_class: bool) -> Union[Atom, Edge]:
    """Reads the rest of an escape. The backslash has been taken already."""
    offset = source.pos - 1
    if source.at_end:
        source.fail("bad escape (end of pattern)", offset)
    letter = source.take()
    if letter in "dDsSwW":
        ranges = _shorthand(letter.lower(), dialect, flags)
        return Atom(source.complement(ranges) if letter.isupper() else ranges, folded=True)
    if letter in _CONTROLS and not (letter == "a" and dialect == "ecma"):
        return _point(_CONTROLS[letter])
    if letter not in _LETTERS + _DECIMAL and not (dialect == "rust" and (letter in "<>" or ord(letter) > 127)):
        return _point(ord(letter))
    if in_class and letter == "b" and dialect != "rust":
        return _point(8)
    item: Union[Atom, Edge, None] = None if in_class else _edge(source, letter, dialect, flags, offset)
    if item is None:
        item = _READERS[dialect](source, letter, flags, in_class, offset)
    if item is None:
        hint = 'Write dialect="ecma" or "rust" for \\p' if letter in "pP" else None
        source.fail(f"bad escape \\{letter}", offset, hint)
    return item


def _edge(source: Source, letter: str, dialect: str, flags: frozenset[str], offset: int) -> Edge | None:
    if letter in "bB":
        inside = word(dialect, flags)
        if dialect == "rust" and letter == "b" and source.at("{"):
            return _rust_boundary(source, inside, offset)
        return source.boundary(tree.word_boundary if letter == "b" else tree.no_word_boundary, inside, offset)
    if dialect != "ecma" and letter == "A":
        return tree.text_start(offset)
    if (letter == "z" and dialect != "ecma") or (letter == "Z" and dialect == "python"):
        return tree.text_end(offset)
    if dialect == "rust" and letter == "<":
        return source.boundary(tree.word_start, word(dialect, flags), offset)
    if dialect == "rust" and letter == ">":
        return source.boundary(tree.word_end, word(dialect, flags), offset)
    return None


def _rust_boundary(source: Source, inside: Ranges, offset: int) -> Edge:
    for name, make in (
        ("{start}", tree.word_start),
        ("{end}", tree.word_end),
        ("{start-half}", tree.word_start_half),
        ("{end-half}", tree.word_end_half),
    ):
        if source.skip(name):
            return source.boundary(make, inside, offset)
    # \b before another brace: the brace must begin a count.
    return source.boundary(tree.word_boundary, inside, offset)


def _python(source: Source, letter: str, flags: frozenset[str], in_class: bool, offset: int) -> Atom | None:
    if letter in "xuU":
        return _fixed_hex(source, {"x": 2, "u": 4, "U": 8}[letter], offset)
    if letter == "N":
        if not source.skip("{"):
            source.fail("missing {", offset)
        name = source.until("}", "missing }, unterminated name", offset)
        try:
            return _point(ord(unicodedata.lookup(name)))
        except (KeyError, TypeError, UnicodeEncodeError):  # a lone surrogate has no UTF-8
            source.fail(f"undefined character name {name!r}", offset)
    if letter in _DECIMAL:
        return _python_digits(source, letter, in_class, offset)
    return None


def _python_digits(source: Source, letter: str, in_class: bool, offset: int) -> Atom:
    more = source.peek(), source.peek(1)
    is_octal = letter in _OCTAL and all(d and d in _OCTAL for d in more)
    if letter == "0" or is_octal or (in_class and letter in _OCTAL):
        value = int(letter + source.run(_OCTAL, 2), 8)
        if value > 0o377:
            source.fail("octal escape value outside of range 0-0o377", offset)
        return _point(value)
    if in_class:
        source.fail(f"bad escape \\{letter}", offset)
    source.unsupported("a back-reference", offset)


def _ecma(source: Source, letter: str, flags: frozenset[str], in_class: bool, offset: int) -> Atom | None:
    if letter == "x":
        return _fixed_hex(source, 2, offset)
    if letter == "u":
        return _ecma_unicode(source, offset)
    if letter == "c":
        control = source.take()
        if not control or control not in _LETTERS:
            source.fail("\\c needs a letter", offset)
        return _point(ord(control) % 32)
    if letter == "0" and not (source.peek() and source.peek() in _DECIMAL):
        return _point(0)
    if letter in _DECIMAL[1:] and not in_class:
        source.unsupported("a back-reference", offset)
    if letter == "k" and not in_class and source.at("<"):
        source.unsupported("a back-reference", offset)
    if letter in "pP" and source.skip("{"):
        name = source.until("}", "missing }, unterminated property name", offset)
        ranges = _ecma_property(source, name, offset)
        return Atom(source.complement(ranges) if letter == "P" else ranges)
    if letter in "AZzG":
        source.fail(f"bad escape \\{letter}", offset, "ECMA-262 writes ^ and $ for the start and end of the text")
    return None


def _ecma_unicode(source: Source, offset: int) -> Atom:
    if source.skip("{"):
        return _braced_hex(source, offset)
    first = _hex(source, 4, offset)
    if 0xD800 <= first <= 0xDBFF and source.at("\\u"):
        back = source.pos
        source.skip("\\u")
        digits = source.run(_HEX, 4)
        second = int(digits, 16) if len(digits) == 4 else 0
        if 0xDC00 <= second <= 0xDFFF:
            return _point(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
        source.pos = back
    return _point(first)


def _ecma_property(source: Source, name: str, offset: int) -> Ranges:
    key, equals, value = name.partition("=")
    if equals and key not in ("General_Category", "gc"):
        if key in ("Script", "sc", "Script_Extensions", "scx"):
            source.unsupported(f"the Unicode property {name}", offset, "General categories, such as \\p{L}, are")
        source.fail(f"no Unicode property {name!r}", offset)
    ranges = classes.category(value if equals else key)
    if ranges is None and not equals:
        ranges = source.complement(classes.category("Cn") or ()) if key == "Assigned" else _BINARY.get(key)
        ranges = emoji.ranges(key) if key in emoji.NAMES else ranges
    if ranges is None:
        source.unsupported(f"the Unicode property {name}", offset, "General categories, such as \\p{L}, are")
    return ranges


_BINARY: dict[str, Ranges] = {
    "Any": utf8.ANY,
    "ASCII": classes.ASCII,
    "ASCII_Hex_Digit": classes.POSIX["xdigit"],
    "AHex": classes.POSIX["xdigit"],
    "White_Space": classes.WHITE_SPACE,
    "space": classes.WHITE_SPACE,
}


def _rust(source: Source, letter: str, flags: frozenset[str], in_class: bool, offset: int) -> Atom | None:
    if letter in "xuU":
        if source.skip("{"):
            return _braced_hex(source, offset)
        return _fixed_hex(source, {"x": 2, "u": 4, "U": 8}[letter], offset)
    if letter in "pP":
        name = source.until("}", "missing }, unterminated property name", offset) if source.skip("{") else source.take()
        ranges = _rust_property(source, name, offset)
        if "i" in flags:
            ranges = source.fold(ranges, "rust")
        return Atom(source.complement(ranges) if letter == "P" else ranges, folded=True)
    if letter in _DECIMAL:
        source.fail("back-references are not supported in the rust dialect", offset)
    return None


def _rust_property(source: Source, name: str, offset: int) -> Ranges:
    for sign in ("!=", "=", ":"):
        key, equals, value = name.partition(sign)
        if equals:
            break
    wanted = value if equals else name
    plain = key.replace("_", "").replace("-", "").replace(" ", "").lower()
    if equals and plain not in ("generalcategory", "gc"):
        source.unsupported(f"the Unicode property {name}", offset, "General categories, such as \\p{L}, are")
    ranges = classes.category(wanted, loose=True)
    if ranges is None and not equals:
        ranges = source.complement(classes.category("Cn") or ()) if plain == "assigned" else _RUST_BINARY.get(plain)
    if ranges is None:
        source.unsupported(f"the Unicode property {name}", offset, "General categories, such as \\p{L}, are")
    return source.complement(ranges) if sign == "!=" and equals else ranges


_RUST_BINARY: dict[str, Ranges] = {
    "any": utf8.ANY,
    "ascii": classes.ASCII,
    "asciihexdigit": classes.POSIX["xdigit"],
    "ahex": classes.POSIX["xdigit"],
    "whitespace": classes.WHITE_SPACE,
    "wspace": classes.WHITE_SPACE,
    "space": classes.WHITE_SPACE,
}

_READERS = {"python": _python, "ecma": _ecma, "rust": _rust}


def _point(value: int) -> Atom:
    return Atom(utf8.code_points(value), value)


def _hex(source: Source, digits: int, offset: int) -> int:
    text = source.run(_HEX, digits)
    if len(text) != digits:
        source.fail("incomplete escape " + source.text[offset : source.pos], offset)
    return int(text, 16)


def _fixed_hex(source: Source, digits: int, offset: int) -> Atom:
    return _checked(source, _hex(source, digits, offset), offset)


def _braced_hex(source: Source, offset: int) -> Atom:
    text = source.until("}", "missing }, unterminated escape", offset)
    if not text or len(text) > 64 or any(c not in _HEX for c in text):
        source.fail("bad hexadecimal escape", offset)
    return _checked(source, int(text, 16), offset)


def _checked(source: Source, value: int, offset: int) -> Atom:
    if value > utf8.LAST:
        source.fail("the escape is beyond U+10FFFF", offset)
    return _point(value)
