"""Arguments written as literals of another notation, turned into JSON as they come: `f(city='Paris', days=3, ok=True)` and
`f{city:<|"|>Paris<|"|>,days:3}`.

Strings stream, re-escaped for JSON; a number, a word or a key is held until it ends, at most `stream_name_chars`. The first key with the
beginning of its value, or the end of an empty list, is what starts the call: until then all is held, and what is no list of named
arguments is text. A value
that breaks off later lets the rest of the call follow as it is. Brackets are kept on an explicit stack, at most `stream_depth`.

Python's tuples and sets are arrays; keys that are no strings are what Python's json module makes of them. A key that is given twice counts
once, the first time: the later values are read over.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.stream.json_scan import WHITESPACE, quote
from narrows.stream.literals.closing_quote import AfterQuote
from narrows.stream.literals.constants import literal
from narrows.stream.literals.escapes import read_escape
from narrows.stream.machine import CUT
from narrows.stream.names import LONGEST_NAME, TOO_MANY_KEYS, UNUSUAL, is_name, next_key

if TYPE_CHECKING:
    from narrows.stream.literals.dialect import Dialect
    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.raw_arguments import RawArguments


_ENDS_WORD = frozenset(",:=()[]{}\"'")
_ENDS_BARE_WORD = frozenset("]},")
_IN_WORD = Run.of_name(WHITESPACE + "".join(_ENDS_WORD))
_IN_BARE_WORD = Run.of_name("".join(_ENDS_BARE_WORD))
_FOLLOWS_QUOTE = frozenset(",:)]}")
_BEGINS_VALUE = frozenset("[{(+-.0123456789TFNtfn")


class LiteralArguments:
    """The arguments of a call whose name is known, from behind their opening bracket to their end; then `after`."""

    __slots__ = ("_after", "_brace", "_declared", "_dialect", "_dropped", "_first", "_in_key", "_in_quote", "_in_strings", "_in_word",
                 "_kept", "_key", "_key_size", "_key_span", "_key_text", "_known_only", "_machine", "_name", "_names", "_quote", "_raw",
                 "_skip", "_span", "_stack", "_state", "_top", "_writes")  # fmt: skip
    place = "call"

    def __init__(self, dialect: Dialect, after: Region, raw: RawArguments, known_only: bool = False) -> None:
        """`known_only`: a name that is not among the tools makes no call (for calls that no marker announces)."""
        self._dialect = dialect
        self._after = after
        self._raw = raw
        self._known_only = known_only
        self._machine: Machine | None = None
        self._name = ""
        self._declared: frozenset[str] | None = None
        self._span = (0, 0)
        in_key = _NOT_IN_KEYS + dialect.assign + dialect.close + ":" + "".join(mark[0] for mark in dialect.quotes)
        self._in_key = Run.of_name(in_key + UNUSUAL)
        self._in_word = _IN_BARE_WORD if dialect.bare_strings else _IN_WORD
        self._in_quote = None if dialect.escapes else Run.of_markers(dialect.quotes)
        self._in_strings: dict[str, Run] = {}
        self._brace: tuple[int, int] | None = None  # a brace that nothing was written for: an object or a set
        self._key_text: list[str] | None = None  # a quoted key, or a set's first item, as far as it was read
        self._top = self._link(in_key + UNUSUAL)

    def _link(self, not_in_keys: str) -> dict[str, Run]:
        """Runs for the arguments themselves, as opposed to what is inside of a list or an object, by the state or the quote: from one
        string to the next the core reads by itself."""
        dialect = self._dialect
        key = Run.of_name(not_in_keys, (dialect.assign,))
        triple = tuple(mark * 3 for mark in dialect.quotes) if dialect.escapes else ()
        value = Run.of_markers((*triple, *dialect.quotes), blanks=True)
        comma = Run.of_markers((",",), blanks=True)
        comma.link(",", key)
        key.link(dialect.assign, value, "", self._next_key)
        top = {"key or close": key, "value": value, "comma or close": comma}
        for state, run in top.items():
            run.resume = partial(self._resume, state, "")
        for mark in dialect.quotes:
            loose = dialect.loose_quotes is not None and len(mark) == 1
            ends = tuple(mark + char for char in WHITESPACE + "".join(_FOLLOWS_QUOTE)) if loose else (mark,)
            string = top[mark] = Run.of_text(ends, None, escapes=dialect.escapes)
            string.resume = partial(self._resume, "string", mark)
            string.link(mark + "," if loose else mark, key if loose else comma, '"', ahead=key if loose else None)
            value.link(mark, string, '"')
        return top

    def _next_key(self, name: str, place: int) -> str | None:
        declared = self._declared
        return next_key(self._machine, name, place) if declared is None or name in declared else None

    def _is_declared(self, name: str) -> bool:
        """Whether the tool has this argument, as far as that is known."""
        return self._declared is None or name in self._declared

    def _resume(self, state: str, mark: str, machine: Machine, named: object) -> Region:
        """Take over from the core."""
        self._state, self._quote = state, mark
        self._first, self._skip, self._key_text, self._dropped = False, 0, None, 0
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
        self._stack = [self._dialect.close]  # what closes the open brackets,
        self._writes = ["}"]  # what JSON writes for it,
        self._names: list[set[str]] = [set()]  # and the keys of the objects among them
        self._kept = 0
        self._state = (
            "key or close"  # key or close, key, assign, value, item or close, comma or close; string: inside one
        )
        self._first = True
        self._quote = ""
        self._skip = 0
        self._brace = self._key_text = None
        self._key_size = 0
        self._dropped = 0  # the depth at which a value is read over
        return self

    def read_value(self, machine: Machine) -> bool:
        """Read one value alone, which is all that there is; whether it is a whole one. For text that is no call."""
        self.enter(machine)
        self._state = "value"
        while self._state != "comma or close" or len(self._stack) > 1:
            step = self._read_string(machine) if self._state == "string" else self._read_structure(machine)
            if step is not self:
                return False
        return True

    def read(self, machine: Machine) -> Region | None:
        while True:
            step = self._read_string(machine) if self._state == "string" else self._read_structure(machine)
            if step is not self:
                return step

    # Each step returns this region (go on), another (it takes over), or None (more text is needed).

    def _read_structure(self, machine: Machine) -> Region | None:
        text, pos = machine.text, machine.pos
        end = len(text)
        while pos < end and text[pos] in WHITESPACE:
            pos += 1
        if pos > machine.pos and not self._skip:
            machine.take(pos)
        if pos == end:
            machine.run = self._waiting(machine)
            return None
        char, state = text[pos], self._state
        if self._skip:
            return self._read_word(machine, char)
        if char == self._stack[-1] and state in ("key or close", "item or close", "comma or close"):
            return self._close(machine)
        if state == "assign" and self._brace is not None and char in ",}":
            self._write_first(machine)
            return self
        if state == "comma or close" and char == ",":
            machine.take(pos + 1)
            self._state = "item or close" if self._writes[-1] == "]" else "key or close"
            self._first = False
            return self
        if state == "assign" and char == (self._dialect.assign if len(self._stack) == 1 else ":"):
            machine.take(pos + 1)
            self._write_key(machine)
            self._state = "value"
            return self
        if state == "key or close":
            return self._begin_key(machine)
        if state in ("value", "item or close"):
            return self._begin_value(machine, char)
        return self._broken(machine, f"the arguments break off where {_EXPECTED[state]} is expected")

    def _waiting(self, machine: Machine) -> Run | None:
        """What plain text is between strings."""
        if len(self._stack) == 1 and machine.wrote_arguments:
            return self._top.get(self._state) if not self._dropped else None
        key = self._state == "key or close" and (len(self._stack) == 1 or self._dialect.bare_keys)
        return self._in_key if key else None

    def _close(self, machine: Machine) -> Region | None:
        if len(self._stack) == 1:
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
        if self._stack[-1] == ")" and self._state == "comma or close" and self._first:
            machine.trouble = "one value in parentheses, without the comma of a tuple"
        self._write(machine, self._writes[-1], start)
        self._stack.pop()
        self._writes.pop()
        self._kept -= len(self._names.pop())
        self._first = False
        self._end_value()
        return self

    def _end_value(self) -> None:
        self._state = "comma or close"
        if self._dropped == len(self._stack):
            self._dropped = 0

    def _start(self, machine: Machine) -> None:
        if not machine.started:
            machine.start_call(self._name, self._span)

    # Writing: nothing of what is read over, and a key when it is known to be one.

    def _write(self, machine: Machine, text: str, start: int) -> None:
        if self._key_text is not None:
            self._key_text.append(text)
        elif not self._dropped:
            machine.write(text, start)

    def _write_held(self, machine: Machine, text: str, span: tuple[int, int]) -> None:
        if not self._dropped:
            machine.write_held(text, span)

    def _flush(self, machine: Machine) -> None:
        """What waits is written as it stands: the call breaks off."""
        key, self._key_text = self._key_text, None
        if self._brace is not None:
            self._write_held(machine, "{", self._brace)
        if key is not None:
            lead = "" if self._brace is not None else self._lead()
            self._write_held(machine, lead + "".join(key), self._key_span)
        self._brace = None

    # Keys.

    def _begin_key(self, machine: Machine) -> Region | None:
        bare = self._dialect.bare_keys or len(self._stack) == 1
        found = self._opening_quote(machine) if not bare or self._dialect.bare_keys else ""
        if found is None:
            return None
        if found:
            self._start(machine)
            self._key_text, self._key_size = [], 0
            self._key_span = (machine.offset, machine.offset)
            return self._begin_string(machine, found)
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
        self._skip = 1
        return self._read_word(machine, char)

    def _write_first(self, machine: Machine) -> None:
        """The brace was a set's: its first item is what was taken for a key, or begins here."""
        assert self._brace is not None
        self._writes[-1] = "]"
        self._write_held(machine, "[", self._brace)
        item, self._brace, self._key_text = self._key_text, None, None
        if item is None:
            self._state = "item or close"
        else:
            self._write_held(machine, "".join(item), self._key_span)
            self._first = False
            self._end_value()

    def _write_key(self, machine: Machine) -> None:
        """What waits is a key."""
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
        """Keep a key; if it is no new one, its value is read over."""
        names = self._names[-1]
        if key not in names:
            if self._kept < machine.limits.stream_keys:
                names.add(key)
                self._kept += 1
                return True
            machine.trouble = TOO_MANY_KEYS
        self._dropped = self._dropped or len(self._stack)
        return False

    def _read_key(self, machine: Machine) -> Region | None:
        """A bare key and what assigns it a value."""
        text, pos = machine.text, machine.pos
        assign = self._dialect.assign if len(self._stack) == 1 else ":"
        limit = machine.limits.stream_name_chars
        at = text.find(assign, pos, pos + limit + 1)
        key = text[pos : at if at >= 0 else pos + limit + 1].strip()
        too_long = at < 0 and len(text) - pos > limit
        if not is_name(key, self._dialect.bare_keys, _NOT_IN_KEYS) or (at >= 0 and not key) or too_long:
            return self._broken(machine, "the arguments break off where a key is expected")
        if at < 0:
            if not text[-1].isspace():
                machine.run = self._waiting(machine)
            return None
        start = machine.offset
        machine.take(at + 1)
        key = machine.clean(key)
        self._state = "value"
        if not machine.started:
            self._key, self._key_span = key, (start, machine.offset)
        elif self._is_new_name(machine, key, start) if len(self._stack) == 1 else self._is_new(machine, key):
            self._separate(machine, start, quote(key) + ": ")
        return self

    def _is_new_name(self, machine: Machine, name: str, place: int) -> bool:
        """The same for an argument's name, which the core keeps, too."""
        given = machine.given
        if name not in given and len(given) >= machine.limits.stream_keys:
            machine.trouble = TOO_MANY_KEYS
        elif given.setdefault(name, place) == place:
            return True
        self._dropped = len(self._stack)
        return False

    def _separate(self, machine: Machine, start: int | None = None, more: str = "") -> None:
        """Write what stands before a key or an item, and `more`."""
        self._write(machine, self._lead() + more, machine.offset if start is None else start)

    def _lead(self) -> str:
        return "{" if self._first and len(self._stack) == 1 else "" if self._first else ", "

    # Values.

    def _begin_value(self, machine: Machine, char: str) -> Region | None:
        found = self._opening_quote(machine)
        if found is None:
            return None
        if not machine.started:  # `name(key=` has been read; with a value it is convincing
            if not found and not (char not in ",]})" if self._dialect.bare_strings else char in _BEGINS_VALUE):
                return machine.give_back()
            self._start(machine)
            machine.given[self._key] = self._key_span[0]
            machine.write_held("{" + quote(self._key) + ": ", self._key_span)
        if self._state == "item or close":
            self._separate(machine)
            self._state = "value"
        if found:
            return self._begin_string(machine, found)
        if char in "[{" or (char == "(" and self._dialect.escapes):
            return self._open(machine, char)
        self._skip = 1
        return self._read_word(machine, char)

    def _open(self, machine: Machine, char: str) -> Region:
        if len(self._stack) >= machine.limits.stream_depth:
            return self._broken(machine, "nested too deeply [limit stream_depth]")
        start = machine.offset
        machine.take(machine.pos + 1)
        if char == "{" and not self._dialect.bare_keys:
            self._brace = (start, machine.offset)
        else:
            self._write(machine, "{" if char == "{" else "[", start)
        self._stack.append({"[": "]", "{": "}", "(": ")"}[char])
        self._writes.append("}" if char == "{" else "]")
        self._names.append(set())
        self._state = "key or close" if char == "{" else "item or close"
        self._first = True
        return self

    def _read_word(self, machine: Machine, char: str) -> Region | None:
        """A number, a constant, or (where the notation has them) a bare string."""
        text, pos = machine.text, machine.pos
        limit = machine.limits.stream_name_chars
        bare = self._dialect.bare_strings
        ends = _ENDS_BARE_WORD if bare else _ENDS_WORD
        at = pos + self._skip - 1
        stop = min(len(text), pos + limit + 1)
        while at < stop and text[at] not in ends and (bare or text[at] not in WHITESPACE):
            at += 1
        if at - pos > limit:
            return self._broken(machine, "a value is too long [limit stream_name_chars]")
        if at == len(text):
            self._skip = at - pos + 1
            machine.run = self._in_word
            return None
        self._skip = 0
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
            self._state = "assign"
        else:
            self._end_value()
        return self

    # Strings.

    def _opening_quote(self, machine: Machine) -> str | None:
        """The delimiter of the string that begins here, "" where none does; None: more text will tell."""
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
                machine.run = self._in_quote
                return None  # where the text ends here, half a quote is markup
        return ""

    def _begin_string(self, machine: Machine, delimiter: str) -> Region:
        start = machine.offset
        machine.take(machine.pos + len(delimiter))
        self._write(machine, '"', start)
        self._quote, self._state = delimiter, "string"
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
                return self._read_escape(machine) if self._say(machine, slash) else self
        if at < 0:
            kept = 0 if machine.final else _possible(text, pos, mark)
            if self._say(machine, end - kept):
                machine.run = self._in_string(machine)
                return None
            return self
        closes = self._closes(machine, at + len(mark))
        if not self._say(machine, at if closes is not False else at + 1):
            return self
        if closes is None:
            machine.run = self._in_string(machine)
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
            self._state = "assign"
        return self

    def _closes(self, machine: Machine, behind: int) -> bool | None:
        """Whether the delimiter before this place ends the string; None: more text will tell."""
        end = self._dialect.loose_quotes
        if end is None:
            return True
        key, first = self._key_text is not None, self._brace is not None
        longest = machine.limits.stream_name_chars
        declares = partial(_declares, machine)
        after = AfterQuote(machine.text, behind, machine.final, longest, self._stack, self._is_declared, declares)
        closes = after.closes(key and not first, first, end)
        if closes is None and machine.offset < 0 and after.behind_call:
            return True  # the prompt leaves off between two calls, or in the next one's name
        return closes

    def _in_string(self, machine: Machine) -> Run | None:
        if (
            machine.offset < 0
            or self._dropped
            or self._key_text is not None
            or machine.limits.stream_name_chars < LONGEST_NAME
        ):
            return None
        if len(self._stack) == 1 and self._quote in self._top:
            return self._top[self._quote]
        run = self._in_strings.get(self._quote)
        if run is None:
            run = Run.of_text((self._quote,), None, escapes=self._dialect.escapes)
            self._in_strings[self._quote] = run
        return run

    def _say(self, machine: Machine, end: int) -> bool:
        """Text of a string up to `end`; False where a key is too long to be held so far."""
        if self._key_text is not None:
            room = machine.limits.stream_name_chars + 1 - self._key_size
            end, wanted = min(end, machine.pos + max(room, 0)), end
            self._key_size += max(end - machine.pos, 0)
            if end < wanted or self._key_size > machine.limits.stream_name_chars:
                self._key_size = machine.limits.stream_name_chars + 1
                self._say_all(machine, end)
                return False
        self._say_all(machine, end)
        return True

    def _say_all(self, machine: Machine, end: int) -> None:
        if end > machine.pos:
            start = machine.offset
            self._write(machine, quote(machine.clean(machine.take(end)))[1:-1], start)

    def _read_escape(self, machine: Machine) -> Region | None:
        found = read_escape(machine.text, machine.pos, machine.final)
        if found is None:
            machine.run = self._in_string(machine) if machine.pos + 1 == len(machine.text) else None
            return None
        start = machine.offset
        machine.take(found[0])
        self._write(machine, found[1], start)
        self._key_size += 1
        return self

    # Trouble, and the end.

    def _broken(self, machine: Machine, reason: str) -> Region:
        if not machine.started:
            return machine.give_back()
        self._flush(machine)
        return self._raw.because(reason).enter(machine)

    def stop(self, machine: Machine) -> None:
        """The text is cut: what there is is written as it stands, and not made whole."""
        if self._state == "string":
            self._say_all(machine, len(machine.text))
        elif self._skip:
            start = machine.offset
            self._write(machine, machine.clean(machine.take(len(machine.text))), start)
        if machine.started:
            self._flush(machine)
            machine.take(len(machine.text))
            machine.end_call(CUT)
        else:
            machine.cut()


_NOT_IN_KEYS = "()[]{}\"',="
_EXPECTED = {"assign": "what assigns a value", "comma or close": "a comma or the end"}


def _arguments_of(machine: Machine, tool: str) -> frozenset[str] | None:
    """The names of a tool's arguments; None where any may be one."""
    place = machine.tools.place(tool)
    return place.names if place.names and place.names_all else None


def _declares(machine: Machine, tool: str, argument: str) -> bool:
    return argument in (_arguments_of(machine, tool) or ())


def _possible(text: str, pos: int, mark: str) -> int:
    """How many characters at the end of the text may begin the delimiter."""
    for size in range(min(len(mark) - 1, len(text) - pos), 0, -1):
        if text.endswith(mark[:size]):
            return size
    return 0
