"""A tool's schema is read once and alike: what its grammar allows, the parser reads as values that the schema allows,
of the right JSON type.

Cases are data (tests/cases/formats/argument_schemas.toml), and each is tried in every format.
"""

from __future__ import annotations

import json
import sys
from random import Random
from typing import Any

import jsonschema_rs
import pytest
from matrix import some_pairs
from test_format_grammar import spell, vocabulary, walks
from transcripts import CASES, NAMES, naming

from narrows import formats

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCHEMAS: list[dict[str, Any]] = tomllib.loads((CASES / "argument_schemas.toml").read_text(encoding="utf-8"))["case"]


@pytest.mark.parametrize(
    ("name", "case"), some_pairs(NAMES, SCHEMAS), ids=lambda part: part if isinstance(part, str) else part["name"]
)
def test_grammar_and_parser_agree(name: str, case: dict[str, Any]) -> None:
    fmt = formats.get(name)
    tools = [{"name": "f", "parameters": json.loads(case["schema"])}]
    validator = jsonschema_rs.validator_for(json.loads(case.get("means", case["schema"])))
    grammar = fmt.grammar(tools, reasoning=None)
    constraint = vocabulary(name, False)[0].compile(grammar)
    for arguments in map(json.loads, case["arguments"] if name not in case.get("without", {}) else ()):
        assert validator.is_valid(arguments)
        text = fmt.render({"tool_calls": [{"function": {"name": "f", "arguments": arguments}}]})
        with naming(repr(text)):
            (call,) = fmt.parse(text, tools).tool_calls
            assert json.dumps(json.loads(call.arguments)) == json.dumps(arguments)  # 3 is neither 3.0 nor "3"
            matcher = constraint.matcher()
            assert matcher.accept_bytes(text.encode())
            assert matcher.is_accepting
    for ids in walks(name, grammar, False, 4, Random(f"{name} {case['name']}")):
        text = spell(name, ids, False)
        with naming(repr(text)):
            calls = fmt.parse(text, tools).tool_calls
            assert calls
            for call in calls:
                assert call.complete
                validator.validate(json.loads(call.arguments))
