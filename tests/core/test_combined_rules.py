"""Formats, patterns, lengths and `not` on one string, in the tokens of a real model: what compiles can be written.

Each rule alone has few states. Together they have many, and near a greatest length a state for each number of characters.
A mask that took more than `step_work` would end a generation in its middle.
"""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from real_vocabulary import llama3

from narrows import Grammar, LimitError, NarrowsError, Vocabulary

FORMATS = (
    *("email", "idn-email", "uri", "uri-reference", "iri", "iri-reference", "uri-template", "json-pointer", "hostname"),
    *("idn-hostname", "ipv4", "ipv6", "date", "time", "date-time", "duration", "uuid", "regex", None, None),
)
PATTERNS = (
    *(r"@example\.com$", "^[a-z]", r"\.com$", "^.{5,40}$", "^(?!foo)", "a", "^[^@]+@", "^https?://", r"^\S+$"),
    *("^(?=.*[a-z])(?=.*[0-9]).{8,64}$", "(foo|bar|baz)", r"^[\w.+-]+@[\w-]+\.[\w.]+$", r"^(?!.*\.\.)", "[A-Z]{2,}"),
    *(r"^[^\s]*$", r"\d{3}.*\d{3}", None, None),
)
LENGTHS = ((0, None), (0, 30), (0, 64), (0, 255), (10, 30), (1, None), (20, None), (5, 100), (0, 2048))
NOTS: tuple[Any, ...] = (
    *(None, None, None, {"pattern": "foo"}, {"pattern": r"\.\."}, {"enum": ["a@b.co", "x"]}, {"pattern": "^[0-9]+$"}),
    *({"pattern": "admin"}, {"pattern": "[A-Z]"}, {"maxLength": 12}, {"format": "ipv4"}),
)
# Each met the limit, at a time when the search for an end tried all texts of the length that was left.
NAMED: dict[str, dict[str, Any]] = {
    "an address, a pattern and a least length": {"format": "idn-email", "pattern": r"@example\.com$", "minLength": 20},
    "an address, two patterns and lengths": {
        "format": "idn-email",
        "pattern": r"@example\.com$",
        "allOf": [{"pattern": "(foo|bar|baz)"}],
        "minLength": 10,
        "maxLength": 30,
    },
    "an address, look-aheads and a pattern": {
        "format": "idn-email",
        "pattern": r"@example\.com$",
        "maxLength": 2048,
        "allOf": [{"pattern": "^(?=.*[a-z])(?=.*[0-9]).{8,64}$"}],
    },
    "a regular expression with an end": {"format": "regex", "pattern": r"@example\.com$", "maxLength": 30},
    "a regular expression with digits": {
        "format": "regex",
        "pattern": r"\d{3}.*\d{3}",
        "minLength": 5,
        "maxLength": 30,
    },
    "a resource with an end and digits": {
        "format": "iri-reference",
        "pattern": r"@example\.com$",
        "allOf": [{"pattern": r"\d{3}.*\d{3}"}],
        "minLength": 5,
        "maxLength": 100,
    },
    "a resource with one of three words": {
        "format": "iri",
        "pattern": "(foo|bar|baz)",
        "allOf": [{"pattern": r"@example\.com$"}],
        "maxLength": 64,
        "not": {"enum": ["a@b.co", "x"]},
    },
    "a regular expression with digits, and not much room": {
        "format": "regex",
        "pattern": r"\d{3}.*\d{3}",
        "minLength": 10,
        "maxLength": 30,
    },
    "a regular expression with look-aheads, digits and no capitals": {
        "format": "regex",
        "pattern": "^(?=.*[a-z])(?=.*[0-9]).{8,64}$",
        "allOf": [{"pattern": r"\d{3}.*\d{3}"}],
        "maxLength": 255,
        "not": {"pattern": "[A-Z]"},
    },
    "a regular expression without spaces, with digits, and not one": {
        "format": "regex",
        "pattern": r"^\S+$",
        "allOf": [{"pattern": r"\d{3}.*\d{3}"}],
        "maxLength": 30,
        "not": {"pattern": "foo"},
    },
    "a name with capitals": {
        "format": "idn-hostname",
        "pattern": "[A-Z]{2,}",
        "allOf": [{"pattern": "a"}],
        "minLength": 10,
        "maxLength": 30,
    },
}


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return llama3()


def write(vocabulary: Vocabulary, schema: dict[str, Any], choose: random.Random) -> None:
    """Tokens that fit, and then the shortest end."""
    matcher = vocabulary.compile(Grammar.from_json_schema({"type": "string", **schema})).matcher()
    row = np.zeros((vocabulary.size + 31) // 32, np.int32)
    for _ in range(choose.choice((5, 12, 25, 40))):
        matcher.fill_mask(row)
        fitting = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        assert matcher.accept(choose.choice(fitting.tolist()))
        if matcher.is_finished:
            return
    for token in matcher.shortest_end():
        assert matcher.accept(token)
    assert matcher.is_accepting


@pytest.mark.parametrize("name", NAMED)
def test_named(vocabulary: Vocabulary, name: str) -> None:
    for seed in range(4):
        write(vocabulary, NAMED[name], random.Random(seed))


def random_schema(choose: random.Random) -> dict[str, Any]:
    least, most = choose.choice(LENGTHS)
    patterns = [choose.choice(PATTERNS), choose.choice(PATTERNS) if choose.random() < 0.35 else None]
    found = {
        "format": choose.choice(FORMATS),
        "allOf": [{"pattern": pattern} for pattern in patterns if pattern is not None] or None,
        "minLength": least or None,
        "maxLength": most,
        "not": choose.choice(NOTS),
    }
    return {keyword: value for keyword, value in found.items() if value is not None}


@pytest.mark.parametrize("runs", [80, pytest.param(4_000, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_random(vocabulary: Vocabulary, runs: int) -> None:
    """Of many, some few are known to meet the limit: three or more rules beside `regex` or `idn-email`."""
    limits: list[str] = []
    for seed in range(runs):
        choose = random.Random(seed)
        schema = random_schema(choose)
        try:
            write(vocabulary, schema, choose)
        except LimitError:
            limits.append(json.dumps(schema))
        except NarrowsError as error:  # no string has all of these
            assert error.code == "unsatisfiable"  # noqa: PT017
    assert len(limits) <= runs // 200, limits
