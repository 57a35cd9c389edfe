"""Arguments written as literals of another notation, turned into JSON as they come: `f(city='Paris', days=3, ok=True)` and
`f{city:<|"|>Paris<|"|>,days:3}`.

Strings stream, re-escaped for JSON; a number, a word or a key is held until it ends, at most `stream_name_chars`. The first key with the
beginning of its value, or the end of an empty list, is what starts the call: until then all is held, and what is no list of named
arguments is text. A value
that breaks off later lets the rest of the call follow as it is. Brackets are kept on an explicit stack, at most `stream_depth`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.stream.coerce import is_json, quote
from narrows.stream.json_scan import BLANK
from narrows.stream.machine import CUT
from narrows.stream.names import LONGEST_NAME, UNUSUAL, is_name, next_key

if TYPE_CHECKING:
    from narrows.stream.json_call import RawArguments
    from narrows.stream.machine import Machine, Region


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How arguments and values are written. Delimiters are as they stand in the text (see `Alphabet.encode`)."""

    assign: str
    """Between the name and the value of an argument."""
    close: str
    """What ends the arguments."""
    quotes: tuple[str, ...]
    """What strings stand between."""
    escapes: bool
    """Backslashes are Python's (which JSON's are among); else a string's text is as it stands."""
    bare_keys: bool
    """Keys of objects are written without quotes, as arguments are."""
    bare_strings: bool
    """A value that is no literal is a string; else the call breaks off there."""
    loose_quotes: bool
    """A quote that (blanks apart) no comma, colon or closing bracket follows belongs to the string: some templates escape nothing."""


_WORDS = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}
_ENDS_WORD = frozenset(",:=()[]{}\"'")
_ENDS_BARE_WORD = frozenset("]},")
_IN_WORD = Run.of_name(BLANK + "".join(_ENDS_WORD))
_IN_BARE_WORD = Run.of_name("".join(_ENDS_BARE_WORD))
_FOLLOWS_QUOTE = frozenset(",:)]}")
_BEGINS_VALUE = frozenset("[{+-.0123456789TFNtfn")
_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "/": "/", "\n": "",
}  # fmt: skip
_CODES = {"x": 2, "u": 4, "U": 8}


