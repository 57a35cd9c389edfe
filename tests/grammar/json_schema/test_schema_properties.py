"""Random schemas and values: the grammar accepts a value, in some order of its keys, exactly where a validator does."""

from __future__ import annotations

import itertools
import random
import re
from decimal import Decimal
from typing import Any

import jsonschema_rs
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_schemas import loose_schemas, schemas, small_objects, texts, values

from narrows.errors import GrammarError
from narrows.grammar import ir
from narrows.grammar.json_schema import schema_module
from narrows.grammar.json_schema.spelling.digits import number_range
from narrows.grammar.work import Work
from narrows.limits import Limits
from narrows.reference import Reference

SETTINGS = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


def _lowered(schema: Any) -> tuple[ir.Module | None, str | None]:
    try:
        return schema_module(schema).module, None
    except GrammarError as error:
        return None, error.code


@SETTINGS
@given(schemas(), st.lists(values, min_size=1, max_size=6))
def test_accepts_what_is_valid(schema: Any, candidates: list[Any]) -> None:
    module, code = _lowered(schema)
    assume(code != "schema_invalid")  # a reference to itself
    assume(code != "schema_unsupported")  # a pattern inside the values of an enum of arrays
    assert code in (None, "unsatisfiable")
    validator = jsonschema_rs.Draft202012Validator(schema)
    oracle = Reference(module) if module is not None else None
    for value in candidates:
        valid = validator.is_valid(value)
        accepted = oracle is not None and any(oracle.accepts(text.encode()) for text in texts(value))
        assert accepted == valid, (schema, value)


@SETTINGS
@given(loose_schemas(), st.lists(st.one_of(values, small_objects), min_size=1, max_size=6))
def test_what_is_left_out_only_allows_more(schema: Any, candidates: list[Any]) -> None:
    """Under "ignore" every valid value is accepted; and where the report knows of nothing but exact keywords, no
    other."""
    try:
        made = schema_module(schema, on_unsupported="ignore")
    except GrammarError as error:
        assume(error.code != "schema_invalid")  # a reference to itself
        assert error.code == "unsatisfiable"  # noqa: PT017
        made = None
    validator = jsonschema_rs.Draft202012Validator(schema)
    oracle = None if made is None else Reference(made.module)
    for value in candidates:
        accepted = oracle is not None and any(oracle.accepts(text.encode()) for text in texts(value))
        if validator.is_valid(value):
            assert accepted, (schema, value)
        elif made is not None and set(made.report.values()) <= {"exact"}:
            assert not accepted, (schema, value)


counts = st.sampled_from(["", "?", "*", "+", "{2}", "{1,3}", "{0}", "{2,}"])
classes = st.tuples(st.sampled_from(["a", "b", "[ab]", "[^a]"]), counts).map("".join)
groups = st.lists(classes, min_size=1, max_size=2).map(lambda parts: f"(?:{'|'.join(parts)})")
pairs = st.lists(st.sampled_from(["a", "b", "[ab]"]), min_size=2, max_size=2).map(lambda parts: f"(?:{''.join(parts)})")
looks = st.sampled_from(["^", "$", "(?=a)", "(?!ab)", "(?<=b)", "\\b"])
items = st.one_of(classes, classes, looks, st.tuples(groups | pairs, counts).map("".join))
bare = st.lists(items, max_size=4).map("".join)
patterns = st.one_of(bare.map(lambda p: f"^{p}$"), bare, st.lists(bare, min_size=2, max_size=2).map("$|^".join))
SHORT = ["".join(chars) for n in range(6) for chars in itertools.product("ab", repeat=n)]


@settings(max_examples=80, deadline=None)
@given(patterns, st.integers(0, 5), st.none() | st.integers(0, 5))
def test_lengths_beside_a_pattern(pattern: str, low: int, high: int | None) -> None:
    """Wherever the bounds go, those strings fit in which the pattern is found and that keep them."""
    schema = {"type": "string", "pattern": pattern, "minLength": low, **({} if high is None else {"maxLength": high})}
    module, code = _lowered(schema)
    assume(code != "schema_unsupported")  # a repetition that looks around
    wanted = {s for s in SHORT if re.search(pattern, s) and low <= len(s) and (high is None or len(s) <= high)}
    if module is None:
        assert (code, wanted) == ("unsatisfiable", set())
    else:
        oracle = Reference(module)
        assert {s for s in SHORT if oracle.accepts(f'"{s}"'.encode())} == wanted


decimals = st.one_of(
    st.integers(-1200, 1200).map(Decimal),
    st.decimals(-1200, 1200, places=2),
    st.decimals(-2, 2, places=4),
    st.sampled_from(["0", "-0", "0.1", "9.99", "10", "99.5", "100", "1e3", "1e-4"]).map(Decimal),
)


@given(
    st.none() | decimals,
    st.none() | decimals,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.lists(decimals, min_size=1),
)
@settings(max_examples=150, deadline=None)
def test_ranges_compare_as_decimals_do(
    low: Decimal | None, high: Decimal | None, low_open: bool, high_open: bool, integer: bool, others: list[Decimal]
) -> None:
    node = number_range(low, high, low_open, high_open, integer=integer, work=Work(Limits()))
    oracle = Reference(ir.Module({"root": ir.Lexeme(node or ir.NEVER)}))
    edges = [
        bound + step
        for bound in (low, high)
        if bound is not None
        for step in (0, 1, -1, Decimal("0.001"), Decimal("-0.001"))
    ]
    for value in (*others, *edges):
        inside = (low is None or value > low or (value == low and not low_open)) and (
            high is None or value < high or (value == high and not high_open)
        )
        text = f"{value:f}"
        forms = [text, text + ("0" if "." in text else ".0")]
        if value == value.to_integral_value():
            forms.append(str(int(value)))
        for form in forms:
            assert oracle.accepts(form.encode()) is (inside and not (integer and "." in form)), (form, low, high)


@given(st.randoms(use_true_random=False), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_bounds_that_are_halved_compare_digit_by_digit(
    dice: random.Random, is_low: bool, is_open: bool, integer: bool
) -> None:
    """More digits than one alternation compares: every number that differs in one digit, or in how many there are."""
    whole = "".join(dice.choices("0159", k=dice.randint(17, 70))).lstrip("0") or "7"
    after = "" if integer else "".join(dice.choices("0189", k=dice.randint(0, 70)))
    bound = Decimal(f"{whole}.{after}")
    low, high = (bound, None) if is_low else (None, bound)
    node = number_range(low, high, is_open, is_open, integer=integer, work=Work(Limits()))
    oracle = Reference(ir.Module({"root": ir.Lexeme(node or ir.NEVER)}))
    text = f"{whole}.{after}".rstrip(".")
    texts = [text, text[:-1], text + ("5" if "." in text else ".5"), "1" + text, text[1:], whole]
    for k in range(0, len(text), 3):
        if text[k] != ".":
            texts += [f"{text[:k]}{digit}{text[k + 1 :]}" for digit in "0369"] + [text[:k]]
    for written in texts:
        begin, _, rest = written.partition(".")
        if not begin or (len(begin) > 1 and begin[0] == "0") or ("." in written and not rest):
            continue  # no number of JSON
        value = Decimal(written)
        inside = (value > bound if is_low else value < bound) or (value == bound and not is_open)
        assert oracle.accepts(written.encode()) is (inside and not (integer and "." in written)), (written, text)
