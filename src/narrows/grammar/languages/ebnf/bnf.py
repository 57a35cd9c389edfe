"""Plain BNF with `<names>`, read as languages/gbnf.py reads it: every `<name>` is a rule.

    <expr> ::= <expr> "+" <term> | <term>
    <term> ::= "(" <expr> ")" | [0-9]+

The start rule is `<root>` or, if there is none, the first rule.
"""

from __future__ import annotations

from collections.abc import Mapping

from narrows.grammar import ir
from narrows.grammar.languages.gbnf import GbnfReader
from narrows.grammar.languages.text import GrammarText


class BnfReader(GbnfReader):
    def __init__(self, source: GrammarText, given: Mapping[str, ir.Module] | None = None) -> None:
        super().__init__(source, given, is_bnf=True)
