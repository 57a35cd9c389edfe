"""How long do ordinary new masks wait while other sequences ask for expensive masks?

    python bench/engine_crowd.py                   # Llama 3.1's tokens, two expensive grammars, 10 seconds each
    python bench/engine_crowd.py --seconds 30 --json

One thread compiles a small schema again and again and walks one text of it, so most of its masks are new. Two other
threads do the same with grammars whose masks take up to `Limits.step_work`, and begin again when they are refused.
Reported is the wall time of each ordinary step in milliseconds, alone and beside the two. A step is a mask and an
accepted byte; the first step includes compiling. Run it on a machine with a core for each thread, or it measures the
scheduler.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import narrows

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

EXPENSIVE = [
    (
        "root ::= "
        + " | ".join(f"r{i}" for i in range(60))
        + "".join(f'\nr{i} ::= [a-z]* [a-m]{{{i % 7 + 1},{i % 9 + 20}}} "x{i}" root?' for i in range(60))
    ),
    (
        "root ::= [一-鿿] a | [一-鿿] .\n"
        'a ::= [一-鿿] | "é" | ("x" | a root ((root a ","? | a | "é" "ab" root{2}){0,3} [0-9]){5,40} | .{5,40} a) . .'
    ),
]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 80}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["name"],
}
TEXT = b'{"name": "A quick report for the board", "tags": ["one", "two three", "four"]}'


def walk(constraint: narrows.Constraint, choose: random.Random, row: NDArray[np.int32], steps: int) -> None:
    matcher = constraint.matcher()
    for _ in range(steps):
        matcher.fill_mask(row)
        fitting = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        if not len(fitting) or not matcher.accept(int(fitting[choose.randrange(len(fitting))])):
            return


def measure(vocabulary: narrows.Vocabulary, seconds: float, expensive: list[str]) -> list[float]:
    stop = threading.Event()

    def attack(text: str, seed: int) -> None:
        choose, grammar = random.Random(seed), narrows.Grammar.from_gbnf(text)
        row = np.zeros((vocabulary.size + 31) // 32, np.int32)
        while not stop.is_set():
            try:
                constraint = vocabulary.compile(grammar)
                for _ in range(4):
                    walk(constraint, choose, row, 40)
            except narrows.LimitError:
                pass

    threads = [threading.Thread(target=attack, args=(text, i)) for i, text in enumerate(expensive)]
    for thread in threads:
        thread.start()
    grammar = narrows.Grammar.from_json_schema(SCHEMA)
    row = np.zeros((vocabulary.size + 31) // 32, np.int32)
    waits = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        start = time.perf_counter()
        matcher = vocabulary.compile(grammar).matcher()
        for byte in TEXT:
            matcher.fill_mask(row)
            matcher.accept_bytes(bytes([byte]))
            waits.append((time.perf_counter() - start) * 1e3)
            start = time.perf_counter()
    stop.set()
    for thread in threads:
        thread.join()
    return sorted(waits)


def main() -> None:
    from real_tokenizers import folder

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", default="llama3_1")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    vocabulary = narrows.Vocabulary.from_tokenizer_json(folder(options.tokenizer) / "tokenizer.json")
    for name, expensive in (("alone", []), ("beside two", EXPENSIVE)):
        waits = measure(vocabulary, options.seconds, expensive)
        at = {
            q: round(waits[min(len(waits) - 1, int(float(q) * len(waits)))], 3) for q in ("0.5", "0.9", "0.99", "0.999")
        }
        row = {"": name, "steps": len(waits), **at, "max": round(waits[-1], 1)}
        print(json.dumps(row) if options.json else "  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
