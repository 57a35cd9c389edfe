"""Parses and writes large JSON text in pieces, so that other threads run in between.

A parser in C or Rust holds the interpreter's lock until it ends: half a second for 8 MB of short keys. Threads do not
help against that. Here numpy, which releases the lock, finds the structure. The parser gets pieces of at most `PIECE`
bytes: runs of members of one object or array.

The result is that of `pydantic_core.from_json`. Text that it refuses is refused here too: it reads every byte except
the brackets, commas and colons that are examined here. A wrong guess at the structure can only make a piece that it
refuses.

Cost: some 0.2 us a value. While parsing, 14 bytes of memory for each structural character. No recursion.
"""

from __future__ import annotations

import gc
import json
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from narrows.errors import InputError, LimitError, NarrowsError
from narrows.limits import Limits

PIECE = 16_384
DEPTH = 200
"""Most levels of nesting, as in the parser itself."""
_OPEN_LIST, _OPEN_OBJECT, _CLOSE_LIST, _CLOSE_OBJECT, _COMMA, _COLON = b"[{]},:"


def parse(body: bytes, limits: Limits) -> Any:
    """The value of a JSON text. Raises `InputError` code `json_invalid` or `json_depth` with line and column, and
    `LimitError` for more than `body_values` values."""
    if len(body) <= min(PIECE, limits.body_values):
        return _piece(body, 0, len(body), b"", b"")
    return _Document(body, limits).value()


class _Collector:
    """Disables Python's garbage collector while many lists and dicts are made, in any number of threads at once.

    The collector examines all objects again and again as they become more, and holds the interpreter's lock meanwhile.
    JSON has no cycles that it could find. Afterwards the new objects count as old ones, which it rarely examines.
    It does not examine them as new ones, which would take 0.1 s for a million values.

    Objects that become old in this way do not count towards the next full collection. So it is made here, when the
    objects have become a quarter more since the last one, which is Python's own rule. It comes before a body is parsed:
    the objects of the body before are mostly gone by then. Counting takes 3 ns an object, a collection some 40 ns.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._was_on = False
        self._most = 0  # objects, before a full collection is due
        self._looked = 0.0  # when that was asked last

    def __enter__(self) -> None:
        with self._lock:
            now = time.monotonic()
            if not self._users:
                self._was_on = gc.isenabled()
            if self._was_on and (not self._users or now - self._looked > _OVERLAP):
                self._looked = now
                self._collect_if_due()
            gc.disable()
            self._users += 1

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users and self._was_on:
                _make_all_old()
                gc.enable()

    def _collect_if_due(self) -> None:
        if _make_all_old() > self._most:
            gc.collect()
            self._most = _make_all_old() * 5 // 4 + _FEW


_OVERLAP = 5.0
"""Seconds for which bodies may be parsed without a pause before a collection is made among them."""
_FEW = 20_000


def _make_all_old() -> int:
    """Moves all objects to the oldest generation, without examining them. Returns how many there are."""
    gc.freeze()
    count = gc.get_freeze_count()
    gc.unfreeze()
    return count


collector_put_off = _Collector()

_MANY = 20_000
"""Most values of one piece: json's encoder in C writes them in some milliseconds."""
_RUN = 200
"""Most values of a list in one run."""


def dumps(value: Any, **options: Any) -> str:
    """`json.dumps(value, **options)`, in pieces, so that other threads run in between. An object with keys that are not
    strings is one piece. Takes up to twice as long as `json.dumps`, with an indentation ten times as long."""
    if options.get("indent") is not None:
        large = holds_more_than(value, _MANY)
        return "".join(json.JSONEncoder(**options).iterencode(value)) if large else json.dumps(value, **options)
    comma, colon = options.get("separators") or (", ", ": ")
    written: list[str] = []
    todo: list[tuple[bool, Any]] = [(False, value)]  # (whether the second is JSON text already, text or value)
    while todo:
        is_text, item = todo.pop()
        if is_text:
            written.append(item)
        elif isinstance(item, dict) and holds_more_than(item, _MANY) and all(isinstance(key, str) for key in item):
            parts: list[tuple[bool, Any]] = [(True, "{")]
            for key, member in sorted(item.items()) if options.get("sort_keys") else item.items():
                parts += (True, json.dumps(key, **options) + colon), (False, member), (True, comma)
            parts[-1] = True, "}"
            todo += reversed(parts)
        elif isinstance(item, list) and holds_more_than(item, _MANY):
            parts = [(True, "[")]
            for run in _runs(item):
                text = len(run) > 1 or not holds_more_than(run[0], _MANY)
                parts += (text, json.dumps(run, **options)[1:-1] if text else run[0]), (True, comma)
            parts[-1] = True, "]"
            todo += reversed(parts)
        else:
            written.append(json.dumps(item, **options))
    return "".join(written)


