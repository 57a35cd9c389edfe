"""`multipleOf`, for steps and ranges that are small enough.

A step is m / 10^k. If m has no prime factor but 2 and 5 (1, 5, 0.01, 0.25, 100 ...), the last digits decide, and the
node is an alternation of the endings. Any other step (3, 60, 0.7) is exact between bounds that leave at most 10,000
multiples: these are listed, without needless zeros. Over more numbers, an automaton reads the multiples of a whole
step (remainders.py). For other steps it also counts the digits after the point; then there may be no bounds. It has at
most `MOST_STATES` states. Otherwise the keyword is refused. Integers that are no multiples of a step are found in the
same ways.

Cost: linear in the endings, the multiples or the states.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, gcd, lcm

from narrows.grammar import ir
from narrows.grammar.json_schema.facts import Range
from narrows.grammar.json_schema.report import over_limit
from narrows.grammar.json_schema.spelling import remainders
from narrows.grammar.json_schema.spelling.remainders import MOST_STATES, Automaton
from narrows.grammar.json_schema.spelling.spelling import DIGIT, NONZERO, WHOLE, seq
from narrows.grammar.work import Kept, Work

ONE = Fraction(1)
MOST_LISTED = 10_000
MOST_ENDINGS = 1_000
_DIGITS = 15
"""A number with a point has no more, so that no reader rounds it."""


def step_of(range_: Range, work: Work, *, integer: bool) -> Fraction | None:
    """The step that all `multipleOf` and the type together demand; None if they demand nothing."""
    if not range_.steps:
        return None
    most = work.limits.number_digits
    step = Fraction(1) if integer else None
    for value, where in range_.steps:
        work.spend(6)
        other = Fraction(value)
        if step is None:
            step = other
        else:
            step = Fraction(lcm(step.numerator, other.numerator), gcd(step.denominator, other.denominator))
        if step.numerator.bit_length() * 3 > 10 * (most + 1):
            raise over_limit("number_digits", most, "a multiple of all these steps has too many digits", where)
    return step


def holds(range_: Range, value: Decimal) -> bool:
    """Whether a literal number is a multiple of every step, and of none of those that are excluded."""
    return all(_divides(step, value) for step, _ in range_.steps) and not any(
        _divides(step, value) for step, _ in range_.not_steps
    )


def _divides(step: Decimal, value: Decimal) -> bool:
    """Does not write out the exponent, which may be in the millions."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    mantissa = int(Decimal((sign, digits, 0)))
    if not mantissa:
        return True
    whole = Fraction(step)
    if exponent >= 0:
        power: int = pow(10, exponent, whole.numerator)
        return mantissa * whole.denominator * power % whole.numerator == 0
    while exponent < 0 and mantissa % 10 == 0:
        mantissa, exponent = mantissa // 10, exponent + 1
    if -exponent > _places(whole):
        return False  # the value has more places than any multiple
    parts: int = whole.numerator * 10**-exponent
    return mantissa * whole.denominator % parts == 0


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


