"""Lark with lexer="greedy": a table of texts, random grammars by reference and engine, and what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from lark_cases import check_texts
from random_lark import RandomLark

from narrows import Grammar, Vocabulary
from narrows.errors import GrammarError, InputError, LimitError, NarrowsError, UnsupportedError
from narrows.reference import Reference

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES: list[dict[str, Any]] = tomllib.loads(
    (Path(__file__).parents[2] / "cases" / "lark_greedy.toml").read_text(encoding="utf-8")
)["case"]
BYTES = Vocabulary([bytes([b]) for b in range(256)])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_cases(case: dict[str, Any]) -> None:
    grammar = Grammar.from_lark(case["grammar"], lexer=case.get("lexer", "greedy"))
    check_texts(case, grammar)


def vocabulary(seed: int, letters: str) -> Vocabulary:
    """The letters, and some texts of two to four of them."""
    chance = Random(seed)
    texts = {"".join(chance.choices(letters, k=chance.randint(2, 4))) for _ in range(40)}
    tokens = [*sorted(letters), *sorted(texts)]
    return Vocabulary(
        [*(token.encode() for token in tokens), b"<end>"], special={"<end>": len(tokens)}, eos=[len(tokens)]
    )


@pytest.mark.parametrize("first", [0, 30, *(pytest.param(k, marks=pytest.mark.soak) for k in range(60, 300, 30))])
def test_masks_are_those_of_the_reference(first: int) -> None:
    seen = ended = 0
    for seed in range(first, first + 30):
        made = RandomLark(seed)
        text = made.text()
        vocab = vocabulary(seed, "ab" + made.ignored)
        try:
            grammar = Grammar.from_lark(text, lexer="greedy")
            constraint = vocab.compile(grammar)
        except NarrowsError:
            continue
        end = vocab.size - 1
        tokens = [vocab.token_bytes(token) for token in range(end)] + [b"<end>"]
        reference = Reference(grammar.module, special={"<end>": end}, eos=[end])
        chance = Random(seed)
        for _ in range(3):
            matcher, place = constraint.matcher(), reference.start
            for _ in range(5):
                row = np.zeros((vocab.size + 31) // 32, np.int32)
                matcher.fill_mask(row)
                allowed = {token for token in range(vocab.size) if row[token // 32] >> (token % 32) & 1}
                assert allowed == reference.mask_at(place, tokens), f"seed {seed}\n{text}"
                assert matcher.is_accepting == place.accepting
                seen += 1
                ended += completes(matcher)
                going_on = sorted(allowed - {end})
                if not going_on:
                    break
                token = chance.choice(going_on)
                assert matcher.accept(token)
                place = reference.after_token(place, token, tokens[token])
    assert seen > 200
    assert ended > 0.6 * seen


def completes(matcher: Any) -> bool:
    """Whether an end was found. Where one was, it is one."""
    try:
        end = matcher.shortest_end()
    except (GrammarError, InputError, LimitError):
        return False
    fork = matcher.fork()
    assert all(fork.accept(token) for token in end)
    assert fork.is_accepting or fork.is_finished
    return True


def test_an_end_puts_spaces_where_words_would_go_on() -> None:
    text = 'start: "select" NAME "from" NAME\nNAME: /[a-z]+/\n%ignore " "\n'
    tokens = [bytes([b]) for b in range(256)] + [b"<end>"]
    vocab = Vocabulary(tokens, special={"<end>": 256}, eos=[256])
    ends = {}
    for lexer in ("all", "greedy"):
        matcher = vocab.compile(Grammar.from_lark(text, lexer=lexer)).matcher()
        assert matcher.accept_bytes(b"sel")
        ends[lexer] = b"".join(tokens[token] for token in matcher.shortest_end() if token < 256)
    # Behind "sel" only the keyword can stand, so it needs no space. A name could go on.
    assert ends == {"all": b"ectafroma", "greedy": b"ecta froma"}


@pytest.mark.parametrize(
    ("grammar", "place"),
    [
        ('start: "a" %json {"type": "null"}', (1, 12)),
        ('start: "a" <[5]>', (1, 12)),
        ("start: @other", (1, 8)),
    ],
)
def test_refuses_what_is_not_cut_into_terminals(grammar: str, place: tuple[int, int]) -> None:
    other = Grammar.choice(["x"])
    with pytest.raises(UnsupportedError, match='with lexer="greedy"') as caught:
        Grammar.from_lark(grammar, lexer="greedy", rules={"other": other})
    assert (caught.value.code, caught.value.line, caught.value.column) == ("lark_unsupported", *place)


def test_is_no_part_of_another_grammar() -> None:
    grammar = Grammar.from_lark('start: "a"', lexer="greedy")
    with pytest.raises(UnsupportedError) as caught:
        grammar + Grammar.choice(["b"])
    assert caught.value.code == "lexer_unsupported"
    with pytest.raises(UnsupportedError):
        Grammar.from_gbnf("root ::= other", rules={"other": grammar})


def test_other_lexers_do_not_exist() -> None:
    with pytest.raises(InputError) as caught:
        Grammar.from_lark('start: "a"', lexer="basic")
    assert caught.value.code == "invalid_option"
    with pytest.raises(GrammarError) as refused:
        Grammar.from_lark('%llguidance {"lexer": "basic"}\nstart: "a"')
    assert (refused.value.line, refused.value.column) == (1, 1)


def test_deep_nesting_costs_no_more_than_its_top() -> None:
    """Masks are shared by all depths that a token does not reach."""
    grammar = Grammar.from_lark('start: "(" start ")" | NAME\nNAME: /[a-z]+/', lexer="greedy")
    constraint = BYTES.compile(grammar)
    matcher = constraint.matcher()
    row = np.zeros(8, np.int32)
    counts = []
    for depth in (10, 1_000):
        matcher.reset()
        assert matcher.accept_bytes(b"(" * depth + b"a")
        matcher.fill_mask(row)
        counts.append(constraint.stats()["crossings"])
    assert counts[0] == counts[1]
