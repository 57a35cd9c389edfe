"""EBNF: languages in each notation, tables of texts for each, tokens, options, hostile input."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import narrows
from narrows import Grammar, Vocabulary
from narrows.errors import GrammarError, InputError, LimitError
from narrows.grammar.languages.ebnf import NOTATIONS
from narrows.limits import Limits
from narrows.reference import Reference

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

FOLDER = Path(__file__).parents[2] / "cases" / "ebnf"
LANGUAGES = tomllib.loads((FOLDER / "languages.toml").read_text())["language"]
WRITTEN = [(language, notation) for language in LANGUAGES for notation in NOTATIONS if notation in language]
CASES = [
    (case, notation)
    for notation in NOTATIONS
    for case in tomllib.loads((FOLDER / f"{notation}.toml").read_text())["case"]
]
VOCABULARY = Vocabulary([bytes([byte]) for byte in range(256)] + [None], special={"<end>": 256}, eos=[256])
SPECIAL_SEQUENCES = {
    "a-z": Grammar.from_regex("[a-z]"),
    "A-Z": Grammar.from_regex("[A-Z]"),
    "printable": Grammar.from_regex("[ -~é]"),
    "character": Grammar.from_regex(r"[\s\S]"),
    "line feed": Grammar.choice(["\n"]),
    "return": Grammar.choice(["\r"]),
}


def _check(grammar: Grammar, case: dict[str, Any]) -> None:
    """The reference and the engine say the same of each text."""
    reference, constraint = Reference(grammar.module), VOCABULARY.compile(grammar)

    def states(text: str) -> tuple[bool, bool]:
        """Whether it is a sentence, and the beginning of one."""
        matcher = constraint.matcher()
        viable = matcher.accept_bytes(text.encode())
        assert reference.viable(text.encode()) is viable, text
        assert reference.accepts(text.encode()) is (viable and matcher.is_accepting), text
        return viable and matcher.is_accepting, viable

    for text in case.get("matches", ()):
        assert states(text) == (True, True), text
    for text in case.get("viable", ()):
        assert states(text)[1], text
        assert text in case["matches"] or not states(text)[0], text
    for text in case.get("rejects", ()):
        assert not states(text)[0], text


def test_there_are_enough_languages() -> None:
    count = {notation: sum(notation in language for language in LANGUAGES) for notation in NOTATIONS}
    assert all(count[notation] >= 40 for notation in ("xgrammar", "w3c", "iso")), count
    assert all(count[notation] >= 20 for notation in ("bnf", "yacc")), count


@pytest.mark.parametrize(
    ("language", "notation"), WRITTEN, ids=lambda value: value if isinstance(value, str) else value["name"]
)
def test_languages(language: dict[str, Any], notation: str) -> None:
    tokens = language.get("tokens") if notation == "yacc" else None
    rules = SPECIAL_SEQUENCES if notation == "iso" else None
    _check(Grammar.from_ebnf(language[notation], notation, tokens=tokens, rules=rules), language)


@pytest.mark.parametrize(
    ("case", "notation"), CASES, ids=lambda value: value if isinstance(value, str) else value["name"]
)
def test_cases(case: dict[str, Any], notation: str) -> None:
    options = {name: case[name] for name in ("start", "tokens") if name in case}
    rules = SPECIAL_SEQUENCES if notation == "iso" else None
    if "error" in case:
        with pytest.raises(GrammarError) as caught:
            Grammar.from_ebnf(case["grammar"], notation, rules=rules, **options)
        assert [caught.value.line, caught.value.column] == case["error"]
        assert caught.value.code == case.get("code", "ebnf_invalid")
        return
    grammar = Grammar.from_ebnf(case["grammar"], notation, rules=rules, **options)
    assert grammar.report == case.get("report", grammar.report)
    _check(grammar, case)
    for read in case.get("captures", ()):
        found = [[one.name, one.text, *one.span] for one in grammar.captures(read["text"])]
        assert found == read["captures"], read["text"]


# Options.


def test_tokens_of_a_vocabulary() -> None:
    """`Token`, `ExcludeToken` and `TokenTagDispatch` name tokens by their ids."""
    tokens = [b"a", b"b", b"<t>", b"ab", b""]
    text = 'root ::= Token(2, 3) ExcludeToken(0) TokenTagDispatch((2, x), excludes=(1,)) "b"\nx ::= "a" "b"*'
    reference = Reference(Grammar.from_ebnf(text).module, special={"<t>": 2}, eos=[4])
    assert reference.mask([], tokens) == {2, 3}
    assert reference.mask([3], tokens) == {1, 2, 3}
    assert reference.mask([3, 1], tokens) == {0, 1, 2, 3}
    assert reference.mask([3, 1, 2], tokens) == {0, 3}
    assert reference.mask([3, 1, 2, 0, 3], tokens) == {0, 1, 2, 3}
    assert reference.mask([3, 1, 2, 0, 3, 1], tokens) == {4}
    once = Grammar.from_ebnf("root ::= TokenTagDispatch((2, x), loop_after_dispatch=false)\nx ::= [b]").module
    reference = Reference(once, special={"<t>": 2}, eos=[4])
    assert reference.mask([0, 2], tokens) == {1}
    assert reference.mask([0, 2, 1], tokens) == {4}


def test_tokens_of_yacc_are_grammars_or_patterns() -> None:
    number = Grammar.from_gbnf("root ::= digit+\ndigit ::= [0-9]")
    grammar = Grammar.from_ebnf("sum: NUM | sum '+' NUM ;", "yacc", tokens={"NUM": number, "%ignore": r"\s+"})
    _check(grammar, {"matches": ["1 + 22", " 3 "], "rejects": ["+"], "viable": ["1 +"]})


def test_other_grammars_are_parts() -> None:
    name = Grammar.from_ebnf("root ::= first [a-z0-9]*\nfirst ::= [a-z]")
    texts = {
        "xgrammar": 'root ::= name ("=" name)?',
        "w3c": "Pair ::= name ('=' name)?",
        "iso": 'pair = name, [ "=", name ] ;',
        "bnf": '<pair> ::= <name> | <name> "=" <name>',
        "yacc": "pair: name | name '=' name ;",
    }
    for notation, text in texts.items():
        _check(Grammar.from_ebnf(text, notation, rules={"name": name}), {"matches": ["a", "a1=b"], "rejects": ["1"]})
    excepted = Grammar.from_ebnf("A ::= name - 'if'", "w3c", rules={"name": name})
    _check(excepted, {"matches": ["i", "iff"], "viable": ["if"], "rejects": ["1"]})
    schema = Grammar.from_json_schema({"type": "object", "properties": {"a": {"type": "integer"}}})
    whole = Grammar.from_ebnf('root ::= "<" body ">"', rules={"body": schema})
    _check(whole, {"matches": ['<{"a": 1}>'], "viable": ["<{"], "rejects": ['<{"a":"']})


@pytest.mark.parametrize(
    ("options", "code", "pointer"),
    [
        ({"notation": "ebnf"}, "invalid_option", None),
        ({"notation": "W3C"}, "invalid_option", None),
        ({"tokens": {"A": "a"}}, "invalid_option", None),
        ({"notation": "yacc", "tokens": {"A": 3}}, "wrong_type", "/tokens/A"),
        ({"notation": "yacc", "tokens": {"A": "("}}, "regex_invalid", "/tokens/A"),
        ({"rules": {"a": "b"}}, "wrong_type", "/rules/a"),
        ({"start": 3}, "wrong_type", "/start"),
    ],
)
def test_wrong_options(options: dict[str, Any], code: str, pointer: str | None) -> None:
    text = "root: A ;" if options.get("notation") == "yacc" else 'root ::= "a"'
    with pytest.raises(InputError) as caught:
        Grammar.from_ebnf(text, **options)
    assert (caught.value.code, caught.value.pointer) == (code, pointer)


def test_by_its_name() -> None:
    grammar = Grammar.from_language("ebnf", 'a = "x" ; b = a, a ;', notation="iso", start="b")
    _check(grammar, {"matches": ["xx"], "rejects": ["y"]})
    assert grammar.module.sources["a"] == "1:1"


def test_the_examples_of_the_docs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "grammars.md").read_text()
    section = page.partition("\n## EBNF\n")[2].partition("\n## ")[0]
    examples = [part.partition("```")[0] for part in section.split("```python\n")[1:]]
    texts = ["ok <tool>f(x)</s>", "xm", "[01,ab]", "1+22", "1 + (2*3)"]
    assert len(examples) == len(texts)
    for example, text in zip(examples, texts, strict=True):
        names: dict[str, Any] = {"narrows": narrows}
        exec(example, names)
        _check(names["g"], {"matches": [text]})


# Hostile input.

LIMITS = Limits(reading_work=200_000)
"""A fifth of the default, and the texts are as much shorter."""
MOST_SECONDS = 10.0
"""On a busy machine."""
HOSTILE = {
    ("xgrammar", "groups"): ("root ::= " + "(" * 30_000, "nesting"),
    ("xgrammar", "a long line"): ("root ::= " + '"a" [b-d]? ' * 20_000, "any"),
    ("xgrammar", "names that could be rules"): ("root ::= " + "a[x] " * 40_000, "reading_work"),
    ("xgrammar", "no end of options"): ("root ::= " + 'a["x\n' * 40_000, None),
    ("xgrammar", "rules"): ("root ::= r0\n" + "".join(f"r{k} ::= r{k + 1}\n" for k in range(40_000)), "reading_work"),
    ("xgrammar", "tags"): (
        "root ::= TagDispatch(" + ", ".join(f'("<{k:05x}>", root)' for k in range(8_000)) + ")",
        "any",
    ),
    ("xgrammar", "a long tag"): ('root ::= TagDispatch(("' + "ab" * 100_000 + '", root))', "reading_work"),
    ("xgrammar", "tuples"): ("root ::= TagDispatch(" + "(" * 20_000, None),
    ("xgrammar", "lazy rules"): (
        "root ::= r0\n" + "".join(f"r{k}[lazy] ::= r{k + 1} r{k + 1}\n" for k in range(30)) + "r30 ::= [a-z]\n",
        "any",
    ),
    ("xgrammar", "counts"): ("root ::= " + "(" * 50 + '"a"' + "{1000000})" * 49 + ")", "any"),
    ("w3c", "groups"): ("A ::= " + "(" * 30_000, "nesting"),
    ("w3c", "labels"): ("A ::= " + "[1] " * 60_000, "reading_work"),
    ("w3c", "labels of rules"): (" ".join(f"[{k}] A{k} ::= 'a'" for k in range(10_000)), "any"),
    ("w3c", "exceptions"): ("A ::= " + "[a-z]* - " * 20_000 + "'a'", "any"),
    ("w3c", "exceptions of rules"): (
        "".join(f"A{k} ::= A{k + 1}* - (A{k + 1} A{k + 1})\n" for k in range(3_000)) + "A3000 ::= [a-c]",
        "any",
    ),
    ("w3c", "comments"): ("/**/" * 100_000 + "A ::= 'a'", None),
    ("w3c", "quantifiers"): ("A ::= 'a'" + "*" * 30_000, "nesting"),
    ("iso", "groups"): ("a = " + "(" * 30_000, "nesting"),
    ("iso", "comments in comments"): ("(*" * 60_000, None),
    ("iso", "closed comments"): ("(*" * 20_000 + "*)" * 20_000 + 'a = "x" ;', "any"),
    ("iso", "words"): ("a " * 100_000 + '= "x" ;', None),
    ("iso", "once or more"): (
        "".join(f"a{k} = {{a{k + 1}}}-, a{k} | 'x' ;\n" for k in range(5_000)) + 'a5000 = "x" ;',
        "any",
    ),
    ("bnf", "names"): ("<a> ::= " + "<" * 200_000, None),
    ("bnf", "rules"): ("".join(f"<r{k}> ::= <r{k + 1}>\n" for k in range(34_000)), "reading_work"),
    ("yacc", "code"): ("a: " + "{" * 400_000, None),
    ("yacc", "quotes in code"): ("a: {" + "'" * 400_000, None),
    ("yacc", "comments in code"): ("a: {" + "/*" * 200_000, None),
    ("yacc", "names"): ("a: " + "b " * 200_000, "reading_work"),
    ("yacc", "alternatives"): ("a: " + "|" * 400_000, "reading_work"),
    ("yacc", "declarations"): ("%token " + "A " * 200_000, "reading_work"),
}


@pytest.mark.parametrize(("notation", "what"), HOSTILE, ids=" ".join)
def test_hostile_texts(notation: str, what: str) -> None:
    """They are read, or refused with an error, in time that is linear in the text."""
    text, limit = HOSTILE[notation, what]
    started = time.process_time()
    error: GrammarError | LimitError | None = None
    try:
        VOCABULARY.compile(Grammar.from_ebnf(text, notation, limits=LIMITS))
    except (GrammarError, LimitError) as caught:
        error = caught
    if error is not None:
        assert error.line is not None or error.limit is not None
    assert limit == "any" or limit == (error and error.limit), error
    assert time.process_time() - started < MOST_SECONDS


@pytest.mark.parametrize("notation", NOTATIONS)
def test_nesting_up_to_the_limit(notation: str) -> None:
    opened, closed = "(" * 100, ")" * 100
    text = {
        "iso": f'a = {opened}"a"{closed} ;',
        "bnf": f'<a> ::= {opened}"a"{closed}',
        "w3c": f"A ::= {opened}'a'{closed}",
    }
    if notation != "yacc":  # it has no groups
        whole = text.get(notation, f'root ::= {opened}"a"{closed}')
        _check(Grammar.from_ebnf(whole, notation), {"matches": ["a"]})
        with pytest.raises(LimitError) as caught:
            Grammar.from_ebnf(whole, notation, limits=Limits(nesting=99))
        assert caught.value.limit == "nesting"


_ALPHABETS = {
    "xgrammar": 'root:= \n"[]()|*+?{}1,\\#x-^a.Token(=)',
    "w3c": "A::= \n\"'[]()|*+?#x41-^/*wfc:",
    "iso": "a= \n\"'[](){}|/!:;,.*?-12",
    "bnf": "<a>::= \n\"'[]()|*+?{}1\\#^-",
    "yacc": "a:; \n\"'|{}[]%<>\\/*tokenprecempty",
}


@pytest.mark.parametrize("notation", NOTATIONS)
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_text_is_read_or_refused(notation: str, data: st.DataObject) -> None:
    rest = data.draw(st.text(_ALPHABETS[notation] + "é", max_size=24))
    begins = {"xgrammar": "root ::= ", "w3c": "A ::= ", "iso": "a = ", "bnf": "<a> ::= ", "yacc": "a: "}
    for text in (rest, begins[notation] + rest):
        try:
            Grammar.from_ebnf(text, notation)
        except GrammarError as error:
            place = (error.code.startswith(("ebnf_", "regex_")), error.line or 0, error.column or 0)
            assert place >= (True, 1, 1)
