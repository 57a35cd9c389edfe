"""Masks against steps: a token is in a mask exactly if the matcher accepts it.

Masks come from records of what stays inside a text, which are made from one another: of counted characters, of text
without some keys, of patterns that are like a text, of alternations. A step reads bytes, and knows no records.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import numpy as np
import pytest
import tomllib
from masks_and_steps import check, vocabulary

import narrows

CASES = tomllib.loads((Path(__file__).parents[1] / "cases" / "records.toml").read_text(encoding="utf-8"))["case"]


def tokens() -> list[bytes]:
    """All bytes, and some thousand pieces of texts as tokenizers have them: words, marks, and what joins the two."""
    rng = Random(7)
    letters, marks = (
        "etaoinshrdlucmfwygpbvk",
        [",", ":", "}", "]", '"', "{", "[", " ", "-", "@", ".", "/", "\\n", "\\", "=", "("],
    )
    found = {bytes([b]) for b in range(256)}
    for _ in range(900):
        word = "".join(rng.choices(letters, k=rng.randint(2, 9)))
        found.add(rng.choice(["", " ", '"', "-", "_"]).encode() + word.encode())
        found.add((word + rng.choice(marks)).encode())
    for _ in range(700):
        found.add("".join(rng.choices(marks, k=rng.randint(2, 5))).encode())
        found.add("".join(rng.choices("0123456789abcdef", k=rng.randint(2, 8))).encode())
        found.add("".join(rng.choices("äöüßéñ中文字あいう🎉", k=rng.randint(1, 4))).encode())
    found |= {
        "é".encode() + b'"',
        "中".encode() + b'",',
        b"\\u00",
        b'\\u00e9"',
        "文".encode()[:2],
        b'n"',
        b'"u',
        b'"n',
        b"\\\\",
        b'name":',
        b'""',
        b'"}',
    }
    return sorted(found)


VOCABULARIES = {"many": tokens(), "bytes": [bytes([b]) for b in range(256)]}
"""The masks of the second fit nine words: more tokens than that are many."""


@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_mask_has_exactly_the_tokens_that_a_step_takes(case: dict[str, object], kind: str) -> None:
    tokens = VOCABULARIES[kind]
    shared = vocabulary(tokens)
    schemas = [json.loads(schema) for schema in case["schemas"]]  # one after the other: later ones use earlier records
    rng = Random(3)
    most = 0
    for schema in schemas:
        constraint = shared.compile(narrows.Grammar.from_json_schema(schema, whitespace="compact"))
        for text in case["texts"]:
            matcher = constraint.matcher()
            if matcher.accept_bytes(text.encode()):
                most = max(most, check(constraint, tokens, text.encode(), rng))
    assert most > len(tokens) // 6, "no place of these texts has a text's record"


def test_many_short_lists_are_one_mask() -> None:
    """Each key is a terminal of its own with one token: together they are more than the mask has words."""
    letters = "abcdefghijklmnopqrst"
    schema = {"properties": {letter: {"type": "null"} for letter in letters}, "additionalProperties": False}
    tokens = VOCABULARIES["bytes"]
    for text in (b'{"b":null,"a":null,"t":null}', b'{"c":null}'):
        grammar = narrows.Grammar.from_json_schema(schema, whitespace="compact", key_order="any")
        assert check(vocabulary(tokens).compile(grammar), tokens, text, Random(3)) == len(letters)


def test_two_terms_of_one_language_are_each_like_the_other() -> None:
    """The record of one was made beside that of the other, and that one beside the first, without an end."""
    texts = 'a b c x y 0 1 2 5 9 é { } [ ] : , - \\ n {" "} ": ", ab ba true false null }] [[ 10 25 a-b \\n a" "a": xy'
    tokens = [*(text.encode() for text in texts.split()), b" ", b"\n", b"\t", b'"', b'": ', b'", "']
    vocab = narrows.Vocabulary(tokens)
    row = np.zeros(2, np.int32)
    ways = {
        r"(?s:([ab]([ab]?.+[^a]+|x){1,3}\n*|-*.*){1,3})": ["{"],
        r"(?s:(( |[ab]+.{2})?(\n+|[^a]*){2,}(.{2}b?|é*b+)*|.?){2}((-*[^a]+| )?|(x{1,3}a{2}.?|.)))": "a-b a".split(),
    }
    for pattern, parts in ways.items():
        matcher = vocab.compile(narrows.Grammar.from_regex(pattern, "ecma")).matcher()
        for part in ["", *parts, '"a":\n']:
            assert part == "" or matcher.accept_bytes(part.encode())
            matcher.fill_mask(row)
        allowed = [token for token in range(vocab.size) if row[token // 32] >> (token % 32) & 1]
        assert allowed == [token for token in range(vocab.size) if matcher.fork().accept(token)]
