"""Part b: one feature of JSON Schema at a time, each with a small schema and instances.

Before each schema the engine's vocabulary is made anew, so that a feature pays for itself and not for those before it.
Cost: some minutes.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from first_sight.workers import Worker

LONG = "The quick brown fox jumps over the lazy dog; 12 naïve cafés said \\ and / to it. "


def words(length: int) -> str:
    """Ordinary text of so many characters."""
    return (LONG * (length // len(LONG) + 1))[:length]


def strings(**keywords: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", **keywords}}


def keyed(properties: dict[str, Any], required: list[str] | None = None, **keywords: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
        **keywords,
    }


NODE = {
    "$defs": {
        "node": keyed(
            {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, ["name"]
        ),
    },
    "$ref": "#/$defs/node",
}
TREE = {
    "name": "root",
    "children": [{"name": "a", "children": [{"name": "b"}, {"name": "c", "children": []}]}, {"name": "d"}],
}
SHARED = {
    "$defs": {
        "money": keyed({"amount": {"type": "number"}, "currency": {"enum": ["EUR", "USD", "JPY"]}}),
        "place": keyed({"street": {"type": "string"}, "city": {"type": "string"}}),
        "party": keyed({"name": {"type": "string"}, "place": {"$ref": "#/$defs/place"}}),
    },
    **keyed({"from": {"$ref": "#/$defs/party"}, "to": {"$ref": "#/$defs/party"}, "sum": {"$ref": "#/$defs/money"}}),
}
PARTY = {"name": "Ann Lee", "place": {"street": "5 High Street", "city": "Zürich"}}
VALUES = [f"{colour} {thing} {n}" for n in range(20) for colour in ("red", "blue", "green", "pale", "dark")
          for thing in ("car", "house", "tree", "lamp", "shirt")]  # fmt: skip
BRANCHES = {
    "anyOf": [
        keyed({"kind": {"const": f"event_{n}"}, f"field_{n}": {"type": ["string", "integer", "boolean"][n % 3]}})
        for n in range(30)
    ]
}
OPTIONAL = [f"{word}_{n}" for n in range(40) for word in ("size", "colour", "weight", "name", "state")]
KINDS: list[dict[str, Any]] = [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"type": "number"}]
OPEN = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}, "required": ["id"]}

FORMATS: dict[str, list[str]] = {
    "email": ["ann.lee@example.org", "first+tag@mail.example.co.uk"],
    "uri": ["https://example.org/a/b?q=1&r=%20x#top", "mailto:ann@example.org"],
    "date-time": ["2026-11-24T23:59:59Z", "2024-02-29T08:15:00.25+01:00"],
    "date": ["2026-11-24", "2024-02-29"],
    "time": ["23:59:59Z", "08:15:00.25+01:00"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000"],
    "ipv4": ["192.168.0.1", "8.8.8.8"],
    "ipv6": ["2001:db8::8a2e:370:7334", "fe80::1"],
    "hostname": ["example.org", "a-b.mail.example.co.uk"],
}
PATTERNS: dict[str, list[str]] = {
    r"\.(js|ts)$": ["src/index.ts", "lib/some-module.test.js"],
    "^(foo|bar)-.*$": ["foo-some text of any kind", "bar-"],
    "^[a-z0-9-]+$": ["a-name-of-lower-case-letters", "42"],
    r"^[A-Z]{2}\d{4}$": ["AB1234", "XY0000"],
    r"^\w+(\s\w+)*$": ["some words of any letters", "one"],
    r"^v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$": ["v1.20.300", "0.1.0-beta.2"],
    "^[^/]+(/[^/]+)*$": ["a path/of any/characters é"],
}

FEATURES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "strings": (strings(), [[words(70), "é\n\"quoted\" \\ 日本", ""], [words(200)]]),
    **{f"maxLength {n:,}": (strings(maxLength=n), [[words(n)], [words(n // 2), "", words(n // 3)]])
       for n in (10, 100, 1000)},
    "minLength 5, maxLength 64": (strings(minLength=5, maxLength=64), [[words(64), words(5), words(40)]]),
    **{f"pattern `{pattern}`": (strings(pattern=pattern), [values]) for pattern, values in PATTERNS.items()},
    **{f"format {name}": (strings(format=name), [values]) for name, values in FORMATS.items()},
    "enum of 10": ({"type": "array", "items": {"enum": VALUES[:10]}}, [VALUES[:10]]),
    "enum of 500": ({"type": "array", "items": {"enum": VALUES}}, [VALUES[::25]]),
    "integers 1 to 5,000": (
        {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 5000}}, [[1, 17, 999, 4321, 5000]]),
    "numbers -90.5 to 90.5": (
        {"type": "array", "items": {"type": "number", "minimum": -90.5, "maximum": 90.5}}, [[-90.5, 0, 12.25, 90.499]]),
    "a tree by $ref": (NODE, [TREE]),
    "shared definitions by $ref": (SHARED, [{"from": PARTY, "to": PARTY, "sum": {"amount": 12.5, "currency": "EUR"}}]),
    "anyOf of 30 branches": (
        BRANCHES, [{"kind": f"event_{n}", f"field_{n}": ["some text", 17, True][n % 3]} for n in (0, 13, 29)]),
    "200 optional keys": (
        keyed({key: KINDS[n % 4] for n, key in enumerate(OPTIONAL)}, []),
        [{key: ["text", 17, True, 1.5][n % 4] for n, key in enumerate(OPTIONAL) if n % 7 == 0}]),
    "an open object": (OPEN, [{"id": 1, "name": "x", "other": [1, {"deep": None}], "more text": "y", "n": -1.5e3}]),
    "a map by pattern": (
        {"type": "object", "patternProperties": {"^[a-z]{2,8}_[0-9]+$": {"type": "integer"}},
         "additionalProperties": False}, [{f"name_{n}": n for n in range(20)}]),
}  # fmt: skip


def run(workers: dict[str, Worker], tokenizer: Any) -> dict[str, Any]:
    """Per feature and engine, the answer of worker.definition."""
    rows: dict[str, Any] = {}
    for name, (schema, instances) in FEATURES.items():
        texts = [
            tokenizer.encode(json.dumps(instance, ensure_ascii=False), add_special_tokens=False).ids
            for instance in instances
        ]
        request = {"source": json.dumps(schema), "kind": "json_schema", "texts": texts, "again": False}
        for worker in workers.values():
            worker.renew()
        rows[name] = {engine: short(worker.ask("definition", **request)) for engine, worker in workers.items()}
        print(name, file=sys.stderr, flush=True)
    return rows


def short(answer: dict[str, Any]) -> dict[str, Any]:
    """What a table shows of an answer of worker.definition, in microseconds."""
    if "first" not in answer:
        return answer
    masks = answer["masks"]
    return {
        "first": answer["first"] / 1e3,
        "mean": sum(masks) / len(masks) / 1e3,
        "max": max(masks) / 1e3,
        "tokens": len(masks),
        "wrong": answer["wrong"],
    }
