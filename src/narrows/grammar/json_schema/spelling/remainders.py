"""Whole numbers between bounds, chosen by their remainder: the least automaton that reads them digit by digit.

Once a number's digits so far are greater or less than those of a bound, only two things count: how many more digits
there may be, and the remainder of the digits so far. Remainders that no further digits tell apart are one state. So
multiples of 1,320 take 41 states and not 1,320, since the last three digits show whether 40 divides a number. Beside
these states there is one for each digit of the bounds.

Cost: about 1 us for each remainder and each number of further digits that must be told apart (`cost`). When it is
compiled, a state takes some 90 us and 2 KB.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from narrows.grammar import ir

MOST_STATES = 2_000
MOST_REMAINDERS = 20_000
_NONE = -1

Automaton = list[tuple[bool, list[tuple[ir.Node, int]]]]
"""States, of which the first is the start: (whether a text may end here, the edges)."""
_Array = np.ndarray[Any, np.dtype[np.int64]]
_State = tuple[bool, tuple[int, ...]]
"""(Whether a number may end here, the state after each digit.)"""


def cost(low: int | None, high: int | None, count: int) -> int:
    """Units of work for so many remainders."""
    digits = sum(1 + abs(bound).bit_length() // 3 for bound in (low, high) if bound is not None)
    return 100 + count * (3 + digits) // 2 + 40 * digits


def automaton(low: int | None, high: int | None, wanted: list[bool]) -> Automaton | None:
    """`wanted`: by remainder, whether a number with it belongs to it. A negative number has the remainder of the number
    without its sign. None where there would be too many states."""
    sides: list[tuple[bool, int, int | None]] = []  # whether there is a minus, and the bounds of what follows
    if high is None or high >= 0:
        sides.append((False, max(low or 0, 0), high))
    if low is None or low <= 0:
        sides.append((True, 0 if high is None else max(-high, 0), None if low is None else -low))
    if wanted.count(True) == 1 and _without_2_and_5(len(wanted)) > MOST_STATES:
        return None  # no digits decide: a state for each remainder
    numbers = _Numbers(np.array(wanted))
    start: list[int] = [_NONE] * 10
    minus = _NONE
    for is_negative, least, greatest in sides:
        first = numbers.between(least, greatest)
        if is_negative:
            minus = numbers.state(False, first)
        else:
            start = first
    return _numbered(numbers.states, start, minus)


def _without_2_and_5(count: int) -> int:
    for factor in (2, 5):
        while count % factor == 0:
            count //= factor
    return count


class _Numbers:
    """States, each of them once."""

    def __init__(self, wanted: Any) -> None:
        self.wanted = wanted
        self.after = (np.arange(len(wanted))[:, None] * 10 + np.arange(10)) % len(wanted)
        """By remainder and digit: the remainder with this digit more."""
        self.states: list[_State] = []
        self._known: dict[_State, int] = {}
        self._tails: dict[tuple[int, int | None], _Array] = {}

    def state(self, ends: bool, after: list[int]) -> int:
        if not ends and max(after) == _NONE:
            return _NONE
        key = (ends, tuple(after))
        if key not in self._known:
            self._known[key] = len(self.states)
            self.states.append(key)
        return self._known[key]

    def between(self, low: int, high: int | None) -> list[int]:
        """The state after each first digit of a number from `low` to `high`."""
        floor, ceiling = str(low), None if high is None else str(high)
        known: dict[tuple[str, int, int], int] = {}

        # How the digits so far compare with as many of a bound: -1, 0 or 1. Where one comparison is open, the digits
        # are those of that bound. So the chain of open states is as long as the bounds.
        todo: list[tuple[str, int, int]] = [("", 0, 0)]
        for digits, below, above in todo:
            for to in self._open(digits, below, above, floor, ceiling):
                if to not in known:
                    known[to] = _NONE
                    todo.append(to)
        start: list[int] = []
        for digits, below, above in reversed(todo):
            after = [
                _NONE if step is None else known[step] if isinstance(step, tuple) else step
                for step in self._steps(digits, below, above, floor, ceiling)
            ]
            if not digits:
                start = after
            else:
                known[digits, below, above] = self.state(self._ends(digits, below, above, floor, ceiling), after)
        return start

    def _open(self, digits: str, below: int, above: int, floor: str, ceiling: str | None) -> list[tuple[str, int, int]]:
        steps = self._steps(digits, below, above, floor, ceiling)
        return [step for step in steps if isinstance(step, tuple)]

    def _steps(
        self, digits: str, below: int, above: int, floor: str, ceiling: str | None
    ) -> list[tuple[str, int, int] | int | None]:
        """After each digit: digits that are still those of a bound, another state, or nothing."""
        steps: list[tuple[str, int, int] | int | None] = []
        for digit in "0123456789":
            count = len(digits)
            if digits == "0" or (ceiling is not None and count >= len(ceiling)):
                steps.append(None)
                continue
            if not count and digit == "0":  # a zero stands alone
                steps.append(self.state(bool(self.wanted[0]) and floor == "0", [_NONE] * 10))
                continue
            under = below or (1 if count >= len(floor) else _compared(digit, floor[count]))
            over = above or (0 if ceiling is None else _compared(digit, ceiling[count]))
            is_open = (under == 0 and count + 1 <= len(floor)) or (over == 0 and ceiling is not None)
            if is_open:
                steps.append((digits + digit, under, over))
                continue
            least = max(len(floor) + (under < 0) - count - 1, 0)
            most = None if ceiling is None else len(ceiling) - (over > 0) - count - 1
            rest = int(digits + digit) % len(self.wanted)
            steps.append(int(self.tail(least, most)[rest]))
        return steps

    def _ends(self, digits: str, below: int, above: int, floor: str, ceiling: str | None) -> bool:
        if not self.wanted[int(digits) % len(self.wanted)]:
            return False
        if len(digits) < len(floor) or (len(digits) == len(floor) and below < 0):
            return False
        return ceiling is None or len(digits) < len(ceiling) or (len(digits) == len(ceiling) and above <= 0)

    def tail(self, least: int, most: int | None) -> _Array:
        """By remainder: the state where at least and at most so many digits follow (None: without end), and the whole
        is a number with a wanted remainder."""
        chain = [(least, most)]
        while chain[-1] not in self._tails:
            low, high = chain[-1]
            if high is not None and (high < 0 or low > high):
                self._tails[low, high] = np.full(len(self.wanted), _NONE)
            elif high is None and low == 0:
                self._tails[low, high] = self._endless()
            else:
                chain.append((max(low - 1, 0), None if high is None else high - 1))
        for low, high in reversed(chain[:-1]):
            following = self._tails[max(low - 1, 0), None if high is None else high - 1][self.after]
            ends = self.wanted if low == 0 else np.zeros_like(self.wanted)
            _, first, of = _classes([ends.astype(np.int64), *following.T])
            ids = [self.state(bool(ends[k]), following[k].tolist()) for k in first]
            self._tails[low, high] = np.array(ids)[of]
        return self._tails[least, most]

    def _endless(self) -> _Array:
        """Where any digits may follow (Moore 1956)."""
        count, of = 0, self.wanted.astype(np.int64)
        while True:
            more, first, of = _classes([of, *of[self.after].T])
            if more == count:
                break
            count = more
        base = len(self.states)
        following = of[self.after]
        ids = np.array([_NONE if self._is_dead(of, k) else base + n for n, k in enumerate(first)])
        for k in first:  # one class is dead at most; its place stays free
            self.states.append((bool(self.wanted[k]), tuple(ids[following[k]].tolist())))
        self._known.update({state: base + n for n, state in enumerate(self.states[base:]) if ids[n] != _NONE})
        return ids[of]

    def _is_dead(self, of: _Array, rest: int) -> bool:
        return not self.wanted[rest] and bool((of[self.after[rest]] == of[rest]).all())


def _classes(columns: list[_Array]) -> tuple[int, Any, _Array]:
    """Rows with equal values in all columns are one class: (the number of classes, a row of each, the class of each
    row)."""
    of = columns[0]
    first: Any = None
    for column in columns[1:]:
        low = int(column.min())
        _, first, of = np.unique(
            of * (int(column.max()) - low + 1) + (column - low), return_index=True, return_inverse=True
        )
    return len(first), first, of.astype(np.int64)


def _compared(digit: str, other: str) -> int:
    return (digit > other) - (digit < other)


def _numbered(states: list[_State], start: list[int], minus: int) -> Automaton | None:
    """The states that are reached, from the start on."""
    numbers: dict[int, int] = {}
    todo: list[int] = []

    def number(state: int) -> int:
        if state not in numbers:
            numbers[state] = 1 + len(numbers)
            todo.append(state)
        return numbers[state]

    def edges(after: tuple[int, ...] | list[int]) -> list[tuple[ir.Node, int]]:
        digits: dict[int, list[int]] = {}
        for digit, to in enumerate(after):
            if to != _NONE:
                digits.setdefault(number(to), []).append(0x30 + digit)
        return [(ir.byte_set(*some), to) for to, some in digits.items()]

    first = edges(start)
    if minus != _NONE:
        first.append((ir.Bytes(b"-"), number(minus)))
    automaton: Automaton = [(False, first)]
    for state in todo:
        if len(numbers) >= MOST_STATES:
            return None
        ends, after = states[state]
        automaton.append((ends, edges(after)))
    return automaton
