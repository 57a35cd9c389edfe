"""What does one construct of JSON Schema cost? A row for each, for narrows and for the peers that take it.

    python bench/constructs.py                         # peers that are not installed are left out
    python bench/constructs.py --tokenizer llama3_1 --json

Each schema holds one construct, as large as people have it. An instance of it is replayed in the tokenizer's tokens:
fill the mask, check that the token is in it, accept it. "compile" is the median of five compilations of schemas that
differ in a description alone; "first" the first mask; then the masks of the first replay. Times are CPU microseconds of
the Python call. "KiB" is what narrows' constraint holds after the replay, without what its vocabulary shares.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import masks
import peers

KEYS = [f"key_{k}" for k in range(30)]


def disjoint_by_chance(k: int) -> dict[str, Any]:
    """A branch that overlaps with the next one."""
    return {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": k, "maximum": k + 1}},
        "required": ["n"],
    }


CONSTRUCTS: dict[str, tuple[dict[str, Any], Any]] = {
    "a closed map by pattern": (
        {
            "type": "object",
            "patternProperties": {"^[a-z]{2,8}_[0-9]+$": {"type": "integer"}},
            "additionalProperties": False,
        },
        {f"name_{k}": k for k in range(30)},
    ),
    "30 keys in declared order": (
        {"type": "object", "properties": {key: {"type": "integer"} for key in KEYS}, "additionalProperties": False},
        dict.fromkeys(KEYS, 1),
    ),
    "30 keys in any order": (
        {"type": "object", "properties": {key: {"type": "integer"} for key in KEYS}, "required": KEYS[:10],
         "additionalProperties": False},
        dict.fromkeys(KEYS[::-1], 1),
    ),
    "30 keys in any order, 5 to 20 of them": (
        {"type": "object", "properties": {key: {"type": "integer"} for key in KEYS}, "required": KEYS[:3],
         "additionalProperties": False, "minProperties": 5, "maxProperties": 20},
        dict.fromkeys(KEYS[19::-1], 1),
    ),
    "uniqueItems of 100 strings": (
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 128},
        [f"value {k * 7}" for k in range(100)],
    ),
    "uniqueItems of 30 objects": (
        {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type":
         "string"}}, "required": ["id", "name"], "additionalProperties": False}, "uniqueItems": True, "maxItems": 99},
        [{"id": k, "name": f"name {k}"} for k in range(30)],
    ),
    "not of an object": (
        {"type": "object", "properties": {"kind": {"type": "string"}, "size": {"type": "integer"}},
         "not": {"properties": {"kind": {"const": "large"}, "size": {"maximum": 10}}, "required": ["kind", "size"]}},
        {"kind": "large", "size": 11},
    ),
    "oneOf of 20 that overlap": (
        {"oneOf": [disjoint_by_chance(2 * k) for k in range(20)]},
        {"n": 30},
    ),
    "three keys that only patterns describe": (
        {"type": "object", "allOf": [{"not": {"patternProperties": {pattern: {"type": "string"}}}} for pattern in
         ("^a", "b$", "c.*c")]},
        {"first": "s", "ax": 1, "second": 2, "xb": 3, "cc": 4},
    ),
    "contains": (
        {"type": "array", "items": {"type": "string"}, "contains": {"pattern": "^x-"}, "minContains": 2},
        ["a", "x-1", "b", "x-2", "c"],
    ),
    "unevaluatedProperties": (
        {"type": "object", "allOf": [{"properties": {key: {"type": "integer"}}} for key in KEYS[:10]],
         "unevaluatedProperties": False},
        dict.fromkeys(KEYS[:10], 1),
    ),
}  # fmt: skip


class NarrowsAnyOrder(peers.Narrows):
    def compile(self, source: str, kind: str = "json_schema") -> Callable[[], peers.Session]:
        grammar = self.narrows.Grammar.from_json_schema(
            source, key_order="any" if "any order" in source else "declared"
        )
        self.constraint = self.vocabulary.compile(grammar)
        return lambda: peers.NarrowsSession(self.constraint.matcher(), self.words)


@dataclass
class Row:
    compile: float
    first: float
    p50: float
    p99: float
    bytes: int | None


def measure(engine: peers.Engine, name: str, schema: dict[str, Any], tokens: list[int]) -> Row | str:
    compilations: list[float] = []
    times = masks.Times()
    for k in range(5):
        case = masks.Case(name, json.dumps({**schema, "description": f"{name}, {k}"}), [tokens] if k == 4 else [])
        times = masks.Times()
        masks.run(engine, case, times)
        if times.refused or times.wrong:
            return next(iter((times.refused | times.wrong).values()))
        compilations.append(times.compile[0] / 1e3)
    costs = sorted(time / 1e3 for time in times.mask)
    held = engine.constraint.bytes if isinstance(engine, NarrowsAnyOrder) else None
    first = (times.first_mask[0] - times.compile[0]) / 1e3
    return Row(
        statistics.median(compilations),
        first,
        costs[len(costs) // 2],
        costs[min(len(costs) - 1, len(costs) * 99 // 100)],
        held,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tokenizer", default="qwen3", help="a name from tests/support/real_tokenizers.py, or a folder"
    )
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    options = parser.parse_args()
    folder = peers.folder_of(options.tokenizer)
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    engines: list[peers.Engine] = []
    for make in (NarrowsAnyOrder, peers.LLGuidance, peers.XGrammar):
        try:
            engines.append(make(folder))
        except ImportError as error:
            print(f"{make.name} is left out: {error}", file=sys.stderr)
    for engine in engines:
        masks.run(engine, masks.Case("warm-up", '{"type": "boolean"}', []), masks.Times())
    results: dict[str, dict[str, Row | str]] = {}
    for name, (schema, instance) in CONSTRUCTS.items():
        tokens = tokenizer.encode(json.dumps(instance), add_special_tokens=False).ids
        results[name] = {engine.name: measure(engine, name, schema, tokens) for engine in engines}
    if options.json:
        print(
            json.dumps(
                {
                    name: {e: r if isinstance(r, str) else asdict(r) for e, r in rows.items()}
                    for name, rows in results.items()
                }
            )
        )
        return
    print(f"{'':40}{'':12}{'compile':>10}{'first':>10}{'p50':>8}{'p99':>10}{'KiB':>8}   (us)")
    for name, rows in results.items():
        for engine_name, row in rows.items():
            if isinstance(row, str):
                print(f"{name:40}{engine_name:12}  {row[:70]}")
                continue
            held = "" if row.bytes is None else f"{row.bytes / 1024:,.0f}"
            numbers = f"{row.compile:>10,.0f}{row.first:>10,.0f}{row.p50:>8,.1f}{row.p99:>10,.1f}"
            print(f"{name:40}{engine_name:12}{numbers}{held:>8}")


if __name__ == "__main__":
    main()
