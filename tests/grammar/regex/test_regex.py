"""Regular expressions: Python's `re` as the oracle of its dialect on random patterns, tables for all three."""

from __future__ import annotations

import re
import sys
import time
import warnings
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from narrows.errors import GrammarError, InputError, LimitError, UnsupportedError
from narrows.grammar import ir, json_text, regex, utf8
from narrows.grammar.regex import classes as regex_classes
from narrows.limits import Limits
from narrows.reference import Reference

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

CASES = Path(__file__).parents[2] / "cases" / "regex"


def table(name: str) -> list[Any]:
    cases = tomllib.loads((CASES / f"{name}.toml").read_text())["case"]
    return [pytest.param(case, id=f"{k}:{case['pattern'][:40]}") for k, case in enumerate(cases)]


@lru_cache(maxsize=64)
def matcher(pattern: str, dialect: regex.Dialect = "python") -> Reference:
    return Reference(regex.regex_module(pattern, dialect))


@pytest.mark.parametrize("dialect", regex.DIALECTS)
def test_tables_are_for_known_dialects(dialect: str) -> None:
    assert (CASES / f"{dialect}.toml").exists()


def check(case: dict[str, Any], dialect: regex.Dialect) -> None:
    if "error" in case:
        with pytest.raises(GrammarError) as caught:
            regex.regex_module(case["pattern"], dialect)
        assert caught.value.code == case["error"]
        assert caught.value.offset == case["offset"]
        return
    reference = matcher(case["pattern"], dialect)
    for text in case.get("matches", ()):
        assert reference.accepts(text.encode()), text
    for text in case.get("rejects", ()):
        assert not reference.accepts(text.encode()), text
    if "search" in case or "not_search" in case:
        search = Reference(ir.Module({"root": regex.search_node(case["pattern"], dialect)}))
        for text in case.get("search", ()):
            assert search.accepts(text.encode()), text
        for text in case.get("not_search", ()):
            assert not search.accepts(text.encode()), text


@pytest.mark.parametrize("case", table("python"))
def test_python(case: dict[str, Any]) -> None:
    check(case, "python")


@pytest.mark.parametrize("case", table("python"))
def test_the_python_table_is_right(case: dict[str, Any]) -> None:
    if sys.version_info < tuple(case.get("since", (3, 10))):
        pytest.skip("this Python's re is of another mind")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case.get("error") == "regex_invalid":
            with pytest.raises(re.error):
                re.compile(case["pattern"])
            return
        if case.get("error"):
            return
        for text in case.get("matches", ()):
            assert re.fullmatch(case["pattern"], text)
        for text in case.get("rejects", ()):
            assert not re.fullmatch(case["pattern"], text)
        for text in case.get("search", ()):
            assert re.search(case["pattern"], text)
        for text in case.get("not_search", ()):
            assert not re.search(case["pattern"], text)


@pytest.mark.parametrize("case", table("ecma"))
def test_ecma(case: dict[str, Any]) -> None:
    check(case, "ecma")


@pytest.mark.parametrize("case", table("ecma"))
def test_the_ecma_table_is_right(case: dict[str, Any]) -> None:
    regress = pytest.importorskip("regress")
    if case.get("error") == "regex_invalid":
        with pytest.raises(regress.RegressError):
            regress.Regex(case["pattern"], "u")
        return
    if case.get("error") or case.get("annex_b"):
        return
    whole = regress.Regex(f"^(?:{case['pattern']})$", "u")
    anywhere = regress.Regex(case["pattern"], "u")
    for text in case.get("matches", ()):
        assert whole.find(text), text
    for text in case.get("rejects", ()):
        assert not whole.find(text), text
    for text in case.get("search", ()):
        assert anywhere.find(text), text
    for text in case.get("not_search", ()):
        assert not anywhere.find(text), text


@pytest.mark.parametrize("case", table("rust"))
def test_rust(case: dict[str, Any]) -> None:
    check(case, "rust")


# Random patterns against `re`.

atoms = st.sampled_from(
    ["a", "b", "-", ".", r"\w", r"\W", r"\d", r"\s", "[ab]", "[^a]", r"[\w-]", "[b-é]", "é", "\\n", r"\.", "(?:)", "😀"]
)
conditions = st.sampled_from(
    ["^", "$", r"\b", r"\B", r"\A", r"\Z", r"(?<=a)", r"(?<![ab])", "(?<=ab)", r"(?<!a\w)", "(?<=^)", "(?<!^)"]
)
suffixes = st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,3}", "{,2}", "{2,}"])


def grouped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(?:" + "|".join(parts) + ")"),
        st.tuples(inner, suffixes).map(lambda p: f"(?:{p[0]}){p[1]}"),
        st.tuples(st.sampled_from(["(?=", "(?!"]), inner).map(lambda p: f"{p[0]}{p[1]})"),
        inner.map(lambda p: f"(?i:{p})"),
        inner.map(lambda p: f"(?s:{p})"),
        inner.map(lambda p: f"(?m:{p})"),
    )


