"""Whether a text is in a grammar and, if not, where it stops and what refuses it there.

The text goes byte by byte through the engine's own matcher, over a vocabulary of single bytes, so the answer is that of
masks. `Matcher.explain` names the place.

For a JSON Schema there is a second question: does the schema refuse the value, or the grammar only its spelling? The
grammar fixes more than the schema does: keys come in declared order, and white space has bounds. So a text that does
not fit is read again where keys come in any order and white space is free, and its value is read as `json.dumps`
writes it. What refuses it there is a keyword.

Cost: some 0.3 us a byte. Where the text does not fit, one more compilation of the schema for each of at most three
other spellings, and what `Matcher.explain` costs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from narrows.errors import InputError, NarrowsError
from narrows.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from narrows import Constraint, Grammar, Vocabulary

_END = 256
_NEAR = 24
"""Characters of the text that are shown where it stops."""
_MOST_DIGITS = 300
"""Of an integer that is written without its exponent."""
_FREE = {"whitespace": "any", "key_order": "any"}
_FREEDOMS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("white space", {"whitespace": "any"}),
    ("the order of keys", {"key_order": "any"}),
    ("the order of keys and white space", _FREE),
)


@cache
def single_bytes() -> Vocabulary:
    """A vocabulary of the 256 bytes and an end token."""
    from narrows import Vocabulary

    return Vocabulary([bytes([b]) for b in range(256)] + [b""], special={"<end>": _END}, eos=[_END])


@dataclass(frozen=True, slots=True)
class Refusal:
    """Where a text stops fitting."""

    offset: int
    """Bytes of the text that fit."""
    line: int
    column: int
    """Of the place, in characters, from 1."""
    found: str
    """What stands there. "" is the end of the text."""
    expected: str
    """What would fit there, in words: of a schema's value, or the characters."""
    characters: str
    """The characters that would fit there."""
    value: str | None = None
    """JSON pointer to the value that is refused, or in which something is. None where the grammar is no schema."""
    keywords: tuple[str, ...] = ()
    """JSON pointers of the schema's keywords that refuse it."""
    schemas: tuple[str, ...] = ()
    """JSON pointers of the schemas that speak of the value."""
    rules: tuple[str, ...] = ()
    """Where the grammar's rules that are open there are defined, such as `2:1` for line and column, or their names.
    Empty for a schema."""

    def to_dict(self) -> dict[str, Any]:
        return {name: list(one) if isinstance(one, tuple) else one for name, one in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one text."""

    refusal: Refusal | None
    spelling: str | None = None
    """If only the spelling of the value is refused: what of it, in words. The schema allows the value."""

    @property
    def allowed(self) -> bool:
        return self.refusal is None


def read(grammar: Grammar, data: bytes, start: int = 0, *, limits: Limits = DEFAULT_LIMITS) -> Answer:
    """Whether the bytes from `start` on are a text of the grammar. Places count what is before it. Raises what
    compiling and reading raise (`LimitError`)."""
    refusal = _refusal(single_bytes().compile(grammar, limits=limits), data, start)
    if refusal is None or grammar.schema is None:
        return Answer(refusal)
    schema, options = grammar.schema
    free = _with(schema, options, _FREE, limits)
    kept = _refusal(free, data, start) if free is not None else refusal
    if kept is None:
        return Answer(
            refusal, next(name for name, freedom in _FREEDOMS if _fits(schema, options, freedom, data[start:], limits))
        )
    written = _rewritten(data[start:]) if free is not None else None
    if free is not None and written is not None and _has(free, written):
        return Answer(kept, "how a number, a string or a repeated key is written")
    return Answer(kept)


def json_fault(data: bytes) -> InputError | None:
    """What makes these bytes no JSON text, with its line and column. None if they are one."""
    from narrows import JsonValues

    reader = JsonValues(depth=0)
    try:
        reader.feed(data)
        reader.finish()
    except InputError as error:
        error.line, error.column = place(data, error.offset if error.offset is not None else len(data))
        error.offset = None
        return error
    return None


def place(data: bytes, offset: int) -> tuple[int, int]:
    """Line and column, in characters from 1, of a byte of a text."""
    before = data[:offset]
    return before.count(b"\n") + 1, len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "ignore")) + 1


def _refusal(constraint: Constraint, data: bytes, start: int) -> Refusal | None:
    matcher = constraint.matcher()
    offset = next((at for at, byte in enumerate(data[start:], start) if not matcher.accept(byte)), len(data))
    if offset == len(data) and matcher.is_accepting:
        return None
    explained = matcher.explain(data[offset] if offset < len(data) else _END)
    line, column = place(data, offset)
    found = data[offset : offset + 4 * _NEAR].decode("utf-8", "replace")[:_NEAR]
    characters, at = _in_words(explained.expected, explained.end_expected), explained.place
    if at is None:
        return Refusal(offset, line, column, found, characters, characters, rules=explained.rules)
    return Refusal(offset, line, column, found, at.expected, characters, at.value, at.keywords, at.schemas)


def _in_words(expected: bytes, end: bool, most: int = 12) -> str:
    """Bytes that may come, such as `'a'..'z'`, and the end of the text."""
    runs: list[tuple[int, int]] = []
    for byte in expected:
        if runs and byte == runs[-1][1] + 1 and (byte < 128) == (runs[-1][0] < 128):
            runs[-1] = runs[-1][0], byte
        else:
            runs.append((byte, byte))
    words: list[str] = []
    for low, high in runs:
        name = _byte_name(low)
        if low >= 128:
            words += [] if "a character beyond ASCII" in words else ["a character beyond ASCII"]
        elif high - low < 2:
            words += [name] if low == high else [name, _byte_name(high)]
        else:
            words.append(f"{name}..{_byte_name(high)}")
    shown = words[:most] + (["..."] if len(words) > most else []) + (["the end of the text"] if end else [])
    return ", ".join(shown) or "nothing"


def _byte_name(byte: int) -> str:
    return repr(chr(byte))


def _with(schema: Any, options: Mapping[str, Any], freedom: Mapping[str, str], limits: Limits) -> Constraint | None:
    """The schema with another spelling. None where that cannot be enforced, or takes too much work."""
    from narrows import Grammar

    try:
        grammar = Grammar.from_json_schema(schema, **{**options, "on_unsupported": "ignore", **freedom}, limits=limits)
        return single_bytes().compile(grammar, limits=limits)
    except NarrowsError:
        return None


def _fits(schema: Any, options: Mapping[str, Any], freedom: Mapping[str, str], data: bytes, limits: Limits) -> bool:
    constraint = _with(schema, options, freedom, limits)
    return constraint is not None and _has(constraint, data)


def _has(constraint: Constraint, data: bytes) -> bool:
    matcher = constraint.matcher()
    return all(map(matcher.accept, data)) and matcher.is_accepting


def _rewritten(data: bytes) -> bytes | None:
    """The same value as `json.dumps` writes it, integers without fraction and exponent. None where it would be another
    value."""
    from narrows import JsonValues

    reader = JsonValues(depth=0, parse_float=_plain_number)
    try:
        reader.feed(data)
        reader.finish()
        return json.dumps(reader.value(), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (NarrowsError, ValueError, ArithmeticError, RecursionError):
        return None


def _plain_number(text: str) -> int | float:
    exact = Decimal(text)
    if exact.is_zero():
        return 0
    if exact == exact.to_integral_value() and exact.adjusted() < _MOST_DIGITS:
        return int(exact)
    if Decimal(repr(float(text))) != exact:
        raise ValueError("a float cannot hold the number")
    return float(text)
