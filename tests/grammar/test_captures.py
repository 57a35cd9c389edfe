"""What rules capture: a table of texts, random grammars against all of their readings, tokens, texts that are not finished, the limit."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lark_cases import BYTES, READ, name
from readings import Readings, random_module

import narrows
from narrows import Grammar, GrammarError, InputError, LimitError, Limits, Matcher, UnsupportedError, Vocabulary
from narrows.grammar import ir
from narrows.grammar.captures.loops import loops
from narrows.grammar.embed import with_refs
from narrows.grammar.flatten import flatten
from narrows.reference import Reference

WITH_CAPTURES = [case for case in READ if "read" in case]


@pytest.mark.parametrize("case", WITH_CAPTURES, ids=name)
def test_cases(case: dict[str, Any]) -> None:
    grammar = Grammar.from_lark(case["grammar"])
    matcher = BYTES.compile(grammar).matcher()
    for read in case["read"]:
        matcher.reset()
        assert matcher.accept_bytes(read["text"].encode())
        for captures in (grammar.captures(read["text"]), grammar.captures(read["text"].encode()), matcher.captures()):
            assert [[one.name, one.text, *one.span] for one in captures] == read["captures"], read["text"]
    for text in case["rejects"]:
        with pytest.raises(InputError) as caught:
            grammar.captures(text)
        assert caught.value.code == "text_not_matched"


@pytest.mark.parametrize("case", WITH_CAPTURES, ids=name)
def test_captures_change_nothing_else(case: dict[str, Any]) -> None:
    module = Grammar.from_lark(case["grammar"]).module
    without = replace(module, rules=with_refs(module.rules, lambda ref: ir.Ref(ref.name)))
    one, other = (flatten(rules, BYTES.facts, Limits()) for rules in (module, without))
    assert one.keys() == other.keys()
    for key, value in one.items():
        assert np.array_equal(value, other[key]), key


@pytest.mark.parametrize("case", WITH_CAPTURES, ids=name)
def test_llguidance_captures_the_same(case: dict[str, Any]) -> None:
    """What it says last of each name, since it also lists what could still go on."""
    pytest.importorskip("llguidance", reason="needs llguidance")
    from lark_peers import ByLLGuidance

    peer = ByLLGuidance()
    matcher = peer.matcher(case["grammar"])
    for read in case["read"] if matcher is not None else ():
        if read["text"] in case.get("llguidance", ()):
            continue
        matcher.reset()
        matcher = peer.matcher(case["grammar"])  # what it has captured outlives a reset
        assert peer.verdict(matcher, read["text"]) == "sentence"
        matcher.try_consume_tokens([peer.eos_token_id])
        ours = {capture: text for capture, text, *_ in sorted(read["captures"], key=lambda one: (one[3], -one[2]))}
        theirs = {capture: data.decode() for capture, data in matcher.get_captures()}
        assert theirs == read.get("theirs", ours), read["text"]


def written(parts: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Without those that read nothing."""
    return [part for part in parts if part[1] < part[2]]


@pytest.mark.parametrize("first", range(0, 240, 60))
def test_random_grammars_are_read_as_they_say(first: int) -> None:
    """The preferred reading, or where rules go round, one of all readings. `Reference` says which texts there are."""
    for seed in range(first, first + 60):
        module = random_module(seed)
        grammar, reference = Grammar(module), Reference(module)
        for letters in product(b"ab", repeat=3):
            text = bytes(letters)
            if not reference.accepts(text):
                with pytest.raises(InputError):
                    grammar.captures(text)
                continue
            found = written([(one.name, *one.span) for one in grammar.captures(text)])
            greedy = Readings(module, text, greedy=True)
            preferred = greedy.first("r0", 0, len(text))
            if preferred is None:
                preferred = Readings(module, text, greedy=False).first("r0", 0, len(text))
            if found != written(preferred or []):
                every = islice(Readings(module, text, greedy=False).every("r0", 0, len(text)), 20_000)
                assert _goes_round(module), (seed, text)
                assert any(written(reading) == found for reading in every), (seed, text)


def _goes_round(module: ir.Module) -> bool:
    from narrows.grammar.captures.network import End, Network, Rule
    from narrows.grammar.captures.work import CaptureWork, Terminals

    work = CaptureWork(Limits())
    network = Network(module, Terminals(work), work, None)
    alone = {
        (rule, reads.number)
        for rule, first in enumerate(network.first)
        for reads, after in network._without_text(first)
        if isinstance(reads, Rule) and any(isinstance(last, End) for last, _ in network._without_text(after))
    }
    return any(network.rule_loop[one] == network.rule_loop[other] for one, other in alone)


