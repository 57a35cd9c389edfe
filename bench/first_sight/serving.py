"""Parts d and e: the same small schemas on vocabularies of different sizes, and what a server asks of an engine.

Cost: part d loads each engine once per vocabulary, some minutes in all. Part e takes a minute or two.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from first_sight import features
from first_sight.maskbench import per_token, summary
from first_sight.workers import Worker

SCHEMAS = Path(__file__).resolve().parents[1] / "schemas" / "everyday.json"
TOKENIZERS = ("llama2", "llama3_1", "deepseek_v3", "qwen3", "gptoss", "gemma3")
"""From 32,000 tokens to 262,000."""
COUNTS = [1, 8, 64, 512]
BESIDE = (r"pattern `^(foo|bar)-.*$`", "format uri", "enum of 500", "a tree by $ref", "an open object")
VARIANTS = 5
"""So many definitions of each kind, which differ in a description alone, so that there is time to wait in."""

Workers = Callable[[Path], AbstractContextManager[dict[str, Worker]]]


def entries() -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = json.loads(SCHEMAS.read_text(encoding="utf-8"))
    return content


def encoded(tokenizer: Any, value: Any) -> list[int]:
    ids: list[int] = tokenizer.encode(json.dumps(value, ensure_ascii=False), add_special_tokens=False).ids
    return ids


def vocabularies(workers: Workers, find: Callable[[str], Path]) -> dict[str, Any]:
    """Per tokenizer: its size, or why it is left out, and what each engine did."""
    from tokenizers import Tokenizer

    found: dict[str, Any] = {}
    for name in TOKENIZERS:
        try:
            folder = find(name)
        except Exception as error:  # no network, mostly
            found[name] = {"left out": str(error)}
            continue
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        with workers(folder) as started:
            found[name] = {
                "size": tokenizer.get_vocab_size(),
                "engines": {engine: on_vocabulary(worker, tokenizer) for engine, worker in started.items()},
            }
        print(name, file=sys.stderr, flush=True)
    return found


def on_vocabulary(worker: Worker, tokenizer: Any) -> dict[str, Any]:
    answers = []
    for entry in entries():
        texts = [encoded(tokenizer, instance) for instance in entry["instances"]]
        source = json.dumps(entry["schema"])
        answers.append(worker.ask("definition", source=source, kind="json_schema", texts=texts, again=False))
    taken = [answer for answer in answers if "first" in answer]
    return {
        "loading": worker.loading,
        "token": summary([time for answer in taken for time in per_token(answer)]),
        "first": summary([answer["first"] for answer in taken]),
        "schemas": len(taken),
        "wrong": sum(len(answer["wrong"]) for answer in taken),
    }


def operations(workers: dict[str, Worker], tokenizer: Any) -> dict[str, Any]:
    """Per engine, the answer of operations.all_of, and what loading cost."""
    chosen = max(entries(), key=lambda entry: max(len(json.dumps(instance)) for instance in entry["instances"]))
    text = encoded(tokenizer, max(chosen["instances"], key=lambda instance: len(json.dumps(instance))))
    request = {
        "source": json.dumps(chosen["schema"]),
        # The same schema with another description: an engine that keeps whole definitions has not seen it.
        "other source": json.dumps({**chosen["schema"], "description": "once more"}),
        "text": text,
        "counts": COUNTS,
        "others": [
            [
                json.dumps({**features.FEATURES[name][0], "description": f"variant {number}"}),
                encoded(tokenizer, features.FEATURES[name][1][0]),
            ]
            for number in range(VARIANTS)
            for name in BESIDE
        ],
    }
    answers = {}
    for name, worker in workers.items():
        answers[name] = {"loading": worker.loading, **worker.ask("operations", **request)}
        print(name, file=sys.stderr, flush=True)
    return answers
