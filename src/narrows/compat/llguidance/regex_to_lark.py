"""`regex_to_lark`: a pattern as it stands between slashes in a Lark grammar."""

from __future__ import annotations

from narrows.arguments import TEXT
from narrows.compat.llguidance import misuse

_CLASSES = {"d": "0-9", "w": "0-9a-zA-Z_", "s": r" \t\n\r\f\v"}
_ESCAPED = {"/": r"\/", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


def regex_to_lark(regex: str, use_ascii: str | None = None) -> str:
    r"""Escapes slashes, line breaks and tabs. `use_ascii` names shorthands that become ASCII classes: with "d", `\d` is
    `[0-9]` and `\D` is `[^0-9]`; "w" and "s" likewise."""
    for name, text in (("regex", regex), ("use_ascii", use_ascii or "")):
        if not TEXT.fits(text):
            raise misuse.wrong_type(name, "a str", text)
    ascii_ones = use_ascii or ""
    made: list[str] = []
    is_escaped = False
    for c in regex:
        if c == "\\" and not is_escaped:
            is_escaped = True
            continue
        if c in _ESCAPED:
            made.append(_ESCAPED[c])
        elif is_escaped and c.lower() in _CLASSES and c.lower() in ascii_ones:
            made.append(f"[{'' if c.islower() else '^'}{_CLASSES[c.lower()]}]")
        else:
            made.append(f"\\{c}" if is_escaped else c)
        is_escaped = False
    return "".join(made)
