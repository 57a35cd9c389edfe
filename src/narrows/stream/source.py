"""Turns characters, bytes and token ids into one kind of text.

Regions read plain `str`. Two things have no character of their own. They get surrogates, which decoded text cannot
hold.

- A marker that came as one token id becomes a surrogate for that marker, padded to the marker's length. So positions
  are those of the spelled text, and one search finds it. The same marker spelled in ordinary tokens stays text.
- A byte sequence that is not UTF-8 becomes one surrogate, which tells its number of bytes.

`clean` replaces both when text leaves the parser.
"""

from __future__ import annotations

import codecs
import operator
from typing import TYPE_CHECKING, Any

from narrows.arguments import ITERABLE, quoted, wants
from narrows.errors import InputError, TokenError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from narrows.tokens import TokenVocabulary

_MARKER = 0xD800
_PAD = "\udfff"
_BAD_BYTES = 0xDC00
REPLACEMENT = "\ufffd"


def _count_bad_bytes(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return chr(_BAD_BYTES + error.end - error.start), error.end


codecs.register_error("narrows.count", _count_bad_bytes)


class Alphabet:
    """Characters as they are, for a parser that is fed text. Alphabets in which markers look alike are equal."""

    __slots__ = ()

    def encode(self, marker: str) -> str:
        """The marker's form in the text."""
        return marker

    def clean(self, piece: str) -> str:
        return piece

    def width(self, piece: str) -> int:
        """The number of units of the input that a raw piece covers."""
        return len(piece)

    def after(self, piece: str, units: int) -> str:
        """The piece without its first `units` units."""
        return piece[units:]


class ByteAlphabet(Alphabet):
    """Spans count bytes."""

    __slots__ = ()

    def clean(self, piece: str) -> str:
        return _clean(piece, _BAD)

    def width(self, piece: str) -> int:
        if piece.isascii():
            return len(piece)
        return sum(ord(c) - _BAD_BYTES if 0xD800 <= ord(c) < 0xE000 else len(c.encode()) for c in piece)

    def after(self, piece: str, units: int) -> str:
        at = 0
        while units > 0 and at < len(piece):
            units -= self.width(piece[at])
            at += 1
        return piece[at:]


OF_TEXT = Alphabet()
OF_BYTES = ByteAlphabet()


class MarkerAlphabet(Alphabet):
    """Spans count characters of the spelled text. Markers of the format that the vocabulary holds come as ids."""

    __slots__ = ("_codes", "_names", "_table", "by_id")

    def __init__(self, markers: Iterable[str], vocab: TokenVocabulary) -> None:
        self._codes: dict[str, str] = {}
        self._table: dict[int, str] = dict(_BAD)
        self._table[ord(_PAD)] = ""
        self.by_id: dict[int, str] = {}
        for name in sorted({m for m in markers if m in vocab.special}):
            head = _MARKER + len(self._codes)
            self._codes[name] = chr(head) + _PAD * (len(name) - 1)
            self._table[head] = name
            self.by_id[vocab.special[name]] = self._codes[name]
        self._names = tuple(self._codes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MarkerAlphabet) and self._names == other._names

    def __hash__(self) -> int:
        return hash(self._names)

    def encode(self, marker: str) -> str:
        for name, code in self._codes.items():
            marker = marker.replace(name, code)
        return marker

    def clean(self, piece: str) -> str:
        return _clean(piece, self._table)


_BAD: dict[int, str] = {_BAD_BYTES + n: REPLACEMENT for n in range(1, 5)}


def _clean(piece: str, table: dict[int, str]) -> str:
    if piece.isascii():
        return piece
    try:
        piece.encode()
    except UnicodeEncodeError:
        return piece.translate(table)
    return piece


class Decoder:
    """Bytes in, text out, whatever the chunks. An incomplete character waits for its remaining bytes."""

    __slots__ = ("_utf8",)

    def __init__(self) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8")("narrows.count")

    def decode(self, data: bytes, final: bool = False) -> str:
        return self._utf8.decode(data, final)


class TokenDecoder:
    """Token ids in, text out. End tokens are left out. A control token that is not a marker becomes its name."""

    __slots__ = ("_alphabet", "_ends", "_names", "_utf8", "_vocab")

    def __init__(self, vocab: TokenVocabulary, alphabet: MarkerAlphabet) -> None:
        self._vocab = vocab
        self._alphabet = alphabet
        self._utf8 = Decoder()
        self._names = {token: name for name, token in vocab.special.items()}
        self._ends = frozenset(vocab.eos_ids)

    def decode(self, ids: Iterable[int]) -> str:
        parts: list[str] = []
        for token in ids if type(ids) is list else _checked(ids):
            if type(token) is not int:
                token = _index(token)
            if not 0 <= token < self._vocab.size:
                raise TokenError(f"token id {quoted(token)} lies outside 0..{self._vocab.size - 1}")
            marker = self._alphabet.by_id.get(token)
            name = None if token in self._ends else self._names.get(token)
            if marker is not None or name is not None or token in self._ends:
                parts.append(self._utf8.decode(b"", final=True))
                parts.append(marker or name or "")
            else:
                parts.append(self._utf8.decode(self._vocab.token_bytes(token) or b""))
        return "".join(parts)

    def end(self) -> str:
        return self._utf8.decode(b"", final=True)


def _index(token: Any) -> int:
    """The token as an int. Integers of numpy and torch are accepted."""
    try:
        if not isinstance(token, bool):
            return operator.index(token)
    except TypeError:
        pass
    raise InputError(f"token ids are integers, not {type(token).__name__}", code="token_invalid")


def _checked(ids: Iterable[int]) -> Iterable[int]:
    wants(ITERABLE, ids=ids)
    return ids
