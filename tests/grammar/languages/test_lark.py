"""Lark grammars: a table of texts by reference and engine, tokens, hostile input."""

from __future__ import annotations

import re
import time
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark_cases import CASES, READ, check_texts, name
from random_parametric import parametric_grammar

import narrows
from narrows import Grammar, Vocabulary
from narrows.errors import GrammarError, LimitError, NarrowsError
from narrows.limits import Limits
from narrows.reference import Reference

BYTES = Vocabulary([bytes([b]) for b in range(256)])


@pytest.mark.parametrize("case", READ, ids=name)
def test_cases(case: dict[str, Any]) -> None:
    grammar = Grammar.from_lark(case["grammar"])
    check_texts(case, grammar)
    if "report" in case:
        assert grammar.report == case["report"]
        assert all(status.reason for status in grammar.report.values())


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case], ids=name)
def test_refusals(case: dict[str, Any]) -> None:
    with pytest.raises(GrammarError) as caught:
        Grammar.from_lark(case["grammar"], start=case.get("start", "start"))
    error = caught.value
    assert [error.line, error.column] == case["error"], str(error)
    assert error.code == case.get("code", "lark_invalid")


COMMON = {
    "DIGIT": ("7", "", "77", "x"),
    "HEXDIGIT": ("f", "F", "0", "g"),
    "INT": ("007", "", "-1"),
    "SIGNED_INT": ("-1", "+0", "2", "--1"),
    "DECIMAL": ("1.", ".5", "1.5", "1", "."),
    "FLOAT": ("1e5", "1.5E-3", ".5", "1", "e5"),
    "SIGNED_FLOAT": ("-1e5", "+.5", "-1"),
    "NUMBER": ("1", "1.5", "1e9", "-1"),
    "SIGNED_NUMBER": ("-1", "1.5e-7", "+.1", "1-"),
    "ESCAPED_STRING": ('""', '"a\\"b"', '"\\\\"', '"a', '"a"b"', '"\\"', '"\n"'),
    "LCASE_LETTER": ("a", "A", "é"),
    "UCASE_LETTER": ("A", "a"),
    "LETTER": ("a", "Z", "_"),
    "WORD": ("aZ", "", "a1"),
    "CNAME": ("_a1", "A", "1a", "é"),
    "WS_INLINE": (" \t", "\n", ""),
    "WS": (" \t\r\n\f", "", "\v"),
    "CR": ("\r", "\n"),
    "LF": ("\n", "\r\n"),
    "NEWLINE": ("\n", "\r\n\n", "\r", ""),
    "SH_COMMENT": ("#", "# x", "# x\n", "x"),
    "CPP_COMMENT": ("//", "// x", "/ x", "//\n"),
    "C_COMMENT": ("/**/", "/* x\n* */", "/*/", "/* */ */"),
    "SQL_COMMENT": ("--", "-- x", "- x", "--\n"),
    "_EXP": ("e5", "E-7", "e", "5"),
    "_STRING_INNER": ("", "a"),
    "_STRING_ESC_INNER": ("", "a"),
}


def test_every_name_of_common_is_tried() -> None:
    from narrows.grammar.languages.lark.common import COMMON as SOURCE

    assert {line.split(":")[0] for line in SOURCE.split("\n") if line} == set(COMMON)


@pytest.mark.parametrize("terminal", COMMON)
def test_common_is_that_of_lark(terminal: str) -> None:
    """Between brackets: Lark reads no terminal that may be empty where it tries all readings."""
    lark = pytest.importorskip("lark")
    grammar = f'start: X\nX: "[" {terminal} "]"\n%import common.{terminal}\n'
    ours = Reference(Grammar.from_lark(grammar).module)
    theirs = lark.Lark(grammar, parser="earley", lexer="dynamic_complete")
    for text in COMMON[terminal]:
        try:
            theirs.parse(f"[{text}]")
            accepted = True
        except lark.exceptions.LarkError:
            accepted = False
        assert ours.accepts(f"[{text}]".encode()) is accepted, text


# Tokens.

VOCABULARY = [b"a", b"b", b"c", b"<|t|>", b"<|u|>", b""]
SPECIAL = {"<|t|>": 3, "<|u|>": 4}


