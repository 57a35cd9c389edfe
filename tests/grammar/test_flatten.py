"""Lowering a module to the core's arrays: parts that are too large to be one automaton stay a network, and it comes to an end."""

from __future__ import annotations

import pytest

from narrows import Grammar, Vocabulary
from narrows.grammar.fuse import MAX_FUSED_NODES

VOCABULARY = Vocabulary([bytes([b]) for b in range(256)])


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "count", [2, MAX_FUSED_NODES - 2, MAX_FUSED_NODES - 1, MAX_FUSED_NODES, MAX_FUSED_NODES + 1, 3 * MAX_FUSED_NODES]
)
def test_a_long_sequence(count: int) -> None:
    matcher = VOCABULARY.compile(Grammar.from_gbnf("root ::= " + "[ab] " * count)).matcher()
    text = b"ab" * (count // 2) + b"a" * (count % 2)
    assert matcher.accept_bytes(text[:-1])
    assert not matcher.is_accepting
    assert matcher.accept_bytes(text[-1:])
    assert matcher.is_accepting
    assert not matcher.accept_bytes(b"a")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("body", ["{0} {0}", '{0} {0} | "x" {0}', "({0} {0})?", '{0} "-" {0}'])
@pytest.mark.parametrize("levels", [10, 12, 16])
def test_rules_that_double(body: str, levels: int) -> None:
    rules = [f"r{k} ::= {body.format(f'r{k + 1}')}" for k in range(levels)]
    grammar = Grammar.from_gbnf("\n".join(["root ::= r0", *rules, f"r{levels} ::= [ab]"]))
    matcher = VOCABULARY.compile(grammar).matcher()
    assert matcher.accept_bytes(b"a")
    assert not matcher.accept_bytes(b"c")
