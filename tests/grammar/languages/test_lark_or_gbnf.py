"""The field `grammar` takes GBNF and Lark. Which of them a text is, and whose errors it gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from random_ebnf import RandomEbnf
from random_lark import RandomLark

from narrows import Grammar
from narrows.errors import GrammarError
from narrows.grammar.languages.lark.common import MODULES
from narrows.grammar.languages.lark_or_gbnf import is_lark
from narrows.reference import Reference

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

CASES = Path(__file__).parents[2] / "cases"

LARK = [
    'start: "a"',
    'start : "::="',
    "?start: a | b",
    "!start: a",
    "// root ::= x\nstart: a",
    "# a comment\n\nstart: a",
    "%import common.WORD\nstart: WORD",
    "%llguidance {}\nstart: /::=/",
    "_list{item, separator}: item (separator item)*\nstart: _list{A, B}",
    "start[lazy]: /a*/",
    'start[suffix="]"]: /a*/',
    "start.2: a",
    "_t{a}.1: a",
    "  start: a",
    "A.5: /x/",
    "start:\n  | a",
    "\tstart\n  : a\nA: /x/",
]
GBNF = [
    'root ::= "a"',
    "root::=a",
    "# start: a\nroot ::= a",
    'root ::= "\n start: x"',
    '<root> ::= "a: b"',
    "  <a b> ::= <c>",
    'root ::= "x" # %import\n',
    "root\n::= x",
    "root[lazy] ::= x",
    "just text",
    "",
    "root = a",
    "\n\n# only a comment",
    "{",
    "<root> | x",
]


@pytest.mark.parametrize("text", LARK)
def test_lark(text: str) -> None:
    assert is_lark(text)


@pytest.mark.parametrize("text", GBNF)
def test_gbnf(text: str) -> None:
    assert not is_lark(text)


def test_all_cases_that_are_known() -> None:
    gbnf = tomllib.loads((CASES / "gbnf" / "gbnf.toml").read_text())["case"]
    assert [case["name"] for case in gbnf if is_lark(case["grammar"])] == []
    languages = tomllib.loads((CASES / "ebnf" / "languages.toml").read_text())["language"]
    for notation in ("xgrammar", "bnf"):
        assert [one["name"] for one in languages if is_lark(one.get(notation, ""))] == []
    assert [seed for seed in range(300) if is_lark(RandomEbnf(seed).text())] == []
    assert [seed for seed in range(300) if not is_lark(RandomLark(seed).text())] == []
    assert all(is_lark(text) for text in MODULES.values())


def test_the_field_takes_both() -> None:
    for text in ('root ::= "a" | "b"', 'start: "a" | B\nB: "b"', '<x> ::= "a" | "b"'):
        reference = Reference(Grammar.from_language("grammar", text).module)
        assert [reference.accepts(one) for one in (b"a", b"b", b"c")] == [True, True, False]


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("start: (", "lark_invalid", (1, 8)),
        ('begin: "a"', "lark_invalid", (1, 1)),
        ("%import nothing.X\nstart: X", "lark_unsupported", (1, 17)),
        ("root ::= (", "gbnf_invalid", (1, 10)),
        ("just text", "gbnf_invalid", (1, 6)),
        ("root ::= start\nstart: x", "gbnf_invalid", (2, 6)),
    ],
)
def test_errors_are_of_the_notation_that_was_meant(text: str, code: str, place: tuple[int, int]) -> None:
    with pytest.raises(GrammarError) as caught:
        Grammar.from_language("grammar", text)
    assert (caught.value.code, (caught.value.line, caught.value.column)) == (code, place)


def test_the_named_constructor_is_gbnf_alone() -> None:
    with pytest.raises(GrammarError) as caught:
        Grammar.from_gbnf('start: "a"')
    assert caught.value.code == "gbnf_invalid"


def test_a_grammar_in_the_other_notation_says_whose_it_is() -> None:
    with pytest.raises(GrammarError) as caught:
        Grammar.from_gbnf('start: "a"')
    assert "Grammar.from_lark" in (caught.value.hint or "")
    with pytest.raises(GrammarError) as caught:
        Grammar.from_lark('root ::= "a"')
    assert "Grammar.from_gbnf" in (caught.value.hint or "")
