"""`minLength`, `maxLength` and `pattern`: one automaton over the characters of the string, however they are spelled.

Lengths count code points; a surrogate pair of escapes is one. A pattern is ECMA-262 and may match anywhere in the
string. All of them, and several patterns, hold together; a length beside a pattern goes into it where it can
(lengths.py).

Cost: a length is a counter, whatever its size. A pattern costs what it costs as a regex, once: short ones are kept.
"""

from __future__ import annotations

from narrows.errors import GrammarError, LimitError, UnsupportedError
from narrows.grammar import ir, json_text, regex
from narrows.grammar.json_schema.facts import STRING, Facts, Pattern, Reason, Text
from narrows.grammar.json_schema.families.formats import format_body, format_lengths
from narrows.grammar.json_schema.reading import Family, Reading
from narrows.grammar.json_schema.report import Reporter, invalid
from narrows.grammar.json_schema.spelling.lengths import Measured
from narrows.grammar.json_schema.spelling.spelling import Spelling
from narrows.grammar.work import Kept, Work

LONGEST_KEPT = 256
"""Characters of a pattern that is remembered once lowered, for all readings; some thousand short ones are."""


def _read(reading: Reading) -> None:
    text = Text()
    if "minLength" in reading.schema:
        text.min, text.min_at = reading.count("minLength") or 0, reading.at("minLength")
    if "maxLength" in reading.schema:
        text.max, text.max_at = reading.count("maxLength"), reading.at("maxLength")
    if "pattern" in reading.schema:
        text.patterns = (Pattern(reading.at("pattern"), source=reading.text("pattern")),)
    reading.add_text(text)


def lower(text: Text | None, spelling: Spelling, reporter: Reporter, work: Work) -> ir.Node:
    """The strings as one lexeme, quotes included."""
    if text is None:
        return spelling.string
    work.spend(4)
    low, high = text.min, text.max
    parts: list[ir.Node] = []
    sources: list[tuple[int, Pattern]] = []
    for pattern in text.patterns:
        node = _body(pattern, spelling.escapes, reporter, work, beside_text=bool(parts))
        if node is None:
            continue  # it is not enforced, so its lengths are not either
        if low or high is not None:
            least, greatest = _lengths(pattern, work)
            low = 0 if low <= least else low
            high = None if high is not None and greatest is not None and greatest <= high else high
        if pattern.source:
            sources.append((len(parts), pattern))
        parts.append(node)
    if low or high is not None:
        for k, pattern in sources:
            inside = _measured(pattern, work).within(low, high)
            if inside is not None:
                work.pointer = pattern.pointer
                parts[k] = regex.lower_search(inside, _encode(spelling.escapes), work, beside_text=k > 0)
                break
        else:
            parts.append(ir.Repeat(spelling.character, low, high))
    if not parts:
        return spelling.string
    return spelling.whole(spelling.quoted(parts[0] if len(parts) == 1 else ir.And(tuple(parts))))


def _contradiction(facts: Facts, work: Work) -> tuple[int, Reason] | None:
    """Why no string fits, as far as lengths show it."""
    text = facts.text
    if text is None:
        return None
    low, low_at, high, high_at = text.min, text.min_at, text.max, text.max_at
    for pattern in text.patterns if low or high is not None or len(text.patterns) > 1 else ():
        work.spend(1)
        try:
            least, greatest = _lengths(pattern, work)
        except GrammarError:
            continue  # said when it is lowered
        if least > low:
            low, low_at = least, pattern.pointer
        if greatest is not None and (high is None or greatest < high):
            high, high_at = greatest, pattern.pointer
    if high is None or low <= high:
        return None
    why = f"no string has at least {low} characters, as {low_at} asks, and at most {high}, as {high_at} asks"
    return STRING, Reason(low_at, why)


def bodies(patterns: tuple[Pattern, ...], escapes: json_text.Escapes, reporter: Reporter, work: Work) -> list[ir.Node]:
    """Each pattern as a regular node over the characters of a string, for an intersection with strings. What is not
    supported is reported, and left out."""
    nodes = (_body(pattern, escapes, reporter, work, beside_text=True) for pattern in patterns)
    return [node for node in nodes if node is not None]


def _body(
    pattern: Pattern, escapes: json_text.Escapes, reporter: Reporter, work: Work, *, beside_text: bool
) -> ir.Node | None:
    if pattern.name:
        return format_body(pattern.name, escapes)
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


def _encode(escapes: json_text.Escapes) -> regex.Encode:
    return lambda ranges: json_text.char(ranges, escapes)


def _lengths(pattern: Pattern, work: Work) -> tuple[int, int | None]:
    """The least and the greatest length of a string that fits; None: without end."""
    if pattern.name:
        return format_lengths(pattern.name)
    measured = _measured(pattern, work)
    return measured.least, measured.greatest


# What a pattern became is kept with the work that it took. A reading is charged that once, and a little for each
# further use.

_patterns: Kept[tuple[Measured, int]] = Kept(262_144)
_bodies: Kept[tuple[ir.Node, int]] = Kept(262_144)


def _measured(pattern: Pattern, work: Work) -> Measured:
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
    measured, cost = entry
    work.spend(cost if work.first(key) else 1)
    pattern.measured = measured
    return measured


def _lowered(pattern: Pattern, escapes: json_text.Escapes, work: Work, beside_text: bool) -> ir.Node:
    source, key = pattern.source, (pattern.source, escapes, beside_text, *_bounds(work))
    root = _measured(pattern, work).root
    entry = _bodies.get(key) if len(source) <= LONGEST_KEPT else None
    if entry is None:
        alone = Work(work.limits, work.spent)
        body = regex.lower_search(root, _encode(escapes), alone, beside_text=beside_text)
        entry = body, alone.spent - work.spent
        if len(source) <= LONGEST_KEPT:
            _bodies.put(key, entry, 64 + len(source))
    node, cost = entry
    work.spend(cost if work.first(key) else 1)
    return node


def _bounds(work: Work) -> tuple[int, int, int]:
    """The limits that a pattern may meet by itself."""
    return work.limits.regex_bytes, work.limits.nesting, work.limits.ir_nodes


def _place(error: GrammarError) -> str:
    return f" at offset {error.offset} of the pattern" if error.offset is not None else ""


FAMILY = Family(("minLength", "maxLength", "pattern"), _read, types=STRING, contradiction=_contradiction)
