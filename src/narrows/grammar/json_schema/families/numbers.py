"""`minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`: exact, by the digits. `multipleOf`: see multiples.py.

An integer is spelled without fraction or exponent: `1`, not `1.0` nor `1e0`, though these are the same value. A number
with a bound is spelled without exponent; one without bounds may have any JSON form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from narrows.grammar import ir
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.facts import Facts, Range, Reason
from narrows.grammar.json_schema.reading import Family, Reading
from narrows.grammar.json_schema.report import Reporter, invalid
from narrows.grammar.json_schema.spelling import multiples
from narrows.grammar.json_schema.spelling.digits import number_range
from narrows.grammar.json_schema.spelling.remainders import Automaton
from narrows.grammar.json_schema.spelling.spelling import FRACTIONAL, INTEGER, NUMBER
from narrows.grammar.work import Work


def _read(reading: Reading) -> None:
    open_ends = {
        plain: _is_open(reading, keyword)
        for keyword, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))
    }
    low, high = reading.number("minimum"), reading.number("maximum")
    low_open, high_open = _bound(reading, "exclusiveMinimum"), _bound(reading, "exclusiveMaximum")
    range_ = Range(low, high, low_at=reading.at("minimum"), high_at=reading.at("maximum"))
    range_.low_open = low is not None and open_ends["minimum"]
    range_.high_open = high is not None and open_ends["maximum"]
    if low_open is not None and (low is None or low_open >= low):
        range_.low, range_.low_open, range_.low_at = low_open, True, reading.at("exclusiveMinimum")
    if high_open is not None and (high is None or high_open <= high):
        range_.high, range_.high_open, range_.high_at = high_open, True, reading.at("exclusiveMaximum")
    step = reading.number("multipleOf")
    if step is not None:
        if step <= 0:
            raise invalid(reading.at("multipleOf"), "multipleOf is greater than 0")
        range_.steps = ((step, reading.at("multipleOf")),)
    if range_.low is not None or range_.high is not None or range_.steps:
        reading.add_range(range_)


def _is_open(reading: Reading, keyword: str) -> bool:
    """Draft 4 and OpenAPI 3.0: `exclusiveMinimum: true` leaves out the `minimum` beside it. No later draft has it, but
    libraries write it beside a `$schema` that names one (zod-to-json-schema, for OpenAI), and can mean nothing else."""
    return reading.schema.get(keyword) is True


def _bound(reading: Reading, keyword: str) -> Decimal | None:
    return None if isinstance(reading.schema.get(keyword), bool) else reading.number(keyword)


def lower(
    types: int,
    range_: Range | None,
    reporter: Reporter,
    rules_of: Callable[[Automaton], ir.Node],
    work: Work,
) -> ir.Node:
    """The numbers of these types in a range as one lexeme; `rules_of` makes rules of what is no regular expression of a
    sensible size."""
    if range_ is not None and range_.not_steps:
        nodes = [_no_multiples(range_, reporter, rules_of, work)] if types & f.INTEGER else []
        nodes += [_no_multiples_with_fraction(range_, reporter, rules_of, work)] if types & f.FRACTION else []
        return ir.alt(*nodes)
    if types & f.INTEGER:
        return _lower(range_, reporter, rules_of, work, integer=not types & f.FRACTION)
    if range_ is None:
        return ir.Lexeme(FRACTIONAL)
    step = multiples.step_of(range_, work, integer=False)
    if step is not None and step.denominator == 1:
        return ir.Lexeme(ir.NEVER)
    node = _lower(range_, reporter, rules_of, work, integer=False)
    if isinstance(node, ir.Lexeme):
        return ir.Lexeme(ir.And((node.item, FRACTIONAL)))
    reporter.unsupported(range_.steps[0][1], "multiples that are not integers are not supported", kind="over")
    return node


def _lower(
    range_: Range | None,
    reporter: Reporter,
    rules_of: Callable[[Automaton], ir.Node],
    work: Work,
    *,
    integer: bool,
) -> ir.Node:
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
        states = multiples.automaton(range_, step.numerator, work)
        if states is not None:
            return rules_of(states)
    elif listed is None and not bounded:
        states = multiples.decimals(step, work)
        if states is not None:
            return rules_of(states)
    if listed is None:
        reporter.unsupported(
            range_.steps[0][1],
            f"multiples of {step} over so many numbers are not supported: the last digits alone do not show them",
            hint="Give a minimum and a maximum with at most 10,000 multiples between them, "
            "or take integers and a smaller step",
        )
        return ir.Lexeme(node or ir.NEVER) if bounded else INTEGER if integer else NUMBER
    return ir.Lexeme(listed)


def _no_multiples(range_: Range, reporter: Reporter, rules_of: Callable[[Automaton], ir.Node], work: Work) -> ir.Node:
    """The integers in a range that are multiples of none of `not_steps`."""
    plain = replace(range_, not_steps=())
    step = multiples.step_of(plain, work, integer=True) or multiples.ONE
    # What is a multiple of 1.5 and an integer is a multiple of 3.
    excluded = multiples.without(step.numerator, [Fraction(value).numerator for value, _ in range_.not_steps])
    if excluded is None:
        return ir.Lexeme(ir.NEVER)
    few = multiples.listed(plain, step, work, excluded)
    if few is not None:
        return ir.Lexeme(few)
    endings = [multiples.by_endings(Fraction(other), work, integer=True) for other in excluded]
    node = _lower(plain, reporter, rules_of, work, integer=True)
    if isinstance(node, ir.Lexeme) and None not in endings:
        return ir.Lexeme(ir.And((node.item, *[ir.Not(ending) for ending in endings if ending is not None])))
    states = multiples.automaton(plain, step.numerator, work, excluded)
    if states is None:
        reason = "a multipleOf in a negation, with so many remainders, is not supported"
        reporter.unsupported(range_.not_steps[0][1], reason, kind="over")
        return node
    return rules_of(states) if any(ends for ends, _ in states) else ir.Lexeme(ir.NEVER)


def _no_multiples_with_fraction(
    range_: Range, reporter: Reporter, rules_of: Callable[[Automaton], ir.Node], work: Work
) -> ir.Node:
    """The same for the numbers that are no integers."""
    says_more = range_.low is not None or range_.high is not None or range_.steps
    plain = replace(range_, not_steps=()) if says_more else None
    node = lower(f.FRACTION, plain, reporter, rules_of, work)
    if node == ir.Lexeme(ir.NEVER):
        return node
    parts = [node.item if isinstance(node, ir.Lexeme) else FRACTIONAL]
    for value, where in range_.not_steps:
        step = Fraction(value)
        endings = multiples.by_endings(step, work, integer=False)
        if endings is not None:
            parts += [ir.Not(endings)] if step.denominator > 1 else []
        elif step.denominator > 1:
            reason = f"a negation of multiples of {step} is not supported: the last digits alone do not show them"
            reporter.unsupported(where, reason, kind="over")
    return ir.Lexeme(ir.And(tuple(parts)) if len(parts) > 1 else parts[0])


def _contradiction(facts: Facts, work: Work) -> tuple[int, Reason] | None:
    """Which numbers, whole ones or fractions, have no place between the bounds."""
    range_ = facts.range
    if range_ is None:
        return None
    empty = 0
    for bit in (f.INTEGER, f.FRACTION):
        if facts.types & bit and _is_empty(range_, work, integer=bit == f.INTEGER):
            empty |= bit
    if not empty:
        return None
    steps = range_.steps or range_.not_steps
    where = range_.low_at or range_.high_at or (steps[0][1] if steps else "")
    return empty, Reason(where, "no number of the type lies between the bounds")


def _is_empty(range_: Range, work: Work, *, integer: bool) -> bool:
    if range_.low is None or range_.high is None:
        return False
    step = multiples.step_of(range_, work, integer=integer) or (Fraction(1) if integer else None)
    if step is None:
        is_open = range_.low_open or range_.high_open
        return range_.low > range_.high or (range_.low == range_.high and is_open)
    least, greatest = multiples.between(range_, step)
    return least is not None and greatest is not None and least > greatest


FAMILY = Family(
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    _read,
    types=f.NUMBER,
    contradiction=_contradiction,
)