class LiteralArguments:
    """The arguments of a call whose name is known, from behind their opening bracket to their end; then `after`."""

    __slots__ = ("_after", "_dialect", "_first", "_in_key", "_in_quote", "_in_strings", "_in_word", "_key", "_key_span", "_known_only",
                 "_machine", "_name", "_quote", "_raw", "_skip", "_span", "_stack", "_state", "_top", "_word_from")  # fmt: skip
    place = "call"

    def __init__(self, dialect: Dialect, after: Region, raw: RawArguments, known_only: bool = False) -> None:
        """`known_only`: a name that is not among the tools makes no call (for calls that no marker announces)."""
        self._dialect = dialect
        self._after = after
        self._raw = raw
        self._known_only = known_only
        self._machine: Machine | None = None
        self._name = ""
        self._span = (0, 0)
        in_key = _NOT_IN_KEYS + dialect.assign + dialect.close + ":" + "".join(mark[0] for mark in dialect.quotes)
        self._in_key = Run.of_name(in_key + UNUSUAL)
        self._in_word = _IN_BARE_WORD if dialect.bare_strings else _IN_WORD
        self._in_quote = None if dialect.escapes else Run.of_markers(dialect.quotes)
        self._in_strings: dict[str, Run] = {}
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
            loose = dialect.loose_quotes and len(mark) == 1
            ends = tuple(mark + char for char in BLANK + "".join(_FOLLOWS_QUOTE)) if loose else (mark,)
            string = top[mark] = Run.of_text(ends, None, escapes=dialect.escapes)
            string.resume = partial(self._resume, "string", mark)
            string.link(mark + "," if loose else mark, key if loose else comma, '"')
            value.link(mark, string, '"')
        return top

    def _next_key(self, name: str, place: int) -> str | None:
        return next_key(self._machine, name, place)

    def _resume(self, state: str, mark: str, machine: Machine, named: object) -> Region:
        """Take over from the core."""
        self._state, self._quote = state, mark
        self._first, self._skip, self._word_from = False, 0, 0
        return self

    def take_name(self, machine: Machine, name: str, span: tuple[int, int]) -> None:
        self._name, self._span = machine.clean(name), span

    def enter(self, machine: Machine) -> Region:
        if self._known_only and not machine.tools.knows(self._name):
            return machine.give_back()
        self._machine = machine if machine.limits.stream_name_chars >= LONGEST_NAME else None
        self._stack = [self._dialect.close]
        self._state = (
            "key or close"  # key or close, key, assign, value, item or close, comma or close; string: inside one
        )
        self._first = True
        self._quote = ""
        self._skip = 0
        self._word_from = 0
        return self

    def read(self, machine: Machine) -> Region | None:
        while True:
            step = self._read_string(machine) if self._state == "string" else self._read_structure(machine)
            if step is not self:
                return step

    # Each step returns this region (go on), another (it takes over), or None (more text is needed).

    def _read_structure(self, machine: Machine) -> Region | None:
        text, pos = machine.text, machine.pos
        end = len(text)
        while pos < end and text[pos] in BLANK:
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
        if state == "comma or close" and char == ",":
            machine.take(pos + 1)
            self._state = "item or close" if self._stack[-1] == "]" else "key or close"
            self._first = False
            return self
        if state == "assign" and char == (self._dialect.assign if len(self._stack) == 1 else ":"):
            machine.take(pos + 1)
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
            return self._top.get(self._state)
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
        machine.write("}" if self._stack.pop() == "}" else "]", start)
        self._state, self._first = "comma or close", False
        return self

    def _start(self, machine: Machine) -> None:
        if not machine.started:
            machine.start_call(self._name, self._span)

    # Keys.

    def _begin_key(self, machine: Machine) -> Region | None:
        bare = self._dialect.bare_keys or len(self._stack) == 1
        found = self._opening_quote(machine) if not bare or self._dialect.bare_keys else ""
        if found is None:
            return None
        if found:
            self._start(machine)
            self._separate(machine)
            return self._begin_string(machine, found, "assign")
        if not bare:
            return self._broken(machine, "the arguments break off where a key in quotes is expected")
        return self._read_key(machine)

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
        written = quote(machine.clean(key)) + ": "
        if machine.started:
            self._separate(machine, start, written)
        else:
            self._key, self._key_span = "{" + written, (start, machine.offset)
        self._state = "value"
        return self

    def _separate(self, machine: Machine, start: int | None = None, more: str = "") -> None:
        """Write what stands before a key or an item, and `more`."""
        lead = "{" if self._first and len(self._stack) == 1 else "" if self._first else ", "
        machine.write(lead + more, machine.offset if start is None else start)

    # Values.

    def _begin_value(self, machine: Machine, char: str) -> Region | None:
        found = self._opening_quote(machine)
        if found is None:
            return None
        if not machine.started:  # `name(key=` has been read; with a value it is convincing
            if not found and not (char not in ",]})" if self._dialect.bare_strings else char in _BEGINS_VALUE):
                return machine.give_back()
            self._start(machine)
            machine.write_held(self._key, self._key_span)
        if self._state == "item or close":
            self._separate(machine)
            self._first, self._state = False, "value"
        if found:
            return self._begin_string(machine, found, "comma or close")
        if char in "[{":
            if len(self._stack) >= machine.limits.stream_depth:
                return self._broken(machine, "nested too deeply [limit stream_depth]")
            machine.pass_through(machine.pos + 1)
            self._stack.append("]" if char == "[" else "}")
            self._state = "item or close" if char == "[" else "key or close"
            self._first = True
            return self
        self._skip = 1
        return self._read_word(machine, char)

    def _read_word(self, machine: Machine, char: str) -> Region | None:
        """A number, a constant, or (where the notation has them) a bare string."""
        text, pos = machine.text, machine.pos
        limit = machine.limits.stream_name_chars
        bare = self._dialect.bare_strings
        ends = _ENDS_BARE_WORD if bare else _ENDS_WORD
        at = pos + self._skip - 1
        stop = min(len(text), pos + limit + 1)
        while at < stop and text[at] not in ends and (bare or text[at] not in BLANK):
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
        machine.write(value, start)
        self._state = "comma or close"
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

    def _begin_string(self, machine: Machine, delimiter: str, then: str) -> Region:
        start = machine.offset
        machine.take(machine.pos + len(delimiter))
        machine.write('"', start)
        self._quote, self._state = delimiter, "string"
        self._word_from = 1 if then == "assign" else 0
        return self

    def _read_string(self, machine: Machine) -> Region | None:
        text, pos, mark = machine.text, machine.pos, self._quote
        end = len(text)
        at = text.find(mark, pos)
        stop = at if at >= 0 else end
        if self._dialect.escapes:
            slash = text.find("\\", pos, stop)
            if slash >= 0:
                self._say(machine, slash)
                return self._read_escape(machine)
        if at < 0:
            kept = 0 if machine.final else _possible(text, pos, mark)
            self._say(machine, end - kept)
            if machine.offset >= 0:
                machine.run = self._in_string()
            return None
        if self._dialect.loose_quotes and len(mark) == 1:
            next_to = at + 1
            while next_to < end and text[next_to] in BLANK and next_to - at <= machine.limits.stream_name_chars:
                next_to += 1
            if next_to == end and not machine.final:
                self._say(machine, at)
                return None
            if next_to < end and text[next_to] not in _FOLLOWS_QUOTE:
                self._say(machine, at + 1)
                return self
        self._say(machine, at)
        start = machine.offset
        machine.take(at + len(mark))
        key = bool(self._word_from)
        machine.write('": ' if key else '"', start)
        self._state = "assign" if key else "comma or close"
        return self

    def _in_string(self) -> Run:
        if len(self._stack) == 1 and not self._word_from and self._quote in self._top:
            return self._top[self._quote]
        run = self._in_strings.get(self._quote)
        if run is None:
            run = Run.of_text((self._quote,), None, escapes=self._dialect.escapes)
            self._in_strings[self._quote] = run
        return run

    def _say(self, machine: Machine, end: int) -> None:
        """Text of a string up to `end`."""
        if end > machine.pos:
            start = machine.offset
            machine.write(quote(machine.clean(machine.take(end)))[1:-1], start)

    def _read_escape(self, machine: Machine) -> Region | None:
        text, pos = machine.text, machine.pos
        if pos + 1 == len(text):
            if machine.offset >= 0:
                machine.run = self._in_string()
            return None
        char = text[pos + 1]
        end, written = pos + 2, _ESCAPES.get(char)
        if written is None and char in _CODES:
            end += _CODES[char]
            digits = text[pos + 2 : end]
            if len(digits) < _CODES[char] and _is_hex(digits) and not machine.final:
                return None
            code = int(digits, 16) if len(digits) == _CODES[char] and _is_hex(digits) else -1
            if 0xD800 <= code < 0xE000:  # half of a pair: JSON writes these alike
                return self._write_escape(machine, end, f"\\u{code:04x}")
            if 0 <= code < 0x110000:
                written = chr(code)
        elif written is None and char in "01234567":
            end = pos + 1
            while end < pos + 4 and end < len(text) and text[end] in "01234567":
                end += 1
            if end == len(text) and end < pos + 4 and not machine.final:
                return None
            written = chr(int(text[pos + 1 : end], 8))
        if written is None:  # no escape: the backslash is data, as in Python
            return self._write_escape(machine, pos + 1, "\\\\")
        return self._write_escape(machine, end, quote(written)[1:-1])

    def _write_escape(self, machine: Machine, end: int, written: str) -> Region:
        start = machine.offset
        machine.take(end)
        machine.write(written, start)
        return self

    # Trouble, and the end.

    def _broken(self, machine: Machine, reason: str) -> Region:
        if not machine.started:
            return machine.give_back()
        return self._raw.because(reason).enter(machine)

    def stop(self, machine: Machine) -> None:
        """The text is cut: what there is is written as it stands, and not made whole."""
        if self._state == "string":
            self._say(machine, len(machine.text))
        elif self._skip:
            machine.pass_through(len(machine.text))
        if machine.started:
            machine.take(len(machine.text))
            machine.end_call(CUT)
        else:
            machine.cut()


