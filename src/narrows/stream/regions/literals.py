"""Arguments written as literals of another notation, turned into JSON as they come.

Examples are `f(city='Paris', days=3, ok=True)` and `f{city:<|"|>Paris<|"|>,days:3}`.

Strings stream, escaped for JSON. A number, a word or a key is held back until it ends, at most `stream_name_chars`. The
call starts when its first key and the beginning of that key's value have come, or the end of an empty list. All text
before that is held back; if it is not a list of named arguments, it stays text. Where a value breaks off later, the
rest of the call follows unchanged. Open brackets are kept on an explicit stack, at most `stream_depth`.

Python's tuples and sets become arrays. Keys that are not strings are written as Python's json module writes them. Where
a key is given twice, the first value counts, and the later ones are read and left out.

Its states, and which follows which, stand in `literals/states.py`.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from narrows.stream.json_scan import WHITESPACE, quote
from narrows.stream.literals.closing_quote import AfterQuote
from narrows.stream.literals.constants import literal
from narrows.stream.literals.escapes import read_escape
from narrows.stream.literals.runs import ENDS_BARE_WORD, ENDS_WORD, NOT_IN_KEYS, LiteralRuns
from narrows.stream.literals.states import (
    ASSIGNMENT,
    COMMA_OR_END,
    IN_STRING,
    ITEM_OR_END,
    KEY_OR_END,
    MAY_END,
    VALUE,
)
from narrows.stream.machine import CUT
from narrows.stream.names import LONGEST_NAME, TOO_MANY_KEYS, is_name, next_key

if TYPE_CHECKING:
    from narrows._core import Run
    from narrows.stream.literals.dialect import Dialect
    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.raw_arguments import RawArguments
    from narrows.stream.states import State


_BEGINS_VALUE = frozenset("[{(+-.0123456789TFNtfn")

_NO_WORD = -1
"""`_word_size` where no word has begun. It is below 0, and a word's size is not."""


