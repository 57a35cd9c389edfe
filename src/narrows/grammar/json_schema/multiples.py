"""`multipleOf`, where it is small enough.

A step is m / 10^k. If m has no prime factor but 2 and 5 (1, 5, 0.01, 0.25, 100 ...), the last digits decide: an alternation
of the endings. Any other step (3, 60, 0.7) is exact between bounds that leave at most 10,000 multiples: these are listed,
without needless zeros. Over more numbers, multiples of a whole step are read by an automaton that knows the remainder of the digits so far, and
how they compare with the bounds: integers only, and at most `MOST_STATES` states. Else the keyword is refused.

Cost: linear in the endings, the multiples or the states.
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
MOST_STATES = 2_000

Automaton = list[tuple[bool, list[tuple[ir.Node, int]]]]
"""States, the first one the start: whether a text may end, and what leads where."""


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


def automaton(range_: Range, step: int) -> Automaton | None:
    """The integers in the range that are multiples of the step, digit by digit; None if that takes too many states."""
    least, greatest = between(range_, Fraction(step))
    return _automaton(None if least is None else least * step, None if greatest is None else greatest * step, step)


@lru_cache(maxsize=64)
def _automaton(low: int | None, high: int | None, step: int) -> Automaton | None:
    sides: list[tuple[ir.Node | None, int, int | None]] = []  # the sign, and the bounds of what follows
    if high is None or high >= 0:
        sides.append((None, max(low or 0, 0), high))
    if low is None or low <= 0:
        sides.append((ir.Bytes(b"-"), 0 if high is None else max(-high, 0), None if low is None else -low))
    states: Automaton = [(False, [])]
    for sign, floor_, ceiling in sides:
        made = _magnitudes(floor_, ceiling, step)
        if made is None or len(states) + len(made) > MOST_STATES:
            return None
        first = len(states)
        states += [(ends, [(digits, to + first) for digits, to in edges]) for ends, edges in made]
        start = states[first]
        states[0][1].extend([(sign, first)] if sign is not None else start[1])
    return states


_Digits = tuple[int, int, int, int]
"""How many digits there are, how they compare with as many of the lower and of the upper bound, and what remains of them."""


def _magnitudes(low: int, high: int | None, step: int) -> Automaton | None:
    """The multiples from low to high, without sign."""
    floor_, ceiling = str(low), "" if high is None else str(high)
    longest = max(len(floor_), len(ceiling))
    start: _Digits = (0, 0, 0, 0)

    def after(state: _Digits, digit: int) -> _Digits | None:
        count, below, above, rest = state
        if state != start and rest == 0 and count == -1:
            return None  # a zero stands alone
        if state == start and digit == 0:
            return (-1, 0, 0, 0)
        below = _compared(below, digit, floor_, count)
        above = _compared(above, digit, ceiling, count)
        count = min(count + 1, longest + 1)
        if high is not None and (count > len(ceiling) or (count == len(ceiling) and above > 0)):
            return None
        if count > len(floor_):
            below = 1
        return (count, below, above if high is not None else 0, (rest * 10 + digit) % step)

    def ends(state: _Digits) -> bool:
        count, below, _, rest = state
        if count == -1:
            return low == 0
        return rest == 0 and (count > len(floor_) or (count == len(floor_) and below >= 0)) and state != start

    numbers: dict[_Digits, int] = {start: 0}
    found: Automaton = []
    for state in (todo := [start]):
        edges: dict[int, list[int]] = {}
        for digit in range(10):
            to = after(state, digit)
            if to is not None:
                if to not in numbers:
                    numbers[to] = len(numbers)
                    todo.append(to)
                edges.setdefault(numbers[to], []).append(digit)
        if len(numbers) > MOST_STATES:
            return None
        found.append((ends(state), [(ir.byte_set(*(0x30 + d for d in some)), to) for to, some in edges.items()]))
    return found


def _compared(so_far: int, digit: int, bound: str, count: int) -> int:
    """-1, 0 or 1: how the digits and one more compare with as many of the bound."""
    if so_far or count >= len(bound):
        return so_far
    other = int(bound[count])
    return (digit > other) - (digit < other)
