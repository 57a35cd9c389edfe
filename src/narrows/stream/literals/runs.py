"""The runs of literal arguments: plain text that the core reads by itself, without a region (core/stream/run.hpp).

Between arguments, the core goes from one string to the next. Inside a list or an object it reads one name, word or
string at a time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.stream.json_scan import WHITESPACE
from narrows.stream.literals.states import COMMA_OR_END, IN_STRING, KEY_OR_END, VALUE
from narrows.stream.names import UNUSUAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from narrows.stream.literals.dialect import Dialect
    from narrows.stream.machine import Machine, Region
    from narrows.stream.states import State

ENDS_WORD = frozenset(",:=()[]{}\"'")
ENDS_BARE_WORD = frozenset("]},")
NOT_IN_KEYS = "()[]{}\"',="
_FOLLOWS_QUOTE = ",:)]}"
_IN_WORD = Run.of_name(WHITESPACE + "".join(ENDS_WORD))
_IN_BARE_WORD = Run.of_name("".join(ENDS_BARE_WORD))


class LiteralRuns:
    """The runs of one region."""

    __slots__ = ("_escapes", "_in_nested_string", "in_key", "in_string", "in_word", "of_quote", "of_state")

    def __init__(
        self,
        dialect: Dialect,
        next_key: Callable[[str, int], str | None],
        resume: Callable[[State, str, Machine, object], Region],
    ) -> None:
        """`next_key(name, place)`: the JSON of an argument's name (None: the region must read it).
        `resume(state, quote, machine, name)`: lets the region take over in this state, in a string that this quote
        ends."""
        not_in_keys = NOT_IN_KEYS + dialect.assign + dialect.close + ":" + "".join(mark[0] for mark in dialect.quotes)
        self.in_key = Run.of_name(not_in_keys + UNUSUAL)
        """In a bare key of an object, or in the name of the first argument."""
        self.in_word = _IN_BARE_WORD if dialect.bare_strings else _IN_WORD
        """In a number or a word."""
        self.of_quote = None if dialect.escapes else Run.of_markers(dialect.quotes)
        """Where an opening quote of several characters has begun."""
        key = Run.of_name(not_in_keys + UNUSUAL, (dialect.assign,))
        triple = tuple(mark * 3 for mark in dialect.quotes) if dialect.escapes else ()
        value = Run.of_markers((*triple, *dialect.quotes), whitespace_before=True)
        comma = Run.of_markers((",",), whitespace_before=True)
        comma.link(",", key)
        key.link(dialect.assign, value, "", next_key)
        self.of_state: dict[State, Run] = {KEY_OR_END: key, VALUE: value, COMMA_OR_END: comma}
        """Between arguments."""
        for state, run in self.of_state.items():
            run.resume = partial(resume, state, "")
        self.in_string: dict[str, Run] = {}
        """In a string that is an argument, by its quote."""
        for mark in dialect.quotes:
            loose = dialect.loose_quotes is not None and len(mark) == 1
            ends = tuple(mark + char for char in WHITESPACE + _FOLLOWS_QUOTE) if loose else (mark,)
            string = self.in_string[mark] = Run.of_text(ends, None, escapes=dialect.escapes)
            string.resume = partial(resume, IN_STRING, mark)
            string.link(mark + "," if loose else mark, key if loose else comma, '"', ahead=key if loose else None)
            value.link(mark, string, '"')
        self._escapes = dialect.escapes
        self._in_nested_string: dict[str, Run] = {}

    def in_nested_string(self, mark: str) -> Run:
        """In any other string that this quote ends."""
        run = self._in_nested_string.get(mark)
        if run is None:
            run = self._in_nested_string[mark] = Run.of_text((mark,), None, escapes=self._escapes)
        return run
