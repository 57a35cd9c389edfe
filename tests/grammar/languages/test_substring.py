"""Parts of a text: exactly these, and in time and memory that grow with the text."""

from __future__ import annotations

import re
import time
from itertools import accumulate
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import narrows
from narrows import Grammar, Limits, Vocabulary
from narrows.errors import InputError, LimitError
from narrows.grammar import ir
from narrows.grammar.languages.substring import UNITS, substring_module
from narrows.reference import Reference

BYTES = Vocabulary([*(bytes([b]) for b in range(256)), b""], eos=[256])
KINDS = ("ab", "ba", "a a", "b b", "é", "aé", "éa", ", ", ".\n", "\r\n", "\n\n", "aaaa", "😀")
TOKENS = Vocabulary([*(bytes([b]) for b in range(256)), *(k.encode() for k in KINDS), b""], eos=[256 + len(KINDS)])

texts = st.text("ab é😀.,_\n\r", max_size=12)


def cuts(text: str, unit: str) -> tuple[set[int], set[int]]:
    """Where a part may begin and where it may end, in characters: by regular expressions."""
    if unit == "characters":
        return set(range(len(text) + 1)), set(range(len(text) + 1))
    if unit == "words":
        found = {0, len(text)} | {m.end() for m in re.finditer(r"\w+|\s+|[^\w\s]+", text)}
        return found, found
    begins = {0, len(text)} | {m.end() for m in re.finditer("\n", text)}
    return begins, begins | {m.start() for m in re.finditer("\r?\n", text)}


def parts(text: str, unit: str) -> set[str]:
    begins, ends = cuts(text, unit)
    return {""} | {text[i:j] for i in begins for j in ends if i < j}


def accepts(constraint: narrows.Constraint, text: str) -> bool:
    matcher = constraint.matcher()
    return matcher.accept_bytes(text.encode()) and matcher.is_accepting


@pytest.mark.parametrize("unit", UNITS)
@settings(deadline=None, max_examples=60)
@given(text=texts, other=texts)
def test_exactly_these(unit: str, text: str, other: str) -> None:
    expected = parts(text, unit)
    grammar = Grammar.substring(text, unit)
    constraint, reference = TOKENS.compile(grammar), Reference(grammar.module)
    for part in expected | {other, other[:1], other[:2], *text, text[1:], text[:-1]}:
        assert accepts(constraint, part) == (part in expected), part
        assert reference.accepts(part.encode()) == (part in expected), part
        begins = any(whole.startswith(part) for whole in expected)
        assert constraint.matcher().accept_bytes(part.encode()) == begins, part


@settings(deadline=None, max_examples=60)
@given(items=st.lists(st.text("ab é", max_size=3), max_size=5), other=st.text("ab é", max_size=5))
def test_a_list_is_cut_between_its_items(items: list[str], other: str) -> None:
    expected = {"".join(items[i:j]) for i in range(len(items) + 1) for j in range(i, len(items) + 1)} | {""}
    constraint = TOKENS.compile(Grammar.substring(items))
    for part in expected | {other}:
        assert accepts(constraint, part) == (part in expected), part


