"""EBNF and its relatives, a notation per module: xgrammar's EBNF, W3C's, ISO 14977, plain BNF, and the rules of yacc.

    root ::= "(" root ")" | [0-9]+             notation="xgrammar"
    Name ::= [A-Za-z_] [#x30-#x39]*            notation="w3c"
    list = item, { ",", item } ;               notation="iso"
    <sum> ::= <sum> "+" <digit> | <digit>      notation="bnf"
    expr: expr '+' NUM { $$ = 1; } | NUM ;     notation="yacc"

The language is that of the context-free grammar, in all readings. What the notations share is languages/reader.py.
Every error has code `ebnf_invalid` or `ebnf_unsupported`, a line and a column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narrows.arguments import TEXT, quoted
from narrows.errors import InputError
from narrows.grammar import ir
from narrows.grammar.languages.base import FrontEnd
from narrows.grammar.languages.ebnf.bnf import BnfReader
from narrows.grammar.languages.ebnf.iso import IsoReader
from narrows.grammar.languages.ebnf.w3c import W3cReader
from narrows.grammar.languages.ebnf.xgrammar import XgrammarReader
from narrows.grammar.languages.ebnf.yacc import YaccReader
from narrows.grammar.languages.reader import Reader
from narrows.grammar.languages.text import GrammarText
from narrows.grammar.work import Work

_READERS: dict[str, type[Reader]] = {
    "xgrammar": XgrammarReader,
    "w3c": W3cReader,
    "iso": IsoReader,
    "bnf": BnfReader,
    "yacc": YaccReader,
}
NOTATIONS = tuple(_READERS)


def _read(
    source: str,
    work: Work,
    notation: str = "xgrammar",
    start: str | None = None,
    tokens: Mapping[str, ir.Module | str] | None = None,
    rules: Mapping[str, ir.Module] | None = None,
) -> tuple[ir.Module, Mapping[str, Any]]:
    if notation not in _READERS:
        named = ", ".join(f'"{name}"' for name in NOTATIONS)
        raise InputError(f"notation must be one of {named}, not {quoted(notation)}", code="invalid_option")
    if tokens and notation != "yacc":
        raise InputError(
            'tokens goes with notation="yacc"', code="invalid_option", hint="Give grammars for names as rules={...}"
        )
    text = GrammarText(source, "ebnf", work)
    reader = YaccReader(text, rules, tokens) if notation == "yacc" else _READERS[notation](text, rules)
    return reader.module(start), reader.report


EBNF = FrontEnd("ebnf", TEXT, _read, options=("notation", "start"))
