"""The values of a JSON text, while the text is being written.

    values = JsonValues()
    values.feed('{"items": [{"id": 1}, {"i')    # [WholeValue(pointer="/items/0", value={"id": 1}, span=(11, 20))]
    values.value()                              # {"items": [{"id": 1}, {}]}
    values.feed('d": 2}]}')                     # /items/1, /items and ""
    values.finish()                             # []: raises if the text is not whole

The chunks make no difference to the values. Each character is read once, and each value is made once: an object that
is reported is the one that its parents hold. There is no recursion.

What is read is strict JSON (RFC 8259). As in Pydantic, half of a surrogate pair is refused, and so is an integer of
more than 4,300 digits. A number beyond a float's range is infinite, as in `json.loads`.

Cost: some 0.1 us a character of a number or of structure, a few ns a character of a string, 3 us a value, 1 us a call.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from narrows.arguments import FUNCTION, INTEGER, ITERABLE, NUMBER, optional, wants, wrong
from narrows.arguments import Kind as ArgumentKind
from narrows.errors import InputError, LimitError, NarrowsError, without_frames
from narrows.json_values.numbers import STEPS, WHOLE, number
from narrows.json_values.selection import Levels, Marks, Patterns, Selection, escaped
from narrows.json_values.token_sums import TokenSums
from narrows.limits import DEFAULT_LIMITS, LIMITS, Limits

_WHITESPACE = " \t\n\r"
_WORDS = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX = frozenset("0123456789abcdefABCDEF")
_TEXT_OR_BYTES = ArgumentKind("a str or bytes", lambda value: isinstance(value, (str, bytes)))

# What comes next in the text.
_VALUE, _FIRST_ITEM, _FIRST_KEY, _KEY, _COLON, _NEXT, _NOTHING, _STRING, _NUMBER, _WORD = range(10)
_ABSENT = object()
_EXPECTED = {
    _VALUE: "a value",
    _FIRST_ITEM: "a value or ]",
    _FIRST_KEY: "a key or }",
    _KEY: "a key",
    _COLON: ":",
    _NEXT: "a comma or the closing bracket",
    _NOTHING: "the end of the text",
}


@dataclass(slots=True)
class WholeValue:
    """A value of a JSON text that has become whole."""

    pointer: str
    """Where it stands: a JSON pointer (RFC 6901). "" is the whole text's value."""
    value: Any
    """The same object that the values around it hold. Copy it before you change it."""
    span: tuple[int, int]
    """The half-open range of the text that it was read from: characters, or bytes if the reader was fed bytes."""
    logprob: float | None = None
    """The sum of the log-probabilities of the tokens in which the value has at least one character. None if the tokens
    came without. A token in which two values have characters counts for both."""
    tokens: int = 0
    """The number of these tokens."""


class _Open:
    """An object or array that is open."""

    __slots__ = ("before", "items", "key", "marks", "pointer", "shown", "start", "value")

    def __init__(self, value: Any, start: int, marks: Marks) -> None:
        self.value = value
        self.start = start
        self.marks = marks
        self.key = ""
        """Of an object: the last key."""
        self.items = 0
        """Of an array: the number of items before the one that is open or comes next."""
        self.shown = False
        """Whether `JsonValues.value` has put the part of an open value into it."""
        self.before: Any = None
        """Of an object with such a part: the value that its key had before, or `_ABSENT`."""
        self.pointer: str | None = None
        """Its pointer, made when the first value in it is reported."""


