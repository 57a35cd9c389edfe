"""Code point sets against Python sets, and their two spellings against Python's decoders, byte string by byte string."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows import Grammar
from narrows.errors import GrammarError, InputError
from narrows.grammar import ir, json_text, utf8
from narrows.reference import Reference

EDGES = [0, 8, 9, 0x1F, 0x20, 0x22, 0x2F, 0x5C, 0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xCFFF, 0xD7FF, 0xE000, 0xFFFF]
EDGES += [0x10000, 0x103FF, 0x10400, 0x3FFFF, 0x40000, 0xFFFFF, 0x100000, 0x10FFFF]
points = st.one_of(st.sampled_from(EDGES), st.integers(0, utf8.LAST)).filter(lambda c: not 0xD800 <= c <= 0xDFFF)
pairs = st.tuples(points, points).map(lambda p: (min(p), max(p)))
sets = st.lists(st.one_of(points, pairs), max_size=5).map(lambda parts: utf8.code_points(*parts))
small_sets = st.lists(st.integers(0xD7F0, 0xE00F), max_size=12).map(lambda parts: utf8.code_points(*parts))

ODD = [
    b"\xc0\x80",
    b"\xc1\xbf",
    b"\xe0\x9f\xbf",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xf0\x8f\xbf\xbf",
    b"\xf4\x90\x80\x80",
]
ODD += [b"\xf5\x80\x80\x80", b"\x80", b"\xff", b"", b"ab", b"\xc3", b"\xe2\x82"]


def members(ranges: utf8.Ranges) -> set[int]:
    return {c for low, high in ranges for c in range(low, high + 1)}


def one_character(node: ir.Node) -> Reference:
    return Reference(ir.Module({"root": node}))


@given(small_sets, small_sets)
def test_set_operations(left: utf8.Ranges, right: utf8.Ranges) -> None:
    assert members(utf8.union(left, right)) == members(left) | members(right)
    assert members(utf8.intersection(left, right)) == members(left) & members(right)
    assert members(utf8.difference(left, right)) == members(left) - members(right)
    assert utf8.complement(utf8.complement(left)) == left
    assert not members(left) & set(range(0xD800, 0xE000))
    assert all(before[1] + 1 < after[0] or before[1] == 0xD7FF for before, after in pairwise(left))


@settings(max_examples=40, deadline=None)
@given(sets, st.lists(points, max_size=8))
def test_utf8(ranges: utf8.Ranges, probes: list[int]) -> None:
    reference = one_character(utf8.node(ranges))
    near = {edge + d for pair in ranges for edge in pair for d in (-1, 0, 1)}
    for point in {c for c in near | set(probes) if 0 <= c <= utf8.LAST and not 0xD800 <= c <= 0xDFFF}:
        text = chr(point).encode()
        assert reference.accepts(text) == utf8.contains(ranges, point), hex(point)
        assert not reference.viable(text + b"x")
    assert not any(reference.accepts(text) for text in ODD)


def decoded(spelling: bytes) -> int | None:
    """The one character that a JSON string with this inside holds."""
    try:
        text = json.loads(b'"' + spelling + b'"')
        return ord(text) if isinstance(text, str) and len(text) == 1 and not "\ud800" <= text <= "\udfff" else None
    except ValueError:
        return None


def spellings(point: int) -> list[bytes]:
    """All of them, and some that are none."""
    units = chr(point).encode("utf-16-be").hex()
    split = [units[k : k + 4] for k in range(0, len(units), 4)]
    numeric = "".join("\\u" + unit for unit in split)
    mixed = "".join("\\u" + unit[:2].upper() + unit[2:] for unit in split)
    raw = chr(point).encode()
    return [raw, numeric.encode(), mixed.encode(), b"\\" + raw, b"\\U" + split[0].encode(), b"\\u" + split[0].encode()]


@settings(max_examples=40, deadline=None)
@given(sets, st.lists(points, max_size=4))
def test_json_spellings(ranges: utf8.Ranges, probes: list[int]) -> None:
    every = one_character(json_text.char(ranges))
    least = one_character(json_text.char(ranges, "minimal"))
    controls = one_character(json_text.char(ranges, "controls"))
    near = {edge + d for pair in ranges for edge in pair for d in (-1, 0, 1)} | set(json_text.SHORT) | set(b"nbtfr")
    for point in {c for c in near | set(probes) if 0 <= c <= utf8.LAST and not 0xD800 <= c <= 0xDFFF}:
        for text in (*spellings(point), json_text.minimal(chr(point)), *json_text.SHORT.values()):
            value = decoded(text)
            inside = value is not None and utf8.contains(ranges, value)
            assert every.accepts(text) == inside, text
            usual = value is not None and json.dumps(chr(value), ensure_ascii=False)[1:-1].encode()
            assert least.accepts(text) == (inside and _same(text, usual)), text
            assert controls.accepts(text) == (inside and _is_for_controls(text, value)), text
    assert not any(every.accepts(text) for text in ODD)


def _is_for_controls(text: bytes, value: int | None) -> bool:
    """Whether the spelling is one of "controls": numbers for control characters alone, and these never raw."""
    is_control = value is not None and (value < 0x20 or value == 0x7F)
    if text[:2] == b"\\u":
        return is_control
    return text != b"\\/" if text[:1] == b"\\" else not is_control


def _same(text: bytes, usual: bytes | bool) -> bool:
    """Equal, but for the case of the digits of a \\u escape."""
    return text == usual or (text[:2] == b"\\u" and isinstance(usual, bytes) and text.lower() == usual)


@settings(max_examples=50, deadline=None)
@given(st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from('"\\/\n\0é😀')), max_size=6))
def test_literals(text: str) -> None:
    every = one_character(json_text.literal(text))
    least = one_character(json_text.literal(text, "minimal"))
    usual = json.dumps(text, ensure_ascii=False)[1:-1].encode()
    assert json_text.minimal(text) == usual
    for spelled in (usual, json.dumps(text)[1:-1].encode(), usual.replace(b"/", b"\\/")):
        assert every.accepts(spelled)
        assert least.accepts(spelled) == (spelled == usual)
        assert not every.accepts(spelled + b"x")


def test_equal_sets_are_one_node() -> None:
    assert utf8.node(utf8.code_points("abc")) is utf8.node(utf8.code_points((97, 99)))
    assert json_text.char(utf8.ANY) is json_text.char(utf8.ANY, "all")


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\udc00\ud800"])
def test_lone_surrogates_have_no_spelling(text: str) -> None:
    with pytest.raises(GrammarError) as caught:
        json_text.literal(text)
    assert caught.value.code == "lone_surrogate"
    assert caught.value.offset == text.index(max(text, key=lambda c: c >= "\ud800"))


@pytest.mark.parametrize(
    ("front", "text", "code"),
    [
        (Grammar.from_gbnf, "root ::= <\ud800>", "gbnf_invalid"),
        (Grammar.from_gbnf, 'root ::= "\ud800"', "gbnf_invalid"),
        (Grammar.from_lark, "start: <|\ud800|>", "lark_invalid"),
        (Grammar.from_lark, 'start: "\ud800"', "lark_invalid"),
        (Grammar.from_ebnf, "root ::= [\ud800]", "ebnf_invalid"),
        (Grammar.from_regex, "\\N{a\ud800}", "regex_invalid"),
    ],
)
def test_lone_surrogates_in_a_grammar_are_refused(front: Callable[[str], Grammar], text: str, code: str) -> None:
    with pytest.raises(GrammarError) as caught:
        front(text)
    assert caught.value.code == code


def test_unknown_escapes() -> None:
    with pytest.raises(InputError) as caught:
        json_text.char(utf8.ANY, "some")  # type: ignore[arg-type]
    assert caught.value.code == "invalid_escapes"
