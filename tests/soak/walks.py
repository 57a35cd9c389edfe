"""One process of `hostile.py`: compiles grammar after grammar, walks each, and prints the time of every call.

    python walks.py KIND < NUMBERS          KIND: grammar, schema, named

It prints one line of JSON per number: CPU seconds of the slowest call by name, how the walk ended, bytes held.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import hostile_grammars as grammars
import mutations
import numpy as np
import psutil

import narrows

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from real_tokenizers import folder

STEPS = 40
NAMED: dict[str, tuple[str, bytes]] = {
    "a sequence of 4,000 sets": (grammars.long_sequence(), b""),
    "doubling rules": (grammars.doubling(), b""),
    "14 KB of words with counters": (grammars.many_words(), b""),
    "300 rules that call each other": (grammars.many_rules(), b""),
    "recursion under counted repetitions": (grammars.CJK, b""),
    "an empty loop after whitespace": (grammars.SPACES, b" " * 2_048),
    "an ambiguous sum": (grammars.AMBIGUOUS, b"a" * 60),
    "counted dots": (grammars.DOTS, b""),
    "4 KB that grow": (grammars.growing(1), b""),
    "a chain of 100,000 rules": (grammars.chain(), b""),
    "the same, with branches": (grammars.chain(branching=True), b""),
}
"""Grammars, and a text that is read before the first mask."""


class Calls:
    """CPU seconds of this thread: the slowest of each call, and the error that ended the walk."""

    def __init__(self) -> None:
        self.slowest: dict[str, float] = {}
        self.count = 0
        self.error = ""
        self.raised_in = ""

    def __call__(self, name: str, call: Callable[[], Any]) -> Any:
        """The result of `call`. None where it raised, which ends the walk."""
        begun = time.thread_time()
        try:
            return call()
        except narrows.NarrowsError as error:
            self.error, self.raised_in = f"{error.code} {error.limit or ''}".strip(), name
            return None
        finally:
            spent = time.thread_time() - begun
            self.count += 1
            self.slowest["all calls together"] = self.slowest.get("all calls together", 0.0) + spent
            # A call that raises has its own name: it may take the time that it needs to meet its limit.
            key = f"{name}, raising" if self.raised_in else name
            self.slowest[key] = max(self.slowest.get(key, 0.0), spent)


def walk(
    vocabulary: narrows.Vocabulary, make: Callable[[], narrows.Grammar], text: bytes, seed: int
) -> tuple[Calls, Any]:
    calls = Calls()
    constraint = calls("compile", lambda: vocabulary.compile(make()))
    if constraint is None:
        return calls, None
    matcher, rng = constraint.matcher(), Random(seed)
    for at in range(0, len(text), 256):
        if calls("accept_bytes", lambda at=at: matcher.accept_bytes(text[at : at + 256])) is None:
            return calls, constraint
    row = np.zeros((vocabulary.size + 31) // 32, np.int32)
    for _ in range(STEPS):
        calls("fill_mask", lambda: matcher.fill_mask(row))
        if calls.error:
            break
        fitting = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        if not len(fitting):
            break
        token = int(rng.choice(fitting))
        if not calls("accept", lambda token=token: matcher.accept(token)):
            break
    return calls, constraint


def source(kind: str, number: str, schemas: list[Any]) -> tuple[Callable[[], narrows.Grammar], bytes, str]:
    """(a function that makes the grammar, the text to begin with, the grammar's own text)."""
    if kind == "schema":
        schema = mutations.mutated(int(number), schemas)
        text = json.dumps(schema)
        additional = ("standard", "declared")[int(number) % 2]
        return lambda: narrows.Grammar.from_json_schema(text, on_unsupported="ignore", additional=additional), b"", text
    text, begin = NAMED[number] if kind == "named" else (grammars.random_grammar(int(number)), b"")
    return lambda: narrows.Grammar.from_gbnf(text), begin, text


def main(kind: str, numbers: list[str]) -> None:
    vocabulary = narrows.Vocabulary.from_tokenizer_json(folder("llama3_1") / "tokenizer.json")
    own, schemas = psutil.Process(), mutations.sources()
    before = own.memory_info().rss
    for number in numbers:
        make, begin, text = source(kind, number, schemas)
        print(json.dumps({"begun": number, "cpu": time.process_time()}), flush=True)
        calls, constraint = walk(vocabulary, make, begin, len(text))
        stats = constraint.stats() if constraint else {}
        print(
            json.dumps(
                {
                    "number": number,
                    "calls": calls.count,
                    "slowest": {name: round(seconds, 4) for name, seconds in calls.slowest.items()},
                    "error": calls.error,
                    "in": calls.raised_in,
                    "constraint_bytes": stats.get("bytes", 0),
                    "shared_bytes": stats.get("shared_bytes", 0),
                    "grown": own.memory_info().rss - before,
                    "text": text if len(text) < 4_000 else text[:4_000] + " ...",
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1], sys.stdin.read().splitlines())