def test_loops_of_a_graph() -> None:
    found = loops([[1], [2, 3], [0], [4], [3], [5], [0]])
    groups = {number: {one for one in range(7) if found[one] == number} for number in found}
    assert sorted(map(sorted, groups.values())) == [[0, 1, 2], [3, 4], [5], [6]]
    assert len(set(loops([[k + 1] for k in range(5_000)] + [[]]))) == 5_001


# Tokens, and texts that are not finished.

SPECIAL = {"<end>": 256, "<call>": 257, "</call>": 258}
VOCABULARY = Vocabulary([*[bytes([b]) for b in range(256)], b"", b"", b"", b"x("], special=SPECIAL, eos=[256])
CALLS = r"""
start: (call | note)*
call[capture]: <call> name "(" argument ")" </call>
name[capture]: /[a-z]+/
argument[capture]: %json {"type": "object"}
note[capture, suffix=";"]: /[a-z ]*/
"""


def test_a_matcher_says_what_is_complete() -> None:
    matcher = VOCABULARY.compile(Grammar.from_lark(CALLS)).matcher()
    text = [*b"ab;", 257, *b"f", 259, *b'{"a":1}', *b")", 258, *b"c"]
    seen: list[tuple[int, list[tuple[str, str]]]] = []
    for count, token in enumerate(text):
        assert matcher.accept(token)
        captures = [(one.name, one.text) for one in matcher.captures()]
        if not seen or captures != seen[-1][1]:
            seen.append((count, captures))
    note, name_, argument = ("note", "ab"), ("name", "fx"), ("argument", '{"a":1}')
    assert seen == [
        (0, []),
        (2, [note]),
        (5, [note, name_]),  # the token x( ends the name
        (13, [note, name_, argument]),
        (14, [note, ("call", '<call>fx({"a":1})</call>'), name_, argument]),
    ]
    spans = {one.name: one.span for one in matcher.captures()}
    assert spans == {"note": (0, 2), "call": (3, 27), "name": (9, 11), "argument": (12, 19)}
    matcher.rollback(2)
    assert [one.name for one in matcher.captures()] == ["note", "name", "argument"]
    assert [one.name for one in matcher.fork().captures()] == ["note", "name", "argument"]


def test_the_text_alone_has_special_tokens_by_their_names() -> None:
    grammar = Grammar.from_lark(CALLS)
    assert [one.text for one in grammar.captures("<call>f({})</call>")] == ["<call>f({})</call>", "f", "{}"]


def test_an_end_token_is_no_text_unless_the_grammar_names_it() -> None:
    for body, text in (('"b"', "b"), ('"b" <end>', "b<end>")):
        matcher = VOCABULARY.compile(Grammar.from_lark(f'start: "a" b\nb[capture]: {body}')).matcher()
        matcher.replay([*b"ab", 256])
        assert matcher.is_finished
        assert [one.text for one in matcher.captures()] == [text]


def test_tokens_by_number_and_bytes_that_come_without_tokens() -> None:
    grammar = Grammar.from_lark("start: word <[257]> word\nword[capture]: /[a-z(]+/")
    matcher = VOCABULARY.compile(grammar).matcher()
    assert matcher.accept_bytes(b"ab")
    assert matcher.accept(259)
    assert matcher.accept(257)
    assert matcher.accept_bytes(b"c")
    assert [(one.text, one.span) for one in matcher.captures()] == [("abx(", (0, 4)), ("c", (10, 11))]
    with pytest.raises(UnsupportedError) as caught:
        grammar.captures("ab")
    assert caught.value.code == "captures_unsupported"


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_every_beginning_of_a_text_can_be_asked(first: int) -> None:
    """What is captured in it is a text of its rule, and stands where it says."""
    for seed in range(first, first + 20):
        module = random_module(seed)
        with suppress(GrammarError):  # no text satisfies it
            check_beginnings(module, BYTES.compile(Grammar(module)).matcher())


def check_beginnings(module: ir.Module, matcher: Matcher) -> None:
    rules = {rule: Reference(replace(module, start=rule)) for rule in module.rules}
    for letters in product(b"ab", repeat=4):
        matcher.reset()
        for byte in letters:
            if not matcher.accept_bytes(bytes([byte])):
                break
            for one in matcher.captures():
                assert one.data == bytes(letters)[slice(*one.span)]
                assert rules[one.name].accepts(one.data)


