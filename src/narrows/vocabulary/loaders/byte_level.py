"""The byte-level alphabet: 256 printable characters that stand for the 256 bytes (GPT-2, Llama 3, Qwen, DeepSeek, most
others).

The 188 bytes that print in Latin-1 stand for themselves; the others, in order, are U+0100, U+0101 and on. Source: the
published GPT-2 encoder. Cost: about 0.2 us a token.
"""

from __future__ import annotations

_PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))

_NOT_IN_ALPHABET = 0xFFFF
"""Stands for the 68 Latin-1 characters that are no letters of the alphabet: not encodable in Latin-1, so that they are
noticed."""

_BYTE_OF_LETTER: dict[int, int] = {b: b for b in _PRINTABLE}
for _n, _b in enumerate(b for b in range(256) if b not in _BYTE_OF_LETTER):
    _BYTE_OF_LETTER[0x100 + _n] = _b
_TABLE = dict.fromkeys(range(256), _NOT_IN_ALPHABET) | _BYTE_OF_LETTER

LETTER_OF_BYTE = {b: chr(c) for c, b in _BYTE_OF_LETTER.items()}
"""The other direction: the character that stands for a byte."""


def decode(token: str) -> bytes:
    """The bytes that a byte-level token stands for. A token with any other character is plain text, as in
    `tokenizers`."""
    try:
        return token.translate(_TABLE).encode("latin-1")
    except UnicodeEncodeError:
        return token.encode("utf-8")