@pytest.mark.parametrize("unit", UNITS)
def test_walks_under_masks_end_in_a_part(unit: str) -> None:
    """And each token that the mask leaves out is refused."""
    random = Random(3)
    text = "".join(random.choice(KINDS) for _ in range(300))
    expected = parts(text, unit)
    constraint = TOKENS.compile(Grammar.substring(text, unit))
    row = np.zeros((TOKENS.size + 31) // 32, np.int32)
    for _ in range(100):
        matcher, read = constraint.matcher(), b""
        for _ in range(20):
            matcher.fill_mask(row)
            bits = np.unpackbits(row.view(np.uint8), bitorder="little")
            allowed = set(np.flatnonzero(bits).tolist())
            refused = random.randrange(TOKENS.size)
            assert matcher.fork().accept(refused) == (refused in allowed)
            assert matcher.is_accepting == (read.decode(errors="ignore").encode() == read and read.decode() in expected)
            assert (TOKENS.eos_ids[0] in allowed) == matcher.is_accepting
            token = random.choice(sorted(allowed))
            matcher.accept(token)
            read += TOKENS.token_bytes(token)
            if matcher.is_finished:
                break
        if not matcher.is_finished:
            end = b"".join(map(TOKENS.token_bytes, matcher.shortest_end()))
            assert matcher.accept_bytes(end)
            assert matcher.is_accepting
            assert (read + end).decode() in expected
        assert any(whole.encode().startswith(read) for whole in expected)


def test_the_kinds_of_characters_are_those_of_words() -> None:
    constraint = BYTES.compile(Grammar.substring("don't_x e\u0301t\u00e9, \u00bd2--3\u00a0अा\u200d\u2014b", "words"))
    for part in ("don", "'", "t_x", "'t_x", "e\u0301t\u00e9", ", ", "\u00bd2", "--", "3\u00a0", "अा\u200d", "\u2014b"):
        assert accepts(constraint, part), part
    for part in ("do", "t", "_x", "e", "\u0301t\u00e9", "2", "-", "अ", "\u00a0अ"):
        assert not accepts(constraint, part), part


def test_the_break_of_the_last_line_may_be_left_out() -> None:
    constraint = BYTES.compile(Grammar.substring("a\r\n\nb\nc", "lines"))
    for part in ("", "a", "a\r\n", "a\r\n\n", "\n", "\nb", "b", "b\n", "b\nc", "c", "a\r\n\nb\nc"):
        assert accepts(constraint, part), part
    for part in ("a\r", "\r\n", "c\n", "a\r\nb", "\r"):
        assert not accepts(constraint, part), part


@pytest.mark.parametrize(
    ("source", "unit", "code", "pointer"),
    [
        ("a", "letters", "invalid_option", "/unit"),
        ("a", 3, "wrong_type", "/unit"),
        (3, "words", "wrong_type", "/source"),
        (b"a", "words", "wrong_type", "/source"),
        (["a", 3], "characters", "substring_invalid", "/1"),
        (["a", "\ud800"], "characters", "substring_invalid", "/1"),
        (["a"], "words", "substring_invalid", None),
        ("\ud800", "characters", "substring_invalid", None),
        ({"text": "a", "units": "words"}, "characters", "substring_invalid", None),
        ({"text": 3}, "characters", "substring_invalid", "/text"),
        ({"text": "a", "unit": "x"}, "characters", "invalid_option", "/unit"),
    ],
)
def test_refused(source: Any, unit: Any, code: str, pointer: str | None) -> None:
    with pytest.raises(InputError) as caught:
        Grammar.from_language("substring", source, unit=unit)
    assert (caught.value.code, caught.value.pointer) == (code, pointer)


def test_a_request_has_text_and_unit_in_one_value() -> None:
    for source in ("a b", ["a", "b"], {"text": "a b", "unit": "words"}, {"text": ["a", "b"]}):
        read = Grammar.from_language("substring", source)
        plain = (source["text"], source.get("unit", "characters")) if isinstance(source, dict) else (source,)
        assert read.module == Grammar.substring(*plain).module


# Texts that are hard to sort, or whose places have many suffixes.

SIZE = 60_000


def fibonacci(size: int) -> str:
    one, two = "b", "a"
    while len(two) < size:
        one, two = two, two + one
    return two[:size]


def records(random: Random) -> str:
    """Long beginnings that are the same, and what follows them."""
    head = "".join(random.choices("abc", k=300))
    return "".join(head + "".join(random.choices("ab", k=8)) + "\n" for _ in range(SIZE // 309))


HOSTILE = {
    "records": records(Random(9)),
    "one letter": "a" * SIZE,
    "two letters": "ab" * (SIZE // 2),
    "fibonacci": fibonacci(SIZE),
    "doubled": "".join(Random(5).choices("ab", k=SIZE // 2)) * 2,
    "ends otherwise": "a" * (SIZE - 1) + "b",
    "begins otherwise": "b" + "a" * (SIZE - 1),
    "squares": "".join("a" * n + "b" for n in range(345)),
    "falling": "".join(chr(0x3000 + k % 3000) for k in range(SIZE // 3, 0, -1)),
    "rising": "".join(chr(0x3000 + k % 3000) for k in range(SIZE // 3)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts(name: str) -> None:
    text, random = HOSTILE[name], Random(name)
    constraint = BYTES.compile(Grammar.substring(text))
    for _ in range(60):
        start = random.randrange(len(text))
        part = text[start : start + random.choice((1, 10, 300, 2_000))]
        assert accepts(constraint, part)
        at = random.randrange(len(part))
        changed = part[:at] + random.choice("ab\u3000") + part[at + 1 :]
        assert accepts(constraint, changed) == (changed in text)


@pytest.mark.parametrize("name", HOSTILE)
def test_masks_of_hostile_texts(name: str) -> None:
    """Near the beginning of a part and deep in it: each token that goes on, and no other."""
    text, random = HOSTILE[name], Random(name)
    words = {text[k : k + n] for k in random.sample(range(len(text)), 60) for n in (1, 2, 3, 9)} | {"ab" * 20, "a" * 40}
    vocabulary = Vocabulary([*(word.encode() for word in sorted(words)), b""], eos=[len(words)])
    constraint = vocabulary.compile(Grammar.substring(text))
    row = np.zeros((vocabulary.size + 31) // 32, np.int32)
    for depth in (0, 1, 5, 60, 250, 254, 255, 256, 260, 300, 303, 1_500):
        start = random.randrange(len(text) - depth + 1)
        read = text[start : start + depth]
        matcher = constraint.matcher()
        assert matcher.accept_bytes(read.encode())
        matcher.fill_mask(row)
        found = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
        expected = [t for t, word in enumerate(sorted(words)) if read + word in text] + [len(words)]
        assert found == expected, (depth, start)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_a_place_takes_little_work_however_often_it_occurs(name: str, pieces: int) -> None:
    """All masks and steps of 300 tokens, under a bound that does not know how long the text is."""
    text = HOSTILE[name]
    source = text if pieces == 1 else [text[i : i + pieces] for i in range(0, len(text), pieces)]
    vocabulary = Vocabulary([*(bytes([b]) for b in range(256)), *(text[k : k + 9].encode() for k in range(40)), b""],
                            eos=[296])  # fmt: skip
    constraint = vocabulary.compile(Grammar.substring(source), limits=Limits(sequence_work=2_000_000))
    matcher = constraint.matcher()
    row = np.zeros((vocabulary.size + 31) // 32, np.int32)
    matcher.fill_mask(row)
    start = len(text) // 2 // 6 * 6
    for byte in text[start:].encode()[:300]:
        assert matcher.accept(byte)
        matcher.fill_mask(row)


def seconds(text: str) -> float:
    """Of processor time: the least of three."""
    spent = []
    for _ in range(3):
        started = time.thread_time()
        BYTES.compile(Grammar.substring(text))
        spent.append(time.thread_time() - started)
    return min(spent)


def test_sorting_takes_linear_time() -> None:
    """No text takes much longer than one of random letters of the same size. A method that is not linear takes
    thousands of times as long for some of these."""
    usual = seconds("".join(Random(7).choices("abcdefgh ", k=SIZE)))
    assert {name for name, text in HOSTILE.items() if seconds(text) > 20 * usual} == set()


def test_a_long_text_makes_one_node() -> None:
    text = "".join(Random(7).choices("abcdefgh ", k=200_000))
    for unit in UNITS:
        module = Grammar.substring(text, unit).module
        assert isinstance(module.rules["root"], ir.Lexeme)
        assert isinstance(module.rules["root"].item, ir.Substrings)


@pytest.mark.parametrize(
    ("limit", "value"),
    [("grammar_bytes", 999), ("ir_nodes", 60), ("reading_work", 120), ("constraint_bytes", 9_000)],
)
def test_limits(limit: str, value: int) -> None:
    for source in ("a" * 1_000, ["a" * 500, "b" * 500]):
        with pytest.raises(LimitError) as caught:
            BYTES.compile(Grammar.substring(source, limits=Limits(**{limit: value})), limits=Limits(**{limit: value}))
        assert caught.value.limit == limit


def test_memory_is_counted() -> None:
    small, large = (BYTES.compile(Grammar.substring("ab" * n)) for n in (10, 500_000))
    assert large.bytes - small.bytes > 6_000_000
    shared = BYTES.shared_bytes
    BYTES.compile(Grammar.substring("ba" * 500_000))
    assert BYTES.shared_bytes - shared > 6_000_000


def test_the_oracle_reads_what_the_front_end_writes() -> None:
    lengths = list(accumulate(len(k) for k in KINDS))
    text = "".join(KINDS)
    reference = Reference(substring_module([text[i:j] for i, j in zip([0, *lengths], lengths, strict=False)]))
    assert all(reference.accepts(kind.encode()) for kind in KINDS)
