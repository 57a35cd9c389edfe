"""Lexemes of at most so many tokens (`ir.Counted`): the engine's masks equal the oracle's on random grammars, where tokens begin before
such a lexeme and end after it, and where the grammar is ambiguous about where it stands."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
import random_grammars
from test_masks import Oracle, Walk

import narrows
from narrows.grammar import ir
from narrows.grammar.regex import regex_node

PIECES = [
    b"a",
    b"b",
    b"ab",
    b"ba",
    b"aa",
    b"aab",
    b"x",
    b"bx",
    b"abx",
    b"xa",
    b"\xc3",
    b"\xa9",
    b"\xc3\xa9",
    b"c",
    b"bc",
    b"a\xc3",
]
PATTERNS = ["[ab]*", "a+", "(ab)*", "[abé]*", "(a|bc){1,6}", "b?", "aa|ab", "[a-cx]*", "(aab)+", "[acxé]*"]
WORDS = narrows.Vocabulary([*PIECES, b""], special={"<end>": len(PIECES)}, eos=[len(PIECES)])


def lexeme(pattern: str) -> ir.Lexeme:
    return ir.Lexeme(regex_node(pattern, "python"))


def node(rng: Random, depth: int = 3) -> ir.Node:
    kind = rng.random()
    if depth == 0 or kind < 0.45:
        return ir.Counted(lexeme(rng.choice(PATTERNS)), rng.randint(1, 3))
    if kind < 0.6:
        return lexeme(rng.choice(PATTERNS))
    if kind < 0.9:
        parts = tuple(node(rng, depth - 1) for _ in range(rng.randint(1, 3)))
        return ir.Seq(parts) if kind < 0.8 else ir.Alt(parts)
    return ir.Repeat(node(rng, depth - 1), 0, rng.choice((None, 2)))


def module(rng: Random) -> ir.Module:
    nested = ir.Alt((node(rng), ir.Seq((lexeme("x"), ir.Ref("nested"), lexeme("b")))))
    begin = node(rng)
    return ir.Module({"root": ir.Seq((begin, ir.Ref("nested"))) if rng.random() < 0.6 else begin, "nested": nested})


def walk(seed: int) -> int:
    rng = Random(seed)
    made = module(rng)
    oracle = Oracle(made, random_grammars.Vocabulary([*PIECES, b""], {"<end>": len(PIECES)}, [len(PIECES)]))
    return Walk(WORDS.compile(narrows.Grammar(made)), oracle, rng).go(14)


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_masks_are_the_oracles(first: int) -> None:
    assert sum(walk(seed) for seed in range(first, first + 20)) > 50


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1_000, 11_000, 500))
def test_masks_are_the_oracles_on_many_grammars(first: int) -> None:
    for seed in range(first, first + 500):
        walk(seed)


def texts_of(grammar: ir.Node | narrows.Grammar, *tokens: bytes) -> list[bytes]:
    """The tokens that may follow these."""
    if not isinstance(grammar, narrows.Grammar):
        grammar = narrows.Grammar(ir.Module({"root": grammar}))
    matcher = WORDS.compile(grammar).matcher()
    for token in tokens:
        assert matcher.accept(PIECES.index(token))
    row = np.zeros(1, dtype=np.int32)
    matcher.fill_mask(row)
    return [[*PIECES, b"<end>"][i] for i in range(len(PIECES) + 1) if row[0] >> i & 1]


TWO = ir.Seq((lexeme("x"), ir.Counted(lexeme("[ab]*"), 2), lexeme("c")))


@pytest.mark.parametrize(
    ("tokens", "after"),
    [
        ((b"x",), [b"a", b"b", b"ab", b"ba", b"aa", b"aab", b"c", b"bc"]),
        ((b"x", b"a"), [b"a", b"b", b"ab", b"ba", b"aa", b"aab", b"c", b"bc"]),
        ((b"x", b"a", b"ab"), [b"c"]),
        ((b"xa",), [b"a", b"b", b"ab", b"ba", b"aa", b"aab", b"c", b"bc"]),
        ((b"xa", b"b"), [b"c"]),
        ((b"xa", b"bc"), [b"<end>"]),
    ],
)
def test_a_token_counts_that_begins_or_ends_outside(tokens: tuple[bytes, ...], after: list[bytes]) -> None:
    assert texts_of(TWO, *tokens) == after


@pytest.mark.parametrize(
    "grammar",
    [
        narrows.Grammar.from_lark('start: "x" a "c"\na[max_tokens=2]: /[ab]*/'),
        narrows.Grammar.from_lark('start: "x" a "c"\na[max_tokens=2]: B*\nB: "a" | "b"'),
        narrows.Grammar.from_ebnf('root ::= "x" a "c"\na[max_tokens=2] ::= [ab]*', "xgrammar"),
    ],
)
def test_the_option_of_a_rule(grammar: narrows.Grammar) -> None:
    for tokens in ((b"x", b"a"), (b"x", b"a", b"ab"), (b"xa", b"b"), (b"xa",)):
        assert texts_of(grammar, *tokens) == texts_of(TWO, *tokens)


def test_a_lazy_rule_of_few_tokens() -> None:
    grammar = narrows.Grammar.from_lark('start: a "c"\na[lazy, max_tokens=1]: /[ab]*x/')
    assert texts_of(grammar, b"a") == [*texts_of(TWO, b"x", b"a")[:6], b"x", b"bx", b"abx"]


def test_nothing_ends_where_it_cannot() -> None:
    """Not in the middle of a character, and not before the least length."""
    one = ir.Counted(lexeme("é*"), 1)
    assert texts_of(one, b"\xc3") == [b"\xa9"]
    assert texts_of(one, b"\xc3", b"\xa9") == [b"<end>"]
    assert texts_of(ir.Counted(lexeme("[ab]{3,}"), 1), b"a") == [b"a", b"b", b"ab", b"ba", b"aa", b"aab"]
    assert texts_of(ir.Counted(lexeme("[ab]{3,}"), 1), b"a", b"ab") == [b"<end>"]


def test_forks_drafts_and_what_is_taken_back_have_counts_of_their_own() -> None:
    matcher = WORDS.compile(narrows.Grammar(ir.Module({"root": TWO}))).matcher()
    x, a, c = (PIECES.index(text) for text in (b"x", b"a", b"c"))
    assert matcher.accepts([x, a, a, a]) == 3
    for token in (x, a):
        assert matcher.accept(token)
    fork = matcher.fork()
    assert fork.accept(a)
    assert not fork.accept(a)
    assert matcher.accepts([a, c]) == 2
    matcher.rollback(1)
    assert matcher.accepts([a, a, a]) == 2
    rows = np.zeros((4, 1), dtype=np.int32)
    matcher.fill_draft_masks([a, a, a], rows)
    assert [int(row[0]) >> a & 1 for row in rows] == [1, 1, 0, 0]


def test_bytes_are_not_counted() -> None:
    matcher = WORDS.compile(narrows.Grammar(ir.Module({"root": TWO}))).matcher()
    assert matcher.accept_bytes(b"xababababc")
    assert matcher.is_accepting
