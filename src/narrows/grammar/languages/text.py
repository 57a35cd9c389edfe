"""Places and errors in the text of a grammar, the same for every front end that reads one.

Cost: a place takes time linear in the lines since the last one that was asked for, which mostly stands before it.
"""

from __future__ import annotations

from typing import NoReturn

from narrows.errors import GrammarError, InputError, LimitError, UnsupportedError
from narrows.grammar.work import Work

RAISE = "Simplify the grammar, or raise this field of Limits if it is trusted"


class GrammarText:
    """The text of one grammar. `kind` begins the codes of its errors: `lark` has `lark_invalid` and
    `lark_unsupported`."""

    def __init__(self, text: str, kind: str, work: Work) -> None:
        """Raises `InputError` if it is not text, and `LimitError` (`grammar_bytes`)."""
        if not isinstance(text, str):
            raise InputError(f"a grammar is a str, not {type(text).__name__}", code=f"{kind}_invalid")
        bound = work.limits.grammar_bytes
        if len(text.encode("utf-8", "surrogatepass")) > bound:
            raise LimitError(f"the grammar has more than {bound:,} bytes", limit="grammar_bytes", hint=RAISE)
        self.text = text
        self.kind = kind
        self.work = work
        self._placed = (0, 1, 0)
        """The offset that was located last, its line, and the offset where that line begins."""

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        known, line, begin = self._placed if self._placed[0] <= offset else (0, 1, 0)
        line += self.text.count("\n", known, offset)
        begin = max(begin, self.text.rfind("\n", known, offset) + 1)
        self._placed = offset, line, begin
        return line, offset - begin + 1

    def source(self, offset: int) -> str:
        """The place as `ir.Module.sources` has it."""
        line, column = self.place(offset)
        return f"{line}:{column}"

    def fail(self, message: str, offset: int, hint: str | None = None) -> NoReturn:
        line, column = self.place(offset)
        raise GrammarError(f"bad grammar: {message}", code=f"{self.kind}_invalid", line=line, column=column, hint=hint)

    def encoded(self, text: str, offset: int) -> bytes:
        """A part of the grammar that stands at the offset, as the bytes that a text has. Raises `GrammarError` for half
        of a surrogate pair."""
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            self.fail("a lone surrogate is not a character", offset + error.start)

    def unsupported(self, message: str, offset: int, hint: str | None = None) -> NoReturn:
        line, column = self.place(offset)
        raise UnsupportedError(message, code=f"{self.kind}_unsupported", line=line, column=column, hint=hint)

    def too_nested(self, groups: int, offset: int) -> NoReturn:
        line, column = self.place(offset)
        raise LimitError(f"{groups:,} groups are open", limit="nesting", line=line, column=column, hint=RAISE)
