"""A string's `pattern` or `format`: as a regular node, its lengths, and whether a string fits.

A pattern is ECMA-262 and may match anywhere in the string. Cost: a pattern costs what it costs as a regex, once: short
ones are kept. Whether a string fits costs some 5 us a character at first, and less for each further one.
"""

from __future__ import annotations

from narrows.errors import GrammarError, LimitError, UnsupportedError
from narrows.grammar import ir, json_text, regex, utf8
from narrows.grammar.json_schema.facts import Pattern, Text
from narrows.grammar.json_schema.report import Reporter, invalid
from narrows.grammar.json_schema.spelling.formats import format_body, format_lengths, format_surely
from narrows.grammar.json_schema.spelling.lengths import Measured
from narrows.grammar.regular import Regular
from narrows.grammar.work import Kept, Work

LONGEST_KEPT = 256
"""Characters of a pattern that is remembered once lowered, for all readings; some thousand short ones are."""


def fits(text: Text, value: str, reporter: Reporter, work: Work) -> bool:
    """Whether a string fits, as far as its patterns are enforced."""
    if len(value) < text.min or (text.max is not None and len(value) > text.max):
        return False
    return all(matches(pattern, value, reporter, work) is not False for pattern in text.patterns)


def matches(pattern: Pattern, value: str, reporter: Reporter, work: Work) -> bool | None:
    """Whether the pattern is found in the string; None where it is not supported, which is reported."""
    if pattern.tested is None:
        node = body(pattern, "none", reporter, work, beside_text=False)
        regular = Regular.of_reading(work)
        pattern.tested = (regular, None if node is None else regular.of(node))
    regular, term = pattern.tested
    return None if term is None else regular.matches(term, value.encode("utf-8", "surrogatepass"))


def bodies(patterns: tuple[Pattern, ...], escapes: json_text.Escapes, reporter: Reporter, work: Work) -> list[ir.Node]:
    """Each pattern as a regular node over the characters of a string, for an intersection with strings. What is not
    supported is reported, and left out."""
    nodes = (body(pattern, escapes, reporter, work, beside_text=True) for pattern in patterns)
    return [node for node in nodes if node is not None]


def body(
    pattern: Pattern, escapes: json_text.Escapes, reporter: Reporter, work: Work, *, beside_text: bool
) -> ir.Node | None:
    """The pattern as a regular node over the characters of a string; None where it is not supported, which is reported.
    `beside_text`: it will stand in an intersection with strings, and may match other bytes besides."""
    if pattern.negated:
        node = _plain_body(pattern, escapes, reporter, work, beside_text=True)
        if node is None:
            return None
        return ir.Not(node) if beside_text else ir.And((ir.Repeat(json_text.char(utf8.ANY, escapes)), ir.Not(node)))
    return _plain_body(pattern, escapes, reporter, work, beside_text=beside_text)


def _plain_body(
    pattern: Pattern, escapes: json_text.Escapes, reporter: Reporter, work: Work, *, beside_text: bool
) -> ir.Node | None:
    """As if it were not negated: what must not be found."""
    if pattern.texts:
        work.spend(sum(map(len, pattern.texts)) // 8)
        return ir.alt(*[json_text.literal(text, escapes) for text in pattern.texts])
    if pattern.name:
        return format_surely(pattern.name, escapes) if pattern.negated else format_body(pattern.name, escapes)
    try:
        return _lowered(pattern, escapes, work, beside_text)
    except LimitError as error:
        error.pointer = pattern.pointer
        raise
    except UnsupportedError as error:
        reporter.unsupported(pattern.pointer, f"{error.message}{_place(error)}", hint=error.hint)
        return None
    except GrammarError as error:
        raise invalid(pattern.pointer, f"{error.message}{_place(error)}", error.hint) from error


def texts(pattern: Pattern, work: Work) -> tuple[frozenset[str] | None, bool]:
    """A few strings that are all in which the pattern is found (lengths.py), and whether it is found in all of them. Of
    a negated pattern, those in which it is not. None where they may be more."""
    if pattern.texts:
        work.spend(len(pattern.texts) // 16)
        return frozenset(pattern.texts), True
    if pattern.name:
        return None, False
    whole = measured(pattern, work)
    work.spend(2)
    return whole.texts


def encode(escapes: json_text.Escapes) -> regex.Encode:
    return lambda ranges: json_text.char(ranges, escapes)


def lengths(pattern: Pattern, work: Work) -> tuple[int, int | None]:
    """The least and the greatest length of a string that fits; None: without end."""
    if pattern.negated or pattern.texts:
        return 0, None
    if pattern.name:
        return format_lengths(pattern.name)
    whole = measured(pattern, work)
    return whole.least, whole.greatest


# What a pattern became is kept with the work that it took. A reading is charged that once, and a little for each
# further use.

_patterns: Kept[tuple[Measured, int]] = Kept(262_144)
_bodies: Kept[tuple[ir.Node, int]] = Kept(262_144)


def measured(pattern: Pattern, work: Work) -> Measured:
    if pattern.measured is not None:
        return pattern.measured  # type: ignore[no-any-return]
    source, key = pattern.source, (pattern.source, *_bounds(work))
    entry = _patterns.get(key) if len(source) <= LONGEST_KEPT else None
    if entry is None:
        alone = Work(work.limits, work.spent)
        alone.pointer = pattern.pointer
        alone.spend(len(source))
        entry = Measured(regex.parse(source, "ecma", alone)), alone.spent - work.spent
        if len(source) <= LONGEST_KEPT:
            _patterns.put(key, entry, 64 + len(source))
    pattern.measured, cost = entry
    work.spend(cost if work.first(key) else 1)
    return entry[0]


def _lowered(pattern: Pattern, escapes: json_text.Escapes, work: Work, beside_text: bool) -> ir.Node:
    known: ir.Node | None = pattern.bodies.get((escapes, beside_text))
    if known is not None:
        work.spend(1)
        return known
    source, key = pattern.source, (pattern.source, escapes, beside_text, *_bounds(work))
    root = measured(pattern, work).root
    entry = _bodies.get(key) if len(source) <= LONGEST_KEPT else None
    if entry is None:
        alone = Work(work.limits, work.spent)
        lowered = regex.lower_search(root, encode(escapes), alone, beside_text=beside_text)
        entry = lowered, alone.spent - work.spent
        if len(source) <= LONGEST_KEPT:
            _bodies.put(key, entry, 64 + len(source))
    node, cost = entry
    work.spend(cost if work.first(key) else 1)
    pattern.bodies[escapes, beside_text] = node
    return node


def _bounds(work: Work) -> tuple[int, int, int]:
    """The limits that a pattern may meet by itself."""
    return work.limits.regex_bytes, work.limits.nesting, work.limits.ir_nodes


def _place(error: GrammarError) -> str:
    return f" at offset {error.offset} of the pattern" if error.offset is not None else ""