class JsonValues:
    """Reads the values of one JSON text while it is written, in pieces of any size. Used by one thread at a time. Cost:
    linear in the text, a few microseconds a value."""

    def __init__(
        self,
        *,
        depth: int | None = 2,
        pointers: Iterable[str] | None = None,
        parse_float: Callable[[str], Any] = float,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """`depth`: report the values down to this level, where the whole text's value is at level 0. The default, 2,
        has the members of an object, the items of an array, and the items and members of these. None: all levels.
        `pointers`: report the values at these JSON pointers instead; a step `*` stands for any item or member
        (`/items/*`). `parse_float`: as in `json.loads`.

        Raises `InputError` code `pointer_invalid` or `wrong_type`.
        """
        wants(optional(INTEGER), depth=depth)
        wants(optional(ITERABLE), pointers=pointers)
        wants(FUNCTION, parse_float=parse_float)
        wants(LIMITS, limits=limits)
        self._selection: Selection = (
            Levels(depth if depth is None else int(depth)) if pointers is None else Patterns(pointers)
        )
        self._parse_float = parse_float
        self._limits = limits
        self._found: list[WholeValue] = []
        self._error: NarrowsError | None = None
        self._finished = False
        self._utf8: codecs.IncrementalDecoder | None = None
        self._kind: type[str] | type[bytes] | None = None
        self._tokens: TokenSums | None = None
        self._fed = 0
        """Characters or bytes that were fed."""
        # The text that is being read: where it begins, and up to where its bytes are counted.
        self._text = ""
        self._offset = 0
        self._counted = 0
        self._wide = False
        # The value that is being read.
        self._state = _VALUE
        self._open: list[_Open] = []
        self._root: Any = None
        self._values = 0
        self._start = 0
        """Where the open string, number or word begins."""
        self._in_key = False
        self._pieces: list[str] = []
        """The open string without its escapes, or the open number."""
        self._escape = ""
        """The open escape in a string, after the first half of a surrogate pair both."""
        self._number = ""
        """The state of the open number (numbers.py)."""
        self._word: tuple[str, Any] = "", None
        self._letters = 0
        """The number of letters of the open word so far."""

    @property
    def fault(self) -> NarrowsError | None:
        """What the next call raises, because of the text so far."""
        return self._error

    @property
    def is_whole(self) -> bool:
        """Whether the text's value is whole. A number at the top is whole when whitespace follows, or at `finish`."""
        return self._state == _NOTHING

    def feed(self, text: str | bytes, logprob: float | None = None) -> list[WholeValue]:
        """Read more of the text, and return the values that it makes whole, each before the values that it is in.

        `logprob`: of the token that this text is. Bytes may end within a character. A text without a `logprob` belongs
        to no token.

        Raises `InputError` code `json_invalid` with the offset of what is not JSON, `LimitError` (`stream_depth`,
        `body_values`, and `stream_name_chars` for a key in the pointer of a reported value), code `feed_mixed` and
        `stream_finished`. Values that came before such a place are returned first: then the next call raises.
        """
        self._check(text, logprob)
        return self._answer(self._read_bytes if isinstance(text, bytes) else self._read, text)

    def finish(self) -> list[WholeValue]:
        """The text has ended. Returns the number that ends with it, if it is one, with its spans as above. A second
        call returns nothing. Raises `InputError` code `json_invalid` if the text is not whole, and what `feed` raises.
        """
        if self._error is None and self._finished:
            return []
        self._finished = True
        return self._answer(self._end)

    def value(self) -> Any:
        """What the text says so far: JSON values, and None if it says nothing yet. A string or a number that is open is
        there as far as it has come. A key without a value is not there yet, nor is a number that cannot end here
        (`1.`).

        The lists and dicts are the reader's own: they grow with the text, so copy what you keep, and change nothing.
        Cost: the length of the open string or number. So quadratic in the length of one long string where it is called
        at every token, at some 0.1 ns a character, and in nothing else.
        """
        part = self._part()
        if not self._open:
            return self._root if part is None else part[0]
        top = self._open[-1]
        if top.shown:
            _take_back(top)
        if part is not None:
            _show(top, part[0])
        return self._root

    # The text, and what goes wrong with it.

    def _check(self, text: str | bytes, logprob: float | None) -> None:
        if self._error is not None:
            raise without_frames(self._error)
        if self._finished:
            raise InputError("the text has been finished", code="stream_finished", hint="Make a reader per text")
        kind = str if isinstance(text, str) else bytes
        if kind is not self._kind:
            wants(_TEXT_OR_BYTES, text=text)
            if self._kind is not None:
                raise InputError(
                    f"this reader was fed {self._kind.__name__}; it cannot take {kind.__name__}", code="feed_mixed"
                )
            self._kind = kind
            self._utf8 = codecs.getincrementaldecoder("utf-8")() if kind is bytes else None
        if logprob is not None:
            if not NUMBER.fits(logprob):
                raise wrong("logprob", NUMBER, logprob)
            if self._tokens is None:
                self._tokens = TokenSums()
            self._tokens.add(self._fed, self._fed + len(text), logprob)
        self._fed += len(text)

    def _answer(self, work: Callable[..., None], *arguments: Any) -> list[WholeValue]:
        """What the work finds. Where it fails after it has found something, the next call fails."""
        if self._error is not None:
            raise without_frames(self._error)
        try:
            work(*arguments)
        except NarrowsError as error:
            self._error = error
            if not self._found:
                raise
        found, self._found = self._found, []
        return found

    def _read_bytes(self, data: bytes, final: bool = False) -> None:
        assert self._utf8 is not None
        try:
            text = self._utf8.decode(data, final)
        except UnicodeDecodeError as error:
            self._read(error.object[: error.start].decode())
            raise InputError("the text is not UTF-8", code="json_invalid", offset=self._offset) from None
        self._read(text)

    def _end(self) -> None:
        if self._utf8 is not None:
            self._read_bytes(b"", final=True)
        if self._state == _NUMBER and not self._open and self._number in WHOLE:
            self._end_number(self._offset)
        if self._state != _NOTHING:
            raise InputError("the text ends before its value does", code="json_invalid", offset=self._offset)

    def _read(self, text: str) -> None:
        self._text = text
        self._counted = 0
        self._wide = self._kind is bytes and not text.isascii()
        at, size = 0, len(text)
        while at < size:
            if self._state == _STRING:
                at = self._read_string(text, at)
            elif self._state == _NUMBER:
                at = self._read_number(text, at)
            elif self._state == _WORD:
                at = self._read_word(text, at)
            else:
                if text[at] not in _WHITESPACE:
                    self._take(text[at], at)
                at += 1
        self._offset = self._place(size)
        self._text = ""

    def _place(self, at: int) -> int:
        """The offset in the whole text of a character of the text that is being read. May not go back."""
        if not self._wide:
            return self._offset + at
        self._offset += len(self._text[self._counted : at].encode())
        self._counted = at
        return self._offset

    def _fault(self, message: str, at: int) -> InputError:
        return InputError(message, code="json_invalid", offset=self._place(at))

    # Structure.

    def _take(self, char: str, at: int) -> None:
        """Read one character outside of strings, numbers, words and whitespace."""
        state = self._state
        if state == _NEXT:
            is_array = type(self._open[-1].value) is list
            if char == ",":
                self._state = _VALUE if is_array else _KEY
                return
            if char == ("]" if is_array else "}"):
                return self._close(at + 1)
        elif state == _COLON and char == ":":
            self._state = _VALUE
            return
        elif state in (_KEY, _FIRST_KEY):
            if char == '"':
                self._begin_string(at, in_key=True)
                return
            if char == "}" and state == _FIRST_KEY:
                return self._close(at + 1)
        elif state in (_VALUE, _FIRST_ITEM):
            if char == "]" and state == _FIRST_ITEM:
                return self._close(at + 1)
            if self._begin(char, at):
                return
        raise self._fault(f"{char!r} stands where {_EXPECTED[state]} must come", at)

    def _begin(self, char: str, at: int) -> bool:
        """Begin the value whose first character this is. False if no value begins so."""
        if char == '"':
            self._begin_string(at, in_key=False)
        elif char in "{[":
            self._begin_container(at, [] if char == "[" else {})
        elif char in STEPS[""]:
            self._state = _NUMBER
            self._start = self._place(at)
            self._number = STEPS[""][char]
            self._pieces = [char]
        elif char in _WORDS:
            self._state = _WORD
            self._start = self._place(at)
            self._word = _WORDS[char]
            self._letters = 1
        else:
            return False
        self._values += 1
        if self._values > self._limits.body_values:
            raise self._limit(
                f"the JSON text has more than {self._limits.body_values} values", "body_values", self._place(at)
            )
        return True

    def _begin_container(self, at: int, value: Any) -> None:
        if len(self._open) >= self._limits.stream_depth:
            raise self._limit(
                f"more than {self._limits.stream_depth} brackets are open", "stream_depth", self._place(at)
            )
        marks = self._selection.root
        if self._open:
            top = self._open[-1]
            marks = self._selection.below(top.marks, _step(top))
            _put(top, value)
        else:
            self._root = value
        self._open.append(_Open(value, self._place(at), marks))
        self._state = _FIRST_ITEM if type(value) is list else _FIRST_KEY

    def _close(self, end: int) -> None:
        """The innermost object or array has ended."""
        closed = self._open.pop()
        self._end_value(closed.value, closed.marks, closed.start, self._place(end))

    def _end_scalar(self, value: Any, end: int) -> None:
        """A string, number or word has ended at the offset `end`."""
        marks = self._selection.root
        if self._open:
            top = self._open[-1]
            marks = self._selection.below(top.marks, _step(top))
            _put(top, value)
        else:
            self._root = value
        self._end_value(value, marks, self._start, end)

    def _end_value(self, value: Any, marks: Marks, start: int, end: int) -> None:
        self._state = _NEXT if self._open else _NOTHING
        if self._selection.holds(marks):
            pointer = f"{self._prefix()}/{_pointer_step(self._open[-1])}" if self._open else ""
            logprob, tokens = self._tokens.over(start, end) if self._tokens is not None else (None, 0)
            value = self._typed(value, pointer, start, end)
            self._found.append(WholeValue(pointer, value, (start, end), logprob, tokens))
        if self._open:
            self._open[-1].items += 1

    def _typed(self, value: Any, pointer: str, start: int, end: int) -> Any:
        """The value as it is reported."""
        return value

    def _prefix(self) -> str:
        """The pointer of the innermost open object or array."""
        if self._open[-1].pointer is None:
            pointer, above = "", None
            for opened in self._open:
                if above is not None:
                    pointer = f"{pointer}/{_pointer_step(above)}" if opened.pointer is None else opened.pointer
                opened.pointer = pointer
                above = opened
        return self._open[-1].pointer or ""

    @staticmethod
    def _limit(message: str, name: str, offset: int) -> LimitError:
        hint = f"Raise it with narrows.Limits({name}=...) if the text is trusted"
        return LimitError(message, limit=name, offset=offset, hint=hint)

    # Strings, numbers and words.

    def _begin_string(self, at: int, in_key: bool) -> None:
        self._state = _STRING
        self._in_key = in_key
        self._start = self._place(at)
        self._pieces = []

    def _read_string(self, text: str, at: int) -> int:
        """Read on in the open string. Returns where it has ended, or the end of the text."""
        size = len(text)
        quote = -1
        while at < size:
            if self._escape:
                self._read_escape(text[at], at)
                at += 1
                continue
            if quote < at:  # the last one was escaped
                quote = text.find('"', at)
                if quote < 0:
                    quote = size
            backslash = text.find("\\", at, quote)
            end = quote if backslash < 0 else backslash
            if end > at:
                self._add_piece(text[at:end], at)
            if backslash >= 0:
                self._escape = "\\"
            elif quote < size:
                self._end_string(quote + 1)
                return quote + 1
            at = end + 1
        return size

    def _add_piece(self, piece: str, at: int) -> None:
        if not piece.isprintable():
            for place, char in enumerate(piece):
                if char < " " or "\ud800" <= char < "\ue000":
                    what = "a control character" if char < " " else "half of a surrogate pair"
                    raise self._fault(f"{what} stands in a string", at + place)
        self._pieces.append(piece)

    def _read_escape(self, char: str, at: int) -> None:
        """Read one character of an escape: `\\n`, `\\u00e9`, or both halves of a surrogate pair."""
        self._escape += char
        size = len(self._escape)
        if size == 2 and char in _ESCAPES:
            self._pieces.append(_ESCAPES[char])
            self._escape = ""
            return
        if size in (2, 8):
            fits = char == "u"
        elif size == 7:
            fits = char == "\\"
        else:
            fits = char in _HEX
        if not fits:
            raise self._fault("half of a surrogate pair" if size > 6 else "an unknown escape", at)
        if size not in (6, 12):
            return
        code = int(self._escape[-4:], 16)
        if size == 6 and 0xD800 <= code < 0xDC00:
            return  # the other half must follow
        if (size == 12) != (0xDC00 <= code < 0xE000):
            raise self._fault("half of a surrogate pair", at)
        if size == 12:
            code = 0x10000 + ((int(self._escape[2:6], 16) - 0xD800) << 10) + code - 0xDC00
        self._pieces.append(chr(code))
        self._escape = ""

    def _end_string(self, end: int) -> None:
        text = "".join(self._pieces)
        self._pieces = []
        if self._in_key:
            top = self._open[-1]
            top.key = text
            self._state = _COLON
            if len(text) > self._limits.stream_name_chars and self._selection.reaches(
                self._selection.below(top.marks, text)
            ):
                raise self._limit(f"a key has {len(text)} characters", "stream_name_chars", self._start)
        else:
            self._end_scalar(text, self._place(end))

    def _read_number(self, text: str, at: int) -> int:
        begin, state = at, self._number
        while at < len(text):
            after = STEPS[state].get(text[at])
            if after is None:
                break
            state = after
            at += 1
        self._pieces.append(text[begin:at])
        self._number = state
        if at < len(text):
            if state not in WHOLE:
                raise self._fault(f"{text[at]!r} stands in a number", at)
            self._end_number(self._place(at))
        return at

    def _end_number(self, end: int) -> None:
        text = "".join(self._pieces)
        self._pieces = []
        self._end_scalar(number(text, self._number, self._parse_float, self._start), end)

    def _read_word(self, text: str, at: int) -> int:
        word, value = self._word
        while at < len(text) and self._letters < len(word):
            if text[at] != word[self._letters]:
                raise self._fault(f"{text[at]!r} stands in {word}", at)
            self._letters += 1
            at += 1
        if self._letters == len(word):
            self._end_scalar(value, self._place(at))
        return at

    def _part(self) -> tuple[Any] | None:
        """The open string or number as far as it has come."""
        if (self._state != _STRING or self._in_key) and (self._state != _NUMBER or self._number not in WHOLE):
            return None
        text = "".join(self._pieces)
        self._pieces = [text]
        if self._state == _STRING:
            return (text,)
        try:
            return (number(text, self._number, self._parse_float, self._start),)
        except InputError:  # too long, unless it becomes a float
            return None


def _step(top: _Open) -> str | int:
    """The step to the value that is open in `top`."""
    return top.items if type(top.value) is list else top.key


def _pointer_step(top: _Open) -> str:
    """The same, as a pointer has it."""
    return str(top.items) if type(top.value) is list else escaped(top.key)


def _put(top: _Open, value: Any) -> None:
    """Put the next item or member into an object or array."""
    if top.shown:
        _take_back(top)
    if type(top.value) is list:
        top.value.append(value)
    else:
        top.value[top.key] = value


def _show(top: _Open, part: Any) -> None:
    """Put the part of an open value where the value will be."""
    if type(top.value) is not list:
        top.before = top.value.get(top.key, _ABSENT)
    _put(top, part)
    top.shown = True


def _take_back(top: _Open) -> None:
    """Undo `_show`."""
    top.shown = False
    if type(top.value) is list:
        top.value.pop()
    elif top.before is _ABSENT:
        del top.value[top.key]
    else:
        top.value[top.key] = top.before
    top.before = None
