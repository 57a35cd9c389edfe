"""Regular expressions as grammars: Python's `re`, ECMA-262 (the dialect of JSON Schema) and Rust's `regex` crate.

The language is that of the dialect's own engine over whole texts, exactly; what is not regular, or not lowered exactly,
is refused with its offset. Nothing here backtracks: a pattern becomes one automaton.

    regex_module(r"\\d{4}-\\d{2}")      what `Grammar.from_regex` holds: the whole text matches
    search_node("^a|b$")              one node, for JSON Schema's `pattern`: a match is found somewhere in the string

Cost: parsing and lowering take some 5 us a character; a class of Unicode letters (`\\w` in Python's dialect) takes 40
ms at its first use in the process and nothing after. Counted repetitions are not written out: `(x{0,1000}){0,1000}` is
four nodes.
"""

from __future__ import annotations

from narrows.grammar import ir, utf8
from narrows.grammar.regex.lower import Encode, lower, lower_search
from narrows.grammar.regex.parse import DIALECTS, Dialect, parse
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
    (`regex_bytes`, `nesting`, `ir_nodes`, `reading_work`), each with the offset in characters, but for the limits that
    the whole pattern meets.
    """
    return ir.Module({"root": ir.Lexeme(regex_node(pattern, dialect, limits=limits))}, sources={"root": "regex"})


def regex_node(
    pattern: str, dialect: Dialect = "python", encode: Encode = utf8.node, limits: Limits | Work = DEFAULT_LIMITS
) -> ir.Node:
    """One regular node: the texts that match as a whole, each character spelled by `encode`."""
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
    `beside_text`: for an intersection with spelled characters only (lower.py)."""
    work = Work.of(limits)
    return lower_search(parse(pattern, dialect, work), encode, work, beside_text=beside_text)
