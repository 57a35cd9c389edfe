"""Lark: the grammar language of the Python package, with the additions of llguidance.

    start: "{" pair ("," pair)* "}"
    pair: NAME ":" value
    value: NUMBER | %json {"type": "boolean"}
    NAME: /[a-z]+/
    %import common.NUMBER
    %ignore " "

The modules: text is cut by tokens.py, read by syntax.py into tree.py, names are resolved by definitions.py and
common.py, terminals become regular nodes in terminals.py, and rules become the intermediate form in lower.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narrows.arguments import TEXT, quoted
from narrows.errors import InputError
from narrows.grammar import ir
from narrows.grammar.languages.base import FrontEnd
from narrows.grammar.languages.lark.lower import LEXERS, Lowering, ReadSchema, read_schema
from narrows.grammar.languages.lark.syntax import read
from narrows.grammar.languages.text import GrammarText
from narrows.grammar.work import Work


def _read(
    source: str,
    work: Work,
    start: str = "start",
    rules: Mapping[str, ir.Module] | None = None,
    lexer: str = "all",
    read_schema: ReadSchema = read_schema,
) -> tuple[ir.Module, Mapping[str, Any]]:
    if lexer not in LEXERS:
        raise InputError(f"lexer must be one of {', '.join(LEXERS)}, not {quoted(lexer)}", code="invalid_option")
    text = GrammarText(source, "lark", work)
    lowering = Lowering(text, rules or {}, read_schema, greedy=lexer == "greedy")
    return lowering.run(read(text), start), lowering.report


LARK = FrontEnd("lark", TEXT, _read, options=("start", "lexer"))
