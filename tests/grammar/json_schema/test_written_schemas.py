"""The schemas that Zod, Pydantic, TypeBox and FastMCP write for ordinary code: none is refused, and what is generated is
valid. tests/support/written_schemas has the types, and writes these files."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema_rs
import pytest
from schema_cases import CASES
from test_schema_engine import VOCABULARY, generate

import narrows
from narrows.errors import GrammarError

SCHEMAS = {
    f"{file.stem}: {name}": schema
    for file in sorted((CASES / "written").glob("*.json"))
    for name, schema in json.loads(file.read_text(encoding="utf-8")).items()
}
IMPOSSIBLE = {
    "zod_3: intersection with a union (jsonSchema7)",
    "zod_4: intersection (output, draft-2020-12)",
    "zod_4: intersection of three (output, draft-2020-12)",
    "zod_4: intersection with a union (output, draft-2020-12)",
}
"""Closed objects, of which each asks for a key that the other forbids: no value satisfies these, as Zod writes them."""


def judge_of(schema: Any) -> Any:
    """The validator of the draft that is meant, where that is not the one that is named; without what is an annotation
    to us (`contentEncoding`), and without times, which have no offset for Zod."""
    text = json.dumps(schema)
    schema = json.loads(
        text.replace('"contentEncoding"', '"x-encoding"').replace('"format": "time"', '"title": "time"')
    )
    if '"exclusiveMinimum": true' in text or '"exclusiveMaximum": true' in text:
        return jsonschema_rs.Draft4Validator({**schema, "$schema": "http://json-schema.org/draft-04/schema#"})
    if '"additionalItems": false' in text:
        return jsonschema_rs.Draft7Validator(schema, validate_formats=True)
    return jsonschema_rs.validator_for(schema, validate_formats=True)


def test_there_are_many() -> None:
    assert len(SCHEMAS) >= 400


@pytest.mark.parametrize("key_order", ["declared", "any"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_it_is_taken_and_kept_to(name: str, key_order: str) -> None:
    schema: Any = SCHEMAS[name]
    if name in IMPOSSIBLE:
        with pytest.raises(GrammarError) as error:
            VOCABULARY.compile(narrows.Grammar.from_json_schema(schema, key_order=key_order))
        assert error.value.code == "unsatisfiable"
        return
    constraint = VOCABULARY.compile(narrows.Grammar.from_json_schema(schema, key_order=key_order))
    judge = judge_of(schema)
    choose = random.Random(1)
    for _ in range(3):
        text = generate(constraint.matcher(), choose, 30)
        assert judge.is_valid(json.loads(text)), text