@pytest.mark.parametrize(
    ("body", "masks"),
    [
        ('<|t|> "a"', [({3}, 3), ({0}, 0), ({5}, 5)]),
        ('<[4]> <[0-1,3]> "c"', [({4}, 4), ({0, 1, 3}, 3), ({2}, 2)]),
        ("<[^4]> <[^0-2]>", [({0, 1, 2, 3}, 0), ({3, 4}, 4)]),
        ("<[*]>{2}", [({0, 1, 2, 3, 4}, 4), ({0, 1, 2, 3, 4}, 1), ({5}, 5)]),
        ('/a*/ <|u|> | "b" <|t|>', [({0, 1, 4}, 0), ({0, 4}, 4)]),
    ],
)
def test_tokens(body: str, masks: list[tuple[set[int], int]]) -> None:
    module = Grammar.from_lark(f"start: {body}").module
    reference = Reference(module, special=SPECIAL, eos=[5])
    matcher = Vocabulary(VOCABULARY, special=SPECIAL, eos=[5]).compile(Grammar(module)).matcher()
    read: list[int] = []
    for allowed, token in masks:
        assert reference.mask(read, VOCABULARY) == allowed
        assert {k for k in range(6) if matcher.accepts([k])} == allowed
        assert matcher.accept(token)
        read.append(token)


def test_grammars_given_beside_the_text() -> None:
    rules = {"fcall": Grammar.from_json_schema({"const": 1}), "word": Grammar.from_regex("[a-z]+")}
    reference = Reference(Grammar.from_lark('start: "<" @fcall ">" word', rules=rules).module)
    assert reference.accepts(b"<1>x")
    assert not reference.accepts(b"<2>x")


def test_sources_say_where_a_rule_stands() -> None:
    module = Grammar.from_lark('// c\nstart: a B\n  B: "x"\na: %json {"const": 1}\n%ignore " "').module
    assert {name: module.sources[name] for name in ("start", "B", "a")} == {"start": "2:1", "B": "3:3", "a": "4:1"}
    assert set(module.sources.values()) <= {"2:1", "3:3", "4:1", "4:4", "5:1"}


# What the documentation says.

SECTION = (Path(__file__).parents[3] / "docs" / "grammars.md").read_text().split("\n## Lark\n")[1].split("\n## ")[0]
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
    for row in SECTION.split("| grammar | text |")[1].split("\n\n")[0].splitlines()[2:]
]


def test_the_examples_in_the_docs() -> None:
    found = []
    for block in SECTION.split("```python\n")[1:]:
        names: dict[str, Any] = {"narrows": narrows}
        exec(block.split("\n```")[0], names)
        found.append(Reference(names["g"].module))
    pairs, greedy, calls, order = found
    assert pairs.accepts(b'{a: [1, "x"], b : true}')
    assert greedy.accepts(b"if x")
    assert greedy.accepts(b"ifx = y")
    assert not greedy.accepts(b"ifx")
    assert calls.accepts(b"a <call>{}</call> b")
    assert not calls.viable(b"a <call> b")
    assert order.accepts(b"blue red green ")
    assert not order.viable(b"blue blue")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_differences_in_the_docs(row: list[str]) -> None:
    rules, text, by_lark, _, ours = (cell.replace("\\|", "|") for cell in row)
    grammar = "\n".join(re.findall(r"`([^`]+)`", rules)) + "\nNAME: /[a-z]+/" * ("NAME:" not in rules)
    data = text.strip("`")
    verdict = {True: "accepts", False: "refuses"}
    assert ours.startswith(verdict[Reference(Grammar.from_lark(grammar).module).accepts(data.encode())])
    if by_lark != "-":
        lark_peers = pytest.importorskip("lark_peers")
        pytest.importorskip("lark")
        parser = lark_peers.by_lark(grammar)
        assert by_lark.startswith(verdict[parser is not None and lark_peers.lark_accepts(parser, data)])


# Hostile texts.

QUICK = 15.0  # seconds on a busy machine
MANY = 5_000


def doubled(last: str, levels: int = 40) -> str:
    return "start: T0\n" + "".join(f"T{k}: T{k + 1} T{k + 1}\n" for k in range(levels)) + f"T{levels}: {last}\n"


