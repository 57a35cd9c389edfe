"""Arrays of different items, which are compared as a whole or by their heads: the engine's masks equal the oracle's, no
text comes to where it cannot go on, and what is generated is valid."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import jsonschema_rs
import numpy as np
import pytest
import random_grammars
from test_masks import Oracle, Walk

import narrows
from narrows.grammar.json_schema import schema_module

PIECES: list[bytes | None] = [
    *(bytes((b,)) for b in b'"ab\\,:[]{}01. '),
    *(
        b'"a"',
        b'"b":',
        b'":',
        b'{"a":',
        b"[[",
        b"]]",
        b"[]",
        b"{}",
        b"},{",
        b'","',
        b", ",
        b'": ',
        b'},{"a":[',
        b"\\u0061",
    ),
]
END = len(PIECES)
NODE = {
    "type": "object",
    "properties": {
        "a": {"enum": [0, 1]},
        "b": {"type": "array", "items": {"$ref": "#/$defs/node"}, "uniqueItems": True},
    },
    "additionalProperties": False,
}
SCHEMAS: dict[str, Any] = {
    "anything": {},
    "maps": {"type": "object", "additionalProperties": {"enum": [0, 1, []]}},
    "nested without end": {"$ref": "#/$defs/node"},
    "unique arrays": {"type": "array", "items": {"enum": [0, 1, 10]}, "uniqueItems": True},
    "few heads": {"type": "object", "properties": {"a": {"type": "object"}, "b": {}}, "additionalProperties": False},
    "two orders of keys": {
        "anyOf": [
            {"type": "object", "properties": {"a": {"const": 0}, "b": True}, "additionalProperties": False},
            {"type": "object", "properties": {"b": True, "a": {"const": 1}}, "additionalProperties": False},
            {"enum": [{"b": 0, "a": 0}, [{"b": 0, "a": 0}], [{"a": 0, "b": 0}]]},
        ]
    },
}


def array(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": SCHEMAS[name], "uniqueItems": True, "$defs": {"node": NODE}, **more}


@pytest.mark.parametrize("whitespace", ["compact", "json.dumps"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_masks_equal_the_oracle(name: str, whitespace: str) -> None:
    vocab = random_grammars.Vocabulary([*PIECES, b""], {}, [END])
    compiled = narrows.Vocabulary(vocab.tokens, eos=vocab.eos)
    for seed in range(2):
        rng = Random(seed)
        made = schema_module(array(name, minItems=rng.randint(0, 2), maxItems=4), whitespace=whitespace).module
        walker = Walk(compiled.compile(narrows.Grammar(made)), Oracle(made, vocab), rng)
        for _ in range(10):
            if not walker.step():
                break


@pytest.mark.parametrize("key_order", ["declared", "any"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_what_is_generated_is_valid(name: str, key_order: str) -> None:
    schema = array(name, minItems=2)
    judge = jsonschema_rs.Draft202012Validator(schema)
    vocabulary = narrows.Vocabulary([*PIECES, b""], eos=[END])
    constraint = vocabulary.compile(narrows.Grammar.from_json_schema(schema, key_order=key_order))
    row = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)
    for seed in range(12):
        rng, text, matcher = Random(seed), bytearray(), constraint.matcher()
        while len(text) < 60 and not matcher.is_finished:
            matcher.fill_mask(row)
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
            assert len(allowed), bytes(text)
            token = int(rng.choice(allowed))
            assert matcher.accept(token)
            text += PIECES[token] or b"" if token < END else b""
        if not matcher.is_finished:
            end = matcher.shortest_end()
            assert all(matcher.accept(token) for token in end), bytes(text)
            assert matcher.is_accepting
            text += b"".join(PIECES[token] or b"" for token in end if token < END)
        assert judge.is_valid(json.loads(text)), bytes(text)


def test_the_shortest_end_leaves_out_what_has_been_read() -> None:
    schema = {
        "type": "array",
        "items": {"type": ["null", "string"], "minLength": 5},
        "minItems": 3,
        "uniqueItems": True,
    }
    vocabulary = narrows.Vocabulary([*(bytes([b]) for b in range(256)), b""], eos=[256])
    constraint = vocabulary.compile(narrows.Grammar.from_json_schema(schema, whitespace="compact"))
    for begin in (b"", b"[", b"[null", b"[null,"):
        matcher = constraint.matcher()
        assert matcher.accept_bytes(begin)
        end = b"".join(bytes((token,)) for token in matcher.shortest_end() if token < 256)
        assert matcher.accept_bytes(end), begin + end
        assert matcher.is_accepting


@pytest.mark.parametrize(
    ("more", "begins"),
    [
        ({"contains": {"type": "array"}, "items": {"enum": [[], 1.5, {}]}}, ["[{}", "[1.5", "[[],{},", "[{},[],"]),
        ({"contains": {"const": []}, "items": {"enum": [[], 1, 2, 3]}}, ["[[],3,", "[1,[],", "[3,1", "[1,"]),
        ({"contains": {"const": 2}, "maxItems": 4}, ["[2,", "[2,-1928,", '[2,false,[{"UR', '["', "[3"]),
        ({"contains": {"const": 2}}, ["[2,", "[3,2,", "[[2],2,"]),
        (
            {"items": {"enum": [1, 2, 3, "a"]}, "allOf": [{"contains": {"const": 2}}, {"contains": {"const": 3}}]},
            ["[2,", "[3,2,", "[2,3,", "[1", '["a",', '["a",3,'],
        ),
    ],
    ids=str,
)
def test_an_end_is_found_where_the_nearest_reading_has_none(more: dict[str, Any], begins: list[str]) -> None:
    """An item that counts may also be read as one that does not: then the names for what is missing are used up."""
    schema = {"type": "array", "uniqueItems": True, **more}
    judge = jsonschema_rs.Draft202012Validator(schema)
    vocabulary = narrows.Vocabulary([*(bytes([b]) for b in range(256)), b""], eos=[256])
    constraint = vocabulary.compile(narrows.Grammar.from_json_schema(schema))
    for begin in begins:
        matcher = constraint.matcher()
        assert matcher.accept_bytes(begin.encode())
        text = begin.encode() + b"".join(bytes((token,)) for token in matcher.shortest_end() if token < 256)
        assert judge.is_valid(json.loads(text)), text


IMPOSSIBLE_SETS: list[dict[str, Any]] = [
    {"minItems": 2, "items": {"const": 2}},
    {"minItems": 2, "items": {"type": "array", "maxItems": 1, "items": {"const": 2}, "minItems": 1}},
    {"minItems": 1, "items": {"type": "array", "contains": {"const": 1}, "items": {"const": 2}}},
    {"minItems": 2, "items": {"enum": [1, [2]]}, "contains": {"const": 3}},
]


def set_of_null_or(other: dict[str, Any]) -> dict[str, Any]:
    items = {"anyOf": [{"type": "null"}, {"type": "array", "uniqueItems": True, **other}]}
    return {"type": "array", "items": items, "uniqueItems": True}


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (
            {"oneOf": [{"type": "integer", "multipleOf": 7}, {"type": "null"}, {"multipleOf": 7, "type": "integer"}]},
            "[null",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "object"}}, "additionalProperties": False},
            '[{},{"a":{"b":1}}',
        ),
        ({"enum": [{"a": 1, "b": 2}, {"b": 2, "a": 1}]}, '[{"a":1,"b":2}'),
        (
            {
                "type": "array",
                "items": {"type": ["null", "array"], "contains": {"const": 1}, "items": {"const": 2}},
                "uniqueItems": True,
            },
            "[[],[null]",
        ),
        *((set_of_null_or(impossible), "[[],[null]") for impossible in IMPOSSIBLE_SETS),
    ],
    ids=str,
)
def test_a_comma_comes_only_where_another_item_is_left(items: Any, text: str) -> None:
    schema = {"type": "array", "items": items, "uniqueItems": True}
    vocabulary = narrows.Vocabulary([*(bytes([b]) for b in range(256)), b""], eos=[256])
    matcher = vocabulary.compile(narrows.Grammar.from_json_schema(schema, whitespace="compact")).matcher()
    assert matcher.accept_bytes(text.encode())
    row = np.zeros((257 + 31) // 32, dtype=np.int32)
    matcher.fill_mask(row)
    allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
    assert allowed.tolist() == [ord("]")]
