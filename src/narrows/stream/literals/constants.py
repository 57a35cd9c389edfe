"""Constants and numbers, as JSON or Python writes them, turned into JSON."""

from __future__ import annotations

from narrows.stream.json_scan import is_finite, is_json, quote

_WORDS = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}


def literal(word: str, max_depth: int, python: bool) -> str | None:
    """The JSON of a constant or a number. None where the word is neither.

    A number that is JSON stays unchanged, with all its digits; one that JSON would make infinite is a string. `python`
    also takes underscores between digits, a point without digits on one side, a plus sign, other bases, and leading
    zeros. (Python refuses leading zeros, but models write them.)"""
    if word in _WORDS:
        return _WORDS[word]
    if not word or word[0] not in "+-.0123456789":
        return None
    if is_json(word, max_depth):
        return word if is_finite(word) else quote(word)
    if not python:
        return None
    sign, digits = ("-", word[1:]) if word[0] == "-" else ("", word.lstrip("+") if word[0] == "+" else word)
    plain = digits.replace("_", "")
    if digits[:1] == "_" or digits[-1:] == "_" or "__" in digits:
        return None
    base = {"0x": 16, "0o": 8, "0b": 2}.get(plain[:2].lower())
    if base is not None:
        if not set(plain[2:].lower()) <= set("0123456789abcdef"[:base]):  # int() also takes a sign, or the prefix again
            return None
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
    number = sign + mantissa + e + exponent
    if not is_json(number, max_depth):
        return None
    return number if is_finite(number) else quote(word)
