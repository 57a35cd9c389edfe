"""EBNF as in W3C's specifications, such as XML 1.0 (section 6, https://www.w3.org/TR/xml/#sec-notation).

    [1] document ::= prolog element Misc*
    [2] Char     ::= #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF]
        PITarget ::= Name - (('X' | 'x') ('M' | 'm') ('L' | 'l'))
        element  ::= EmptyElemTag | STag content ETag    [ wfc: Element Type Match ]

Strings have no escapes; a character stands for itself or is written `#xN`. A rule ends where the next one begins, or
with the text. `A - B` binds more tightly than a sequence, and more loosely than `* + ?`. Constraints in brackets are
comments, and so are the numbers of productions. The start rule is the first one.
"""

from __future__ import annotations

from narrows.grammar import ir, utf8
from narrows.grammar.languages.reader import Reader
from narrows.grammar.languages.scanner import DIGITS, HEX, LETTERS
from narrows.grammar.utf8 import Ranges

_FIRST = LETTERS | {"_"}
_NAME = _FIRST | DIGITS | {"-", "."}
_BLANKS = frozenset(" \t")
_NOTES = ("wfc:", "vc:", "nsc:")


class W3cReader(Reader):
    has_exceptions = True
    has_escapes = False

    def _rule(self) -> None:
        self._skip_label()
        offset = self.pos
        name = self._name()
        if not name:
            self.source.fail("expected the name of a rule", offset)
        self._skip_space(newlines=True)
        if not self._skip("::="):
            self.source.fail("expected ::= after the name of the rule", self.pos)
        self._begin(name, offset)
        self.rules[name] = self._right_side()

    def _name(self) -> str:
        return self._run(_NAME) if self.text[self.pos : self.pos + 1] in _FIRST else ""

    def _skip_space(self, *, newlines: bool) -> None:
        while True:
            self._skip_comments("/*", "*/")
            if not self._skip_note():
                return

    def _skip_note(self) -> bool:
        """`[ wfc: ... ]` and `[ vc: ... ]`: constraints that are not part of the language."""
        offset = self.pos
        if not self._at("["):
            return False
        self.pos += 1
        self._run_of_space()
        if not self.text[self.pos : self.pos + 4].lower().startswith(_NOTES):
            self.pos = offset
            return False
        end = self.text.find("]", self.pos)
        if end < 0:
            self.source.fail("missing ]", offset)
        self.work.spend(1 + (end - offset) // 64)
        self.pos = end + 1
        return True

    def _skip_label(self) -> bool:
        """`[12a]`, the number of a production: first on its line, with the name and `::=` after it."""
        offset = self.pos
        if self._skip("[") and self._run(DIGITS):
            self._run(LETTERS)
            if self._skip("]"):
                self._run(_BLANKS)
                if self._is_head() and self._is_first_on_line(offset):
                    return True
        self.pos = offset
        return False

    def _is_head(self) -> bool:
        """Whether a rule begins here. The place stays."""
        offset = self.pos
        if not self._name():
            return False
        self._skip_space(newlines=True)
        found = self._at("::=")
        self.pos = offset
        return found

    def _missing_hint(self, name: str) -> str | None:
        return "A name can have - in it: write spaces around - that leaves out" if "-" in name else None

    def _ends(self, char: str, offset: int) -> bool:
        if char == "[":
            found = self._skip_label()
            self.pos = offset
            return found
        return char == "" or (char in _FIRST and self._is_head())

    def _symbol(self, char: str, offset: int) -> ir.Node:
        if char in ('"', "'"):
            return self._string(char)
        if char == "[":
            return self._of_class(self._class())
        if char == "#":
            self.pos += 1
            return self._of_class(utf8.code_points(self._number_sign(offset)))
        name = self._name()
        if not name:
            self.source.fail(f"unexpected {char!r}", offset)
        return self.ref(name, offset)

    def _empty_class(self, negate: bool, offset: int) -> Ranges:
        self.source.fail("empty character class", offset)

    def _char(self, *, in_class: bool) -> int:
        offset = self.pos
        if in_class and self._at("#x") and self.text[offset + 2 : offset + 3] in HEX:
            self.pos += 1
            return self._number_sign(offset)
        return super()._char(in_class=in_class)

    def _number_sign(self, offset: int) -> int:
        """`#xN`; the place is after `#`."""
        digits = self._run(HEX) if self._skip("x") else ""
        if not digits:
            self.source.fail("expected #xN, with hexadecimal digits", offset)
        return self._scalar(int(digits, 16) if len(digits) <= 16 else utf8.LAST + 1, offset)
