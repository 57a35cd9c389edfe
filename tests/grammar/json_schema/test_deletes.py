"""Each keyword at each shape of node: it refuses what it should, and without it the same value is allowed."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from schema_cases import CASES, tomllib
from test_schema_engine import VOCABULARY

import narrows
from narrows.grammar.json_schema.families import references
from narrows.grammar.json_schema.keywords import FAMILIES

DATA: dict[str, Any] = tomllib.loads((CASES / "deletes.toml").read_text(encoding="utf-8"))
SHAPES: list[dict[str, str]] = DATA["shape"]
SHORT = {"type": "string", "maxLength": 1}


def placed(shape: dict[str, str], schema: dict[str, Any]) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(shape["schema"].replace("SCHEMA", json.dumps(schema)))
    whole.setdefault("$defs", {"short": SHORT})
    return whole


def accepts(schema: dict[str, Any], key_order: str, text: str) -> bool:
    grammar = narrows.Grammar.from_json_schema(schema, whitespace="compact", key_order=key_order)
    matcher = VOCABULARY.compile(grammar).matcher()
    return matcher.accept_bytes(text.encode()) and matcher.is_accepting


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["name"])
def test_deletes(shape: dict[str, str]) -> None:
    decided = 0
    for case in DATA["keyword"]:
        keyword, schema = case["keyword"], json.loads(case["schema"])
        without = {name: value for name, value in schema.items() if name != keyword}
        wrong, right = (shape["value"].replace("VALUE", case[side]) for side in ("wrong", "right"))
        judged: list[bool] = []
        for whole, text in ((schema, wrong), (without, wrong), (schema, right)):
            document = placed(shape, whole)
            judge = jsonschema_rs.Draft202012Validator(document, validate_formats=True)
            judged.append(judge.is_valid(json.loads(text)))
            for key_order in ("declared", "any"):
                where = f"{keyword}, keys {key_order}: {text} under {document}"
                assert accepts(document, key_order, text) is judged[-1], where
        decided += judged == [False, True, True]
    assert decided == len(DATA["keyword"]), "with the keyword it is refused, and without it allowed"


def test_every_keyword_that_asserts_is_deleted() -> None:
    asserting = {keyword for family in FAMILIES if family.read is not None for keyword in family.keywords}
    elsewhere = {
        *("nullable", "additionalItems", "dependencies"),  # of other drafts
        *("if", "$dynamicRef", "$recursiveRef"),  # asserts nothing alone; need documents of their own
    }
    assert asserting - {case["keyword"] for case in DATA["keyword"]} - elsewhere - set(references.NAMES) == set()