_NOT_IN_KEYS = "()[]{}\"',="
_EXPECTED = {"assign": "what assigns a value", "comma or close": "a comma or the end"}


def _possible(text: str, pos: int, mark: str) -> int:
    """How many characters at the end of the text may begin the delimiter."""
    for size in range(min(len(mark) - 1, len(text) - pos), 0, -1):
        if text.endswith(mark[:size]):
            return size
    return 0


def _is_hex(digits: str) -> bool:
    return all(c in "0123456789abcdefABCDEF" for c in digits)


def literal(word: str, max_depth: int, python: bool) -> str | None:
    """The JSON of a constant or a number, as JSON or Python write it; None where it is neither.

    A number that is JSON stays as it is, with all its digits. With `python`: underscores between digits, a bare point, a plus, other
    bases, and leading zeros, which Python itself refuses, but models write."""
    if word in _WORDS:
        return _WORDS[word]
    if not word or word[0] not in "+-.0123456789":
        return None
    if is_json(word, max_depth):
        return word
    if not python:
        return None
    sign, digits = ("-", word[1:]) if word[0] == "-" else ("", word.lstrip("+") if word[0] == "+" else word)
    plain = digits.replace("_", "")
    if digits[:1] == "_" or digits[-1:] == "_" or "__" in digits:
        return None
    base = {"0x": 16, "0o": 8, "0b": 2}.get(plain[:2].lower())
    if base is not None:
        try:
            return sign + str(int(plain[2:], base))
        except ValueError:
            return None
    mantissa, e, exponent = plain.partition("e") if "e" in plain else plain.partition("E")
    whole, point, fraction = mantissa.partition(".")
    if whole.isdecimal():
        mantissa = whole = whole.lstrip("0") or "0"
    if point and (whole or fraction):
        mantissa = f"{whole or '0'}.{fraction or '0'}"
    made = sign + mantissa + e + exponent
    return made if is_json(made, max_depth) else None
