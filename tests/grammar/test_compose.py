"""Grammars made of grammars: their texts are those of the parts put together, in the reference and in the engine."""

from __future__ import annotations

from itertools import product, zip_longest

import pytest

from narrows import Grammar, GrammarError, InputError, LimitError, Limits, Vocabulary
from narrows.reference import Reference

VOCABULARY = Vocabulary([bytes([b]) for b in range(256)] + [None], special={"<end>": 256}, eos=[256])
BOOLEAN = Grammar.from_json_schema({"type": "boolean"}, whitespace="compact")
NUMBERS = Grammar.from_json_schema(
    {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True}, whitespace="compact"
)
WORD = Grammar.from_regex("[ab]+")
NESTED = Grammar.from_gbnf('root ::= "(" root ")" | "x"')


def texts(grammar: Grammar, candidates: list[str]) -> list[str]:
    """The candidates that are texts of it. The engine and the reference agree."""
    reference, constraint = Reference(grammar.module), VOCABULARY.compile(grammar)
    found = []
    for text in candidates:
        matcher = constraint.matcher()
        accepted = matcher.accept_bytes(text.encode()) and matcher.is_accepting
        assert accepted is reference.accepts(text.encode()), text
        found += [text] if accepted else []
    return found


def test_one_after_the_other() -> None:
    grammar = Grammar.concat("<call>", NESTED, "é", BOOLEAN, WORD)
    whole = ["<call>xétrueab", "<call>((x))éfalsea"]
    assert texts(grammar, [*whole, "<call>xétrue", "xétruea", "<call>(xétruea", ""]) == whole
    assert texts(Grammar.concat(), ["", "a"]) == [""]


def test_any_of_them() -> None:
    grammar = Grammar.union(BOOLEAN, WORD, "", "no")
    assert texts(grammar, ["true", "ab", "", "no", "n", "truea"]) == ["true", "ab", "", "no"]


def test_one_of_none() -> None:
    with pytest.raises(InputError) as caught:
        Grammar.union()
    assert caught.value.code == "union_empty"


@pytest.mark.parametrize(("low", "high"), [(0, None), (1, None), (2, None), (0, 0), (0, 1), (1, 1), (2, 3), (0, 3)])
@pytest.mark.parametrize("separator", [None, ",", Grammar.from_regex(",|;")])
def test_repeated(low: int, high: int | None, separator: Grammar | str | None) -> None:
    item = Grammar.from_regex("a|b")
    marks = ("",) if separator is None else (",",) if separator == "," else (",", ";")
    wanted = set()
    for count in range(low, (4 if high is None else high) + 1):
        for items in product("ab", repeat=count):
            for between in product(marks, repeat=max(count - 1, 0)):
                wanted.add("".join(a + b for a, b in zip_longest(items, between, fillvalue="")))
    candidates = ["".join(chars) for n in range(5) for chars in product("ab,;", repeat=n)]
    found = texts(item.repeat(low, high, separator), candidates)
    assert found == [text for text in candidates if text in wanted]


def test_a_part_that_may_be_empty_or_is_the_same_as_another() -> None:
    maybe = Grammar.from_regex("a?")
    assert texts(maybe.repeat(2, 3), ["", "a", "aa", "aaa", "aaaa"]) == ["", "a", "aa", "aaa"]
    assert texts(NESTED + NESTED, ["xx", "(x)x", "x", "xxx"]) == ["xx", "(x)x"]


def test_operators_take_texts_on_both_sides() -> None:
    assert texts("[" + BOOLEAN + "]", ["[true]", "true"]) == ["[true]"]
    assert texts("a" | WORD | "-", ["a", "b", "-", "c"]) == ["a", "b", "-"]
    with pytest.raises(TypeError):
        BOOLEAN + 1  # type: ignore[operator]


def test_names_that_come_once_count_in_each_part_alone() -> None:
    grammar = NUMBERS + NUMBERS
    assert texts(grammar, ["[1,2][1]", "[1,1][]", "[][2,1]"]) == ["[1,2][1]", "[][2,1]"]


def test_the_report_says_which_part() -> None:
    grammar = Grammar.concat("x", Grammar.from_json_schema({"type": "string", "format": "of-our-own"}))
    assert grammar.report["/1/type"] == "exact"
    assert "/1/format" in grammar.report
    repeated = BOOLEAN.repeat(1, 2, separator=BOOLEAN)
    assert set(repeated.report) == {"/type", "/separator/type"}


def test_what_cannot_be() -> None:
    for low, high in ((-1, None), (3, 2)):
        with pytest.raises(InputError) as caught:
            WORD.repeat(low, high)
        assert caught.value.code == "repeat_invalid"
    with pytest.raises(InputError) as caught:
        Grammar.concat("\ud800")
    assert (caught.value.code, caught.value.pointer) == ("text_invalid", "/0")


def test_work_and_nodes_add_up() -> None:
    part = Grammar.from_regex("(abc|def)*")
    assert (part + part).work == 2 * part.work
    with pytest.raises(LimitError) as caught:
        VOCABULARY.compile(Grammar.concat(*["x" * 100] * 100), limits=Limits(ir_nodes=100))
    assert caught.value.limit == "ir_nodes"


def test_three_hundred_levels_deep() -> None:
    grammar = WORD
    for _ in range(300):
        grammar = "(" + grammar + ")"
    assert texts(grammar, ["(" * 300 + "a" + ")" * 300, "(a)"]) == ["(" * 300 + "a" + ")" * 300]


def test_given_to_a_lark_text() -> None:
    grammar = Grammar.from_lark('start: "f(" @args ")" | flag\n%ignore " "', rules={"args": NUMBERS, "flag": BOOLEAN})
    assert texts(grammar, ["f([1,2])", "f( [1] )", "true", "f([1,1])", "f(1)"]) == ["f([1,2])", "f( [1] )", "true"]
    with pytest.raises(GrammarError) as caught:
        Grammar.from_lark("start: @args")
    assert (caught.value.code, caught.value.line, caught.value.column) == ("lark_invalid", 1, 8)
    with pytest.raises(InputError) as wrong:
        Grammar.from_lark("start: @args", rules={"args": "true"})  # type: ignore[dict-item]
    assert (wrong.value.code, wrong.value.pointer) == ("wrong_type", "/rules/args")
