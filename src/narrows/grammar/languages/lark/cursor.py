"""A place in the tokens of a Lark grammar, for its readers."""

from __future__ import annotations

from typing import NoReturn

from narrows.grammar.languages.lark.tokens import Token
from narrows.grammar.languages.text import GrammarText


class Cursor:
    """Tokens, the last one of kind "end", and the place of the next one."""

    def __init__(self, text: GrammarText, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0

    @property
    def now(self) -> Token:
        return self.tokens[self.at]

    def take(self, kind: str, wanted: str) -> Token:
        """The next token. Raises `GrammarError` if it is of another kind."""
        token = self.now
        if token.kind != kind:
            self.fail(f"expected {wanted}, found {shown(token)}", token)
        self.at += 1
        return token

    def skip(self, kind: str) -> bool:
        """Goes on if the next token is of this kind."""
        if self.now.kind != kind:
            return False
        self.at += 1
        return True

    def fail(self, message: str, token: Token, hint: str | None = None) -> NoReturn:
        self.text.fail(message, token.offset, hint)


def shown(token: Token) -> str:
    if token.kind == "end":
        return "the end of the grammar"
    return "the end of the line" if token.kind == "newline" else repr(token.text[:40])
