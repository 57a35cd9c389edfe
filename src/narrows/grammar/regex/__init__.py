"""Regular expressions as grammars: Python's `re`, ECMA-262 (the dialect of JSON Schema) and Rust's `regex` crate.

A pattern matches exactly the texts that the dialect's own engine matches as a whole. A pattern that is not regular, or
that cannot be lowered exactly, is refused with the offset of the part in question. A pattern becomes one automaton, so
nothing backtracks.

    regex_module(r"\\d{4}-\\d{2}")      the grammar of `Grammar.from_regex`: the whole text matches
    search_node("^a|b$")              one node, for JSON Schema's `pattern`: a match is found somewhere in the string

Cost: parsing and lowering take about 5 us per character. A class of Unicode letters (`\\w` in Python's dialect) takes
40 ms at its first use in the process, and nothing later. Counted repetitions are not written out:
`(x{0,1000}){0,1000}` is four nodes.
"""

from __future__ import annotations

from narrows.grammar import ir, utf8
from narrows.grammar.options import Dialect
from narrows.grammar.regex.lower import Encode, lower, lower_search
from narrows.grammar.regex.parse import DIALECTS, parse
from narrows.grammar.work import Work
from narrows.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "DIALECTS",
    "Dialect",
    "Encode",
    "lower",
    "lower_search",
    "parse",
    "regex_module",
    "regex_node",
    "search_node",
]


def regex_module(pattern: str, dialect: Dialect = "python", limits: Limits | Work = DEFAULT_LIMITS) -> ir.Module:
    """The grammar of the texts that match as a whole (`re.fullmatch`).

    Raises `GrammarError` (code `regex_invalid`), `UnsupportedError` (`regex_unsupported`) and `LimitError`
    (`regex_bytes`, `nesting`, `ir_nodes`, `reading_work`). Each has the offset in characters, except where the whole
    pattern reaches a limit.
    """
    return ir.Module({"root": ir.Lexeme(regex_node(pattern, dialect, limits=limits))}, sources={"root": "regex"})


def regex_node(
    pattern: str, dialect: Dialect = "python", encode: Encode = utf8.node, limits: Limits | Work = DEFAULT_LIMITS
) -> ir.Node:
    """One regular node: the texts that match as a whole. `encode` spells each character."""
    work = Work.of(limits)
    return lower(parse(pattern, dialect, work), encode, work)


def search_node(
    pattern: str,
    dialect: Dialect = "ecma",
    encode: Encode = utf8.node,
    limits: Limits | Work = DEFAULT_LIMITS,
    *,
    beside_text: bool = False,
) -> ir.Node:
    """One regular node: the texts in which the pattern is found anywhere (`re.search`, JSON Schema's `pattern`).
    Set `beside_text` only if the node is intersected with a node of spelled characters (lower.py)."""
    work = Work.of(limits)
    return lower_search(parse(pattern, dialect, work), encode, work, beside_text=beside_text)
