"""Real schemas with random changes: keywords swapped, numbers made large, parts nested, copied, or made references."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import jsonschema_rs

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
KEYWORDS = (
    "type properties required items prefixItems enum const anyOf oneOf allOf minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength "
    "pattern format minItems maxItems minProperties maxProperties additionalProperties patternProperties propertyNames not if then else contains uniqueItems"
).split()
NUMBERS = (0, 1, 2, 7, 40, 255, 1_000, 4_096, 65_536, 10**6, 10**9, 2**63, 10**39, -1, -(10**20), 0.1, 1e-7, 1e300)
PATTERNS = (
    "^[a-z]{1,200}$", "^([a-z0-9]{1,63}-?){1,20}$", "(a|b|ab)*c", "^(?!.*(foo|bar)).{5,100}$", r"^\w+@\w+\.\w{2,}$", "[0-9].*[a-z].*[A-Z]", "^(([a-z]{1,9}_?){1,9}-?){1,9}$",
    ".*.*.*x", "^(.{0,40}a){0,40}$", "^\\p{L}{1,300}$",
)  # fmt: skip
FORMATS = ("email", "uri", "date-time", "ipv6", "hostname", "uuid", "idn-email", "iri", "json-pointer", "regex")
Place = tuple[Any, Any]
"""A container and a key or index in it."""


def sources() -> list[Any]:
    """Schemas that people write (bench/schemas), and those of the tests' cases."""
    schemas = []
    for path in sorted((ROOT / "bench" / "schemas").glob("*.json")):
        schemas += [case["schema"] for case in json.loads(path.read_text())]
    for path in sorted((ROOT / "tests" / "cases" / "json_schema").glob("*.toml")):
        schemas += [json.loads(case["schema"]) for case in tomllib.loads(path.read_text()).get("case", [])]
    return [schema for schema in schemas if isinstance(schema, dict) and schema]


def places(schema: Any) -> list[Place]:
    parts: list[Place] = []
    left = [schema]
    while left:
        here = left.pop()
        items = here.items() if isinstance(here, dict) else enumerate(here)
        for key, value in items:
            parts.append((here, key))
            if isinstance(value, (dict, list)):
                left.append(value)
    return parts


def _swap(rng: Random, schema: Any, parts: list[Place]) -> None:
    """A keyword becomes another keyword."""
    at, key = rng.choice(parts)
    if isinstance(at, dict):
        at[rng.choice(KEYWORDS)] = at.pop(key)


def _number(rng: Random, schema: Any, parts: list[Place]) -> None:
    numbers = [(at, key) for at, key in parts if type(at[key]) in (int, float)]
    if numbers:
        at, key = rng.choice(numbers)
        at[key] = rng.choice(NUMBERS)
    else:
        _add(rng, schema, parts)


def _add(rng: Random, schema: Any, parts: list[Place]) -> None:
    """A keyword is added."""
    objects = [at[key] for at, key in parts if isinstance(at[key], dict)] + [schema]
    more: dict[str, Any] = {
        "maxLength": rng.choice(NUMBERS), "minLength": rng.choice(NUMBERS), "pattern": rng.choice(PATTERNS), "format": rng.choice(FORMATS),
        "maxItems": rng.choice(NUMBERS), "minItems": rng.choice(NUMBERS), "minimum": rng.choice(NUMBERS), "maximum": rng.choice(NUMBERS),
        "multipleOf": rng.choice(NUMBERS), "additionalProperties": {}, "enum": [f"value {i * 7919}" for i in range(rng.choice((3, 300, 5_000)))],
        "required": [f"k{i}" for i in range(rng.choice((1, 20, 500)))], "minProperties": rng.choice((1, 5, 50)),
    }  # fmt: skip
    name = rng.choice(list(more))
    rng.choice(objects)[name] = more[name]


def _nest(rng: Random, schema: Any, parts: list[Place]) -> None:
    """A part moves some levels down."""
    at, key = rng.choice(parts)
    for _ in range(rng.choice((1, 3, 20, 60))):
        part = at[key]
        at[key] = rng.choice(
            [
                {"type": "array", "items": part},
                {"properties": {"x": part}},
                {"anyOf": [part, {"type": "null"}]},
                {"allOf": [part]},
            ]
        )


def _double(rng: Random, schema: Any, parts: list[Place]) -> None:
    """A part is copied several times."""
    at, key = rng.choice(parts)
    times = rng.choice((2, 10, 100))
    if isinstance(at, list):
        at.extend(copy.deepcopy(at[key]) for _ in range(times))
    elif isinstance(at[key], dict) and rng.random() < 0.5:
        at[key] = {rng.choice(("anyOf", "oneOf", "allOf")): [copy.deepcopy(at[key]) for _ in range(times)]}
    else:
        for i in range(times):
            at[f"{key}{i}"] = copy.deepcopy(at[key])


def _refer(rng: Random, schema: Any, parts: list[Place]) -> None:
    """A part becomes a reference to another part, or to a part around it."""
    at, key = rng.choice(parts)
    target, name = rng.choice(parts)
    definitions = schema.setdefault("$defs", {})
    if isinstance(definitions, dict):
        label = f"m{len(definitions)}"
        definitions[label] = copy.deepcopy(target[name])
        at[key] = {"$ref": rng.choice(("#", *(f"#/$defs/{name}" for name in definitions)))}


CHANGES: tuple[Callable[[Random, Any, list[Place]], None], ...] = (_swap, _number, _add, _nest, _double, _refer)
MOST_CHARACTERS = 200_000


def mutated(seed: int, schemas: list[Any]) -> Any:
    """One of the schemas with one to six changes. Nine of ten are still schemas: others are refused early and test
    little."""
    rng = Random(seed)
    schema = copy.deepcopy(rng.choice(schemas))
    sound = rng.random() < 0.9
    remaining = rng.randint(1, 6)
    for _ in range(20):
        changed = copy.deepcopy(schema)
        rng.choice(CHANGES)(rng, changed, places(changed))
        if len(json.dumps(changed)) > MOST_CHARACTERS or (sound and not _is_schema(changed)):
            continue
        schema, remaining = changed, remaining - 1
        if not remaining:
            break
    return schema


def _is_schema(value: Any) -> bool:
    try:
        return jsonschema_rs.meta.is_valid(value)
    except (ValueError, jsonschema_rs.ReferencingError):  # an unknown `$schema`
        return False
