"""Where the cases lie, and what they are compared with."""

from __future__ import annotations

import sys
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
    "draft7": jsonschema_rs.Draft7Validator,
    "openapi": None,  # nothing to compare with
}
FORMATS: dict[str, Any] = tomllib.loads((CASES / "formats.toml").read_text())["format"]


def load(kind: str) -> list[Any]:
    """The cases of a kind ("case", "error") in all files, as parameters."""
    found = []
    for path in sorted(CASES.glob("*.toml")):
        for k, case in enumerate(tomllib.loads(path.read_text()).get(kind, [])):
            name = case.get("name") or f"{k}:{case['schema'][:40]}"
            found.append(pytest.param(case, id=f"{path.stem}: {name}"))
    return found
