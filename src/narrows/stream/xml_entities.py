"""XML's five entities and its character references, in text that comes in pieces. Linear."""

from __future__ import annotations

_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_LONGEST_ENTITY = 10
"""Characters of `&#x10FFFF;`."""


def unescape(text: str) -> str:
    """The text with XML's entities and character references replaced by their characters. Linear."""
    if "&" not in text:
        return text
    parts: list[str] = []
    at = 0
    while (begin := text.find("&", at)) >= 0:
        end = text.find(";", begin, begin + _LONGEST_ENTITY)
        char = _character(text[begin + 1 : end]) if end >= 0 else None
        parts.append(text[at:begin] + (char or "&"))
        at = end + 1 if char else begin + 1
    parts.append(text[at:])
    return "".join(parts)


def _character(name: str) -> str | None:
    if name in _ENTITIES:
        return _ENTITIES[name]
    digits, base = (name[2:], 16) if name[:2] == "#x" else (name[1:], 10)
    allowed = "0123456789abcdefABCDEF" if base == 16 else "0123456789"
    if name[:1] != "#" or not digits or any(digit not in allowed for digit in digits):
        return None
    code = int(digits, base)
    return chr(code) if 0 < code < 0xD800 or 0xDFFF < code < 0x110000 else None


def before_entity(text: str, pos: int, at: int) -> int:
    """`at`, or the place before it where an unfinished entity begins."""
    begin = text.rfind("&", max(pos, at - _LONGEST_ENTITY + 1), at)
    return begin if begin >= 0 and text.find(";", begin, at) < 0 else at