class LiteralArguments:
    """The arguments of a call whose name is known, from after their opening bracket to their end; then `after`."""

    __slots__ = ("_after", "_brace", "_closers", "_declared", "_dialect", "_first", "_ignored_from", "_json_closers",
                 "_key", "_key_count", "_key_size", "_key_span", "_key_text", "_keys", "_known_only", "_machine",
                 "_name", "_quote", "_raw", "_runs", "_span", "_state", "_word_size")  # fmt: skip
    place = "call"

    def __init__(self, dialect: Dialect, after: Region, raw: RawArguments, known_only: bool = False) -> None:
        """`known_only`: only a name among the tools makes a call (for calls that no marker announces)."""
        self._dialect = dialect
        self._after = after
        self._raw = raw
        self._known_only = known_only
        self._machine: Machine | None = None
        self._name = ""
        self._declared: frozenset[str] | None = None
        self._span = (0, 0)
        self._brace: tuple[int, int] | None = None  # the span of an unwritten brace: an object's or a set's
        self._key_text: list[str] | None = None  # the JSON of a possible key or first item of a set
        self._runs = LiteralRuns(dialect, self._next_key, self._resume)

    def _next_key(self, name: str, place: int) -> str | None:
        declared = self._declared
        return next_key(self._machine, name, place) if declared is None or name in declared else None

    def _is_declared(self, name: str) -> bool:
        """Whether the tool has this argument. True where that is not known."""
        return self._declared is None or name in self._declared

    def _resume(self, state: State, mark: str, machine: Machine, named: object) -> Region:
        """Take over from the core."""
        self._state, self._quote = state, mark
        self._first, self._word_size, self._key_text, self._ignored_from = False, _NO_WORD, None, 0
        return self

    def take_name(self, machine: Machine, name: str, span: tuple[int, int]) -> None:
        self._name, self._span = machine.clean(name), span

    def enter(self, machine: Machine) -> Region:
        if self._known_only and not machine.tools.knows(self._name):
            return machine.give_back()
        self._machine = machine if machine.limits.stream_name_chars >= LONGEST_NAME else None
        self._declared = None
        if self._dialect.loose_quotes is not None:
            self._declared = _arguments_of(machine, self._name)
        self._closers = [self._dialect.close]  # for each open bracket: its closing bracket,
        self._json_closers = ["}"]  # that bracket in JSON,
        self._keys: list[set[str]] = [set()]  # and, for an object, its keys so far
        self._key_count = 0  # keys in all open brackets but the call's own
        self._state = KEY_OR_END
        self._first = True  # the innermost bracket is empty so far
        self._quote = ""
        self._word_size = _NO_WORD
        self._brace = self._key_text = None
        self._key_size = 0
        self._ignored_from = 0  # the depth of the value that is being left out; 0 where none is
        return self

    def read_value(self, machine: Machine) -> bool:
        """Read the machine's whole text as one value, without a call. Returns whether it is a whole value."""
        self.enter(machine)
        self._state = VALUE
        while self._state is not COMMA_OR_END or len(self._closers) > 1:
            step = self._read_string(machine) if self._state is IN_STRING else self._read_structure(machine)
            if step is not self:
                return False
        return True

    def read(self, machine: Machine) -> Region | None:
        while True:
            step = self._read_string(machine) if self._state is IN_STRING else self._read_structure(machine)
            if step is not self:
                return step

    # Each step returns this region (go on), another (it takes over), or None (more text is needed).

    def _read_structure(self, machine: Machine) -> Region | None:
        text, pos = machine.text, machine.pos
        end = len(text)
        while pos < end and text[pos] in WHITESPACE:
            pos += 1
        if pos > machine.pos and self._word_size < 0:
            machine.take(pos)
        if pos == end:
            machine.run = self._run_of_structure(machine)
            return None
        char, state = text[pos], self._state
        if self._word_size >= 0:
            return self._read_word(machine, char)
        if char == self._closers[-1] and state in MAY_END:
            return self._close(machine)
        if state is ASSIGNMENT and self._brace is not None and char in ",}":
            self._write_first(machine)
            return self
        if state is COMMA_OR_END and char == ",":
            machine.take(pos + 1)
            self._state = ITEM_OR_END if self._json_closers[-1] == "]" else KEY_OR_END
            self._first = False
            return self
        if state is ASSIGNMENT and char == (self._dialect.assign if len(self._closers) == 1 else ":"):
            machine.take(pos + 1)
            self._write_key(machine)
            self._state = VALUE
            return self
        if state is KEY_OR_END:
            return self._begin_key(machine)
        if state is VALUE or state is ITEM_OR_END:
            return self._begin_value(machine, char)
        return self._broken(machine, f"the arguments break off where {state.expected} is expected")

    def _run_of_structure(self, machine: Machine) -> Run | None:
        """The run that lets the core read outside of strings, or None."""
        if len(self._closers) == 1 and machine.wrote_arguments:
            return self._runs.of_state.get(self._state) if not self._ignored_from else None
        key = self._state is KEY_OR_END and (len(self._closers) == 1 or self._dialect.bare_keys)
        return self._runs.in_key if key else None

    def _close(self, machine: Machine) -> Region | None:
        if len(self._closers) == 1:
            self._start(machine)
            start = machine.offset
            machine.take(machine.pos + 1)
            machine.write("}" if machine.wrote_arguments else "{}", start)
            machine.end_call()
            return self._after.enter(machine)
        start = machine.offset
        machine.take(machine.pos + 1)
        if self._brace is not None:
            self._write_held(machine, "{", self._brace)
            self._brace = None
        if self._closers[-1] == ")" and self._state is COMMA_OR_END and self._first:
            machine.trouble = "one value in parentheses, without the comma of a tuple"
        self._write(machine, self._json_closers[-1], start)
        self._closers.pop()
        self._json_closers.pop()
        self._key_count -= len(self._keys.pop())
        self._first = False
        self._end_value()
        return self

    def _end_value(self) -> None:
        self._state = COMMA_OR_END
        if self._ignored_from == len(self._closers):
            self._ignored_from = 0

    def _start(self, machine: Machine) -> None:
        if not machine.started:
            machine.start_call(self._name, self._span)

    # Writing. Values that are left out are not written, and a key is written when it is known to be one.

    def _write(self, machine: Machine, text: str, start: int) -> None:
        if self._key_text is not None:
            self._key_text.append(text)
        elif not self._ignored_from:
            machine.write(text, start)

    def _write_held(self, machine: Machine, text: str, span: tuple[int, int]) -> None:
        if not self._ignored_from:
            machine.write_held(text, span)

    def _flush(self, machine: Machine) -> None:
        """The call breaks off: write a possible key or set unchanged."""
        key, self._key_text = self._key_text, None
        if self._brace is not None:
            self._write_held(machine, "{", self._brace)
        if key is not None:
            lead = "" if self._brace is not None else self._lead()
            self._write_held(machine, lead + "".join(key), self._key_span)
        self._brace = None

    # Keys.

    def _begin_key(self, machine: Machine) -> Region | None:
        bare = self._dialect.bare_keys or len(self._closers) == 1
        quote_mark = self._opening_quote(machine) if not bare or self._dialect.bare_keys else ""
        if quote_mark is None:
            return None
        if quote_mark:
            self._start(machine)
            self._key_text, self._key_size = [], 0
            self._key_span = (machine.offset, machine.offset)
            return self._begin_string(machine, quote_mark)
        if bare:
            return self._read_key(machine)
        char = machine.text[machine.pos]
        if self._brace is not None and char == "(":
            self._write_first(machine)
            return self
        if char in "[{(":
            return self._broken(machine, "the arguments break off where a key is expected")
        self._key_text = []
        self._key_span = (machine.offset, machine.offset)
        self._word_size = 0
        return self._read_word(machine, char)

    def _write_first(self, machine: Machine) -> None:
        """The brace is a set's. Its first item is the possible key, or begins here."""
        assert self._brace is not None
        self._json_closers[-1] = "]"
        self._write_held(machine, "[", self._brace)
        item, self._brace, self._key_text = self._key_text, None, None
        if item is None:
            self._state = ITEM_OR_END
        else:
            self._write_held(machine, "".join(item), self._key_span)
            self._first = False
            self._end_value()

    def _write_key(self, machine: Machine) -> None:
        """The possible item of a set is a key."""
        if self._key_text is None:
            return
        text, self._key_text = "".join(self._key_text), None
        key = json.loads(text) if text[0] == '"' else text
        if self._brace is not None:
            self._write_held(machine, "{", self._brace)
        if self._is_new(machine, key):
            self._write_held(machine, f"{self._lead()}{quote(key)}: ", self._key_span)
        self._brace = None

    def _is_new(self, machine: Machine, key: str) -> bool:
        """Note a key of an object. Returns False if the object has it already: its value is then left out."""
        names = self._keys[-1]
        if key not in names:
            if self._key_count < machine.limits.stream_keys:
                names.add(key)
                self._key_count += 1
                return True
            machine.trouble = TOO_MANY_KEYS
        self._ignored_from = self._ignored_from or len(self._closers)
        return False

    def _read_key(self, machine: Machine) -> Region | None:
        """Read a bare key and the `=` or `:` after it."""
        text, pos = machine.text, machine.pos
        assign = self._dialect.assign if len(self._closers) == 1 else ":"
        limit = machine.limits.stream_name_chars
        at = text.find(assign, pos, pos + limit + 1)
        key = text[pos : at if at >= 0 else pos + limit + 1].strip()
        too_long = at < 0 and len(text) - pos > limit
        if not is_name(key, self._dialect.bare_keys, NOT_IN_KEYS) or (at >= 0 and not key) or too_long:
            return self._broken(machine, "the arguments break off where a key is expected")
        if at < 0:
            if not text[-1].isspace():
                machine.run = self._run_of_structure(machine)
            return None
        start = machine.offset
        machine.take(at + 1)
        key = machine.clean(key)
        self._state = VALUE
        if not machine.started:
            self._key, self._key_span = key, (start, machine.offset)
        elif self._is_new_name(machine, key, start) if len(self._closers) == 1 else self._is_new(machine, key):
            self._separate(machine, start, quote(key) + ": ")
        return self

    def _is_new_name(self, machine: Machine, name: str, place: int) -> bool:
        """The same for an argument's name. The core notes these names, too."""
        given = machine.given
        if name not in given and len(given) >= machine.limits.stream_keys:
            machine.trouble = TOO_MANY_KEYS
        elif given.setdefault(name, place) == place:
            return True
        self._ignored_from = len(self._closers)
        return False

    def _separate(self, machine: Machine, start: int | None = None, more: str = "") -> None:
        """Write the JSON before a key or an item, and `more`."""
        self._write(machine, self._lead() + more, machine.offset if start is None else start)

    def _lead(self) -> str:
        return "{" if self._first and len(self._closers) == 1 else "" if self._first else ", "

    # Values.

    def _begin_value(self, machine: Machine, char: str) -> Region | None:
        quote_mark = self._opening_quote(machine)
        if quote_mark is None:
            return None
        if not machine.started:  # `name(key=` has been read: with a value it is a call
            if not quote_mark and not (char not in ",]})" if self._dialect.bare_strings else char in _BEGINS_VALUE):
                return machine.give_back()
            self._start(machine)
            machine.given[self._key] = self._key_span[0]
            machine.write_held("{" + quote(self._key) + ": ", self._key_span)
        if self._state is ITEM_OR_END:
            self._separate(machine)
            self._state = VALUE
        if quote_mark:
            return self._begin_string(machine, quote_mark)
        if char in "[{" or (char == "(" and self._dialect.escapes):
            return self._open(machine, char)
        self._word_size = 0
        return self._read_word(machine, char)

    def _open(self, machine: Machine, char: str) -> Region:
        if len(self._closers) >= machine.limits.stream_depth:
            return self._broken(machine, "nested too deeply [limit stream_depth]")
        start = machine.offset
        machine.take(machine.pos + 1)
        if char == "{" and not self._dialect.bare_keys:
            self._brace = (start, machine.offset)
        else:
            self._write(machine, "{" if char == "{" else "[", start)
        self._closers.append({"[": "]", "{": "}", "(": ")"}[char])
        self._json_closers.append("}" if char == "{" else "]")
        self._keys.append(set())
        self._state = KEY_OR_END if char == "{" else ITEM_OR_END
        self._first = True
        return self

    def _read_word(self, machine: Machine, char: str) -> Region | None:
        """A number, a constant, or (where the notation has them) a bare string."""
        text, pos = machine.text, machine.pos
        limit = machine.limits.stream_name_chars
        bare = self._dialect.bare_strings
        ends = ENDS_BARE_WORD if bare else ENDS_WORD
        at = pos + self._word_size
        stop = min(len(text), pos + limit + 1)
        while at < stop and text[at] not in ends and (bare or text[at] not in WHITESPACE):
            at += 1
        if at - pos > limit:
            return self._broken(machine, "a value is too long [limit stream_name_chars]")
        if at == len(text):
            self._word_size = at - pos
            machine.run = self._runs.in_word
            return None
        self._word_size = _NO_WORD
        word = machine.clean(text[pos:at]).strip()
        value = literal(word, machine.limits.stream_depth, python=not bare)
        if value is None and bare and word:
            value = quote(word)
        if value is None:
            return self._broken(machine, "no literal where a value is expected")
        start = machine.offset
        machine.take(at)
        self._write(machine, value, start)
        if self._key_text is not None:
            self._key_span = (self._key_span[0], machine.offset)
            self._state = ASSIGNMENT
        else:
            self._end_value()
        return self

    # Strings.

    def _opening_quote(self, machine: Machine) -> str | None:
        """The quote of the string that begins here, "" where none does; None: more text is needed to know."""
        text, pos = machine.text, machine.pos
        for mark in self._dialect.quotes:
            if text.startswith(mark, pos):
                if not self._dialect.escapes:
                    return mark
                three = text[pos : pos + 3]
                if three == mark * 3:
                    return three
                return None if len(three) < 3 and three == mark * len(three) and not machine.final else mark
            if len(text) - pos < len(mark) and mark.startswith(text[pos:]):
                machine.run = self._runs.of_quote
                return None  # where the text ends here, half a quote counts as markup
        return ""

    def _begin_string(self, machine: Machine, delimiter: str) -> Region:
        start = machine.offset
        machine.take(machine.pos + len(delimiter))
        self._write(machine, '"', start)
        self._quote, self._state = delimiter, IN_STRING
        return self

    def _read_string(self, machine: Machine) -> Region | None:
        text, pos, mark = machine.text, machine.pos, self._quote
        end = len(text)
        if self._key_text is not None and self._key_size > machine.limits.stream_name_chars:
            return self._broken(machine, "a key is too long [limit stream_name_chars]")
        at = text.find(mark, pos)
        stop = at if at >= 0 else end
        if self._dialect.escapes:
            slash = text.find("\\", pos, stop)
            if slash >= 0:
                return self._read_escape(machine) if self._take_text(machine, slash) else self
        if at < 0:
            begun = 0 if machine.final else _begun(text, pos, mark)
            if self._take_text(machine, end - begun):
                machine.run = self._run_of_string(machine)
                return None
            return self
        closes = self._closes(machine, at + len(mark))
        if not self._take_text(machine, at if closes is not False else at + 1):
            return self
        if closes is None:
            machine.run = self._run_of_string(machine)
            return None
        if not closes:
            return self
        start = machine.offset
        machine.take(at + len(mark))
        self._write(machine, '"', start)
        if self._key_text is None:
            self._end_value()
        else:
            self._key_span = (self._key_span[0], machine.offset)
            self._state = ASSIGNMENT
        return self

    def _closes(self, machine: Machine, end_of_quote: int) -> bool | None:
        """Whether the quote that ends at this place ends the string; None: more text is needed to know."""
        call_end = self._dialect.loose_quotes
        if call_end is None:
            return True
        key, first = self._key_text is not None, self._brace is not None
        longest = machine.limits.stream_name_chars
        declares = partial(_declares, machine)
        after = AfterQuote(
            machine.text, end_of_quote, machine.final, longest, self._closers, self._is_declared, declares
        )
        closes = after.closes(key and not first, first, call_end)
        if closes is None and machine.offset < 0 and after.after_call:
            return True  # the prompt ends between two calls, or in the name of the next
        return closes

    def _run_of_string(self, machine: Machine) -> Run | None:
        """The run that lets the core read inside the string, or None."""
        if (
            machine.offset < 0
            or self._ignored_from
            or self._key_text is not None
            or machine.limits.stream_name_chars < LONGEST_NAME
        ):
            return None
        if len(self._closers) == 1 and self._quote in self._runs.in_string:
            return self._runs.in_string[self._quote]
        return self._runs.in_nested_string(self._quote)

    def _take_text(self, machine: Machine, end: int) -> bool:
        """Take a string's text up to `end`. Returns False where the string may be a key and is too long for one."""
        if self._key_text is not None:
            room = machine.limits.stream_name_chars + 1 - self._key_size
            end, wanted = min(end, machine.pos + max(room, 0)), end
            self._key_size += max(end - machine.pos, 0)
            if end < wanted or self._key_size > machine.limits.stream_name_chars:
                self._key_size = machine.limits.stream_name_chars + 1
                self._take_string(machine, end)
                return False
        self._take_string(machine, end)
        return True

    def _take_string(self, machine: Machine, end: int) -> None:
        if end > machine.pos:
            start = machine.offset
            self._write(machine, quote(machine.clean(machine.take(end)))[1:-1], start)

    def _read_escape(self, machine: Machine) -> Region | None:
        escape = read_escape(machine.text, machine.pos, machine.final)
        if escape is None:
            machine.run = self._run_of_string(machine) if machine.pos + 1 == len(machine.text) else None
            return None
        start = machine.offset
        end, json_text = escape
        machine.take(end)
        self._write(machine, json_text, start)
        self._key_size += 1
        return self

    # Where the call breaks off, and the end.

    def _broken(self, machine: Machine, reason: str) -> Region:
        if not machine.started:
            return machine.give_back()
        self._flush(machine)
        return self._raw.because(reason).enter(machine)

    def stop(self, machine: Machine) -> None:
        """The text ends inside the arguments: the part that has come is written unchanged, and not completed."""
        if self._state is IN_STRING:
            self._take_string(machine, len(machine.text))
        elif self._word_size >= 0:
            start = machine.offset
            self._write(machine, machine.clean(machine.take(len(machine.text))), start)
        if machine.started:
            self._flush(machine)
            machine.take(len(machine.text))
            machine.end_call(CUT)
        else:
            machine.cut()


def _arguments_of(machine: Machine, tool: str) -> frozenset[str] | None:
    """The names of a tool's arguments; None where any may be one."""
    place = machine.tools.place(tool)
    return place.names if place.names and place.names_all else None


def _declares(machine: Machine, tool: str, argument: str) -> bool:
    return argument in (_arguments_of(machine, tool) or ())


def _begun(text: str, pos: int, mark: str) -> int:
    """How many characters at the end of the text may be the beginning of the quote."""
    for size in range(min(len(mark) - 1, len(text) - pos), 0, -1):
        if text.endswith(mark[:size]):
            return size
    return 0
