"""Where the cases lie, and what they are compared with."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = Path(__file__).parents[2] / "cases" / "json_schema"
VALIDATORS = {
    "2020-12": jsonschema_rs.Draft202012Validator,
    "2019-09": jsonschema_rs.Draft201909Validator,
    "draft7": jsonschema_rs.Draft7Validator,
    "draft4": jsonschema_rs.Draft4Validator,
}
FORMATS: dict[str, Any] = tomllib.loads((CASES / "formats.toml").read_text())["format"]


def has_validator(case: dict[str, Any]) -> bool:
    """Not so for OpenAPI, and for numbers that a validator would round."""
    return case.get("dialect", "2020-12") in VALIDATORS and "invalid_here" not in case


def validator(case: dict[str, Any]) -> Any:
    """The validator of a case, with the other documents that it names."""
    make, schema = VALIDATORS[case.get("dialect", "2020-12")], json.loads(case["schema"])
    resources = case.get("options", {}).get("resources")
    if not resources:
        return make(schema)
    others = [(address, json.loads(text)) for address, text in resources.items()]
    others += [(schema["$id"], schema)] if "$id" in schema else []
    return make(schema, registry=jsonschema_rs.Registry(others))


def load(kind: str, only: Callable[[dict[str, Any]], bool] = lambda case: True) -> list[Any]:
    """The cases of a kind ("case", "error") in all files, as parameters."""
    found = []
    for path in sorted(CASES.glob("*.toml")):
        for k, case in enumerate(tomllib.loads(path.read_text()).get(kind, [])):
            name = case.get("name") or f"{k}:{case['schema'][:40]}"
            if only(case):
                found.append(pytest.param(case, id=f"{path.stem}: {name}"))
    return found
