"""GBNF, the grammar language of llama.cpp, and plain BNF.

    root  ::= "{" pair ("," pair)* "}"      # the start rule is `root`
    pair  ::= [a-z]+ ":" [^,}\\n]{1,20}

Rules, strings, classes, `.`, groups, `|`, `* + ? {m} {m,} {m,n}`, comments and tokens (`<[42]>`, `!<[42]>`, `<think>`)
are read as llama.cpp reads them, with three differences. Left recursion, ambiguity and loops that match nothing are
allowed. A rule that is defined twice is an error. `<think>` means its characters if the vocabulary has no such token.

If some line starts with `<name> ::=`, the text is plain BNF: every `<name>` is a rule. The start rule is `<root>` or,
if there is none, the first rule. In both languages, strings may stand in single quotes, and a line that starts with
`|` continues the rule above it.

Cost: linear, about 1 us per character. `Limits.nesting` bounds the open groups, which are kept on a list.
`Limits.grammar_bytes` bounds the text, and `Limits.reading_work` the work of reading it. Every error has code
`gbnf_invalid`, a line and a column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from narrows.arguments import TEXT
from narrows.errors import GrammarError, InputError, LimitError, UnsupportedError
from narrows.grammar import ir, utf8
from narrows.grammar.languages.base import FrontEnd
from narrows.grammar.utf8 import Ranges
from narrows.grammar.work import Work
from narrows.limits import DEFAULT_LIMITS, Limits

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_DIGITS = frozenset("0123456789")
_HEX = frozenset("0123456789abcdefABCDEF")
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {"n": 10, "r": 13, "t": 9, "a": 7, "b": 8, "f": 12, "v": 11, "0": 0}
_RAISE = "Simplify the grammar, or raise this field of Limits if it is trusted"
_PER_RULE, _PER_SYMBOL = 3, 2
"""Units of work. Sets of characters cost more units, and so does every eighth character of names, whitespace and
comments."""
_ANY = utf8.node(utf8.ANY)
_MAX_COUNT = 2**31 - 1
_MAX_TOKEN = 2**31 - 1


def gbnf_module(text: str, start: str = "root", limits: Limits | Work = DEFAULT_LIMITS) -> ir.Module:
    """The grammar of a GBNF or BNF text. Raises `GrammarError` (code `gbnf_invalid`) with line and column,
    `UnsupportedError` (`gbnf_unsupported`) for `!<name>`, and `LimitError` (`grammar_bytes`, `nesting`,
    `reading_work`)."""
    if not isinstance(text, str):
        raise InputError(f"a grammar is a str, not {type(text).__name__}", code="gbnf_invalid")
    work = Work.of(limits)
    bound = work.limits.grammar_bytes
    if len(text.encode("utf-8", "surrogatepass")) > bound:
        raise LimitError(f"the grammar has more than {bound:,} bytes", limit="grammar_bytes", hint=_RAISE)
    return _Parser(text, start, work).parse()


@dataclass(slots=True)
class _Group:
    """An open parenthesis, or the rule itself."""

    offset: int
    branches: list[ir.Node] = field(default_factory=list)
    items: list[ir.Node] = field(default_factory=list)
    suffixes: int = 0
    """Quantifiers on quantifiers at the end of `items`."""

    def add(self, item: ir.Node) -> None:
        self.items.append(item)
        self.suffixes = 0

    def next_branch(self) -> None:
        self.branches.append(ir.seq(*self.items))
        self.items = []

    def node(self) -> ir.Node:
        self.next_branch()
        return ir.alt(*self.branches)


class _Parser:
    def __init__(self, text: str, start: str, work: Work) -> None:
        self.text = text
        self.pos = 0
        self.start = start
        self.work = work
        self.limits = work.limits
        self.is_bnf = _is_bnf(text, work)
        self.placed = (0, 1, 0)
        """The offset that was located last, its line, and the offset where that line begins. The next offset mostly
        comes later, so lines are counted from here."""
        self.rules: dict[str, ir.Node] = {}
        self.sources: dict[str, str] = {}
        self.refs: dict[str, int] = {}
        """Rule name -> where it was first used."""

    def parse(self) -> ir.Module:
        try:
            return self._parse()
        except LimitError as error:
            if error.line is None:
                error.line, error.column = self._place(min(self.pos, len(self.text)))
            raise

    def _parse(self) -> ir.Module:
        self._skip_space(newlines=True)
        while self.pos < len(self.text):
            self._rule()
            self._skip_space(newlines=True)
        start = self.start
        if start not in self.rules and self.is_bnf and start == "root":
            start = next(iter(self.rules))
        if start not in self.rules:
            self._fail(f"there is no rule {start!r} to start from", 0, f"Define it: {start} ::= ...")
        for name, offset in self.refs.items():
            if name not in self.rules:
                hint = "Where a line starts with <name> ::=, every <name> is a rule; write a token as <[id]>"
                self._fail(f"the rule {name!r} is not defined", offset, hint if self.is_bnf else None)
        return ir.Module(self.rules, start, self.sources)

    def _rule(self) -> None:
        offset = self.pos
        self.work.spend(_PER_RULE)
        name = self._bracketed_name() if self.is_bnf and self._at("<") else self._name()
        if not name:
            self._fail("expected the name of a rule", offset)
        self._skip_space()
        if not self._skip("::="):
            self._fail("expected ::= after the name of the rule", self.pos)
        if name in self.rules:
            self._fail(f"the rule {name!r} is defined twice", offset, f"First at {self.sources[name]}")
        line, column = self._place(offset)
        self.sources[name] = f"{line}:{column}"
        self._skip_space(newlines=True)
        self.rules[name] = self._alternatives()

    def _alternatives(self) -> ir.Node:
        """The right side of a rule, to its end."""
        groups = [_Group(self.pos)]
        spend = self.work.spend
        while True:
            spend(_PER_SYMBOL)
            nested = len(groups) > 1
            self._skip_space(newlines=nested)
            offset = self.pos
            char = self.text[offset : offset + 1]
            group = groups[-1]
            if char in ("", "\n", "\r"):
                if nested:
                    self._fail("missing )", group.offset)
                if not self._goes_on():
                    return group.node()
            elif char == "|":
                self.pos += 1
                self._skip_space(newlines=True)
                group.next_branch()
            elif char == "(":
                if len(groups) > self.limits.nesting:
                    line, column = self._place(offset)
                    raise LimitError(
                        f"{len(groups)} groups are open", limit="nesting", line=line, column=column, hint=_RAISE
                    )
                self.pos += 1
                groups.append(_Group(offset))
            elif char == ")":
                if not nested:
                    self._fail("unbalanced )", offset)
                self.pos += 1
                groups.pop()
                groups[-1].add(group.node())
            elif char in "*+?{":
                self._quantifier(group, char, offset)
            else:
                group.add(self._symbol(char, offset))

    def _goes_on(self) -> bool:
        """At the end of a line: whether the next line that is not empty starts with `|`."""
        back = self.pos
        self._skip_space(newlines=True)
        if self._at("|"):
            return True
        self.pos = back
        return False

    def _symbol(self, char: str, offset: int) -> ir.Node:
        if char in "\"'":
            return self._string(char)
        if char == "[":
            ranges = self._class()
            self.work.spend(utf8.cost(ranges, not self.work.first(ranges)))
            return utf8.node(ranges)
        if char == ".":
            self.pos += 1
            return _ANY
        if char == "!" and self.text[offset + 1 : offset + 2] == "<":
            self.pos += 1
            return self._token(negate=True)
        if char == "<":
            return self._token(negate=False)
        name = self._name()
        if not name:
            self._fail(f"unexpected {char!r}", offset)
        return self._ref(name, offset)

    def _ref(self, name: str, offset: int) -> ir.Node:
        self.refs.setdefault(name, offset)
        return ir.Ref(name)

    # Terminals.

    def _string(self, quote: str) -> ir.Node:
        offset = self.pos
        self.pos += 1
        end = self.text.find(quote, self.pos)
        plain = self.text[self.pos : end] if end >= 0 else "\\"
        if "\\" not in plain and "\n" not in plain and (plain.isascii() or not _has_surrogate(plain)):
            self.work.spend(len(plain) // 256)
            self.pos = end + 1
            return ir.Bytes(plain.encode())
        parts: list[str] = []
        while not self._skip(quote):
            self.work.spend(1)
            if self.pos >= len(self.text) or self._at("\n"):
                self._fail(f"unterminated string, missing {quote}", offset)
            parts.append(chr(self._char()))
        return ir.Bytes("".join(parts).encode())

    def _class(self) -> Ranges:
        offset = self.pos
        self.pos += 1
        negate = self._skip("^")
        pairs: list[tuple[int, int]] = []
        while not self._skip("]"):
            self.work.spend(1)
            if self.pos >= len(self.text) or self._at("\n"):
                self._fail("unterminated character class, missing ]", offset)
            at = self.pos
            low = high = self._char()
            if self._at("-") and not self._at("-]"):
                self.pos += 1
                if self.pos >= len(self.text):
                    self._fail("unterminated character class, missing ]", offset)
                high = self._char()
                if high < low:
                    self._fail("the ends of the range are out of order", at)
            pairs.append((low, high))
        if not pairs:
            self._fail("empty character class", offset, "Write . for any character")
        ranges = utf8.code_points(*pairs)
        return utf8.complement(ranges) if negate else ranges

    def _char(self) -> int:
        """One character of a string or class, perhaps escaped."""
        offset = self.pos
        char = self.text[offset]
        self.pos += 1
        if char != "\\":
            return self._scalar(ord(char), offset)
        letter = self.text[self.pos : self.pos + 1]
        self.pos += 1
        if letter in _HEX_ESCAPES:
            digits = self.text[self.pos : self.pos + _HEX_ESCAPES[letter]]
            if len(digits) < _HEX_ESCAPES[letter] or not _HEX.issuperset(digits):
                self._fail(f"\\{letter} needs {_HEX_ESCAPES[letter]} hexadecimal digits", offset)
            self.pos += len(digits)
            return self._scalar(int(digits, 16), offset)
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if not letter or letter.isalnum() or letter.isspace():
            self._fail(f"unknown escape \\{letter}", offset)
        return self._scalar(ord(letter), offset)

    def _scalar(self, point: int, offset: int) -> int:
        if point > utf8.LAST or utf8.SURROGATES[0] <= point <= utf8.SURROGATES[1]:
            self._fail(f"U+{point:04X} is not a character", offset)
        return point

    def _token(self, negate: bool) -> ir.Node:
        """`<[id]>` or `<name>`. A name means a rule in plain BNF, and a special token in GBNF."""
        offset = self.pos
        if self._skip("<["):
            digits = self._run(_DIGITS)
            if not digits or not self._skip("]>"):
                self._fail("expected <[id]>, with a token id", offset)
            if len(digits) > 10 or int(digits) > _MAX_TOKEN:
                self._fail(f"the token id {digits[:12]} is too large", offset)
            return ir.Token((int(digits),), negate)
        name = self._bracketed_name()
        if self.is_bnf and not negate:
            return self._ref(name, offset)
        if negate:
            line, column = self._place(offset)
            raise UnsupportedError(
                f"!<{name}>: a negated token must be given by its id",
                code="gbnf_unsupported",
                line=line,
                column=column,
                hint="Write !<[id]>",
            )
        return ir.Marker(f"<{name}>")

    # Quantifiers.

    def _quantifier(self, group: _Group, char: str, offset: int) -> None:
        if not group.items:
            self._fail(f"nothing to repeat before {char!r}", offset)
        if group.suffixes >= self.limits.nesting:
            line, column = self._place(offset)
            raise LimitError(
                "too many quantifiers on quantifiers", limit="nesting", line=line, column=column, hint=_RAISE
            )
        self.pos += 1
        if char == "{":
            low, high = self._counts(offset)
        else:
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        group.items[-1] = ir.Repeat(group.items[-1], low, high)
        group.suffixes += 1

    def _counts(self, offset: int) -> tuple[int, int | None]:
        low = high = self._count(offset)
        if self._skip(","):
            high = self._count(offset)
            low = low or 0
        if low is None or not self._skip("}"):
            self._fail("expected {m}, {m,} or {m,n}", offset)
        if high is not None and high < low:
            self._fail(f"{{{low},{high}}}: the bounds are out of order", offset)
        return low, high

    def _count(self, offset: int) -> int | None:
        self._skip_space()
        digits = self._run(_DIGITS)
        self._skip_space()
        if len(digits) > 10 or (digits and int(digits) > _MAX_COUNT):
            self._fail("the repetition number is too large", offset)
        return int(digits) if digits else None

    # The text.

    def _skip_space(self, *, newlines: bool = False) -> None:
        text, pos = self.text, self.pos
        while pos < len(text):
            char = text[pos]
            if char == "#":
                end = text.find("\n", pos)
                self.pos = pos = len(text) if end < 0 else end
                self.work.spend(1)
            elif char in " \t" or (newlines and char in "\r\n"):
                pos += 1
            else:
                break
        passed, self.pos = pos - self.pos, pos
        if passed >= 8:
            self.work.spend(passed // 8)

    def _at(self, text: str) -> bool:
        return self.text.startswith(text, self.pos)

    def _skip(self, text: str) -> bool:
        if self._at(text):
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

    def _name(self) -> str:
        return self._run(_NAME)

    def _bracketed_name(self) -> str:
        offset = self.pos
        end = self.text.find(">", offset)
        name = self.text[offset + 1 : end]
        if end < 0 or not name or "\n" in name:
            self._fail("expected <name>", offset)
        self.pos = end + 1
        return name

    def _place(self, offset: int) -> tuple[int, int]:
        known, line, begin = self.placed if self.placed[0] <= offset else (0, 1, 0)
        line += self.text.count("\n", known, offset)
        begin = max(begin, self.text.rfind("\n", known, offset) + 1)
        self.placed = offset, line, begin
        return line, offset - begin + 1

    def _fail(self, message: str, offset: int, hint: str | None = None) -> NoReturn:
        line, column = self._place(offset)
        raise GrammarError(f"bad grammar: {message}", code="gbnf_invalid", line=line, column=column, hint=hint)


def _is_bnf(text: str, work: Work) -> bool:
    """Whether some line starts with `<name> ::=`."""
    at = text.find("<")
    while at >= 0:
        work.spend(1)
        before = at
        while before and text[before - 1] in " \t":
            before -= 1
        line_end = -1
        if not before or text[before - 1] in "\n\r":
            line_end = text.find("\n", at)
            line_end = len(text) if line_end < 0 else line_end
            end = text.find(">", at, line_end)
            if end > at + 1 and text[end + 1 : line_end].lstrip(" \t").startswith("::="):
                return True
        at = text.find("<", max(at + 1, line_end))
    return False


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _read(source: str, work: Work) -> tuple[ir.Module, Mapping[str, Any]]:
    return gbnf_module(source, limits=work), {}


GBNF = FrontEnd("grammar", TEXT, _read)
