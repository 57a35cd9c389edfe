"""`minLength`, `maxLength` and `pattern`: one automaton over the characters of the string, however they are spelled.

Lengths count code points; a surrogate pair of escapes is one. Lengths and patterns (spelling/patterns.py) hold
together; a length beside a pattern goes into it where it can (spelling/lengths.py).

Cost: a length is a counter, whatever its size.
"""

from __future__ import annotations

from dataclasses import replace

from narrows.errors import GrammarError
from narrows.grammar import ir, regex
from narrows.grammar.json_schema.facts import STRING, Facts, Pattern, Reason, Text
from narrows.grammar.json_schema.reading import Family, Reading
from narrows.grammar.json_schema.report import Reporter
from narrows.grammar.json_schema.spelling import international, patterns
from narrows.grammar.json_schema.spelling.spelling import Spelling
from narrows.grammar.work import Work


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
    node = None if text is None else body(text, spelling, reporter, work)
    return spelling.string if node is None else spelling.whole(spelling.quoted(node))


def body(text: Text, spelling: Spelling, reporter: Reporter, work: Work) -> ir.Node | None:
    """What stands between the quotes, as a regular node; None: anything."""
    work.spend(4)
    low, high = text.min, text.max
    parts: list[ir.Node] = []
    sources: list[tuple[int, Pattern]] = []
    for pattern in text.patterns:
        shorter, longest = international.LONGEST.get(pattern.name, ("", low))
        if low > longest:  # the engine would search long for names that are never so long
            pattern = replace(pattern, name=shorter)
        node = patterns.body(pattern, spelling.escapes, reporter, work, beside_text=bool(parts))
        if node is None:
            continue  # it is not enforced, so its lengths are not either
        if low or high is not None:
            least, greatest = patterns.lengths(pattern, work)
            low = 0 if low <= least else low
            high = None if high is not None and greatest is not None and greatest <= high else high
        if pattern.source and not pattern.negated:
            sources.append((len(parts), pattern))
        parts.append(node)
    if low or high is not None:
        for k, pattern in sources:
            inside = patterns.measured(pattern, work).within(low, high)
            if inside is not None:
                work.pointer = pattern.pointer
                parts[k] = regex.lower_search(inside, patterns.encode(spelling.escapes), work, beside_text=k > 0)
                break
        else:
            parts.append(ir.Repeat(spelling.character, low, high))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else ir.And(tuple(parts))


def _contradiction(facts: Facts, work: Work) -> tuple[int, Reason] | None:
    """Why no string fits, as far as lengths show it, and patterns that list strings (`^(get|put)$`)."""
    text = facts.text
    if text is None:
        return None
    low, low_at, high, high_at = text.min, text.min_at, text.max, text.max_at
    for pattern in text.patterns if low or high is not None or len(text.patterns) > 1 else ():
        work.spend(1)
        try:
            least, greatest = patterns.lengths(pattern, work)
        except GrammarError:
            continue  # said when it is lowered
        if least > low:
            low, low_at = least, pattern.pointer
        if greatest is not None and (high is None or greatest < high):
            high, high_at = greatest, pattern.pointer
    if high is not None and low > high:
        why = f"no string has at least {low} characters, as {low_at} asks, and at most {high}, as {high_at} asks"
        return STRING, Reason(low_at, why)
    return _no_text(text, work) if high is not None and len(text.patterns) > 1 else None


def _no_text(text: Text, work: Work) -> tuple[int, Reason] | None:
    """Whether patterns that list strings leave none."""
    left: frozenset[str] | None = None
    out: list[frozenset[str]] = []
    for pattern in text.patterns:
        try:
            listed, is_exact = patterns.texts(pattern, work)
        except GrammarError:
            continue
        if listed is None:
            continue
        if not pattern.negated:
            left = listed if left is None else left & listed
        elif is_exact:
            out.append(listed)
    if left is None or left.difference(*out):
        return None
    return STRING, Reason(text.patterns[-1].pointer, "the patterns that a string must fit share no string")


FAMILY = Family(("minLength", "maxLength", "pattern"), _read, types=STRING, contradiction=_contradiction)