plain_patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(?:" + "|".join(parts) + ")"),
        st.tuples(inner, suffixes).map(lambda p: f"(?:{p[0]}){p[1]}"),
        inner.map(lambda p: f"(?i:{p})"),
    ),
    max_leaves=6,
)
patterns = st.recursive(st.one_of(atoms, conditions), grouped, max_leaves=7)
texts = st.lists(st.text("ab-\nA1é É😀.", max_size=5), min_size=1, max_size=12)


def generated(pattern: str) -> st.SearchStrategy[str]:
    return st.from_regex(re.compile(pattern), fullmatch=True)


@settings(max_examples=200, deadline=None)
@given(plain_patterns, texts, st.data())
def test_random_patterns(pattern: str, probes: list[str], data: st.DataObject) -> None:
    reference = Reference(regex.regex_module(pattern))
    for text in [*probes, data.draw(generated(pattern))]:
        if len(text) <= 12 and not any("\ud800" <= c <= "\udfff" for c in text):
            assert reference.accepts(text.encode()) == bool(re.fullmatch(pattern, text)), text


def without_quirk(pattern: str, probes: list[str]) -> list[str]:
    """Before 3.14, `\\B` of `re` never matched in the empty text. narrows follows 3.14."""
    return [text for text in probes if text or "\\B" not in pattern]


@settings(max_examples=80, deadline=None)
@given(patterns, texts)
def test_random_patterns_that_look_around(pattern: str, probes: list[str]) -> None:
    check_looking(pattern, probes)


@pytest.mark.soak
@pytest.mark.timeout(900)
@settings(max_examples=2_500, deadline=None)
@given(patterns, texts)
def test_many_random_patterns_that_look_around(pattern: str, probes: list[str]) -> None:
    check_looking(pattern, probes)


def check_looking(pattern: str, probes: list[str]) -> None:
    try:
        whole = Reference(regex.regex_module(pattern))
        anywhere = Reference(ir.Module({"root": regex.search_node(pattern, "python")}))
    except UnsupportedError:
        assume(False)
    for text in without_quirk(pattern, probes):
        assert whole.accepts(text.encode()) == bool(re.fullmatch(pattern, text)), text
        assert anywhere.accepts(text.encode()) == bool(re.search(pattern, text)), text


spelled_texts = st.lists(st.text('ab"\\\n/é😀', max_size=3), max_size=4)


@settings(max_examples=20, deadline=None)
@given(patterns, spelled_texts, st.sampled_from(["all", "minimal"]))
def test_json_spelling(pattern: str, probes: list[str], escapes: json_text.Escapes) -> None:
    check_spelling(pattern, probes, escapes)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@settings(max_examples=1_000, deadline=None)
@given(patterns, spelled_texts, st.sampled_from(["all", "minimal"]))
def test_json_spelling_at_length(pattern: str, probes: list[str], escapes: json_text.Escapes) -> None:
    check_spelling(pattern, probes, escapes)


def check_spelling(pattern: str, probes: list[str], escapes: json_text.Escapes) -> None:
    """A pattern over spelled characters holds for a spelling exactly when it holds for the string."""
    try:
        node = regex.search_node(pattern, "python", lambda ranges: json_text.char(ranges, escapes))
    except UnsupportedError:
        assume(False)
    reference = Reference(ir.Module({"root": node}))
    for text in without_quirk(pattern, probes):
        assert reference.accepts(json_text.minimal(text)) == bool(re.search(pattern, text)), text
        spelled = "".join(f"\\u{int.from_bytes(u, 'big'):04X}" for u in units(text)).encode()
        if escapes == "all":
            assert reference.accepts(spelled) == bool(re.search(pattern, text)), text


@settings(max_examples=8, deadline=None)
@given(patterns, st.sampled_from(["minimal", "single", "none"]))
def test_nothing_lies_outside_of_the_text(pattern: str, escapes: json_text.Escapes) -> None:
    """What is searched for never lets anything in but spelled characters: the intersection with all else is empty."""
    character = json_text.char(utf8.ANY, escapes)
    try:
        node = regex.search_node(pattern, "python", lambda ranges: json_text.char(ranges, escapes))
    except UnsupportedError:
        assume(False)
    beyond = ir.And((node, ir.Not(ir.Repeat(character))))
    assert not Reference(ir.Module({"root": ir.Lexeme(beyond)})).viable(b"")


ecma_conditions = st.sampled_from(
    [
        "^",
        "$",
        r"\b",
        r"\B",
        "(?<=a)",
        "(?<![ab])",
        "(?<=ab)",
        r"(?<!a\w)",
        "(?!foo)",
        "(?!$)",
        r"(?!\s)",
        "(?!.*b)",
        "(?!)",
    ]
)
ecma_patterns = st.recursive(
    st.one_of(atoms, ecma_conditions),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(?:" + "|".join(parts) + ")"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}"])).map(lambda p: f"(?:{p[0]}){p[1]}"),
        st.tuples(st.sampled_from(["(?=", "(?!"]), inner).map(lambda p: f"{p[0]}{p[1]})"),
        inner.map(lambda p: f"^{p}"),
        inner.map(lambda p: f"{p}$"),
    ),
    max_leaves=6,
)


