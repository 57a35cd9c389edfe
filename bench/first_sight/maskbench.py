"""Part a: real schemas, each seen for the first time, with the instances that are valid for it.

The schemas are those of MaskBench that have a valid instance. A seed picks some of them. The engines take turns, schema
by schema: each one alone works while the others wait, and each is first as often as the others.

Cost: with 1,000 schemas and four engines some hours, most of it the time limit of what does not end.
"""

from __future__ import annotations

import json
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from first_sight.workers import Worker

HOW_TO_GET = "git clone https://github.com/guidance-ai/jsonschemabench, then DATA=jsonschemabench/maskbench/data"


@dataclass
class Case:
    name: str
    schema: str
    texts: list[list[int]]
    """Tokens of each valid instance."""


def files_of(data: Path) -> list[Path]:
    """Raises SystemExit with what to do if the data set is not there."""
    files = sorted(data.glob("*.json")) if data.is_dir() else []
    if not files:
        raise SystemExit(f"no schemas in {str(data)!r}. Fetch MaskBench's: {HOW_TO_GET}")
    return files


def cases(data: Path, count: int, seed: int, tokenizer: Any) -> list[Case]:
    """`count` schemas with valid instances, written as `json.dumps` writes them."""
    files = files_of(data)
    random.Random(seed).shuffle(files)
    found: list[Case] = []
    for file in files:
        if len(found) == count:
            break
        content = json.loads(file.read_text(encoding="utf-8"))
        texts = [json.dumps(test["data"], ensure_ascii=False) for test in content["tests"] if test["valid"]]
        if texts:
            tokens = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
            found.append(Case(file.stem, json.dumps(content["schema"]), tokens))
    return found


def run(workers: dict[str, Worker], work: list[Case]) -> list[dict[str, Any]]:
    """Per schema, the answers of all engines (see worker.definition)."""
    names = list(workers)
    rows = []
    start = time.monotonic()
    for number, case in enumerate(work):
        turn = number % len(names)
        answers = {
            name: workers[name].ask("definition", source=case.schema, kind="json_schema", texts=case.texts)
            for name in names[turn:] + names[:turn]
        }
        tokens = [len(text) for text in case.texts]
        rows.append({"name": case.name, "tokens": tokens, "engines": {name: answers[name] for name in names}})
        if (number + 1) % 50 == 0:
            print(f"{number + 1} schemas in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return rows


# The summary.

QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


def summary(values: list[float]) -> dict[str, float]:
    """Mean and quantiles of nanoseconds, in microseconds. Nothing of nothing."""
    if not values:
        return {}
    ordered = sorted(values)
    at = {name: ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1e3 for name, share in QUANTILES.items()}
    return {"mean": sum(ordered) / len(ordered) / 1e3, **at}


def is_taken(answer: dict[str, Any]) -> bool:
    return "first" in answer


def is_complete(answer: dict[str, Any]) -> bool:
    """The engine took the schema and all its valid instances."""
    return is_taken(answer) and not answer["wrong"]


def per_token(answer: dict[str, Any]) -> list[int]:
    return [mask + accept for mask, accept in zip(answer["masks"], answer["accepts"], strict=True)]


def total(answer: dict[str, Any]) -> int:
    """Compilation and all masks and steps of all instances."""
    return int(answer["compile"] + sum(per_token(answer)))


def of_engine(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """What one engine did with those rows that it takes."""
    answers = [row["engines"][name] for row in rows]
    taken = [answer for answer in answers if is_taken(answer)]
    return {
        "schemas": len(taken),
        "tokens": sum(len(answer["masks"]) for answer in taken),
        "token": summary([time for answer in taken for time in per_token(answer)]),
        "first": summary([answer["first"] for answer in taken]),
        "again": summary([answer["again"] for answer in taken if "again" in answer]),
        "refused": sum("refused" in answer for answer in answers),
        "lost": sum("lost" in answer for answer in answers),
        "valid refused": sum(len(answer["wrong"]) for answer in taken),
        "schemas with a valid one refused": sum(bool(answer["wrong"]) for answer in taken),
    }


def beside(rows: list[dict[str, Any]], name: str, other: str) -> float | None:
    """The sum of `total` over the schemas that both take whole, as a ratio."""
    pairs = [(row["engines"][name], row["engines"][other]) for row in rows]
    both = [(total(a), total(b)) for a, b in pairs if is_complete(a) and is_complete(b)]
    return sum(a for a, _ in both) / sum(b for _, b in both) if both else None


def summaries(rows: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """Once over what each engine takes, once over what all of them take with every valid instance."""
    common = [row for row in rows if all(is_complete(row["engines"][name]) for name in names)]
    reference = "llguidance"
    result: dict[str, Any] = {}
    for title, some in (("each", rows), ("all", common)):
        result[title] = {name: of_engine(some, name) for name in names}
        for name in names:
            ratio = beside(some, name, reference) if reference in names else None
            result[title][name][f"total beside {reference}"] = ratio
    result["schemas"], result["common"] = len(rows), len(common)
    return result
