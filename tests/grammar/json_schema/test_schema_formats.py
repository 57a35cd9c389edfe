"""Formats beside patterns, lengths and other formats, in the engine: no step runs out of work, and no text ends where
nothing can follow."""

from __future__ import annotations

import itertools
import json
import random
import re
from typing import Any

import jsonschema_rs
import numpy as np
import pytest
from schema_cases import load

import narrows
from narrows.errors import GrammarError, LimitError
from narrows.grammar.json_schema.families.formats import PATTERNS

_CHOOSE = random.Random(7)
_LETTERS = "abcdefghijklmnopqrstuvwxyz ABCDEF0123456789-._/:@"
_WORDS = [
    "foo",
    "example",
    ".com",
    "https://",
    "://",
    "www.",
    "2024-",
    "T12:",
    ":00Z",
    "\\u00",
    "\\n",
    '",',
    '"}',
    "é",
    "日",
]
_WORDS += ["".join(_CHOOSE.choices(_LETTERS, k=_CHOOSE.randint(2, 7))) for _ in range(2_000)]
TOKENS = [*(bytes([b]) for b in range(256)), *dict.fromkeys(word.encode() for word in _WORDS if len(word) > 1), b""]
EOS = len(TOKENS) - 1
VOCABULARY = narrows.Vocabulary(TOKENS, special={"<end>": EOS}, eos=[EOS])

BESIDE: list[dict[str, Any]] = [
    {"pattern": "^(?!foo)"},
    {"pattern": "^(?!foo).*$"},
    {"pattern": "@example\\.com$"},
    {"pattern": "^https?://"},
    {"pattern": "^[a-z0-9.@:/-]*$"},
    {"pattern": "^(?!.*\\.\\.)[^@]+@[^@]+$", "minLength": 30},
    {"pattern": "^(?=.*[a-z])(?=.*[0-9]).{8,64}$"},
    {"pattern": "(\\d{3}).*(\\d{3})", "maxLength": 64},
    {"minLength": 100},
    {"pattern": "^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]{2,}$", "maxLength": 255},
]


def walk(schema: Any, seed: int) -> str | None:
    """A random text of the schema under the masks, closed the shortest way; None where no text satisfies it, or where
    compiling says that this takes too much work to find out, and what of it."""
    try:
        matcher = VOCABULARY.compile(narrows.Grammar.from_json_schema(schema)).matcher()
    except GrammarError as error:
        assert error.code == "unsatisfiable"  # noqa: PT017
        return None
    except LimitError as error:
        assert (error.limit, error.pointer) == ("step_work", "/allOf/0/format")  # noqa: PT017
        return None
    choose = random.Random(seed)
    row = np.zeros((len(TOKENS) + 31) // 32, dtype=np.int32)
    tokens: list[int] = []
    while len(tokens) < 12 and not matcher.is_finished:
        matcher.fill_mask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        assert len(allowed), "the text so far has no completion"
        tokens.append(int(choose.choice(allowed)))
        assert matcher.accept(tokens[-1])
    if not matcher.is_finished:
        tokens += matcher.shortest_end()
    return b"".join(TOKENS[token] for token in tokens).decode()


def check(schema: Any, names: list[str], seed: int) -> None:
    text = walk(schema, seed)
    if text is not None:
        value = json.loads(text)
        assert all(re.fullmatch(PATTERNS[name], value) for name in names), (schema, text)
        assert jsonschema_rs.Draft202012Validator(schema).is_valid(value), (schema, text)


@pytest.mark.parametrize("case", load("pair"))
def test_pairs(case: dict[str, Any]) -> None:
    constraint = VOCABULARY.compile(narrows.Grammar.from_json_schema(case["schema"]))
    validator = jsonschema_rs.Draft202012Validator(json.loads(case["schema"]), validate_formats=True)
    wanted = {**dict.fromkeys(case["valid"], True), **dict.fromkeys(case["invalid"], False)}
    found = {}
    for text in wanted:
        matcher = constraint.matcher()
        found[text] = matcher.accept_bytes(text.encode()) and matcher.is_accepting
        assert validator.is_valid(json.loads(text)) is wanted[text], text
    assert found == wanted


@pytest.mark.parametrize("name", PATTERNS)
def test_a_format_beside_anything(name: str) -> None:
    """Whatever stands beside it: what is written is a value of the schema, and ends."""
    for seed, beside in enumerate(BESIDE):
        check({"type": "string", "format": name, **beside}, [name], seed)


def test_many_states_that_leave_a_string_alike_are_found_alive_by_one_text() -> None:
    """The mask after the quote asks of a thousand states whether a text of thirty characters is left."""
    beside = {"pattern": "^(?!.*\\.\\.)[^@]+@[^@]+$", "minLength": 30}
    check({"type": "string", "format": "idn-email", **beside, "allOf": [{"format": "iri-reference"}]}, ["idn-email"], 5)


def spelled(value: str, choose: random.Random) -> str:
    """The value as JSON. Some characters are written as escapes."""
    text = ""
    for character in value:
        units = character.encode("utf-16-be")
        escaped = "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
        text += escaped if choose.random() < 0.2 else json.dumps(character, ensure_ascii=False)[1:-1]
    return f'"{text}"'


def takes(schema: Any, text: str) -> bool:
    """Whether the text is of the schema, byte by byte. False too where nothing is."""
    try:
        matcher = VOCABULARY.compile(narrows.Grammar.from_json_schema(schema)).matcher()
    except GrammarError as error:
        assert error.code == "unsatisfiable"  # noqa: PT017
        return False
    return all(matcher.accept_bytes(bytes([byte])) for byte in text.encode()) and matcher.is_accepting


PATTERNS_BESIDE = [
    None,
    "@example\\.com$",
    "^(?!foo)",
    "\\d{2}.*[a-z]{2}",
    "(foo|bar|é)",
    "^[^@]*$",
    "[^a-z0-9]",
    "^.{3,40}$",
]


@pytest.mark.parametrize("name", PATTERNS)
def test_a_text_has_room_to_its_last_character(name: str) -> None:
    """A text that can no longer be ended is refused at once. One with its own length as the greatest length is not, and
    with a lower one it is."""
    tried = 0
    for seed, pattern in enumerate(PATTERNS_BESIDE):
        choose = random.Random(seed)
        beside = [{"pattern": one} for one in (pattern, choose.choice(PATTERNS_BESIDE)) if one is not None]
        schema: dict[str, Any] = {"type": "string", "format": name, "allOf": beside}
        if choose.random() < 0.5:
            schema["not"] = {"pattern": choose.choice(["zz", "^x", "[A-Z]{3}"])}
        if (text := walk(schema, seed)) is None:
            continue
        value = json.loads(text)
        for least in (0, max(0, len(value) - 3), len(value)):
            for most, fits in ((len(value), True), (len(value) - 1, False)):
                if most < least:
                    continue
                bounded = {**schema, "minLength": least, "maxLength": most}
                written = spelled(value, choose)
                assert takes(bounded, written) is fits, (bounded, written)
                tried += 1
    assert tried


@pytest.mark.soak
@pytest.mark.parametrize(("name", "other"), list(itertools.combinations(PATTERNS, 2)))
def test_two_formats_beside_anything(name: str, other: str) -> None:
    for seed, beside in enumerate(BESIDE):
        check({"type": "string", "format": name, **beside, "allOf": [{"format": other}]}, [name, other], seed)