@settings(max_examples=120, deadline=None)
@given(ecma_patterns, texts)
def test_random_ecma_patterns(pattern: str, probes: list[str]) -> None:
    """JSON Schema's dialect beside an engine for it: found in the string exactly when its spelling is accepted."""
    regress = pytest.importorskip("regress")
    try:
        node = regex.search_node(pattern, "ecma", lambda ranges: json_text.char(ranges, "minimal"))
    except UnsupportedError:
        assume(False)
    reference = Reference(ir.Module({"root": ir.Lexeme(node)}))
    found = regress.Regex(pattern, "u").find
    for text in without_quirk(pattern, probes):
        assert reference.accepts(json_text.minimal(text)) == bool(found(text)), text


def units(text: str) -> list[bytes]:
    data = text.encode("utf-16-be")
    return [data[k : k + 2] for k in range(0, len(data), 2)]


def test_case_is_that_of_re() -> None:
    """Every character that has a case, and its neighbours in case, as `re.IGNORECASE` pairs them."""
    classes = regex_classes._python_classes()
    for members in classes[::7]:
        for point in members:
            if not 0xD800 <= point <= 0xDFFF:
                same = set("".join(map(chr, members)))
                assert {c for c in same if re.fullmatch(re.escape(chr(point)), c, re.I)} == same
    for text in ("K", "ſ", "ß", "İ", "ı", "ς", "µ", "ᾀ", "ﬅ"):
        folded = regex_classes.fold(utf8.code_points(text), "python")
        for probe in "KkKſsSßẞİiIıςσΣµμΜᾀᾈﬅﬆ":
            assert utf8.contains(folded, ord(probe)) == bool(re.fullmatch(text, probe, re.I)), (text, probe)


def test_no_character_has_a_case_beyond_the_table() -> None:
    assert all(chr(c).lower() == chr(c) == chr(c).upper() for c in range(regex_classes._LAST_CASED + 1, utf8.LAST + 1))


@pytest.mark.parametrize("name", sorted(regex_classes.POSIX))
def test_posix_classes_are_ascii(name: str) -> None:
    assert all(high < 128 for _, high in regex_classes.POSIX[name])


# Limits and hostile patterns.

QUICK = 5.0  # seconds on a busy machine; each takes some milliseconds


@pytest.mark.parametrize(
    ("pattern", "dialect", "limit"),
    [
        ("(" * 30_000, "python", "nesting"),
        ("(?:" * 20_000, "ecma", "nesting"),
        ("(?=" * 20_000, "ecma", "nesting"),
        ("[" * 30_000, "rust", "nesting"),
        ("a" + "?" * 30_000, "rust", "nesting"),
        ("a" * 70_000, "python", "regex_bytes"),
        ("é" * 40_000, "python", "regex_bytes"),
        (r"(?:\ba?){0,60000}", "python", "ir_nodes"),
        ("(?:" * 900 + r"\bxy?" + "){0,100}" * 900, "python", "ir_nodes"),
        ("(?:" * 900 + r"\bx" + "){0,100}" * 900, "python", "reading_work"),
    ],
)
def test_limits(pattern: str, dialect: regex.Dialect, limit: str) -> None:
    started = time.process_time()
    with pytest.raises(LimitError) as caught:
        regex.regex_module(pattern, dialect, replace(Limits(), ir_nodes=400_000))
    assert caught.value.limit == limit
    assert time.process_time() - started < QUICK


@pytest.mark.parametrize(
    "pattern", ["(x{0,1000}){0,1000}", "(?:a?){5000}", "[ab]*a[ab]{5000}", "(x*)*" * 900, "a?" * 5_000]
)
def test_counts_are_not_written_out(pattern: str) -> None:
    started = time.process_time()
    regex.regex_module(pattern)
    assert time.process_time() - started < QUICK


@settings(max_examples=300, deadline=None)
@given(st.text("ab(){}[]|*+?^$\\.-,:=!<>P#&~019uxdwpLk \u00e9", max_size=16), st.sampled_from(regex.DIALECTS))
def test_any_text_is_read_or_refused(pattern: str, dialect: regex.Dialect) -> None:
    try:
        regex.regex_module(pattern, dialect)
    except GrammarError as error:
        offset = -1 if error.offset is None else error.offset
        assert error.code in ("regex_invalid", "regex_unsupported") and 0 <= offset <= len(pattern)  # noqa: PT017, PT018


@settings(max_examples=400, deadline=None)
@given(st.text("ab(){}[]|*+?^$\\.-,:=!<>P#09xdwi\n", max_size=10))
def test_python_refuses_what_re_refuses(pattern: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            re.compile(pattern)
            valid = True
        except (re.error, OverflowError):
            valid = False
    try:
        regex.parse(pattern)
        read = True
    except UnsupportedError:
        return
    except GrammarError:
        read = False
    assert read == valid


def test_arguments() -> None:
    with pytest.raises(InputError, match="no regex dialect"):
        regex.regex_module("a", "perl")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is a str"):
        regex.regex_module(b"a")  # type: ignore[arg-type]
