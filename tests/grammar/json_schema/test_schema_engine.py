"""The same cases through the compiled engine, and texts that it generates at random under its own masks."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import jsonschema_rs
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_schemas import schemas
from schema_cases import has_validator, load, validator

import narrows
from narrows.errors import GrammarError, LimitError

PIECES = [
    b'"',
    b'":',
    b'", "',
    b"}",
    b"]}",
    b'{"a',
    b"null",
    b"true",
    b"ab",
    "é".encode(),
    b"10",
    b"0.5",
    b"\\u00",
    b"  ",
    b"\n",
]
TOKENS = [*(bytes([b]) for b in range(256)), *PIECES, b""]
EOS = len(TOKENS) - 1
VOCABULARY = narrows.Vocabulary(TOKENS, special={"<end>": EOS}, eos=[EOS])


@pytest.mark.parametrize("case", load("case"))
def test_texts_in_the_engine(case: dict[str, Any]) -> None:
    grammar = narrows.Grammar.from_json_schema(case["schema"], **case.get("options", {}))
    constraint = VOCABULARY.compile(grammar)
    wanted = dict.fromkeys(case["valid"], True)
    for kind in ("invalid", "unspelled", "not_json", "invalid_here"):
        wanted.update(dict.fromkeys(case.get(kind, ()), False))
    found = {}
    for text in wanted:
        matcher = constraint.matcher()
        found[text] = matcher.accept_bytes(text.encode()) and matcher.is_accepting
    assert found == wanted


def tokens_of(texts: list[bytes], choose: random.Random, most: int = 300) -> list[bytes]:
    """All bytes, and pieces of these texts as tokens."""
    pieces = {text[k : k + n]: None for text in texts for k in range(len(text)) for n in (2, 3, 4, 6, 9)}
    kept = choose.sample(list(pieces), min(most, len(pieces)))
    numbers = [str(choose.randrange(10, 1000)).encode() for _ in range(40)]
    return [*(bytes([b]) for b in range(256)), *dict.fromkeys([*kept, *numbers])]


@pytest.mark.parametrize("case", load("case"))
def test_a_token_is_in_the_mask_where_it_is_accepted(case: dict[str, Any]) -> None:
    """On tokens that are pieces of the case's texts: they may lie inside a terminal, end it, or go over several."""
    choose = random.Random(2)
    texts = [text.encode() for kind in ("valid", "invalid") for text in case.get(kind, ()) if len(text) < 2_000]
    vocabulary = narrows.Vocabulary(tokens_of(texts, choose))
    grammar = narrows.Grammar.from_json_schema(case["schema"], **case.get("options", {}))
    constraint = vocabulary.compile(grammar)
    row = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)
    for text in choose.sample(texts, min(3, len(texts))):
        for at in sorted(choose.sample(range(len(text) + 1), min(6, len(text) + 1))):
            matcher = constraint.matcher()
            if not matcher.accept_bytes(text[:at]):
                break
            matcher.fill_mask(row)
            allowed = np.unpackbits(row.view(np.uint8), bitorder="little")
            for token in range(vocabulary.size):
                accepted = matcher.accept(token)
                assert accepted == bool(allowed[token]), (text[:at], vocabulary.token_bytes(token))
                if accepted:
                    matcher.rollback(1)


