"""The text of a grammar and the place in it: whitespace, comments, strings and classes with escapes.

Cost: linear, well below 1 us per character.
"""

from __future__ import annotations

from narrows.grammar import ir, utf8
from narrows.grammar.languages.text import GrammarText
from narrows.grammar.utf8 import Ranges

LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
DIGITS = frozenset("0123456789")
HEX = frozenset("0123456789abcdefABCDEF")
C_ESCAPES = {"n": 10, "r": 13, "t": 9, "a": 7, "b": 8, "f": 12, "v": 11, "0": 0}
HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}


class Scanner:
    """One text. A notation is a subclass that says what whitespace and escapes are, where they differ from GBNF's.

    Work is charged for each escaped character and each member of a class, and for every eighth character of names,
    whitespace and comments."""

    has_escapes = True
    """Whether a backslash begins an escape in strings and classes."""

    def __init__(self, source: GrammarText) -> None:
        self.source = source
        self.text = source.text
        self.pos = 0
        self.work = source.work
        self.limits = source.work.limits

    # Strings and classes.

    def _string(self, quote: str) -> ir.Node:
        offset = self.pos
        self.pos += 1
        end = self.text.find(quote, self.pos)
        plain = self.text[self.pos : end] if end >= 0 else "\\"
        if (
            ("\\" not in plain or (end >= 0 and not self.has_escapes))
            and not self._breaks(plain)
            and (plain.isascii() or not _has_surrogate(plain))
        ):
            self.work.spend(len(plain) // 256)
            self.pos = end + 1
            return ir.Bytes(plain.encode())
        parts: list[str] = []
        while not self._skip(quote):
            self.work.spend(1)
            if self.pos >= len(self.text) or self._breaks(self.text[self.pos]):
                self.source.fail(f"unterminated string, missing {quote}", offset)
            parts.append(chr(self._char(in_class=False)))
        return ir.Bytes("".join(parts).encode())

    def _breaks(self, text: str) -> bool:
        """Whether a string or a class cannot have this in it: it stands on one line."""
        return "\n" in text or "\r" in text

    def _class(self) -> Ranges:
        """The characters of a class."""
        offset = self.pos
        self.pos += 1
        negate = self._skip("^")
        pairs: list[tuple[int, int]] = []
        while not self._skip("]"):
            self.work.spend(1)
            at = self.pos
            if at >= len(self.text) or self._breaks(self.text[at]):
                self.source.fail("unterminated character class, missing ]", offset)
            low = high = self._char(in_class=True)
            if self._at("-") and not self._at("-]"):
                self.pos += 1
                if self.pos >= len(self.text) or self._breaks(self.text[self.pos]):
                    self.source.fail("unterminated character class, missing ]", offset)
                high = self._char(in_class=True)
                if high < low:
                    self.source.fail("the ends of the range are out of order", at)
            pairs.append((low, high))
        if not pairs:
            return self._empty_class(negate, offset)
        ranges = utf8.code_points(*pairs)
        return utf8.complement(ranges) if negate else ranges

    def _empty_class(self, negate: bool, offset: int) -> Ranges:
        self.source.fail("empty character class", offset)

    def _of_class(self, ranges: Ranges) -> ir.Node:
        self.work.spend(utf8.cost(ranges, not self.work.first(ranges)))
        return utf8.node(ranges)

    def _char(self, *, in_class: bool) -> int:
        """One character of a string or class, perhaps escaped."""
        offset = self.pos
        char = self.text[offset]
        self.pos += 1
        if char != "\\" or not self.has_escapes:
            return self._scalar(ord(char), offset)
        letter = self.text[self.pos : self.pos + 1]
        self.pos += 1
        return self._escape(letter, offset, in_class)

    def _escape(self, letter: str, offset: int, in_class: bool) -> int:
        """The character of an escape; the place is after `letter`."""
        if letter in HEX_ESCAPES:
            return self._hex_escape(letter, HEX_ESCAPES[letter], offset)
        if letter in C_ESCAPES:
            return C_ESCAPES[letter]
        if not letter or letter.isalnum() or letter.isspace():
            self.source.fail(f"unknown escape \\{letter}", offset)
        return self._scalar(ord(letter), offset)

    def _hex_escape(self, letter: str, length: int, offset: int) -> int:
        digits = self.text[self.pos : self.pos + length]
        if len(digits) < length or not HEX.issuperset(digits):
            self.source.fail(f"\\{letter} needs {length} hexadecimal digits", offset)
        self.pos += length
        return self._scalar(int(digits, 16), offset)

    def _scalar(self, point: int, offset: int) -> int:
        if point > utf8.LAST or utf8.SURROGATES[0] <= point <= utf8.SURROGATES[1]:
            self.source.fail(f"U+{point:04X} is not a character", offset)
        return point

    # The text.

    def _skip_space(self, *, newlines: bool) -> None:
        """Whitespace, and comments from `#` to the end of the line, which any line break is."""
        text, pos = self.text, self.pos
        while pos < len(text):
            char = text[pos]
            if char == "#":
                end = text.find("\n", pos)
                end = len(text) if end < 0 else end
                carriage_return = text.find("\r", pos, end)
                self.pos = pos = end if carriage_return < 0 else carriage_return
                self.work.spend(1)
            elif char in " \t" or (newlines and char in "\r\n"):
                pos += 1
            else:
                break
        passed, self.pos = pos - self.pos, pos
        if passed >= 8:
            self.work.spend(passed // 8)

    def _skip_comments(self, opens: str, closes: str) -> None:
        """Whitespace, line breaks, and comments between these marks."""
        text = self.text
        while True:
            self._run_of_space()
            offset = self.pos
            if not text.startswith(opens, offset):
                return
            end = text.find(closes, offset + len(opens))
            if end < 0:
                self.source.fail(f"unterminated comment, missing {closes}", offset)
            self.pos = end + len(closes)
            self.work.spend(1 + (self.pos - offset) // 64)

    def _run_of_space(self) -> None:
        text, pos = self.text, self.pos
        while pos < len(text) and text[pos] in " \t\r\n\f\v":
            pos += 1
        if pos - self.pos >= 8:
            self.work.spend((pos - self.pos) // 8)
        self.pos = pos

    def _is_first_on_line(self, offset: int) -> bool:
        while offset and self.text[offset - 1] in " \t":
            offset -= 1
        return not offset or self.text[offset - 1] in "\r\n"

    def _at(self, text: str) -> bool:
        return self.text.startswith(text, self.pos)

    def _skip(self, text: str) -> bool:
        if self.text.startswith(text, self.pos):
            self.pos += len(text)
            return True
        return False

    def _run(self, alphabet: frozenset[str]) -> str:
        text, start = self.text, self.pos
        pos = start
        while pos < len(text) and text[pos] in alphabet:
            pos += 1
        if pos - start >= 8:
            self.work.spend((pos - start) // 8)
        self.pos = pos
        return text[start:pos]


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
