"""Numbers in a range, as regular expressions over their digits.

A magnitude is compared with a bound digit by digit from the left, so each side of a range is one flat alternation with
a branch per digit of the bound, and a range is the conjunction of its sides. Every spelling without an exponent is in:
`1.50`, `-0`. With exponents a range is not regular (the point moves), and so they are left out; each value can be
written without.

Cost: a bound of n digits takes n branches, each of at most `FLAT` digits: longer ones are halved, so that the left half
is compared, and then the right one. Ranges are kept, by their digits 20,000 in all.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from narrows.grammar import ir
from narrows.grammar.json_schema.spelling.spelling import DIGIT, NONZERO, WHOLE
from narrows.grammar.work import Kept, Work

_ZERO = Decimal(0)
_ANY_DIGITS = ir.Repeat(DIGIT)
_FRACTION = ir.optional(ir.Seq((ir.Bytes(b"."), ir.Repeat(DIGIT, 1))))


def integer_bounds(
    low: Decimal | None, high: Decimal | None, low_open: bool, high_open: bool
) -> tuple[int | None, int | None]:
    """The least and greatest integer of a range."""
    least = greatest = None
    if low is not None:
        least = int(low.to_integral_value(ROUND_CEILING))
        least += low_open and least == low
    if high is not None:
        greatest = int(high.to_integral_value(ROUND_FLOOR))
        greatest -= high_open and greatest == high
    return least, greatest


_ranges: Kept[tuple[ir.Node | None]] = Kept(20_000)


def number_range(
    low: Decimal | None, high: Decimal | None, low_open: bool, high_open: bool, *, integer: bool, work: Work
) -> ir.Node | None:
    """The numbers from low to high (None: no bound; open: without the bound itself), integers or any; None if there is
    none."""
    key = (low, high, low_open, high_open, integer)
    digits = sum(
        [max(abs(bound.adjusted()), len(bound.as_tuple().digits)) for bound in (low, high) if bound is not None]
    )
    if work.first(key):
        work.spend(8 + 6 * digits)
    known = _ranges.get(key)
    if known is None:
        known = (_number_range(*key),)
        _ranges.put(key, known, 4 + digits)
    return known[0]


def _number_range(
    low: Decimal | None, high: Decimal | None, low_open: bool, high_open: bool, integer: bool
) -> ir.Node | None:
    if integer:
        least, greatest = integer_bounds(low, high, low_open, high_open)
        low, high = (None if bound is None else Decimal(bound) for bound in (least, greatest))
        low_open = high_open = False
    if low is not None and high is not None and (low > high or (low == high and (low_open or high_open))):
        return None
    sides: list[ir.Node] = []
    if high is None or high > 0 or (high == 0 and not high_open):  # zero and above
        floor = (low, low_open) if low is not None and low >= 0 else (_ZERO, False)
        sides.append(_magnitude(*floor, high, high_open, integer))
    if low is None or low < 0 or (low == 0 and not low_open):  # zero and below, with a minus
        floor = (high.copy_negate(), high_open) if high is not None and high <= 0 else (_ZERO, False)
        ceiling = None if low is None else low.copy_negate()
        sides.append(ir.seq(ir.Bytes(b"-"), _magnitude(*floor, ceiling, low_open, integer)))
    return ir.alt(*sides)


def _magnitude(low: Decimal, low_open: bool, high: Decimal | None, high_open: bool, integer: bool) -> ir.Node:
    fraction = ir.EMPTY if integer else _FRACTION
    sides = []
    if low > 0 or low_open:
        sides.append(_at_least(*_split(low), low_open, fraction))
    if high is not None:
        sides.append(_at_most(*_split(high), high_open, fraction))
    if not sides:
        return ir.seq(WHOLE, fraction)
    return sides[0] if len(sides) == 1 else ir.And(tuple(sides))


def _split(bound: Decimal) -> tuple[str, str]:
    """The digits before and after the point, without needless zeros."""
    whole, _, fraction = f"{bound.copy_abs():f}".partition(".")
    return whole.lstrip("0") or "0", fraction.rstrip("0")


def _digits(low: int, high: int) -> ir.ByteSet:
    return ir.byte_set((0x30 + low, 0x30 + high))


FLAT = 16
"""Digits that are compared in one alternation."""


def _beyond(digits: str, tail: ir.Node, *, above: bool, fixed: bool, leading: bool = False) -> list[ir.Node]:
    """Digits that are greater (`above`) or smaller at the first place where they differ, and then the tail: as many
    digits (`fixed`), or only those up to that place. `leading`: the first one is not made a zero. As deep as the
    logarithm of the digits."""
    n = len(digits)
    if n > FLAT:
        half = n // 2
        rest = ir.seq(ir.Repeat(DIGIT, n - half, n - half), tail) if fixed else tail
        right = _beyond(digits[half:], tail, above=above, fixed=fixed)
        left = _beyond(digits[:half], rest, above=above, fixed=fixed, leading=leading)
        return [*left, ir.seq(ir.Bytes(digits[:half].encode()), ir.alt(*right))] if right else left
    branches = []
    for k, digit in enumerate(digits):
        if above:
            least, greatest = int(digit) + 1, 9
        else:
            least, greatest = 1 if leading and k == 0 else 0, int(digit) - 1
        if least <= greatest:
            rest = ir.Repeat(DIGIT, n - k - 1, n - k - 1) if fixed and k < n - 1 else ir.EMPTY
            branches.append(ir.seq(ir.Bytes(digits[:k].encode()), _digits(least, greatest), rest, tail))
    return branches


def _shorter(digits: str) -> list[ir.Node]:
    """The beginnings of these digits, but for none and all of them."""
    if len(digits) <= FLAT:
        return [ir.Bytes(digits[:k].encode()) for k in range(1, len(digits))]
    half = len(digits) // 2
    return [
        *_shorter(digits[:half]),
        ir.seq(ir.Bytes(digits[:half].encode()), ir.optional(ir.alt(*_shorter(digits[half:])))),
    ]


def _at_least(whole: str, after: str, is_open: bool, fraction: ir.Node) -> ir.Node:
    n = len(whole)
    branches = [ir.seq(NONZERO, ir.Repeat(DIGIT, n), fraction)]  # more digits
    branches += _beyond(whole, fraction, above=True, fixed=True)
    same = ir.Bytes(whole.encode())
    if fraction is ir.EMPTY:
        if not is_open:
            branches.append(same)
    elif not after:
        some = ir.Seq((ir.Bytes(b"."), _ANY_DIGITS, NONZERO, _ANY_DIGITS))
        branches.append(ir.seq(same, some if is_open else fraction))
    else:
        greater = _beyond(after, _ANY_DIGITS, above=True, fixed=False)
        tail = ir.Seq((_ANY_DIGITS, NONZERO, _ANY_DIGITS)) if is_open else _ANY_DIGITS
        greater.append(ir.seq(ir.Bytes(after.encode()), tail))
        branches.append(ir.seq(same, ir.Bytes(b"."), ir.alt(*greater)))
    return ir.alt(*branches)


def _at_most(whole: str, after: str, is_open: bool, fraction: ir.Node) -> ir.Node:
    n = len(whole)
    branches: list[ir.Node] = []
    if n > 1:  # fewer digits
        fewer = ir.Alt((ir.Bytes(b"0"), ir.seq(NONZERO, ir.Repeat(DIGIT, 0, n - 2))))
        branches.append(ir.seq(fewer, fraction))
    branches += _beyond(whole, fraction, above=False, fixed=True, leading=n > 1)
    same = ir.Bytes(whole.encode())
    zeros = ir.Repeat(ir.Bytes(b"0"))
    if not is_open or after:
        branches.append(same)
    if fraction is not ir.EMPTY:
        smaller = _beyond(after, _ANY_DIGITS, above=False, fixed=False) + _shorter(after)
        if not is_open:
            smaller.append(ir.seq(ir.Bytes(after.encode()), zeros) if after else ir.Repeat(ir.Bytes(b"0"), 1))
        if smaller:
            branches.append(ir.seq(same, ir.Bytes(b"."), ir.alt(*smaller)))
    return ir.alt(*branches)
