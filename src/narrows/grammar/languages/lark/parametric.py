"""Rules with a parameter, as llguidance has them: `name::_: ... %if condition`, and their uses `name::expression`.

    start: word::0
    word::_: "a" word::set_bit(0)    %if bit_clear(0)
           | "b" word::set_bit(1)    %if bit_clear(1)
           | ""

The parameter is a number of 64 bits. A rule is read once for each value that is reached (definitions.py). Here are the
expressions that make a value of the rule's own, and the conditions of alternatives. llguidance documents both in
docs/parametric.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

BITS = 64
ALL_BITS = (1 << BITS) - 1


@dataclass(frozen=True, slots=True)
class BitRange:
    """Bits `low` to `high` of a parameter, without `high`. Bit 0 is the lowest."""

    low: int = 0
    high: int = BITS

    @property
    def ones(self) -> int:
        """The largest number in it."""
        return (1 << (self.high - self.low)) - 1

    def of(self, parameter: int) -> int:
        return parameter >> self.low & self.ones


WHOLE = BitRange()


@dataclass(frozen=True, slots=True)
class Expression:
    """A parameter, made of the rule's own one: `_`, a number, `incr([0:3])`, `set_bit(2)` and the like."""

    operation: str
    """same, number, and, or, incr, decr."""
    number: int = 0
    bits: BitRange = WHOLE

    @property
    def needs_parameter(self) -> bool:
        return self.operation != "number"

    def of(self, parameter: int) -> int:
        operation, number, bits = self.operation, self.number, self.bits
        if operation == "number":
            return number
        if operation == "and":
            return parameter & number
        if operation == "or":
            return parameter | number
        if operation == "incr":
            return parameter if bits.of(parameter) == bits.ones else parameter + (1 << bits.low)
        if operation == "decr":
            return parameter if bits.of(parameter) == 0 else parameter - (1 << bits.low)
        return parameter


EXPRESSIONS: dict[str, tuple[str, Callable[..., Expression]]] = {
    "incr": ("range", lambda bits: Expression("incr", bits=bits)),
    "decr": ("range", lambda bits: Expression("decr", bits=bits)),
    "bit_and": ("number", lambda number: Expression("and", number)),
    "bit_or": ("number", lambda number: Expression("or", number)),
    "set_bit": ("bit", lambda bit: Expression("or", 1 << bit)),
    "clear_bit": ("bit", lambda bit: Expression("and", ALL_BITS & ~(1 << bit))),
}
"""By name: what stands in the brackets, and what it makes."""

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": int.__eq__,
    "ne": int.__ne__,
    "lt": int.__lt__,
    "le": int.__le__,
    "gt": int.__gt__,
    "ge": int.__ge__,
}


@dataclass(frozen=True, slots=True)
class Test:
    """A comparison of bits, or of how many of them are set, with a number."""

    compare: str
    bits: BitRange
    number: int
    counts: bool = False

    def holds(self, parameter: int) -> bool:
        value = self.bits.of(parameter)
        return _COMPARE[self.compare](bin(value).count("1") if self.counts else value, self.number)


def _tests() -> dict[str, tuple[tuple[str, ...], Callable[..., Test]]]:
    tests: dict[str, tuple[tuple[str, ...], Callable[..., Test]]] = {
        "bit_clear": (("bit",), lambda bit: Test("eq", BitRange(bit, bit + 1), 0)),
        "bit_set": (("bit",), lambda bit: Test("eq", BitRange(bit, bit + 1), 1)),
        "is_ones": (("range",), lambda bits: Test("eq", bits, bits.ones)),
        "is_zeros": (("range",), lambda bits: Test("eq", bits, 0)),
    }
    for compare in _COMPARE:
        tests[compare] = ("range", "number"), lambda bits, number, by=compare: Test(by, bits, number)
        tests[f"bit_count_{compare}"] = (
            ("range", "count"),
            lambda bits, count, by=compare: Test(by, bits, count, counts=True),
        )
    return tests


TESTS = _tests()
"""By name: what stands in the brackets, and what it makes."""
OPERANDS = {"and": 2, "or": 2, "not": 1}
"""Conditions of conditions, and of how many."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Tests, and what joins them ("and", "or", "not"), each after its operands. Nothing at all: it always holds."""

    steps: tuple[Test | str, ...] = ()

    def holds(self, parameter: int) -> bool:
        values: list[bool] = []
        for step in self.steps:
            if isinstance(step, Test):
                values.append(step.holds(parameter))
            elif step == "true":
                values.append(True)
            elif step == "not":
                values.append(not values.pop())
            else:
                last, first = values.pop(), values.pop()
                values.append(first and last if step == "and" else first or last)
        return all(values)
