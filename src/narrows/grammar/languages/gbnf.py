"""GBNF, the grammar language of llama.cpp, and plain BNF.

    root  ::= "{" pair ("," pair)* "}"      # the start rule is `root`
    pair  ::= [a-z]+ ":" [^,}\\n]{1,20}

Rules, strings, classes, `.`, groups, `|`, `* + ? {m} {m,} {m,n}`, comments and tokens (`<[42]>`, `!<[42]>`, `<think>`,
`!<think>`) are read as llama.cpp reads them, with three differences. Left recursion, ambiguity and loops that match
nothing are allowed. A rule that is defined twice is an error. `<think>` means its characters if the vocabulary has no
such token.

If some line starts with `<name> ::=`, the text is plain BNF: every `<name>` is a rule. The start rule is `<root>` or,
if there is none, the first rule. In both languages, strings may stand in single quotes, and a line that starts with
`|` continues the rule above it.

Cost: linear, about 1 us per character. `Limits.nesting` bounds the open groups, which are kept on a list.
`Limits.grammar_bytes` bounds the text, and `Limits.reading_work` the work of reading it. Every error has code
`gbnf_invalid`, a line and a column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narrows.arguments import TEXT
from narrows.grammar import ir
from narrows.grammar.languages.base import FrontEnd
from narrows.grammar.languages.lark import LARK
from narrows.grammar.languages.lark_or_gbnf import is_lark
from narrows.grammar.languages.reader import ANY, MAX_TOKEN, Reader
from narrows.grammar.languages.scanner import DIGITS, LETTERS
from narrows.grammar.languages.text import GrammarText
from narrows.grammar.utf8 import Ranges
from narrows.grammar.work import Work
from narrows.limits import DEFAULT_LIMITS, Limits

_NAME = LETTERS | DIGITS | {"-", "_"}


def gbnf_module(
    text: str,
    start: str = "root",
    limits: Limits | Work = DEFAULT_LIMITS,
    rules: Mapping[str, ir.Module] | None = None,
) -> ir.Module:
    """The grammar of a GBNF or BNF text. `rules`: other grammars that it names and does not define.

    Raises `GrammarError` (code `gbnf_invalid`) with line and column, and `LimitError` (`grammar_bytes`, `nesting`,
    `reading_work`)."""
    reader = GbnfReader(GrammarText(text, "gbnf", Work.of(limits)), rules)
    return reader.module(None if start == "root" else start)


class GbnfReader(Reader):
    first_count_optional = True

    def __init__(
        self, source: GrammarText, given: Mapping[str, ir.Module] | None = None, is_bnf: bool | None = None
    ) -> None:
        """`is_bnf`: whether every `<name>` is a rule. None: the text says so."""
        super().__init__(source, given)
        self.is_bnf = _is_bnf(source.text, source.work) if is_bnf is None else is_bnf

    def _default_start(self) -> str:
        return super()._default_start() if self.is_bnf and "root" not in self.rules else "root"

    def _rule(self) -> None:
        offset = self.pos
        name = self._bracketed_name() if self.is_bnf and self._at("<") else self._run(_NAME)
        if not name:
            self.source.fail("expected the name of a rule", offset)
        self._skip_space(newlines=False)
        if not self._skip("::="):
            hint = "A grammar in Lark's notation: Grammar.from_lark" if self._at(":") else None
            self.source.fail("expected ::= after the name of the rule", self.pos, hint)
        self._begin(name, offset)
        self._skip_space(newlines=True)
        self.rules[name] = self._right_side()

    def _pass_space(self, nested: bool) -> None:
        """A line break ends the rule, if it is not inside a group and the next line does not begin with `|`."""
        self._skip_space(newlines=nested)
        if not nested and self.text[self.pos : self.pos + 1] in ("\n", "\r"):
            back = self.pos
            self._skip_space(newlines=True)
            if not self._at("|"):
                self.pos = back

    def _ends(self, char: str, offset: int) -> bool:
        return char in ("", "\n", "\r")

    def _missing_hint(self, name: str) -> str | None:
        hint = "Where a line starts with <name> ::=, every <name> is a rule; write a token as <[id]>"
        return hint if self.is_bnf else None

    def _symbol(self, char: str, offset: int) -> ir.Node:
        if char in ('"', "'"):
            return self._string(char)
        if char == "[":
            return self._of_class(self._class())
        if char == ".":
            self.pos += 1
            return ANY
        if char == "<" or (char == "!" and self.text[offset + 1 : offset + 2] == "<"):
            return self._token(negate=self._skip("!"))
        name = self._run(_NAME)
        if not name:
            self.source.fail(f"unexpected {char!r}", offset)
        return self.ref(name, offset)

    def _breaks(self, text: str) -> bool:
        return False

    def _empty_class(self, negate: bool, offset: int) -> Ranges:
        self.source.fail("empty character class", offset, "Write . for any character")

    def _token(self, *, negate: bool) -> ir.Node:
        """`<[id]>` or `<name>`. A name means a rule in plain BNF, and a special token in GBNF."""
        offset = self.pos
        if self._skip("<["):
            digits = self._run(DIGITS)
            if not digits or not self._skip("]>"):
                self.source.fail("expected <[id]>, with a token id", offset)
            if len(digits) > 10 or int(digits) > MAX_TOKEN:
                self.source.fail(f"the token id {digits[:12]} is too large", offset)
            return ir.Token((int(digits),), negate)
        name = self._bracketed_name()
        if negate:
            return ir.Token((), negate=True, names=(f"<{name}>",))
        if self.is_bnf:
            return self.ref(name, offset)
        self.source.encoded(name, offset + 1)  # without such a token, it is text
        return ir.Marker(f"<{name}>")

    def _bracketed_name(self) -> str:
        offset = self.pos
        end = self.text.find(">", offset)
        name = self.text[offset + 1 : end]
        if end < 0 or not name or "\n" in name:
            self.source.fail("expected <name>", offset)
        self.pos = end + 1
        return name


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


def _read(
    source: str, work: Work, rules: Mapping[str, ir.Module] | None = None, gbnf_only: bool = False
) -> tuple[ir.Module, Mapping[str, Any]]:
    if not gbnf_only and is_lark(source):
        return LARK.read(source, work)
    return gbnf_module(source, limits=work, rules=rules), {}


GBNF = FrontEnd("grammar", TEXT, _read)
"""The field `grammar` of requests: GBNF, or a Lark text whose start rule is `start`."""
