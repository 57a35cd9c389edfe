"""`minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`: exact, by the digits. `multipleOf`: see multiples.py.

An integer is spelled without fraction or exponent: `1`, not `1.0` nor `1e0`, though these are the same value. A number with a
bound is spelled without exponent; one without bounds may have any JSON form.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from narrows.grammar import ir
from narrows.grammar.json_schema.facts import Range, meet_range
from narrows.grammar.json_schema.identifiers import DRAFT_4, UNSTATED
from narrows.grammar.json_schema.reading import Reading
from narrows.grammar.json_schema.report import Reporter, invalid
from narrows.grammar.json_schema.spelling import multiples
from narrows.grammar.json_schema.spelling.digits import number_range
from narrows.grammar.json_schema.spelling.spelling import INTEGER, NUMBER
from narrows.grammar.work import Work

KEYWORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


def read(reading: Reading) -> None:
    open_ends = {
        plain: _is_open(reading, keyword, plain)
        for keyword, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))
    }
    low, high = reading.number("minimum"), reading.number("maximum")
    low_open, high_open = _bound(reading, "exclusiveMinimum"), _bound(reading, "exclusiveMaximum")
    found = Range(low, high, low_at=reading.at("minimum"), high_at=reading.at("maximum"))
    found.low_open = low is not None and open_ends["minimum"]
    found.high_open = high is not None and open_ends["maximum"]
    if low_open is not None and (low is None or low_open >= low):
        found.low, found.low_open, found.low_at = low_open, True, reading.at("exclusiveMinimum")
    if high_open is not None and (high is None or high_open <= high):
        found.high, found.high_open, found.high_at = high_open, True, reading.at("exclusiveMaximum")
    step = reading.number("multipleOf")
    if step is not None:
        if step <= 0:
            raise invalid(reading.at("multipleOf"), "multipleOf is greater than 0")
        found.steps = ((step, reading.at("multipleOf")),)
    if found.low is not None or found.high is not None or found.steps:
        reading.facts.range = meet_range(reading.facts.range, found)  # a format may have said something


def _is_open(reading: Reading, keyword: str, plain: str) -> bool:
    """Draft 4 and OpenAPI 3.0: `exclusiveMinimum: true` leaves out the `minimum` beside it. No later draft has it."""
    value = reading.schema.get(keyword)
    if not isinstance(value, bool):
        return False
    draft = reading.document.draft(reading.site)
    if draft in (UNSTATED, DRAFT_4):
        return value
    reading.reporter.unsupported(
        reading.at(keyword),
        f"a boolean {keyword} is draft 4, and `$schema` names {draft.name}",
        hint=f"Write the bound itself: {keyword!r}: {reading.schema.get(plain, 0)}, and leave {plain!r} out",
    )
    return False


def _bound(reading: Reading, keyword: str) -> Decimal | None:
    return None if isinstance(reading.schema.get(keyword), bool) else reading.number(keyword)


def lower(
    range_: Range | None,
    reporter: Reporter,
    rules_of: Callable[[multiples.Automaton], ir.Node],
    work: Work,
    *,
    integer: bool,
) -> ir.Node:
    """The numbers of a range as one lexeme; `rules_of` makes rules of what is no regular expression of a sensible size."""
    if range_ is None:
        return INTEGER if integer else NUMBER
    bounded = range_.low is not None or range_.high is not None
    node = number_range(range_.low, range_.high, range_.low_open, range_.high_open, integer=integer, work=work)
    step = multiples.step_of(range_, work, integer=integer)
    if step is None or (integer and step == 1):
        return ir.Lexeme(node or ir.NEVER) if bounded else INTEGER
    steps = multiples.by_endings(step, work, integer=integer)
    if steps is not None:
        return ir.Lexeme(ir.And((steps, node or ir.NEVER)) if bounded else steps)
    listed = multiples.listed(range_, step, work)
    if listed is None and step.denominator == 1:
        made = multiples.automaton(range_, step.numerator, work)
        if made is not None:
            return rules_of(made)
    if listed is None:
        reporter.unsupported(
            range_.steps[0][1],
            f"multiples of {step} over so many numbers are not supported: the last digits alone do not show them",
            hint="Give a minimum and a maximum with at most 10,000 multiples between them, or take integers and a smaller step",
        )
        return ir.Lexeme(node or ir.NEVER) if bounded else INTEGER if integer else NUMBER
    return ir.Lexeme(listed)


def holds(range_: Range, value: Decimal) -> bool:
    if range_.low is not None and (value < range_.low or (range_.low_open and value == range_.low)):
        return False
    if range_.high is not None and (value > range_.high or (range_.high_open and value == range_.high)):
        return False
    return multiples.holds(range_, value)
