"""What `\\d`, `\\w`, `\\s`, `\\p{..}` and `[:alpha:]` mean in each dialect, and which characters are equal without
case.

The data is that of the running Python (`unicodedata.unidata_version`); the ASCII sets and those of ECMA-262 are fixed.

Cost: a set that needs Unicode data is computed at its first use, from each character, in 40 to 90 ms, and then kept.
There are about forty of them. The case table is computed at the first case-insensitive pattern, in 60 ms.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import lru_cache
from itertools import groupby

from narrows.grammar import utf8
from narrows.grammar.utf8 import Ranges, code_points

_PLANES = ((0, 0x33FFF), (0xE0000, 0xE01FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
"""Every assigned character lies here (tests/grammar/regex/test_regex.py checks this)."""
_LAST_CASED = 0x1FFFF

ASCII: Ranges = ((0, 127),)
DIGITS = code_points((0x30, 0x39))
ASCII_WORD = code_points((0x30, 0x39), (0x41, 0x5A), "_", (0x61, 0x7A))
ASCII_SPACE = code_points((9, 13), 32)
WHITE_SPACE = code_points((9, 13), 0x20, 0x85, 0xA0, 0x1680, (0x2000, 0x200A), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
"""The Unicode property White_Space."""
ECMA_SPACE = code_points((9, 13), 0x20, 0xA0, 0x1680, (0x2000, 0x200A), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF)
ECMA_NEWLINES = code_points("\n\r\u2028\u2029")
NEWLINE = code_points("\n")

POSIX: dict[str, Ranges] = {
    "alnum": code_points((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": code_points((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ASCII,
    "blank": code_points("\t "),
    "cntrl": code_points((0, 31), 127),
    "digit": DIGITS,
    "graph": code_points((33, 126)),
    "lower": code_points((0x61, 0x7A)),
    "print": code_points((32, 126)),
    "punct": code_points((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ASCII_SPACE,
    "upper": code_points((0x41, 0x5A)),
    "word": ASCII_WORD,
    "xdigit": code_points((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}

_CATEGORY_NAMES = {
    "L": "Letter", "LC": "Cased_Letter", "Lu": "Uppercase_Letter", "Ll": "Lowercase_Letter", "Lt": "Titlecase_Letter",
    "Lm": "Modifier_Letter", "Lo": "Other_Letter", "M": "Mark", "Mn": "Nonspacing_Mark", "Mc": "Spacing_Mark",
    "Me": "Enclosing_Mark", "N": "Number", "Nd": "Decimal_Number", "Nl": "Letter_Number", "No": "Other_Number",
    "P": "Punctuation", "Pc": "Connector_Punctuation", "Pd": "Dash_Punctuation", "Ps": "Open_Punctuation",
    "Pe": "Close_Punctuation", "Pi": "Initial_Punctuation", "Pf": "Final_Punctuation", "Po": "Other_Punctuation",
    "S": "Symbol", "Sm": "Math_Symbol", "Sc": "Currency_Symbol", "Sk": "Modifier_Symbol", "So": "Other_Symbol",
    "Z": "Separator", "Zs": "Space_Separator", "Zl": "Line_Separator", "Zp": "Paragraph_Separator", "C": "Other",
    "Cc": "Control", "Cf": "Format", "Cs": "Surrogate", "Co": "Private_Use", "Cn": "Unassigned",
}  # fmt: skip
_MORE_NAMES = {"Combining_Mark": "M", "digit": "Nd", "punct": "P", "cntrl": "Cc"}
_SHORT_NAME = {long: short for short, long in _CATEGORY_NAMES.items()} | _MORE_NAMES | {s: s for s in _CATEGORY_NAMES}
_LOOSE_NAME = {name.replace("_", "").lower(): short for name, short in _SHORT_NAME.items()}


def category(name: str, *, loose: bool = False) -> Ranges | None:
    """The characters of a general category, by its short or long name. `loose` ignores case, `_`, `-` and spaces, as
    Rust does. None if there is no such category."""
    if loose:
        key = name.replace("_", "").replace("-", "").replace(" ", "").lower()
        short = _LOOSE_NAME.get(key)
        if short is None and key.startswith("is"):
            short = _LOOSE_NAME.get(key[2:])
    else:
        short = _SHORT_NAME.get(name)
    return None if short is None else _category(short)


@lru_cache(maxsize=len(_CATEGORY_NAMES))
def _category(short: str) -> Ranges:
    if short == "LC":
        return utf8.union(_category("Lu"), _category("Ll"), _category("Lt"))
    if short in ("C", "Cn"):
        return utf8.complement(
            utf8.union(*(ranges for name, ranges in _by_category().items() if not name.startswith(short)))
        )
    return utf8.union(*(ranges for name, ranges in _by_category().items() if name.startswith(short)))


@lru_cache(maxsize=1)
def _by_category() -> dict[str, Ranges]:
    """Every assigned category of two letters."""
    runs: dict[str, list[tuple[int, int]]] = {}
    for first, last in _PLANES:
        for name, group in groupby(range(first, last + 1), lambda point: unicodedata.category(chr(point))):
            points = list(group)
            runs.setdefault(name, []).append((points[0], points[-1]))
    return {name: code_points(*pairs) for name, pairs in runs.items() if name != "Cn"}


def _scan(test: Callable[[str], bool]) -> Ranges:
    runs = []
    for first, last in _PLANES:
        for inside, group in groupby(range(first, last + 1), lambda point: test(chr(point))):
            if inside:
                points = list(group)
                runs.append((points[0], points[-1]))
    return code_points(*runs)


@lru_cache(maxsize=1)
def python_word() -> Ranges:
    """`\\w` of Python's `re`: the characters of `str.isalnum`, and the underscore."""
    return utf8.union(_scan(str.isalnum), code_points("_"))


