"""The scanner takes exactly what a strict JSON reader takes, in any pieces, and finds where a value ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows.stream.json_scan import JsonScanner

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
SPELLED = st.builds(
    lambda value, indent, ascii: json.dumps(value, indent=indent, ensure_ascii=ascii),
    VALUES,
    st.sampled_from((None, 0, 2)),
    st.booleans(),
)


def _refuse(word: str) -> Any:
    raise ValueError(word)


def is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def scan(pieces: list[str], max_depth: int = 512) -> tuple[JsonScanner, int]:
    scanner = JsonScanner(max_depth)
    read = 0
    for piece in pieces:
        at = scanner.scan(piece, 0)
        read += at
        if at < len(piece):
            break
    return scanner, read


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@given(SPELLED, st.integers(1, 7), st.sampled_from(("", "}", "]", ",", "x", ' "')))
def test_finds_the_end(text: str, size: int, rest: str) -> None:
    scanner, read = scan(cut(text + rest, size))
    if not scanner.done:
        scanner.end_of_text()
    assert scanner.done
    assert scanner.fault is None
    assert scanner.flaw is None
    assert read == len(text) or (not rest.strip() and read >= len(text))


@settings(max_examples=400)
@given(SPELLED, st.data())
def test_takes_what_a_strict_reader_takes(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(0, 2))):  # break it in places
        at = data.draw(st.integers(0, len(text)))
        drop = data.draw(st.integers(0, 2))
        put = data.draw(
            st.sampled_from(
                ("", '"', "\\", "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", "\n", "\x01", "t", "u", "é")
            )
        )
        text = text[:at] + put + text[at + drop :]
    size = data.draw(st.integers(1, 9))
    scanner, read = scan(cut(text, size))
    scanner.end_of_text()
    accepted = scanner.done and scanner.fault is None and scanner.flaw is None and not text[read:].strip(" \t\r\n")
    assert accepted == is_json(text), (text, scanner.fault, scanner.flaw)


@given(SPELLED, st.integers(1, 9))
def test_pieces_do_not_matter(text: str, size: int) -> None:
    broken = text.replace('"', "'", 1)
    whole, pieces = scan([broken]), scan(cut(broken, size))
    assert (whole[0].done, whole[0].fault, whole[0].flaw, whole[1]) == (
        pieces[0].done,
        pieces[0].fault,
        pieces[0].flaw,
        pieces[1],
    )


def test_nesting_is_bounded() -> None:
    scanner, read = scan(["[" * 6], max_depth=5)
    assert scanner.fault is not None
    assert "stream_depth" in scanner.fault
    assert read == 5


@pytest.mark.parametrize(
    "text",
    [
        "[}",
        "{]",
        '{"a": 1]',
        "[1}",
        "{,}",
        "[,]",
        "[1,]",
        '{"a"}',
        '{"a": }',
        '{"a" 1}',
        "{1: 2}",
        "01",
        "1.",
        ".1",
        "1e",
        "--1",
        "+1",
        "tru",
        "truee",
        "nul",
        "NaN",
        "Infinity",
        "-Infinity",
        '"',
        '"\\',
        '"\\x"',
        '"\\u12"',
        '"\t"',
        "'a'",
        "",
        "1 2",
        "[1 2]",
        "\xa01",
    ],
)
def test_what_is_no_json(text: str) -> None:
    for size in (1, 2, 100):
        scanner, read = scan(cut(text, size))
        scanner.end_of_text()
        assert not is_json(text)
        assert not scanner.done or scanner.fault or scanner.flaw or text[read:].strip(" \t\r\n"), text
