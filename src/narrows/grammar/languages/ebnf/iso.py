"""EBNF of ISO/IEC 14977.

    list = "[", [ item, { ",", item } ], "]" ;     (* a comment *)
    item = number - "0" | 3 * digit | 'null' ;
    decimal digit = "0" | "1" ;                    (* names may have spaces *)

The alternative spellings count, too: `/` and `!` for `|`, `(/ /)` for `[ ]`, `(: :)` for `{ }`, `.` for `;`. Strings
have no escapes. `A - B` is exact if both are regular, and `{A}-` is `A` once or more. A special sequence `? text ?` is
what was given for `text` beside the grammar. The start rule is the first one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from narrows.grammar import ir
from narrows.grammar.languages.reader import PER_SYMBOL, Group, Reader
from narrows.grammar.languages.scanner import DIGITS, LETTERS

_NAME = LETTERS | DIGITS | {"_"}
_PAIRS = {"(/": "[", "/)": "]", "(:": "{", ":)": "}"}
_OTHERS = {"/": "|", "!": "|", ".": ";"}
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(slots=True)
class _Group(Group):
    times: tuple[int, int] | None = None
    """The number of times that the next item stands there, and the offset of that number."""


class IsoReader(Reader):
    assign = "="
    has_escapes = False

    def _rule(self) -> None:
        offset = self.pos
        name = self._name()
        if not name:
            self.source.fail("expected the name of a rule", offset)
        if not self._skip("="):
            self.source.fail("expected = after the name of the rule", self.pos)
        self._begin(name, offset)
        self.rules[name] = self._right_side()
        if self._mark()[0] != ";":
            self.source.fail(
                "expected ; at the end of the rule", self.pos, f"The rule {name!r} begins at {self.sources[name]}"
            )
        self.pos += 1

    def _name(self) -> str:
        """A name, and the space after it. Space inside is written as one blank."""
        words: list[str] = []
        while self.text[self.pos : self.pos + 1] in (LETTERS if not words else _NAME):
            self.work.spend(1)
            words.append(self._run(_NAME))
            self._skip_space(newlines=True)
        return " ".join(words)

    def _skip_space(self, *, newlines: bool) -> None:
        """Whitespace, and comments, which may stand in each other."""
        text = self.text
        while True:
            self._run_of_space()
            offset = self.pos
            if not text.startswith("(*", offset) or text.startswith("(*)", offset):
                return
            depth, at = 1, offset + 2
            while depth:
                close = text.find("*)", at)
                if close < 0:
                    self.source.fail("unterminated comment, missing *)", offset)
                depth += text.count("(*", at, close) - 1
                at = close + 2
            self.pos = at
            self.work.spend(1 + (at - offset) // 64)

    def _mark(self) -> tuple[str, int]:
        """The character that stands here, as in the first spelling, and its length."""
        char = self.text[self.pos : self.pos + 1]
        pair = self.text[self.pos : self.pos + 2]
        if pair in _PAIRS:
            return _PAIRS[pair], 2
        return _OTHERS.get(char, char), 1

    def _right_side(self, close: str = "") -> ir.Node:
        groups: list[Group] = [_Group(self.pos)]
        needs_comma = False  # an item has been read, and no comma after it
        while True:
            self.work.spend(PER_SYMBOL)
            self._skip_space(newlines=True)
            offset = self.pos
            char, length = self._mark()
            group = groups[-1]
            if char == "" or char in ";,|)]}":
                self._end_term(group)
                if char in (",", "|"):
                    self.pos += length
                    if char == "|":
                        group.next_branch()
                elif len(groups) == 1 and char in ("", ";"):
                    return group.node()
                elif len(groups) == 1 or char != group.close:
                    self._unbalanced(groups, char, offset)
                else:
                    self.pos += length
                    groups.pop()
                    self._add(groups[-1], _closed(group))
                needs_comma = char not in (",", "|")
                continue
            if char == "-":
                if group.minus is not None:
                    self.source.fail("a second exception", offset, "Write a group: a - ( b | c )")
                self.pos += 1
                self._check_times(group)
                if not needs_comma:
                    group.add(ir.EMPTY)
                group.minus, group.operands = offset, len(group.items)
                needs_comma = False
                continue
            if needs_comma:
                self.source.fail(
                    f"unexpected {char!r}", offset, "Items are joined with a comma, and a rule ends with ;"
                )
            if char in DIGITS:
                self._times(group, offset)
            elif char in _CLOSING:
                self._open(groups, _Group(offset, _CLOSING[char]), length)
            else:
                self._add(group, self._symbol(char, offset))
                needs_comma = True

    def _times(self, group: Group, offset: int) -> None:
        """`3 *` before what is repeated."""
        assert isinstance(group, _Group)
        self._check_times(group)
        times = self._number(self._run(DIGITS), offset)
        self._skip_space(newlines=True)
        if not self._skip("*"):
            self.source.fail("expected * after a number", self.pos, "A digit as text stands in quotes")
        group.times = (times, offset)

    def _check_times(self, group: Group) -> None:
        assert isinstance(group, _Group)
        if group.times is not None:
            self.source.fail("nothing stands after *", group.times[1])

    def _add(self, group: Group, node: ir.Node) -> None:
        assert isinstance(group, _Group)
        if group.times is not None:
            node = ir.Repeat(node, group.times[0], group.times[0])
            group.times = None
        group.add(node)

    def _end_term(self, group: Group) -> None:
        self._check_times(group)
        if group.minus is not None:
            right = group.items.pop() if len(group.items) > group.operands else ir.EMPTY
            group.add(self._difference(group.items.pop(), right, group.minus))
            group.minus = None

    def _unbalanced(self, groups: list[Group], char: str, offset: int) -> NoReturn:
        group = groups[-1]
        if len(groups) == 1:
            self.source.fail(f"unbalanced {char}", offset)
        self.source.fail(f"missing {group.close}", group.offset)

    # Symbols.

    def _symbol(self, char: str, offset: int) -> ir.Node:
        if char in ('"', "'"):
            node = self._string(char)
            if node == ir.EMPTY:
                self.source.fail("an empty string", offset, "Nothing is written as nothing, as in [ a ] or ( a | )")
            return node
        if char == "?":
            return self._special(offset)
        name = self._name()
        if not name:
            self.source.fail(f"unexpected {char!r}", offset)
        return self.ref(name, offset)

    def _special(self, offset: int) -> ir.Node:
        end = self.text.find("?", offset + 1)
        if end < 0:
            self.source.fail("unterminated special sequence, missing ?", offset)
        self.work.spend(1 + (end - offset) // 64)
        self.pos = end + 1
        return self.ref(f"?{self.text[offset + 1 : end].strip()}?", offset)

    def _missing(self, name: str, offset: int) -> None:
        if not name.startswith("?"):
            super()._missing(name, offset)
            return
        module = self._given.get(name[1:-1])
        if module is None:
            hint = "Give a grammar for its text beside this one: rules={...}"
            self.source.unsupported(f"the special sequence {name[:64]}", offset, hint)
        self.sources[name] = self.source.source(offset)
        self.rules[name] = self._embed(name, module)


def _closed(group: Group) -> ir.Node:
    node = group.node()
    if group.close == "]":
        return ir.optional(node)
    return ir.Repeat(node) if group.close == "}" else node
