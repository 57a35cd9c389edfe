"""`gbnf_to_lark`: a GBNF text as Lark, with the same language in all readings.

The text is read as GBNF first, so that all errors are those of `Grammar.from_gbnf`. Then it is written again, piece by
piece: the two notations differ in their pieces alone. Each rule becomes a rule on one line. Cost: linear in the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from narrows.errors import UnsupportedError
from narrows.grammar.grammar import Grammar
from narrows.limits import DEFAULT_LIMITS, Limits

_PUNCTUATION = "()|*+?"
_NAMED = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_DIGITS = {"x": 2, "u": 4, "U": 8}
"""How many hexadecimal digits follow these escapes."""
_WRITTEN = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_DEFINES = "::="


def is_lark_syntax(text: str) -> bool:
    """Whether a line of the text begins with `%llguidance` or the rule `start:`."""
    for line in text.splitlines():
        here = line.lstrip()
        after = here.removeprefix("start").lstrip()
        if here.startswith("start") and after.startswith(":") and not after.startswith(_DEFINES):
            return True
        if here.startswith("%llguidance") and not (here[11:12].isalnum() or here[11:12] == "_"):
            return True
    return False


def any_to_lark(text: str) -> str:
    """The text itself if it is Lark, otherwise what `gbnf_to_lark` makes of it."""
    return text if is_lark_syntax(text) else gbnf_to_lark(text)


def gbnf_to_lark(text: str, *, limits: Limits = DEFAULT_LIMITS) -> str:
    """Raises GrammarError (`gbnf_invalid`) and LimitError as `Grammar.from_gbnf` does, and UnsupportedError
    (`gbnf_unsupported`) for plain BNF."""
    Grammar.from_gbnf(text, limits=limits)
    pieces = [*_pieces(text), ("end", "")]
    if any(kind == "token" and following[1] == _DEFINES for (kind, _), following in pairwise(pieces)):
        raise UnsupportedError(
            "plain BNF is not turned into Lark", code="gbnf_unsupported", hint='Use grammar_from("gbnf", text)'
        )
    names = _names([piece for kind, piece in pieces if kind == "name"])
    written = ["%llguidance {}\n"]
    for (kind, piece), (_, following) in pairwise(pieces):
        if kind == "name":
            written.append(f"\n{names[piece]}:" if following == _DEFINES else f" {names[piece]}")
        elif piece != _DEFINES:
            written.append(piece if kind == "count" or piece in ("*", "+", "?") else f" {piece}")
    return "".join(written) + "\n"


def _names(used: list[str]) -> Mapping[str, str]:
    """Names of rules in Lark, which are in lower case. `root` is `start`."""
    names = {"root": "start"}
    taken = {"start"}
    for name in used:
        if name in names:
            continue
        plain = "".join([c if c.isascii() and c.isalnum() else "_" for c in name]).lower().lstrip("_") or "rule"
        plain = plain if plain[0].isalpha() else f"r{plain}"
        made, number = plain, 2
        while made in taken:
            made, number = f"{plain}_{number}", number + 1
        names[name] = made
        taken.add(made)
    return names


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """The pieces of a valid GBNF text, as Lark writes them, but for names."""
    place = 0
    while place < len(text):
        c = text[place]
        if c == "#":
            while place < len(text) and text[place] not in "\r\n":
                place += 1
        elif c.isspace():
            place += 1
        elif text.startswith(_DEFINES, place):
            yield "defines", _DEFINES
            place += len(_DEFINES)
        elif c in "\"'":
            written, place = _string(text, place)
            yield "text", written
        elif c == "[":
            written, place = _class(text, place)
            yield "text", written
        elif c == ".":
            yield "text", r"/(.|\n)/"
            place += 1
        elif c == "{":
            end = text.index("}", place) + 1
            low, comma, high = "".join(text[place + 1 : end - 1].split()).partition(",")
            yield "count", f"{{{low or '0'}{comma}{high}}}"
            place = end
        elif c in "<!":
            end = text.index(">", place) + 1
            yield "token", _token(text[place:end])
            place = end
        elif c in _PUNCTUATION:
            yield "mark", c
            place += 1
        else:
            start = place
            while place < len(text) and (text[place].isalnum() or text[place] in "-_"):
                place += 1
            yield "name", text[start:place]


def _token(written: str) -> str:
    if not written.startswith("!"):
        return written
    if written.startswith("!<["):
        return f"<[^{written[3:]}"
    raise UnsupportedError(
        f"{written}: Lark has no word for any token but a named one",
        code="gbnf_unsupported",
        hint='Use grammar_from("gbnf", text)',
    )


def _character(text: str, place: int) -> tuple[str, int]:
    """One character, which may be escaped, and the place after it."""
    if text[place] != "\\":
        return text[place], place + 1
    c = text[place + 1]
    if c in _DIGITS:
        end = place + 2 + _DIGITS[c]
        return chr(int(text[place + 2 : end], 16)), end
    return _NAMED.get(c, c), place + 2


def _string(text: str, place: int) -> tuple[str, int]:
    quote = text[place]
    place += 1
    written = ['"']
    while text[place] != quote:
        c, place = _character(text, place)
        written.append(_WRITTEN.get(c) or (c if c.isprintable() else f"\\U{ord(c):08x}"))
    return "".join(written) + '"', place + 1


def _class(text: str, place: int) -> tuple[str, int]:
    place += 1
    written = ["/["]
    if text[place] == "^":
        written.append("^")
        place += 1
    while text[place] != "]":
        c, place = _character(text, place)
        written.append(_in_class(c))
        if text[place] == "-" and text[place + 1] != "]":
            last, place = _character(text, place + 1)
            written.append(f"-{_in_class(last)}")
    return "".join(written) + "]/", place + 1


def _in_class(c: str) -> str:
    if c.isascii() and c.isalnum():
        return c
    return f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"
