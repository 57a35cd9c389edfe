"""Patterns with lengths, against all short strings: a text goes on exactly if one of them begins with it.

Far from its greatest length, a string with a pattern is read by the states of the pattern alone. Where that begins
depends on the longest token, on the least length, and on how the pattern can end.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import narrows

LETTERS = "ab-"
TOKENS = [bytes([b]) for b in range(256)] + [
    "".join(letters).encode()
    for n in (2, 3)
    for letters in itertools.product('ab-"', repeat=n)
    if letters[2:] != ("-",)
]
PATTERNS = [
    "^a*b$",
    "^(ab)*$",
    "^a+(-b+)*$",
    "^(aab|b)*-$",
    "^a*(ba*){3}$",
    "-bab$",
    "a--b",
    "^(a|b-){2,}$",
    "^(aaa|bb)*$",
    "^[ab]*(-[ab]{2,3}){1,2}$",
]
LENGTHS = [(0, 7), (0, 5), (3, 7), (2, 4), (6, 7), (0, 3), (5, 6)]


@pytest.fixture(scope="module")
def vocabulary() -> narrows.Vocabulary:
    return narrows.Vocabulary([*TOKENS, b""], special={"<end>": len(TOKENS)}, eos=[len(TOKENS)])


def mask(constraint: narrows.Constraint, begin: bytes) -> set[bytes]:
    """The tokens of these letters and the quote that may come next."""
    matcher = constraint.matcher()
    assert matcher.accept_bytes(begin), begin
    row = np.zeros((len(TOKENS) + 32) // 32, dtype=np.int32)
    matcher.fill_mask(row)
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")[: len(TOKENS)]
    return {TOKENS[t] for t in np.flatnonzero(bits) if set(TOKENS[t]) <= set(b'ab-"')}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("least", "most"), LENGTHS)
def test_prefixes_and_masks(vocabulary: narrows.Vocabulary, pattern: str, least: int, most: int) -> None:
    allowed = [
        "".join(letters)
        for n in range(least, most + 1)
        for letters in itertools.product(LETTERS, repeat=n)
        if re.search(pattern, "".join(letters))
    ]
    schema = {"type": "string", "pattern": pattern, "minLength": least, "maxLength": most}
    rules = [{**schema, "allOf": [{"pattern": f"^[{LETTERS}]*$"}]}]
    if pattern.startswith("^"):
        rules.append(schema)  # no other letters may come
    for rule in rules:
        if not allowed:
            with pytest.raises(narrows.NarrowsError):
                vocabulary.compile(narrows.Grammar.from_json_schema(rule))
            continue
        constraint = vocabulary.compile(narrows.Grammar.from_json_schema(rule))
        begins = {f'"{text}"'[:n].encode() for text in allowed for n in range(len(text) + 3)}
        for begin in sorted(begins):
            assert mask(constraint, begin) == {t for t in TOKENS if begin + t in begins}, begin


@pytest.mark.parametrize(
    ("pattern", "other"),
    [
        ("^(?=[^-]{1,3}-)[ab]+(b[ab]*)*-[ab]*$", "^.*-.*$"),
        ("^(?=a{0,4}b)a*(b-?){1,}$", "b"),
        ("^(?=[^-]{2,3}-)(?=[ab]*-[ab]{0,3}$)[ab]*-[ab]*$", "^[ab]*-"),
        ("^(ab|a-)+$", "^(ab|a|-)*$"),
        ("^(ab|a-)+$", "^(a[b-])*(ab)*$"),
        ("^a*b*$", "^(a|b){0,4}-?$"),
        ("^(?=[^-]{1,2}-)a*b?-$", "^(?=.{1,3}$)"),
        ("^b*(a|-)?$", "^[b-]*.{0,1}$"),
    ],
)
@pytest.mark.parametrize(("least", "most"), [(0, 7), (1, 6), (3, 7), (2, 4)])
def test_texts_with_several_bounds(
    vocabulary: narrows.Vocabulary, pattern: str, other: str, least: int, most: int
) -> None:
    """One of the patterns may say all but how long the text, or what begins it, is."""
    allowed = [
        text
        for n in range(least, most + 1)
        for text in map("".join, itertools.product(LETTERS, repeat=n))
        if re.search(pattern, text) and re.search(other, text)
    ]
    schema = {"type": "string", "pattern": pattern, "minLength": least, "maxLength": most}
    rule = {**schema, "allOf": [{"pattern": other}, {"pattern": f"^[{LETTERS}]*$"}]}
    constraint = vocabulary.compile(narrows.Grammar.from_json_schema(rule))
    begins = {f'"{text}"'[:n].encode() for text in allowed for n in range(len(text) + 3)}
    for begin in sorted(begins):
        assert mask(constraint, begin) == {t for t in TOKENS if begin + t in begins}, begin


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=[^-]{1,5}-)[ab]+(b[ab]*)*-[ab]{1,3}",
        "(?=[^-]{1,4}-)(?=.{1,6}$)[ab]+-[ab]*",
        "(?=[^-]{0,4}-)(?=.{0,7}$)(?=a*b*-)[ab]*-[ab]*",
        "(?=.{3,6}$)(a|ba)*b?",
        "(?=.{2,5}$)(?=a)[ab]*-?",
        "(?=(ab){1,3}-)(?=.{1,8}$)(ab)+-a*",
        "(?=(a|bb){2,4}$)(a*bb)*a*",
        "(?=.{1,7}$)(?=[ab]{0,3}-)([ab]+-)+a?",
        "(?=.{0,5}$)(?=.*b)(?=.*-)[ab]*-[ab]*",
        "(?=.{4,6}$)(?=[ab-]*-)a(b-?|a)*",
        "(?=.{1,6}$)a+(?:-{3}b)?",
        "(?=[ab]*$)b?a?",
        "(?=(ab|-)*$)(ab)?-?(ab)?",
    ],
)
def test_bounds_near_the_end_of_a_text(vocabulary: narrows.Vocabulary, pattern: str) -> None:
    """Without the escapes of JSON strings, which may make the way to an end long, so that bounds are kept early."""
    constraint = vocabulary.compile(narrows.Grammar.from_regex(pattern))
    texts = ["".join(letters) for n in range(10) for letters in itertools.product(LETTERS, repeat=n)]
    allowed = [text for text in texts if re.fullmatch(pattern, text)]
    assert allowed
    begins = {text[:n].encode() for text in allowed for n in range(len(text) + 1)}
    for begin in sorted(begins):
        got = {token for token in mask(constraint, begin) if set(token) <= set(LETTERS.encode())}
        assert got == {t for t in TOKENS if begin + t in begins and t}, begin


@pytest.mark.parametrize("pattern", ["^[ab]*$", "^(ab)*$", "^a*(ba*){3}$", "^(a|b-)*$", "^[ab]+(-[ab]+)*$"])
@pytest.mark.parametrize("least", [0, 1, 2, 3])
def test_the_least_length_far_from_the_greatest(vocabulary: narrows.Vocabulary, pattern: str, least: int) -> None:
    schema = {"type": "string", "pattern": pattern, "minLength": least, "maxLength": 60}
    constraint = vocabulary.compile(narrows.Grammar.from_json_schema(schema))
    texts = ["".join(letters) for n in range(10) for letters in itertools.product(LETTERS, repeat=n)]
    allowed = [text for text in texts if len(text) >= least and re.search(pattern, text)]
    begins = {f'"{text}"'[:n].encode() for text in allowed for n in range(len(text) + 3)}
    for begin in sorted(b for b in begins if len(b) < 4 and b.count(b'"') == 1):
        assert mask(constraint, begin) == {t for t in TOKENS if begin + t in begins}, begin


@pytest.mark.parametrize(
    ("pattern", "without"),
    [
        ("^a*b-?a?$", "^a{1,5}b-$"),
        ("^a*b(-|a-)*$", "^a{0,3}b-{0,2}$"),
        ("^(a|b)*$", "^(ab){1,3}$"),
        ("^[ab]+-?-?$", "^a{1,4}-{1,2}$"),
        ("^a+(-b?a?)?$", "^a{2}-b?$"),
        ("^[ab]*(-(b|ba)?)?$", "^a{1,4}-b$"),
    ],
)
def test_texts_without_finitely_many(vocabulary: narrows.Vocabulary, pattern: str, without: str) -> None:
    allowed = [
        text
        for n in range(11)
        for text in map("".join, itertools.product(LETTERS, repeat=n))
        if re.search(pattern, text) and not re.search(without, text)
    ]
    schema = {"type": "string", "pattern": pattern, "not": {"pattern": without}}
    begins = {f'"{text}"'[:n].encode() for text in allowed for n in range(len(text) + 3)}
    constraint = vocabulary.compile(narrows.Grammar.from_json_schema(schema))
    for begin in sorted(b for b in begins if len(b) < 6):
        assert mask(constraint, begin) == {t for t in TOKENS if begin + t in begins}, begin


def test_a_limit_may_come_anywhere(vocabulary: narrows.Vocabulary) -> None:
    """What a call had begun when it reached its limit is no answer to the next one."""
    grammar = narrows.Grammar.from_json_schema({"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$", "maxLength": 6000})
    right = mask(vocabulary.compile(grammar), b'"a')
    reached = 0
    for step_work in range(3_000, 9_000, 20):
        fresh = narrows.Vocabulary([*TOKENS, b""], special={"<end>": len(TOKENS)}, eos=[len(TOKENS)])
        constraint = None
        for _ in range(5):
            try:
                constraint = constraint or fresh.compile(grammar, limits=narrows.Limits(step_work=step_work))
                assert mask(constraint, b'"a') == right
                break
            except narrows.LimitError as error:
                assert error.limit == "step_work"  # noqa: PT017
                reached += 1
        assert mask(fresh.compile(grammar), b'"a') == right
    assert reached > 20