def chain(kind: str, step: str) -> str:
    rules = "".join(f"{kind}{k}: {step.format(f'{kind}{k + 1}')}\n" for k in range(MANY))
    return f'start: {kind}0\n{rules}{kind}{MANY}: "a"\n'


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("start: " + "(" * 30_000, "nesting"),
        ("start: " + "[" * 30_000, "nesting"),
        ("A: " + "~" * 30_000 + '"a"', "nesting"),
        ("start: " + "_t{" * 30_000, "nesting"),
        ("start: /" + "(" * 30_000 + "/", "nesting"),
        ("start: %json " + "[" * 30_000, "schema_depth"),
        ('start: "' + "a" * 5_000_000 + '"', "grammar_bytes"),
        ("start: /" + "a" * 100_000 + "/", "regex_bytes"),
        ('start: "' + "a" * 100_000 + '"i', "regex_bytes"),
        ("start: " + "%lark { start: " * 4_000 + '"a"' + "}" * 4_000, "reading_work"),
        ("start: <[0-2147483647]>", "reading_work"),
        ("start: " + "<[0-20000]> " * 100, "reading_work"),
        ('start: t{"a"}\nt{x}: x t{s{x}} | x\ns{x}: x x\n', "reading_work"),
        (doubled('"a"'), "reading_work"),
        (doubled("/a(?!b)/"), "reading_work"),
        (doubled(r"/\ba*?/"), "reading_work"),
        ('start: "a"\n' + "\n" * 390_000, "reading_work"),
        ("%declare " + "A " * 100_000, "reading_work"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_limits(text: str, limit: str) -> None:
    started = time.process_time()
    with pytest.raises(LimitError) as caught:
        Grammar.from_lark(text, start="A" if text.startswith("A") else "start", limits=Limits(reading_work=100_000))
    assert caught.value.limit == limit
    assert time.process_time() - started < QUICK


@pytest.mark.parametrize(
    "text",
    [
        chain("r", "{}"),
        chain("T", "{}"),
        chain("T", '"x" {}'),
        chain("T", '{} | "x"'),
        chain("T", "{}?"),
        chain("T", "~{}"),
        "start: " + "(" * 900 + '"a"' + ")*" * 900,
        "start: T\nT: " + "[" * 900 + '"a"' + "]" * 900,
        "start: " + "_t{" * 900 + '"a"' + "}" * 900 + "\n_t{x}: x\n",
        "start: " + "%lark { start: " * 200 + '"a"' + "}" * 200,
        'start: X x\nX: "a"\nx: "b"\n' + '%extend X: "b"\n%extend x: "c"\n' * 3_000,
        "start: " + " | ".join(f'"w{k}"' for k in range(10_000)),
        "start: T\nT: " + " | ".join(f'"w{k}"' for k in range(10_000)),
        'start: "a"{2147483647} T\nT: "b"{2147483647}',
        "start: " + "a" * 1_000_000 + "\n" + "a" * 1_000_000 + ': "b"',
        "%llguidance " + '{"no_forcing":' * 900 + "{}" + "}" * 900 + '\nstart: "a"',
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_long_or_deep_is_read(text: str) -> None:
    started = time.process_time()
    assert Grammar.from_lark(text).work < 1_000_000
    assert time.process_time() - started < QUICK


def test_thousands_of_strings_are_one_reading() -> None:
    grammar = Grammar.from_lark("start: " + " | ".join(f'"w{k}" | "v{k}"i' for k in range(5_000)))
    matcher = BYTES.compile(grammar, limits=Limits(live_items=100_000)).matcher()
    assert matcher.accept_bytes(b"w4999")
    texts_alone = Grammar.from_lark('start: a ("," a)*\na: ' + " | ".join(f'"w{k}"' for k in range(10_000)))
    matcher = BYTES.compile(texts_alone).matcher()
    assert matcher.accept_bytes(b"w9999,w1,w")


def test_places_are_counted_once() -> None:
    """Lines are not counted from the start for each rule, in whatever order the rules stand."""

    class Counted(str):
        searched = 0

        def count(self, part: str, start: int = 0, end: int | None = None) -> int:  # type: ignore[override]
            Counted.searched += (len(self) if end is None else end) - start
            return super().count(part, start, end)

    names = range(1_000)
    rules = [f'r{k}[capture]: %json {{"const": {k}}} x{k}\nx{k}: "x"\n' for k in reversed(names)]
    text = Counted("start: " + " ".join(f"r{k}" for k in names) + "\n" + "".join(rules))
    module = Grammar.from_lark(text).module
    assert (module.sources["r999"], module.sources["r0"], module.sources["x0"]) == ("2:1", "2000:1", "2001:1")
    assert Counted.searched <= len(text)


def test_lazy_rules_cost_what_they_are() -> None:
    """Twice as many take four times the work at most: each is compared with what begins beside it."""

    def work(count: int) -> int:
        calls = "".join(f'c{k}: h{k} "{k}"\nh{k}[lazy]: TEXT "<{k}>"\n' for k in range(count))
        alternatives = " | ".join(f"c{k}" for k in range(count))
        return Grammar.from_lark(f"start: ({alternatives})* TEXT\nTEXT: /(.|\\n)*/\n{calls}").work

    assert work(60) < 5 * work(30)


@settings(max_examples=300, deadline=None)
@given(st.text("start: \n\"'[]()|*+?{}<>!.\\~&%/0x1é-^,A_=", max_size=20))
def test_any_text_is_read_or_refused(rest: str) -> None:
    for text in (rest, "start: " + rest, 'start: A "x"\nA: ' + rest):
        try:
            Grammar.from_lark(text)
        except NarrowsError as error:
            if not (error.line and error.column):
                raise


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(
    ["start", ":", '"a"', "A", "/b/", "(", ")", "[", "]", "{", "}", "|", "&", "~", "1", "..", "2", ",", "\n", "->", "%json", "{}", "%lark", "%import",
     "common", ".", "INT", "%ignore", "%extend", "%override", "%declare", "lazy", "=", "suffix", "<|t|>", "<[1]>", "@g", "*", "?", "i"]
), max_size=12))  # fmt: skip
def test_any_tokens_are_read_or_refused(rest: list[str]) -> None:
    for text in (" ".join(rest), 'A: "x"\nstart: ' + " ".join(rest)):
        try:
            Grammar.from_lark(text)
        except NarrowsError as error:
            if not (error.line and error.column):
                raise


# Rules with a parameter.


def order_of(count: int) -> str:
    """Each of some texts once, in any order."""
    rows = [f'"{k:02}" p::set_bit({k}) %if bit_clear({k})' for k in range(count)]
    return f'start: p::0\np::_: "" %if is_ones([0:{count}])\n | ' + "\n | ".join(rows)


def test_a_rule_is_made_for_each_value_of_its_parameter() -> None:
    module = Grammar.from_lark(order_of(8)).module
    assert sum(rule.startswith("p::") for rule in module.rules) == 2**8
    matcher = BYTES.compile(Grammar(module)).matcher()
    assert matcher.accept_bytes(b"0307000204010605")
    assert matcher.is_accepting
    matcher.rollback(1)
    assert not matcher.accept_bytes(b"0303")


def test_too_many_values_are_refused_where_they_would_be() -> None:
    for text in (order_of(20), 'start: p::0\np::_: "a" p::incr(_) | "b"'):
        with pytest.raises(LimitError) as caught:
            Grammar.from_lark(text, limits=Limits(reading_work=100_000))
        assert (caught.value.limit, caught.value.line, caught.value.column) == ("reading_work", 2, 1)


def test_llguidance_reads_rules_with_a_parameter_alike() -> None:
    pytest.importorskip("llguidance")
    from lark_peers import ByLLGuidance

    peer, read, accepted = ByLLGuidance(), 0, 0
    for seed in range(40):
        grammar = parametric_grammar(seed)
        if peer.matcher(grammar) is None:
            continue  # a rule does not use its parameter
        read += 1
        ours = Reference(Grammar.from_lark(grammar).module)
        for letters in (letters for length in range(4) for letters in product("abc", repeat=length)):
            text = "".join(letters) + "."
            is_sentence = ours.accepts(text.encode())
            accepted += is_sentence
            assert (peer.verdict(peer.matcher(grammar), text) == "sentence") == is_sentence, (seed, text)
    assert read > 20
    assert accepted > 50
