"""`multipleOf`, where it is regular and small.

A step is m / 10^k. If m has no prime factor but 2 and 5 (1, 5, 0.01, 0.25, 100 ...), the last digits decide: an alternation
of the endings. Any other step (3, 60, 0.7) is exact between bounds that leave at most 10,000 multiples: these are listed,
without needless zeros. Else the keyword is refused.

Cost: linear in the endings or the multiples.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, gcd, lcm

from narrows.grammar import ir
from narrows.grammar.json_schema.facts import Range
from narrows.grammar.json_schema.spelling import DIGIT, NONZERO, WHOLE, seq

MOST_LISTED = 10_000
MOST_ENDINGS = 1_000


def step_of(range_: Range, *, integer: bool) -> Fraction | None:
    """What the number must be a multiple of, all steps and the type together; None if that says nothing."""
    if not range_.steps:
        return None
    step = Fraction(1) if integer else None
    for value, _ in range_.steps:
        other = Fraction(value)
        if step is None:
            step = other
        else:
            step = Fraction(lcm(step.numerator, other.numerator), gcd(step.denominator, other.denominator))
    return step


def holds(range_: Range, value: Decimal) -> bool:
    return all((Fraction(value) / Fraction(step)).denominator == 1 for step, _ in range_.steps)


def between(range_: Range, step: Fraction) -> tuple[int | None, int | None]:
    """The least and the greatest n such that n times the step lies in the range."""
    least = greatest = None
    if range_.low is not None:
        exact = Fraction(range_.low) / step
        least = ceil(exact) + (range_.low_open and exact.denominator == 1)
    if range_.high is not None:
        exact = Fraction(range_.high) / step
        greatest = floor(exact) - (range_.high_open and exact.denominator == 1)
    return least, greatest


def listed(range_: Range, step: Fraction) -> ir.Node | None:
    """All multiples in the range, None if there are too many."""
    least, greatest = between(range_, step)
    if least is None or greatest is None or greatest - least >= MOST_LISTED:
        return None
    return ir.Literals(tuple([_written(n * step) for n in range(least, greatest + 1)]))


def _written(value: Fraction) -> bytes:
    """A fraction whose denominator divides a power of ten, as a decimal."""
    places, scaled = 0, abs(value)
    while scaled.denominator != 1:
        scaled *= 10
        places += 1
    digits = str(scaled.numerator).zfill(places + 1)
    text = digits if not places else f"{digits[:-places]}.{digits[-places:]}"
    return f"{'-' if value < 0 else ''}{text}".encode()


@lru_cache(maxsize=256)
def by_endings(step: Fraction, *, integer: bool) -> ir.Node | None:
    """The multiples of the step, in every spelling without exponent; None if the last digits do not decide."""
    places = 0
    while step.denominator != 1:  # a step is a decimal, so that this ends
        step *= 10
        places += 1
    m = step.numerator
    length = 0
    while 10**length % m:
        length += 1
        if length > places + 12:
            return None
    count = 10**length // m
    if count > MOST_ENDINGS:
        return None
    branches = []
    for n in range(count):
        ending = str(n * m).zfill(length) if length else ""
        in_whole = max(length - places, 0)
        whole, after = ending[:in_whole], ending[in_whole:]
        fraction = ir.EMPTY if integer else _fraction(places - len(after), after)
        branches.append(seq(_whole(whole), fraction))
    return ir.seq(ir.optional(ir.Bytes(b"-")), ir.alt(*branches))


def _whole(ending: str) -> ir.Node:
    """Whole numbers with these last digits."""
    if not ending:
        return WHOLE
    exactly = ir.Bytes((ending.lstrip("0") or "0").encode())
    return ir.Alt((exactly, ir.Seq((NONZERO, ir.Repeat(DIGIT), ir.Bytes(ending.encode())))))


def _fraction(free: int, ending: str) -> ir.Node:
    """Fractions of `free` digits and then the ending, where zeros at the end may be missing or more."""
    zeros = ir.Repeat(ir.Bytes(b"0"))
    any_digits = ir.Repeat(DIGIT, free, free) if free else ir.EMPTY
    ending = ending.rstrip("0")
    if ending:
        return ir.seq(ir.Bytes(b"."), any_digits, ir.Bytes(ending.encode()), zeros)
    if not free:
        return ir.optional(ir.Seq((ir.Bytes(b"."), ir.Repeat(ir.Bytes(b"0"), 1))))
    return ir.optional(ir.Seq((ir.Bytes(b"."), ir.Alt((ir.Repeat(DIGIT, 1, free), ir.Seq((any_digits, zeros)))))))
