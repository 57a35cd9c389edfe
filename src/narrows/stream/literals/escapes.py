"""Escapes in strings, as Python or JSON writes them, turned into JSON."""

from __future__ import annotations

from narrows.stream.json_scan import quote

_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "/": "/", "\n": "",
}  # fmt: skip
_CODES = {"x": 2, "u": 4, "U": 8}


def read_escape(text: str, pos: int, final: bool) -> tuple[int, str] | None:
    """(where the escape at `pos` ends, its JSON). None: more text is needed to know."""
    if pos + 1 == len(text):
        return None
    char = text[pos + 1]
    end, written = pos + 2, _ESCAPES.get(char)
    if written is None and char in _CODES:
        end += _CODES[char]
        digits = text[pos + 2 : end]
        if len(digits) < _CODES[char] and _is_hex(digits) and not final:
            return None
        code = int(digits, 16) if len(digits) == _CODES[char] and _is_hex(digits) else -1
        if 0xD800 <= code < 0xE000:  # half of a surrogate pair is written as Python's json writes it
            return end, f"\\u{code:04x}"
        if 0 <= code < 0x110000:
            written = chr(code)
    elif written is None and char in "01234567":
        end = pos + 1
        while end < pos + 4 and end < len(text) and text[end] in "01234567":
            end += 1
        if end == len(text) and end < pos + 4 and not final:
            return None
        written = chr(int(text[pos + 1 : end], 8))
    if written is None:  # not an escape: the backslash is data, as in Python
        return pos + 1, "\\\\"
    return end, quote(written)[1:-1]


def _is_hex(digits: str) -> bool:
    return all(c in "0123456789abcdefABCDEF" for c in digits)