def test_a_constraint_without_its_grammar() -> None:
    constraint = BYTES.assemble(flatten(Grammar.from_regex("a").module, BYTES.facts, Limits()))
    with pytest.raises(UnsupportedError) as caught:
        constraint.matcher().captures()
    assert caught.value.code == "captures_unsupported"


# Grammars of grammars.


def test_captures_stay_where_grammars_are_put_together() -> None:
    word = Grammar.from_lark("start[capture]: /[a-z]+/")
    number = Grammar.from_ebnf("root[capture] ::= [0-9]+")
    both = Grammar.from_lark('start: w "." n\nw: @w\nn: @n', rules={"w": word, "n": number})
    for grammar, text in (
        (word + "." + number, "ab.1"),
        ((word | number).repeat(separator="."), "ab.1"),
        (both, "ab.1"),
        (Grammar.from_gbnf('root ::= w "." n', rules={"w": word, "n": number}), "ab.1"),
        (Grammar.free_text({"<w>": word + "." + number}, stop_after_first=True), "<w>ab.1"),
    ):
        assert [(one.name, one.text) for one in grammar.captures(text)] == [("start", "ab"), ("root", "1")], text


def test_a_grammar_without_captures_has_none() -> None:
    assert Grammar.from_regex("a+").captures("aa") == []
    with pytest.raises(InputError):
        Grammar.from_regex("a+").captures("b")
    with pytest.raises(InputError) as caught:
        Grammar.from_regex("a+").captures("\ud800")
    assert caught.value.code == "text_invalid"


def test_the_longest_match_is_read_so() -> None:
    text = 'start: (word | "if")+\nword[capture]: /[a-z]+/\n%ignore " "\n'
    assert [one.text for one in Grammar.from_lark(text, lexer="greedy").captures("ifx if ab")] == ["ifx", "if", "ab"]


def test_the_example_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "grammars.md").read_text(encoding="utf-8")
    example = page.split("\n## Captures\n")[1].split("```python\n")[1].split("for c in")[0]
    names: dict[str, Any] = {"narrows": narrows}
    exec(example, names)
    assert [(one.name, one.text, one.span) for one in names["g"].captures("Zoé Ada, Bob Ode")] == [
        ("person", "Zoé Ada", (0, 8)),
        ("first", "Zoé", (0, 4)),
        ("surname", "Ada", (5, 8)),
        ("person", "Bob Ode", (10, 17)),
        ("first", "Bob", (10, 13)),
        ("surname", "Ode", (14, 17)),
    ]


# What it costs.

LONG = {
    "one after the other": ('start: item*\nitem[capture]: /[a-z]+/ ";"', "abc;", 1),
    "left recursion": ('start: list\nlist: list item | item\nitem[capture]: /[a-z]+/ ";"', "abc;", 1),
    "text and calls": (
        'start: (call | text)*\ntext[capture]: /[^<]+/\ncall[capture]: "<c>" %json {"type": "object"} "</c>"',
        'some words <c>{"a": [1]}</c>',
        2,
    ),
    "free text before calls": (
        'start: call* TEXT\ncall: opener "1" "</c>"\nopener[lazy, capture]: TEXT "<c>"\nTEXT: /(.|\\n)*/',
        "some words <c>1</c>",
        1,
    ),
}


@pytest.mark.parametrize("case", LONG)
def test_the_work_is_linear(case: str) -> None:
    text, piece, count = LONG[case]
    grammar = Grammar.from_lark(text)
    for pieces in (50, 400):
        read = piece * pieces
        limits = Limits(capture_work=2_000 + 60 * len(read))
        assert len(grammar.captures(read, limits=limits)) == count * pieces


def test_hostile_texts_end_at_the_limit() -> None:
    grammar = Grammar.from_lark('start: e\ne[capture]: e e | "a" | e "a"')
    started = time.monotonic()
    with pytest.raises(LimitError) as caught:
        grammar.captures("a" * 5_000, limits=Limits(capture_work=200_000))
    assert caught.value.limit == "capture_work"
    assert time.monotonic() - started < 10
    with pytest.raises(LimitError):
        Grammar.from_lark('start: ("a" x){0,100000000}\nx: "b"').captures("ab")


def test_deep_texts_need_no_stack() -> None:
    grammar = Grammar.from_lark('start: e\ne[capture]: "(" e ")" | "x"')
    assert len(grammar.captures("(" * 3_000 + "x" + ")" * 3_000)) == 3_001
