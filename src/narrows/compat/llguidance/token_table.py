"""The tokens of a vocabulary as llguidance shows them: special tokens begin with the byte 0xFF, which no text has.

Cost: the table is made with the tokenizer, 0.3 s for 128,000 tokens; each call is linear in its tokens.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

SPECIAL = 0xFF
"""The first byte of a special token. A token that is this byte alone is the byte."""
_MARK = bytes([SPECIAL])
_MOST_SHOWN = 200
"""Tokens of a list that `debug` shows: the last ones."""


def is_special(token: bytes) -> bool:
    """Whether the bytes of a token are those of a special one."""
    return len(token) > 1 and token[0] == SPECIAL


class TokenTable:
    """`tokens`: by id; b"" for an id without bytes. `eos`: the end tokens, the first of them shown as such."""

    def __init__(self, tokens: Sequence[bytes], eos: Sequence[int]) -> None:
        self.tokens = list(tokens)
        self.eos = tuple(eos)
        self.longest = max([len(token) for token in self.tokens], default=0)
        ids: dict[bytes, int] = {}
        for i, token in enumerate(self.tokens):
            if token and not is_special(token):
                ids.setdefault(token, i)
        self.ids: Mapping[bytes, int] = ids
        """Ids by the bytes of ordinary tokens."""
        self._sorted = sorted(ids)

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def special(self) -> Mapping[bytes, int]:
        """Ids by the names of special tokens."""
        found: dict[bytes, int] = {}
        for i, token in enumerate(self.tokens):
            if is_special(token):
                found.setdefault(token[1:], i)
        return found

    def token(self, i: int) -> bytes:
        """The bytes of an id. b"" for one beyond the table."""
        return self.tokens[i] if i < len(self.tokens) else b""

    def extensions(self, start: bytes) -> Iterator[bytes]:
        """The ordinary tokens that begin with these bytes and are longer, in order."""
        ordered = self._sorted
        for place in range(bisect_left(ordered, start), len(ordered)):
            token = ordered[place]
            if not token.startswith(start):
                return
            if len(token) > len(start):
                yield token

    def decoded(self, ids: Sequence[int]) -> bytes:
        """The text; a special token is its name, an id without bytes is `<[5]>`."""
        pieces = []
        for i in ids:
            token = self.token(i)
            pieces.append(token[1:] if is_special(token) else token or b"<[%d]>" % i)
        return b"".join(pieces)

    def raw(self, ids: Sequence[int]) -> bytes:
        """The text in which a special token is a mark and its id, so that it can be told from text."""
        pieces = []
        for i in ids:
            token = self.token(i)
            pieces.append(token if token and not is_special(token) else marked(i))
        return b"".join(pieces)

    def raw_length(self, i: int) -> int:
        """The bytes of an id in `raw`."""
        return len(self.raw([i]))

    def debug(self, ids: Sequence[int]) -> str:
        """The tokens between dots, for people."""
        shown = ids[-_MOST_SHOWN:]
        return ("…" if len(shown) < len(ids) else "") + "‧".join([self._debug_one(i) for i in shown])

    def _debug_one(self, i: int) -> str:
        if self.eos and i == self.eos[0]:
            return "≺EOS≻"
        if i >= len(self.tokens):
            return f"≺OOB[{i}]≻"
        token = self.tokens[i]
        if is_special(token):
            return token[1:].decode("utf-8", "replace")
        if not token:
            return f"≺EMPTY[{i}]≻"
        try:
            return _printable(token.decode())
        except UnicodeDecodeError:
            return f"≺HEX[{token.hex()}]≻"

    def greedy(self, data: bytes) -> list[int]:
        """The longest token at each place. A byte that no token has is left out."""
        made: list[int] = []
        place = 0
        while place < len(data):
            for length in range(min(self.longest, len(data) - place), 0, -1):
                found = self.ids.get(data[place : place + length])
                if found is not None:
                    made.append(found)
                    break
            else:
                length = 1
            place += length
        return made


def marked(i: int) -> bytes:
    """The mark and the id, for a token without bytes of its own."""
    return b"%b[%d]" % (_MARK, i)


def marked_id(data: bytes, place: int) -> tuple[int, int] | None:
    """The id of `[5]` at this place, and where it ends. None if there is none."""
    end = data.find(b"]", place, place + 20)
    digits = data[place + 1 : end]
    if data[place : place + 1] != b"[" or end < 0 or not digits.isdigit():
        return None
    return int(digits), end + 1


def valid_runs(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The bytes in runs: valid UTF-8 as text, and the bytes after it that are not."""
    try:
        yield data.decode(), b""
        return
    except UnicodeDecodeError:
        text = data.decode("utf-8", "surrogateescape")
    place = 0
    while place < len(text):
        bad = place
        while bad < len(text) and not _is_escaped(text[bad]):
            bad += 1
        end = bad
        while end < len(text) and _is_escaped(text[end]):
            end += 1
        yield text[place:bad], text[bad:end].encode("utf-8", "surrogateescape")
        place = end


def _is_escaped(c: str) -> bool:
    return "\udc80" <= c <= "\udcff"


def _printable(text: str) -> str:
    escapes = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "\0": "\\0", "'": "'"}
    return "".join([escapes.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in text])
