"""Parts of texts, alone and inside of other nodes: the engine walks beside the oracle, which writes all parts out."""

from __future__ import annotations

from random import Random

import pytest
import random_grammars
from test_masks import Oracle, Walk

import narrows
from narrows.errors import GrammarError
from narrows.grammar import ir
from narrows.reference import Reference

LETTERS = b"ab"
SEEDS = 1_000
PARTS = 8
TEXTS = ["aaaaaa", "abaababaab", "ababab", "aabbaabb", "", "a", "éaé😀é", "aéa éa"]


def cut(random: Random, text: str) -> ir.Substrings:
    """The text as characters, or cut at random places between them."""
    if random.random() < 0.3:
        return ir.Substrings(text.encode())
    cuts = (b"", b"", ir.CUT, ir.CUT, ir.END)
    return ir.Substrings(b"".join(c.encode() + random.choice(cuts) for c in text) + ir.CUT, "pieces")


def around(random: Random, part: ir.Node) -> ir.Node:
    """The part inside of a node that works on it."""
    other = random_grammars.regular(random, LETTERS, 1)
    text = ir.Repeat(ir.byte_set(LETTERS))
    shape = random.randrange(9)
    if shape < 2:
        return part
    if shape == 2:
        return ir.Lexeme(ir.And((part, other)))
    if shape == 3:
        return ir.Lexeme(ir.And((text, ir.Not(part))))
    if shape == 4:
        return ir.Repeat(part, 0, random.choice((None, 2)))
    if shape == 5:
        return ir.Lexeme(ir.Repeat(ir.Seq((part, ir.Bytes(b","))), 1, 3))
    if shape == 6:
        return ir.Seq((ir.Bytes(b'"'), part, ir.Bytes(b'"')))
    if shape == 7:
        return ir.Lexeme(ir.Seq((other, part, other)))
    return ir.Lexeme(ir.Alt((part, other)))


def vocabulary(random: Random, text: str) -> random_grammars.Vocabulary:
    """Tokens of the text, also such that begin or end inside of a character, and others."""
    whole = text.encode() or b"a"
    tokens: list[bytes | None] = [bytes([b]) for b in sorted(set(whole + LETTERS + b'", '))]
    for _ in range(12):
        start = random.randrange(len(whole))
        tokens.append(whole[start : start + random.randint(1, 6)])
    tokens += [random_grammars.text(random, LETTERS + b'",', 2, 4) for _ in range(6)]
    return random_grammars.Vocabulary([*tokens, b""], {}, [len(tokens)], None, whole)


@pytest.mark.parametrize("part", range(PARTS))
def test_walks(part: int) -> None:
    steps = 0
    for seed in range(part * SEEDS // PARTS, (part + 1) * SEEDS // PARTS):
        random = Random(seed)
        text = random.choice(TEXTS)
        vocab = vocabulary(random, text)
        module = ir.Module({"root": around(random, cut(random, text))})
        oracle = Oracle(module, vocab)
        compiled = narrows.Vocabulary(vocab.tokens, special=vocab.special, eos=vocab.eos)
        try:
            constraint = compiled.compile(narrows.Grammar(module))
        except GrammarError:
            assert not oracle.satisfiable, seed
            continue
        for _ in range(3):
            walk = Walk(constraint, oracle, random)
            walk.compare()
            while walk.step() and len(walk.tokens) < 8:
                walk.compare()
                steps += 1
            ends = constraint.matcher()
            for token in walk.tokens:
                assert ends.accept(token)
            if not ends.is_finished:
                assert all(ends.accept(token) for token in ends.shortest_end() if isinstance(token, int)), seed
    assert steps > SEEDS // PARTS


def test_the_parts_of_a_marked_text() -> None:
    """By hand: what the oracle takes the marks for."""
    node = ir.Substrings(b"ab" + ir.CUT + b"c" + ir.END + b"\n" + ir.CUT + b"d", "pieces")
    reference = Reference(ir.Module({"root": ir.Lexeme(node)}))
    expected = {b"", b"ab", b"abc", b"abc\n", b"c", b"c\n"}
    others = {b"a", b"b", b"\n", b"d", b"c\nd", b"bc", b"ab" + ir.CUT + b"c"}
    assert {text for text in expected | others if reference.accepts(text)} == expected


def test_what_has_been_read() -> None:
    node = ir.Substrings("aba é".encode(), read=b"ab")
    reference = Reference(ir.Module({"root": ir.Lexeme(node)}))
    assert {text for text in (b"", b"a", b"a ", b"b", b"ba") if reference.accepts(text)} == {b"", b"a", b"a "}