def listed(range_: Range, step: Fraction, work: Work, excluded: Sequence[int] = ()) -> ir.Node | None:
    """All multiples in the range, None if there are too many. `excluded`: of integers, none that one of these
    divides."""
    least, greatest = between(range_, step)
    if least is None or greatest is None or greatest - least >= MOST_LISTED:
        return None
    longest = max(abs(least), abs(greatest)).bit_length() + step.numerator.bit_length()
    work.spend(2 + max(greatest - least, 0) * (1 + longest // 64))
    places = _places(step)
    unit = step.numerator * (10**places // step.denominator)
    work.spend(max(greatest - least, 0) * len(excluded) // 4)
    kept = [n for n in range(least, greatest + 1) if all(n * unit % other for other in excluded)]
    return ir.Literals(tuple([_written(n * unit, places) for n in kept])) if kept else ir.NEVER


def _places(step: Fraction) -> int:
    """How many digits a decimal has after its point."""
    twos = fives = 0
    rest = step.denominator
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives)


def _written(scaled: int, places: int) -> bytes:
    """The decimal scaled / 10^places, without needless zeros."""
    text = str(abs(scaled))
    if places:
        text = text.zfill(places + 1)
        text = f"{text[:-places]}.{text[-places:]}".rstrip("0").rstrip(".")
    return f"{'-' if scaled < 0 else ''}{text}".encode()


_endings: Kept[tuple[ir.Node | None, int]] = Kept(20_000)


def by_endings(step: Fraction, work: Work, *, integer: bool) -> ir.Node | None:
    """The multiples of the step, in every spelling without exponent; None if the last digits do not decide."""
    known = _endings.get((step, integer))
    if known is None:
        known = _by_endings(step, integer=integer)
        _endings.put((step, integer), known, 4 + known[1])
    if work.first((step, integer)):
        work.spend(20 + step.denominator.bit_length() + step.numerator.bit_length() + 6 * known[1])
    return known[0]


def _by_endings(step: Fraction, *, integer: bool) -> tuple[ir.Node | None, int]:
    """The node, and how many endings it has."""
    places = _places(step)
    m = step.numerator * (10**places // step.denominator)
    length = 0
    while 10**length % m:
        length += 1
        if length > places + 12:
            return None, 0
    count = 10**length // m
    if count > MOST_ENDINGS:
        return None, 0
    branches = []
    for n in range(count):
        ending = str(n * m).zfill(length) if length else ""
        in_whole = max(length - places, 0)
        whole, after = ending[:in_whole], ending[in_whole:]
        fraction = ir.EMPTY if integer else _fraction(places - len(after), after)
        branches.append(seq(_whole(whole), fraction))
    return ir.seq(ir.optional(ir.Bytes(b"-")), ir.alt(*branches)), count


def _whole(ending: str) -> ir.Node:
    """Whole numbers with these last digits."""
    if not ending:
        return WHOLE
    exactly = ir.Bytes((ending.lstrip("0") or "0").encode())
    return ir.Alt((exactly, ir.Seq((NONZERO, ir.Repeat(DIGIT), ir.Bytes(ending.encode())))))


def _fraction(free: int, ending: str) -> ir.Node:
    """Fractions of `free` digits and then the ending, where zeros at the end may be left out or added."""
    zeros = ir.Repeat(ir.Bytes(b"0"))
    any_digits = ir.Repeat(DIGIT, free, free) if free else ir.EMPTY
    ending = ending.rstrip("0")
    if ending:
        return ir.seq(ir.Bytes(b"."), any_digits, ir.Bytes(ending.encode()), zeros)
    if not free:
        return ir.optional(ir.Seq((ir.Bytes(b"."), ir.Repeat(ir.Bytes(b"0"), 1))))
    return ir.optional(ir.Seq((ir.Bytes(b"."), ir.Alt((ir.Repeat(DIGIT, 1, free), ir.Seq((any_digits, zeros)))))))


def automaton(range_: Range, step: int, work: Work, excluded: Sequence[int] = ()) -> Automaton | None:
    """The integers in the range that are multiples of the step and of none of those that are excluded, digit by digit;
    None if that takes too many states."""
    least, greatest = between(range_, Fraction(step))
    low, high = None if least is None else least * step, None if greatest is None else greatest * step
    modulus = lcm(step, *excluded)
    if modulus > remainders.MOST_REMAINDERS:
        return None
    key = (low, high, step, *excluded)
    if work.first(key):
        work.spend(remainders.cost(low, high, modulus))
    known = _automata.get(key)
    if known is None:
        wanted = [rest % step == 0 and all(rest % other for other in excluded) for rest in range(modulus)]
        known = (remainders.automaton(low, high, wanted),)
        _automata.put(key, known, 4 + len(known[0] or ()))
    return known[0]


def without(step: int, excluded: Sequence[int]) -> list[int] | None:
    """What must not divide a multiple of the step, so that none of those that are excluded does: as few as possible.
    None if no multiple is left."""
    kept: list[int] = []
    for other in sorted(lcm(step, divisor) for divisor in excluded):
        if other == step:
            return None
        if all(other % smaller for smaller in kept):
            kept.append(other)
    return kept


def decimals(step: Fraction, work: Work) -> Automaton | None:
    """All multiples of a step, digit by digit; None if that takes too many states. They have no more digits after the
    point than the step has, and at most 15 in all."""
    places = _places(step)
    modulus = step.numerator * (10**places // step.denominator)
    count = modulus * (_DIGITS + 2)
    if places >= _DIGITS or count > MOST_STATES:
        return None
    if work.first((step,)):
        work.spend(14 * count)
    known = _automata.get((step,))
    if known is None:
        known = (_decimals(places, modulus),)
        _automata.put((step,), known, 4 + count)
    return known[0]


def _decimals(places: int, modulus: int) -> Automaton:
    """The decimals of so many places of which, without the point, the modulus is a divisor."""
    # States: the start, after a minus, a zero that stands alone; then for each number of digits before the point, or of
    # places after it, one for each remainder of the digits so far.
    wholes = [(True, k, rest) for k in range(1, _DIGITS - places + 2) for rest in range(modulus)]
    keys = [*wholes, *((False, k, rest) for k in range(places + 1) for rest in range(modulus))]
    numbers = {key: 3 + n for n, key in enumerate(keys)}

    def digits(is_whole: bool, count: int, rest: int, first: int = 0) -> list[tuple[ir.Node, int]]:
        reached: dict[int, list[int]] = {}
        for digit in range(first, 10):
            reached.setdefault(numbers[is_whole, count, (rest * 10 + digit) % modulus], []).append(0x30 + digit)
        return [(ir.byte_set(*some), to) for to, some in reached.items()]

    zero, minus, point = ir.Bytes(b"0"), ir.Bytes(b"-"), ir.Bytes(b".")
    first = [(zero, 2), *digits(True, 1, 0, first=1)]
    states: Automaton = [(False, [(minus, 1), *first]), (False, first), (True, [(point, numbers[False, 0, 0])])]
    for is_whole, count, rest in keys:
        if is_whole:
            is_long = count > _DIGITS - places
            edges = digits(True, count if is_long else count + 1, rest)
            edges += [] if is_long else [(point, numbers[False, 0, rest])]
            states.append((rest * 10**places % modulus == 0, edges))
        else:
            ends = count > 0 and rest * 10 ** (places - count) % modulus == 0
            states.append((ends, digits(False, count + 1, rest) if count < places else []))
    return states


_automata: Kept[tuple[Automaton | None]] = Kept(40_000)
