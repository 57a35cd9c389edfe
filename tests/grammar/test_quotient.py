"""The quotient by a prefix accepts a text exactly where the grammar accepts prefix and text together."""

from __future__ import annotations

from random import Random

import pytest
import random_grammars

from narrows.grammar import ir
from narrows.grammar.quotient import NamesUnknown, quotient
from narrows.reference import Reference


@pytest.mark.parametrize("seed", [*range(40), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(40, 400))])
def test_random_grammars(seed: int) -> None:
    random = Random(seed)
    vocab = random_grammars.vocabulary(random)
    module = random_grammars.module(random, vocab)
    whole = Reference(module)
    for _ in range(6):
        prefix = walk(whole, random, vocab.alphabet, random.randrange(1, 6))
        rules, start = quotient(module.rules, module.start, prefix)
        rest = Reference(ir.Module(rules, start))
        for _ in range(6):
            text = walk(rest, random, vocab.alphabet, random.randrange(5))
            assert rest.accepts(text) == whole.accepts(prefix + text), (prefix, text)
            assert rest.viable(text) == whole.viable(prefix + text), (prefix, text)


def walk(reference: Reference, random: Random, alphabet: bytes, length: int) -> bytes:
    """Random bytes, most of them such that the text can still be completed."""
    text = b""
    for _ in range(length):
        fitting = [b for b in alphabet if reference.viable(text + bytes((b,)))]
        text += bytes((random.choice(fitting if fitting and random.random() < 0.9 else alphabet),))
    return text


def test_guards_that_the_prefix_has_entered_are_refused() -> None:
    """What a guard waits for may have been read in the prefix."""
    mark = ir.Distinct(ir.Lexeme(ir.Bytes(b"m")), name=b"mark")
    rules: dict[str, ir.Node] = {
        "root": ir.seq(ir.Bytes(b"ab"), ir.Ref("inner")),
        "inner": ir.seq(ir.Bytes(b"("), ir.Repeat(ir.alt(mark, ir.Bytes(b"x"))), ir.Guard((b"mark",)), ir.Bytes(b")")),
    }
    after, start = quotient(rules, "root", b"ab")
    assert Reference(ir.Module(after, start)).accepts(b"(xm)")
    assert not Reference(ir.Module(after, start)).accepts(b"(x)")
    for prefix in (b"ab(", b"ab(x", b"ab(m"):
        with pytest.raises(NamesUnknown):
            quotient(rules, "root", prefix)
