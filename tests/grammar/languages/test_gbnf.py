"""GBNF and plain BNF: a table of texts, tokens, hostile input."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows import Grammar, Vocabulary
from narrows.errors import GrammarError, InputError, LimitError
from narrows.grammar.languages.gbnf import gbnf_module
from narrows.limits import Limits
from narrows.reference import Reference

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

CASES = tomllib.loads((Path(__file__).parents[2] / "cases" / "gbnf" / "gbnf.toml").read_text())["case"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_cases(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(GrammarError) as caught:
            gbnf_module(case["grammar"])
        assert caught.value.code == case.get("code", "gbnf_invalid")
        assert [caught.value.line, caught.value.column] == case["error"]
        return
    reference = Reference(gbnf_module(case["grammar"], case.get("start", "root")))
    for text in case["matches"]:
        assert reference.accepts(text.encode()), text
    for text in case.get("viable", ()):
        assert reference.viable(text.encode()), text
        assert text in case["matches"] or not reference.accepts(text.encode()), text
    for text in case.get("rejects", ()):
        assert not reference.accepts(text.encode()), text


def test_tokens() -> None:
    vocabulary = [b"a", b"b", b"<think>", b"c", b""]
    special = {"<think>": 2}
    module = gbnf_module('root ::= <think> !<[3]>* <[3]> "ab"')
    reference = Reference(module, special=special, eos=[4])
    assert reference.mask([], vocabulary) == {2}
    assert reference.mask([2], vocabulary) == {0, 1, 2, 3}
    assert reference.mask([2, 0, 3], vocabulary) == {0}
    assert reference.mask([2, 3, 0, 1], vocabulary) == {4}


def test_a_token_that_is_not_the_named_one() -> None:
    """As in llama.cpp: a vocabulary that does not have the token is refused."""
    tokens = [b"a", b"b", b"", b"c", b""]
    special = {"<think>": 2, "<end>": 4}
    module = gbnf_module('root ::= !<think>* <think> "a"')
    reference = Reference(module, special=special, eos=[4])
    assert reference.mask([], tokens) == {0, 1, 2, 3}
    assert reference.mask([0, 2], tokens) == {0}
    vocabulary = Vocabulary([token or None for token in tokens], special=special, eos=[4])
    matcher = vocabulary.compile(Grammar(module)).matcher()
    row = np.zeros(1, np.int32)
    matcher.fill_mask(row)
    assert int(row[0]) == 0b1111
    assert [matcher.accept(token) for token in (0, 2, 1, 0)] == [True, True, False, True]
    assert matcher.is_accepting
    with pytest.raises(GrammarError) as caught:
        Vocabulary([b"a"]).compile(Grammar(gbnf_module('root ::= "a"\n  | "b" x\nx ::= !<think>')))
    assert (caught.value.code, caught.value.line, caught.value.column) == ("token_unknown", 3, 1)


def test_other_grammars_are_parts() -> None:
    digits = Grammar.from_regex("[0-9]+")
    pair = Grammar.from_gbnf('root ::= name "=" number\nname ::= [a-z]+', rules={"number": digits, "name": digits})
    reference = Reference(pair.module)
    assert reference.accepts(b"a=12")
    assert not reference.accepts(b"1=12")
    whole = Grammar.from_gbnf("<pairs> ::= <a pair> | <pairs> ';' <a pair>", rules={"a pair": pair})
    assert Reference(whole.module).accepts(b"a=1;b=22")
    with pytest.raises(GrammarError) as caught:
        Grammar.from_gbnf("root ::= pair", rules={"pairs": pair})
    assert (caught.value.code, caught.value.line, caught.value.column) == ("gbnf_invalid", 1, 10)


def test_sources_say_where_a_rule_stands() -> None:
    module = gbnf_module('# c\nroot ::= a\n  a ::= "x"\n')
    assert module.sources == {"root": "2:1", "a": "3:3"}


QUICK = 5.0  # seconds on a busy machine


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("root ::= " + "(" * 30_000, "nesting"),
        ('root ::= "a"' + "*" * 30_000, "nesting"),
        ('root ::= "' + "a" * 5_000_000 + '"', "grammar_bytes"),
    ],
)
def test_limits(text: str, limit: str) -> None:
    started = time.process_time()
    with pytest.raises(LimitError) as caught:
        gbnf_module(text)
    assert caught.value.limit == limit
    assert time.process_time() - started < QUICK


def test_nesting_up_to_the_limit() -> None:
    text = "root ::= " + "(" * 1_000 + '"a"' + ")" * 1_000
    assert Reference(gbnf_module(text)).accepts(b"a")
    with pytest.raises(LimitError):
        gbnf_module(text, limits=Limits(nesting=999))


def test_many_rules_are_quick() -> None:
    text = (
        "root ::= r0\n" + "".join(f'r{k} ::= "x" r{k + 1} | r{k}\n' for k in range(5_000)) + "r5000 ::= [a-z]{1,99}\n"
    )
    started = time.process_time()
    assert len(gbnf_module(text).rules) == 5_002
    assert time.process_time() - started < QUICK


def test_places_are_counted_once() -> None:
    """Lines are not counted from the start for each rule: the text that is searched for them grows with the text alone."""

    class Counted(str):
        searched = 0

        def count(self, part: str, start: int = 0, end: int | None = None) -> int:  # type: ignore[override]
            Counted.searched += (len(self) if end is None else end) - start
            return super().count(part, start, end)

    text = Counted(
        "root ::= r0\n" + "".join(f"r{k} ::= # {k}\n  [a-z] | r{k + 1}\n" for k in range(20_000)) + 'r20000 ::= "x"'
    )
    module = gbnf_module(text)
    assert (module.sources["r0"], module.sources["r19999"], module.sources["r20000"]) == ("2:1", "40000:1", "40002:1")
    assert Counted.searched <= len(text)


@settings(max_examples=300, deadline=None)
@given(st.text("root:= \n\"'[]()|*+?{}<>!.\\#0x1é-^,", max_size=20))
def test_any_text_is_read_or_refused(rest: str) -> None:
    for text in (rest, "root ::= " + rest):
        try:
            gbnf_module(text)
        except GrammarError as error:
            place = (error.code.startswith("gbnf_"), error.line or 0, error.column or 0)
            assert place >= (True, 1, 1)


@pytest.mark.parametrize("text", [b"root ::= a", None, 5])
def test_what_is_no_text(text: Any) -> None:
    with pytest.raises(InputError) as caught:
        gbnf_module(text)
    assert caught.value.code == "gbnf_invalid"


def test_a_lone_surrogate() -> None:
    with pytest.raises(GrammarError) as caught:
        gbnf_module('root ::= "\ud800"')
    assert (caught.value.code, caught.value.line, caught.value.column) == ("gbnf_invalid", 1, 11)