def _runs(values: list[Any]) -> Iterator[list[Any]]:
    """The list in runs of at most `_RUN` values. Each large value is a run of its own."""
    run: list[Any] = []
    for value in values:
        large = holds_more_than(value, _MANY // _RUN)
        if run and (large or len(run) == _RUN):
            yield run
            run = []
        run.append(value)
        if large:
            yield run
            run = []
    if run:
        yield run


def holds_more_than(value: Any, most: int) -> bool:
    """Whether a JSON value consists of more than `most` values. Stops counting there."""
    todo, seen = [value], 0
    while todo and seen <= most:
        item = todo.pop()
        seen += 1
        if isinstance(item, (dict, list)):
            seen += len(item)
            if seen > most:
                return True
            todo += item.values() if isinstance(item, dict) else item
    return seen > most


class _Document:
    """The structure of one text: the positions and levels of the brackets, commas and colons outside of strings."""

    def __init__(self, body: bytes, limits: Limits) -> None:
        self.body = body
        text = np.frombuffer(body, dtype=np.uint8)
        table = np.zeros(256, dtype=bool)
        table[list(b"[{]},:")] = True
        structural = table[text]
        structural &= ~_inside_strings(text)
        self.at: NDArray[np.int64] = np.flatnonzero(structural)
        self.kind: NDArray[np.uint8] = text[self.at]
        opens = (self.kind == _OPEN_LIST) | (self.kind == _OPEN_OBJECT)
        closes = (self.kind == _CLOSE_LIST) | (self.kind == _CLOSE_OBJECT)
        commas = self.kind == _COMMA
        values = int(np.count_nonzero(opens)) + int(np.count_nonzero(commas))
        if values > limits.body_values:
            raise LimitError(
                f"the JSON text has {values} values",
                limit="body_values",
                pointer="",
                hint=f"at most {limits.body_values} are read",
            )
        depth = np.cumsum(opens.astype(np.int8) - closes.astype(np.int8), dtype=np.int32)
        deepest = int(depth.max(initial=0))
        if deepest > DEPTH:
            line, column = _line_of(body, int(self.at[int(np.argmax(depth > DEPTH))]))
            raise InputError(
                f"the JSON text is nested more than {DEPTH} levels deep", code="json_depth", line=line, column=column
            )
        # Commas and closing brackets by the level of their container, in order. At its level, an opening bracket is
        # followed by its commas and then by its closing bracket.
        levels = np.clip(depth + closes, -1, DEPTH + 1).astype(np.int16)
        self.marks, self.starts = _by_level(np.flatnonzero(commas | closes), levels)
        self.ends, self.end_starts = _by_level(np.flatnonzero(closes), levels)

    def value(self) -> Any:
        """The value of the whole text."""
        body, at = self.body, self.at
        if not len(at) or int(self.kind[0]) not in (_OPEN_LIST, _OPEN_OBJECT) or body[: at[0]].strip():
            return _piece(body, 0, len(body), b"", b"")  # a string, a number, or invalid text
        root = self._empty(0)
        todo: list[tuple[Any, int, int, int]] = [(root, 0, 1, len(body))]
        while todo:
            value, opening, level, end = todo.pop()
            self._fill(value, opening, level, end, todo)
        return root

    def _empty(self, opening: int) -> Any:
        return [] if int(self.kind[opening]) == _OPEN_LIST else {}

    def _fill(self, value: Any, opening: int, level: int, end: int, todo: list[tuple[Any, int, int, int]]) -> None:
        """Fill the list or dict of the container that begins at structural character `opening`. Only whitespace may
        stand between its end and `end`. Containers in it that are too large for a piece are added to `todo`."""
        body, at = self.body, self.at
        is_list = isinstance(value, list)
        ends = self.ends[int(self.end_starts[level]) : int(self.end_starts[level + 1])]
        nearest = int(np.searchsorted(ends, opening))
        if nearest == len(ends):
            raise _wrong(body, len(body), "a bracket is not closed")
        close = int(at[ends[nearest]])
        if int(self.kind[ends[nearest]]) != (_CLOSE_LIST if is_list else _CLOSE_OBJECT):
            raise _wrong(body, close, "the open bracket is of another kind")
        marks = self.marks[int(self.starts[level]) : int(self.starts[level + 1])]
        marks = marks[int(np.searchsorted(marks, opening)) : int(np.searchsorted(marks, ends[nearest])) + 1]
        if body[close + 1 : end].strip():
            raise _wrong(body, close + 1, "trailing characters")
        # Runs of members: from `begin` up to the last mark that still fits. This loop does not use numpy. numpy would
        # release the lock for a moment each time, too short for another thread to take it. But the other thread's wait
        # would begin anew each time, so that it would not run until the loop ends.
        where = at[marks].data
        begin, mark = int(at[opening]) + 1, 0
        before = opening
        several = len(marks) > 1
        while mark < len(marks):
            fits = bisect_right(where, begin + PIECE)
            if fits > mark:
                stop = where[fits - 1]
                if several and not body[begin:stop].strip():
                    raise _wrong(body, stop, "a value was expected")
                if is_list:
                    value.extend(_piece(body, begin, stop, b"[", b"]"))
                else:
                    value.update(_piece(body, begin, stop, b"{", b"}"))
                mark = fits
            else:
                self._large(value, is_list, begin, where[mark], before, level, todo)
                mark += 1
            before = int(marks[mark - 1])
            begin = where[mark - 1] + 1

    def _large(
        self,
        value: Any,
        is_list: bool,
        begin: int,
        stop: int,
        before: int,
        level: int,
        todo: list[tuple[Any, int, int, int]],
    ) -> None:
        """Add one member that is larger than a piece. `before`: number of the structural character before it."""
        body, at = self.body, self.at
        inside = before + 1
        key: Any
        if is_list:
            key = len(value)
            value.append(None)
        else:
            if int(self.kind[inside]) != _COLON or int(at[inside]) >= stop:
                raise _wrong(body, begin, "a key and a colon were expected")
            key = _piece(body, begin, int(at[inside]), b"", b"")
            if not isinstance(key, str):
                raise _wrong(body, begin, "a key must be a string")
            begin = int(at[inside]) + 1
            inside += 1
        opens = int(at[inside]) < stop and int(self.kind[inside]) in (_OPEN_LIST, _OPEN_OBJECT)
        if opens and not body[begin : int(at[inside])].strip():
            value[key] = self._empty(inside)  # now, so that a later member with the same key replaces it
            todo.append((value[key], inside, level + 1, stop))
        else:
            value[key] = _piece(body, begin, stop, b"", b"")


def _by_level(where: NDArray[np.int64], levels: NDArray[np.int16]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(`where` sorted by level, in order within a level; index in it at which each level begins)."""
    chosen = levels[where]
    order = np.argsort(chosen, kind="stable")
    return where[order], np.searchsorted(chosen[order], np.arange(DEPTH + 3))


def _inside_strings(text: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether each byte is in a string, including its opening quote."""
    quotes = np.flatnonzero(text == ord('"'))
    slashes = np.flatnonzero(text == ord("\\"))
    if len(slashes) and len(quotes):
        # A quote after an odd number of backslashes is escaped. The length of the run that ends at each backslash:
        numbers = np.arange(len(slashes))
        begins = np.where(np.diff(slashes, prepend=-2) > 1, numbers, 0)
        odd = (numbers - np.maximum.accumulate(begins)) % 2 == 0
        escaped = np.zeros(len(text) + 1, dtype=bool)
        escaped[slashes[odd] + 1] = True
        quotes = quotes[~escaped[quotes]]
    flips = np.zeros(len(text), dtype=np.uint8)
    flips[quotes] = 1
    return (np.cumsum(flips, dtype=np.uint8) & 1).astype(bool)


def _piece(body: bytes, begin: int, stop: int, before: bytes, after: bytes) -> Any:
    try:
        return from_json(before + body[begin:stop] + after if before else body[begin:stop], allow_inf_nan=False)
    except ValueError as error:
        raise _located(body, begin, len(before), str(error)) from None


def _located(body: bytes, begin: int, added: int, reason: str) -> NarrowsError:
    """The parser's error with line and column in the whole text."""
    words, _, place = reason.rpartition(" at line ")
    line_text, _, column_text = place.partition(" column ")
    code = "json_depth" if "recursion" in reason else "json_invalid"
    if not words or not line_text.isdigit() or not column_text.isdigit():
        return InputError(f"this is not valid JSON: {reason}", code=code)
    line, column = int(line_text), int(column_text)
    first_line, first_column = _line_of(body, begin)
    if line == 1:
        column = max(1, column - added + first_column - 1)
    return InputError(f"this is not valid JSON: {words}", code=code, line=first_line + line - 1, column=column)


def _wrong(body: bytes, at: int, reason: str) -> NarrowsError:
    line, column = _line_of(body, at)
    return InputError(f"this is not valid JSON: {reason}", code="json_invalid", line=line, column=column)


def _line_of(body: bytes, at: int) -> tuple[int, int]:
    return body.count(b"\n", 0, at) + 1, at - (body.rfind(b"\n", 0, at) + 1) + 1