@pytest.mark.parametrize("case", load("case"))
def test_no_mark_of_json_leads_to_a_dead_end(case: dict[str, Any]) -> None:
    """At each place of a valid text: a comma where no further item is left would be one. Without whitespace, which
    could follow such a comma."""
    options = {**case.get("options", {}), "whitespace": "compact"}
    constraint = VOCABULARY.compile(narrows.Grammar.from_json_schema(case["schema"], **options))
    row = np.zeros((VOCABULARY.size + 31) // 32, dtype=np.int32)
    for text in [text.encode() for text in case["valid"] if len(text) < 300]:
        matcher = constraint.matcher()
        for at in range(len(text) + 1):
            matcher.fill_mask(row)
            allowed = np.unpackbits(row.view(np.uint8), bitorder="little")
            for mark in b',:"[]{}':
                assert matcher.accepts([mark]) == bool(allowed[mark]), (text[:at], chr(mark))
            if not matcher.accept_bytes(text[at : at + 1]):
                break  # a text with whitespace


@pytest.mark.parametrize(("low", "high"), [(0, 1001), (1500, None), (700, 1733), (1024, 1024), (3, 1 << 20), (0, 2047)])
def test_large_counts(low: int, high: int | None) -> None:
    """Counts that are written with powers of two, at their edges."""
    schema = {"type": "array", "items": {"const": 1}, "minItems": low, **({} if high is None else {"maxItems": high})}
    constraint = VOCABULARY.compile(narrows.Grammar.from_json_schema(schema, whitespace="compact"))
    for n in {0, 1, low - 1, low, low + 1, *((high - 1, high, high + 1) if high is not None and high < 5000 else ())}:
        if n >= 0:
            matcher = constraint.matcher()
            accepted = matcher.accept_bytes(f"[{','.join('1' * n)}]".encode()) and matcher.is_accepting
            assert accepted is (low <= n and (high is None or n <= high)), n


def test_long_names() -> None:
    """The lengths of hostname and email: 253 and 254 characters in all."""
    label = "a" * 63
    longest = f"{label}.{label}.{label}.{label[:61]}"
    wanted = {
        ("hostname", longest): True,
        ("hostname", longest + "a"): False,
        ("email", f"a@{longest[1:]}"): True,
        ("email", f"a@{longest}"): False,
    }
    found = {}
    for name, text in wanted:
        constraint = VOCABULARY.compile(narrows.Grammar.from_json_schema({"type": "string", "format": name}))
        matcher = constraint.matcher()
        found[name, text] = matcher.accept_bytes(f'"{text}"'.encode()) and matcher.is_accepting
    assert found == wanted


def generate(matcher: narrows.Matcher, choose: random.Random, steps: int) -> bytes:
    """A random text: any allowed token for some steps, then the shortest way to an end."""
    row = np.zeros((len(TOKENS) + 31) // 32, dtype=np.int32)
    tokens: list[int] = []
    for _ in range(steps):
        matcher.fill_mask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        assert len(allowed), "the text so far has no completion"
        token = int(choose.choice(allowed))
        assert matcher.accept(token)
        tokens.append(token)
        if token == EOS:
            break
    if not matcher.is_finished:
        tokens += matcher.shortest_end()
    return b"".join(TOKENS[token] for token in tokens)


@pytest.mark.parametrize("case", load("case", has_validator))
def test_generated_texts_are_valid(case: dict[str, Any]) -> None:
    judge = validator(case)
    constraint = VOCABULARY.compile(narrows.Grammar.from_json_schema(case["schema"], **case.get("options", {})))
    choose = random.Random(1)
    for _ in range(15):
        text = generate(constraint.matcher(), choose, 40)
        assert judge.is_valid(json.loads(text)), text


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(schemas(), st.integers(0, 2**32))
def test_generated_texts_of_random_schemas_are_valid(schema: Any, seed: int) -> None:
    try:
        constraint = VOCABULARY.compile(narrows.Grammar.from_json_schema(schema))
    except GrammarError:
        assume(False)
    validator = jsonschema_rs.Draft202012Validator(schema)
    choose = random.Random(seed)
    for _ in range(4):
        text = generate(constraint.matcher(), choose, 25)
        assert validator.is_valid(json.loads(text)), (schema, text)


def test_patterns_that_take_too_much_work_are_named() -> None:
    """The engine finds out whether patterns and lengths hold together; where that takes too long, the error says of
    which string."""
    many = {"type": "string", "allOf": [{"pattern": "^z9((.){10}){10}z9$"}, {"pattern": "((c1d3).{4,8}){6}"}]}
    many["allOf"].append({"not": {"pattern": "^..((c1d3).{4,8}){6}"}})
    schema = {"properties": {"plain": {"pattern": "a"}, "many": {"type": "array", "items": many}}}
    with pytest.raises(LimitError) as caught:
        VOCABULARY.compile(narrows.Grammar.from_json_schema(schema), replace(narrows.Limits(), step_work=500_000))
    assert caught.value.limit == "step_work"
    assert caught.value.pointer == "/properties/many/items/allOf/2/not/pattern"
