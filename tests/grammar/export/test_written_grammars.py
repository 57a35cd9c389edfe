"""A grammar that was written as GBNF is read again: its masks are those of the grammar, at every step of many texts."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
import random_grammars

from narrows import Constraint, Grammar, Matcher, Vocabulary, formats
from narrows.errors import GrammarError, LimitError, NarrowsError, UnsupportedError
from narrows.grammar import ir, utf8
from narrows.grammar.export import Dialect, write
from narrows.grammar.export.unflatten import unflatten
from narrows.grammar.flatten import flatten
from narrows.limits import DEFAULT_LIMITS, Limits

SPECIAL = {"<|im_start|>": 256, "<|im_end|>": 257, "<tool_call>": 258, "</tool_call>": 259}
WORDS = ["é", "🦩", '"city', "}}", ": ", "the", "00", "日本", '{"name": ', "ab"]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    tokens = [bytes((byte,)) for byte in range(256)] + [b""] * len(SPECIAL) + [word.encode() for word in WORDS]
    return Vocabulary([*tokens, "€".encode()[:2]], special=SPECIAL, eos=[257])


def allowed(matcher: Matcher, size: int) -> list[int]:
    row = np.zeros((size + 31) // 32, dtype=np.int32)
    matcher.fill_mask(row)
    found: list[int] = np.unpackbits(row.view(np.uint8), bitorder="little")[:size].nonzero()[0].tolist()
    return found


def is_text(matcher: Matcher, data: bytes, rest: bytes) -> tuple[bool, bytes]:
    """Whether `rest` and `data` begin a text in UTF-8, and what is open at their end."""
    whole = rest + data
    for cut in range(4):
        try:
            whole[: len(whole) - cut].decode()
        except UnicodeDecodeError:
            continue
        tail = whole[len(whole) - cut :]
        if cut == 0 or any(utf8_begins(tail, extra) for extra in (b"\x80", b"\x90", b"\xa0")):
            return True, tail
    return False, b""


def utf8_begins(tail: bytes, extra: bytes) -> bool:
    for length in (1, 2, 3):
        try:
            (tail + (extra + b"\x80\x80")[:length]).decode()
        except UnicodeDecodeError:
            continue
        return True
    return False


def agree(vocabulary: Vocabulary, arrays: dict[str, Any], rng: Random, walks: int = 3, steps: int = 30) -> str:
    """Compares the masks along random texts. Tokens that are no UTF-8 are left out. Returns what was written."""
    written = write(arrays)
    assert not written.is_loose
    first = vocabulary.assemble(arrays)
    second = vocabulary.compile(Grammar.from_gbnf(written.text))
    for _ in range(walks):
        _walk(vocabulary, first, second, rng, steps)
    return written.text


def _walk(vocabulary: Vocabulary, first: Constraint, second: Constraint, rng: Random, steps: int) -> None:
    one, other = first.matcher(), second.matcher()
    rest = b""
    for _ in range(steps):
        fits = {t: is_text(one, vocabulary.token_bytes(t), rest) for t in allowed(one, vocabulary.size)}
        expected = [t for t, (is_fit, _) in fits.items() if is_fit]
        assert allowed(other, vocabulary.size) == expected
        if not expected:
            return
        token = rng.choice(expected)
        rest = fits[token][1]
        assert one.accept(token)
        assert other.accept(token)
        assert one.is_finished == other.is_finished


def flat(vocabulary: Vocabulary, grammar: Grammar) -> dict[str, Any]:
    return flatten(grammar.module, vocabulary.facts, DEFAULT_LIMITS)


@pytest.mark.parametrize("seed", range(150))
def test_random_grammars_are_the_same(seed: int) -> None:
    rng = Random(seed)
    vocab = random_grammars.vocabulary(rng)
    module = random_grammars.module(rng, vocab)
    vocabulary = Vocabulary(vocab.tokens, special=vocab.special, eos=vocab.eos, size=vocab.size)
    try:
        arrays = flatten(module, vocabulary.facts, DEFAULT_LIMITS)
        vocabulary.assemble(arrays)
    except GrammarError:
        return  # nothing is in it
    refused = None
    try:
        agree(vocabulary, arrays, rng, steps=8)
    except GrammarError as error:
        refused = error.code
    # "unsatisfiable": what is in it is no text.
    assert refused in (None, "not_context_free", "token_not_writable", "unsatisfiable")


TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 20},
                "day": {"type": "string", "format": "date"},
                "count": {"type": "integer", "minimum": -3, "maximum": 170},
                "word": {"type": "string", "pattern": "^[é-ü]+x$", "maxLength": 9},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


@pytest.mark.parametrize(
    "name", ["hermes_json", "qwen3_xml", "mistral", "llama3_json", "pythonic", "deepseek_v3", "glm_xml"]
)
@pytest.mark.parametrize("choice", ["required", "auto"])
def test_turns_are_the_same(vocabulary: Vocabulary, name: str, choice: str) -> None:
    grammar = formats.get(name).grammar([TOOL], tool_choice=choice, vocab=vocabulary)
    agree(vocabulary, flat(vocabulary, grammar), Random(name))


@pytest.mark.parametrize(
    "pattern",
    [
        "a(b|€)*[^x]{2,3000}",
        "(?s).*",
        "[à-ü]+|日本",
        r"\w+\d?",
        "(ab|a)*",
        "(?:a?b?){2,5}",
        "[\ud7ff\ue000\U00010000-\U0010ffff]{2}",
        r"[\]\-^\\\"]+",
    ],
)
def test_expressions_are_the_same(vocabulary: Vocabulary, pattern: str) -> None:
    agree(vocabulary, flat(vocabulary, Grammar.from_regex(pattern)), Random(pattern))


@pytest.mark.parametrize("seed", range(40))
def test_sets_of_characters_are_one_class(seed: int, vocabulary: Vocabulary) -> None:
    rng = Random(seed)
    ends = sorted(rng.sample((*range(0x800), *range(0xD000, 0xF000), *range(0x10000, 0x10FFFF, 997)), 6))
    ranges = utf8.code_points(*zip(ends[::2], ends[1::2], strict=True))
    module = ir.Module({"root": utf8.node(ranges)})
    text = write(flatten(module, vocabulary.facts, DEFAULT_LIMITS)).text
    assert text.count("::=") == 2, text
    again = Grammar.from_gbnf(text)
    probes = {point + step for pair in ranges for point in pair for step in (-1, 0, 1)}
    for point in probes:
        if 0 <= point <= utf8.LAST and not 0xD800 <= point <= 0xDFFF:
            matcher = vocabulary.compile(again).matcher()
            fits = matcher.accept_bytes(chr(point).encode()) and matcher.is_accepting
            assert fits == utf8.contains(ranges, point), hex(point)


@pytest.mark.parametrize("unit", ["characters", "words"])
def test_substrings_are_the_same(vocabulary: Vocabulary, unit: str) -> None:
    grammar = Grammar.substring("the café, the thé", unit=unit)
    agree(vocabulary, flat(vocabulary, grammar), Random(1))


def test_a_marker_is_a_token(vocabulary: Vocabulary) -> None:
    module = ir.Module({"root": ir.seq(ir.Marker("<tool_call>"), ir.Bytes(b"x"), ir.Token((1, 2)))})
    arrays = flatten(module, vocabulary.facts, DEFAULT_LIMITS)
    written = write(arrays)
    assert "<[258]>" in written.text
    assert written.tokens == {258, 1, 2}
    assert "Token(258)" in write(arrays, Dialect.XGRAMMAR).text


def test_names_of_its_markers_are_no_text(vocabulary: Vocabulary) -> None:
    """For a reader that takes the token for the characters of its name: then it could stand inside the string."""
    grammar = Grammar.from_gbnf('root ::= "\\"" [^"]* "\\"" <[258]> | "a" [<tol_ca]{1,2000} [>]')
    arrays = flat(vocabulary, grammar)
    for text, is_left in (
        ("<tool_call>", False),
        ("</tool_call>", True),
        ("<tool_call", True),
        ("<<tool_call>", False),
    ):
        for names, expected in ((vocabulary.special, is_left), ({}, True)):
            matcher = vocabulary.compile(Grammar.from_gbnf(write(arrays, names=names).text)).matcher()
            assert matcher.accept_bytes(f'"{text}"'.encode()) == expected
            assert not expected or matcher.accept(258)
    # A part that would have too many states keeps them.
    matcher = vocabulary.compile(Grammar.from_gbnf(write(arrays, names=vocabulary.special).text)).matcher()
    assert matcher.accept_bytes(b"a<tool_call>")


def test_what_a_text_cannot_say(vocabulary: Vocabulary) -> None:
    names = flat(vocabulary, Grammar.from_json_schema({"type": "object"}))
    with pytest.raises(UnsupportedError) as caught:
        write(names)
    assert caught.value.code == "not_context_free"
    assert write(names, loose=True).is_loose
    end = flatten(ir.Module({"root": ir.Token((257,))}), vocabulary.facts, DEFAULT_LIMITS)
    assert "<[257]>" in write(end).text
    with pytest.raises(UnsupportedError) as caught:
        write(end, end_tokens=(257,))
    assert caught.value.code == "token_not_writable"
    longest = flat(vocabulary, Grammar.from_lark('start: A B\nA: "a"+\nB: "ab"', lexer="greedy"))
    with pytest.raises(UnsupportedError) as caught:
        write(longest)
    assert caught.value.code == "not_context_free"


def test_the_loose_text_allows_no_less(vocabulary: Vocabulary) -> None:
    arrays = flat(vocabulary, Grammar.from_json_schema({"type": "object"}))
    loose = vocabulary.compile(Grammar.from_gbnf(write(arrays, loose=True).text)).matcher()
    exact = vocabulary.assemble(arrays).matcher()
    for text, is_exact in ((b'{"a": 1, "b": [{}]', True), (b', "a": 2', False)):
        assert loose.accept_bytes(text)
        assert exact.accept_bytes(text) == is_exact


@pytest.mark.parametrize(("limit", "value"), [("grammar_bytes", 500), ("reading_work", 300)])
def test_limits(vocabulary: Vocabulary, limit: str, value: int) -> None:
    arrays = flat(vocabulary, Grammar.from_json_schema({"type": "string", "maxLength": 40, "pattern": "a.*b.*c"}))
    with pytest.raises(LimitError) as caught:
        write(arrays, limits=Limits(**{limit: value}))
    assert caught.value.limit == limit


@pytest.mark.parametrize("seed", range(60))
def test_arrays_are_read_back(seed: int) -> None:
    rng = Random(seed)
    vocab = random_grammars.vocabulary(rng)
    vocabulary = Vocabulary(vocab.tokens, special=vocab.special, eos=vocab.eos, size=vocab.size)
    try:
        arrays = flatten(random_grammars.module(rng, vocab), vocabulary.facts, DEFAULT_LIMITS)
    except NarrowsError:
        return
    module = unflatten(arrays)
    assert unflatten(flatten(module, vocabulary.facts, DEFAULT_LIMITS)).rules == module.rules
