"""Reads the expressions and conditions of rules with a parameter (parametric.py).

Open brackets of conditions are kept on a list. Cost: linear.
"""

from __future__ import annotations

from typing import Any

from narrows.grammar.languages.lark.cursor import Cursor, shown
from narrows.grammar.languages.lark.parametric import (
    ALL_BITS,
    BITS,
    EXPRESSIONS,
    OPERANDS,
    TESTS,
    WHOLE,
    BitRange,
    Condition,
    Expression,
    Test,
)


def expression_at(cursor: Cursor) -> Expression:
    """What stands after `name::`."""
    token = cursor.now
    if token.kind in ("number", "hex"):
        return Expression("number", _number(cursor, ALL_BITS))
    cursor.take("name", "a number, _ or a function of the parameter")
    if token.text == "_":
        return Expression("same")
    if token.text not in EXPRESSIONS:
        cursor.fail(
            f"unknown function {token.text[:40]!r} of a parameter", token, f"There are {', '.join(EXPRESSIONS)}"
        )
    wanted, make = EXPRESSIONS[token.text]
    cursor.take("(", "(")
    made = make(_argument(cursor, wanted))
    cursor.take(")", ")")
    return made


def condition_at(cursor: Cursor) -> Condition:
    """What stands after `%if`."""
    steps: list[Test | str] = []
    opened: list[list[Any]] = []  # of "and", "or" and "not": the name, and how many operands are missing
    while True:
        cursor.text.work.spend(2)
        token = cursor.take("name", "a condition")
        if token.text in OPERANDS:
            if len(opened) >= cursor.text.work.limits.nesting:
                cursor.text.too_nested(len(opened), token.offset)
            cursor.take("(", "(")
            opened.append([token.text, OPERANDS[token.text]])
            continue
        if token.text == "true":
            if cursor.skip("("):
                cursor.take(")", ")")
            steps.append("true")
        elif token.text in TESTS:
            wanted, make = TESTS[token.text]
            cursor.take("(", "(")
            arguments = []
            for number, kind in enumerate(wanted):
                if number:
                    cursor.take(",", ",")
                arguments.append(_argument(cursor, kind))
            cursor.take(")", ")")
            steps.append(make(*arguments))
        else:
            known = ", ".join(["true", *TESTS, *OPERANDS])
            cursor.fail(f"unknown condition {token.text[:40]!r}", token, f"There are {known}")
        while opened:
            opened[-1][1] -= 1
            if opened[-1][1]:
                cursor.take(",", ",")
                break
            cursor.take(")", ")")
            steps.append(opened.pop()[0])
        if not opened:
            return Condition(tuple(steps))


def _argument(cursor: Cursor, wanted: str) -> Any:
    if wanted == "range":
        return _range(cursor)
    return _number(cursor, {"bit": BITS - 1, "count": BITS}.get(wanted, ALL_BITS))


def _range(cursor: Cursor) -> BitRange:
    if cursor.now.kind == "name" and cursor.now.text == "_":
        cursor.at += 1
        return WHOLE
    opened = cursor.take("[", "_ or a range of bits, as in [0:3]")
    low = _number(cursor, BITS - 1)
    cursor.take(":", ":")
    high = _number(cursor, BITS)
    cursor.take("]", "]")
    if high <= low:
        cursor.fail(f"[{low}:{high}] has no bits", opened, "The second number is the first bit that does not count")
    return BitRange(low, high)


def _number(cursor: Cursor, most: int) -> int:
    token = cursor.now
    if token.kind not in ("number", "hex"):
        cursor.fail(f"expected a number, found {shown(token)}", token)
    cursor.at += 1
    digits, base = (token.text[2:], 16) if token.kind == "hex" else (token.text, 10)
    if base == 10 and not digits.isdecimal():
        cursor.fail("a parameter is a whole number", token)
    if len(digits) > 20 or int(digits, base) > most:
        cursor.fail(f"the number is too large: at most {most}", token)
    return int(digits, base)