@lru_cache(maxsize=1)
def python_space() -> Ranges:
    """`\\s` of Python's `re`: the characters of `str.isspace`."""
    return _scan(str.isspace)


@lru_cache(maxsize=1)
def unicode_word() -> Ranges:
    """`\\w` of UTS 18, as in Rust: Alphabetic, Mark, Decimal_Number, Connector_Punctuation, Join_Control."""
    circled = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))  # alphabetic symbols
    parts = [_category(name) for name in ("L", "Nl", "M", "Nd", "Pc")]
    return utf8.union(*parts, code_points(*circled, (0x200C, 0x200D)))


# Case. Two characters are equal without case if they are in one class; a character in no class equals itself alone.


def fold(ranges: Ranges, dialect: str) -> Ranges:
    """The set, and all characters that are equal to one of it except for case. The rule is that of ASCII letters
    ("ascii"), that of Python's `re` ("python"), or Unicode's simple case folding ("ecma", "rust"). Cost: see
    `fold_cost`."""
    points, classes = _case_table(dialect)
    extra: set[int] = set()
    for low, high in ranges:
        extra.update(*classes[bisect_left(points, low) : bisect_right(points, high)])
    return utf8.union(ranges, code_points(*extra)) if extra else ranges


def fold_cost(ranges: Ranges) -> int:
    """The charge of `fold`, in units of work: one per range, and one per two characters, the latter at most 1,500
    (few characters have case)."""
    return 1 + len(ranges) + min(1500, sum([high - low for low, high in ranges]) // 2)


def _classes(key: Callable[[int], object]) -> tuple[tuple[int, ...], ...]:
    members: dict[object, list[int]] = {}
    for point in range(_LAST_CASED + 1):
        members.setdefault(key(point), []).append(point)
    return tuple(tuple(points) for points in members.values() if len(points) > 1)


def _case_table(dialect: str) -> tuple[list[int], list[tuple[int, ...]]]:
    return _table({"ascii": _ascii_classes, "python": _python_classes}.get(dialect, _folding_classes))


@lru_cache(maxsize=3)
def _table(classes: Callable[[], tuple[tuple[int, ...], ...]]) -> tuple[list[int], list[tuple[int, ...]]]:
    """Every character that has case, in order, and the class of each."""
    pairs = sorted((point, whole) for whole in classes() for point in whole)
    return [point for point, _ in pairs], [whole for _, whole in pairs]


@lru_cache(maxsize=1)
def _ascii_classes() -> tuple[tuple[int, ...], ...]:
    return tuple((upper, upper + 32) for upper in range(0x41, 0x5B))


@lru_cache(maxsize=1)
def _folding_classes() -> tuple[tuple[int, ...], ...]:
    return _classes(_simple_fold)


_NEW_FOLDINGS = {0x1FD3: 0x390, 0x1FE3: 0x3B0, 0xFB05: 0xFB06}  # since Unicode 15.1; Python's tables may be older


def _simple_fold(point: int) -> int:
    """CaseFolding.txt, statuses C and S. Python has C and F: where F gives several characters, S is the lower case."""
    if point in _NEW_FOLDINGS:
        return _NEW_FOLDINGS[point]
    folded = chr(point).casefold()
    if len(folded) > 1:
        folded = chr(point).lower()
    return ord(folded) if len(folded) == 1 else point


@lru_cache(maxsize=1)
def _python_classes() -> tuple[tuple[int, ...], ...]:
    """`re.IGNORECASE`: characters are equal if their lower cases are equal, or if these share an upper case."""

    def lower(point: int) -> str:
        return "i" if point == 0x130 else chr(point).lower()

    return _classes(lambda point: lower(point).upper())
