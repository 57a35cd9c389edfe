"""Does every real text come to its end? The valid instances of MaskBench, token by token, under the default limits.

    pip install -e '.[bench]'
    git clone https://github.com/guidance-ai/jsonschemabench ../jsonschemabench
    python bench/whole_texts.py ../jsonschemabench/maskbench/data             # all 11,305 files: some ten minutes
    python bench/whole_texts.py DATA --every 10 --tokenizer qwen3

Each instance is written by `json.dumps` and cut into the tokenizer's tokens. Before each token the mask is filled. A
text ends early at a mask that a limit refuses (`step_work`, mostly), and at a token that its mask does not have, as
with keys in another order than the declared one. Schemas that are refused are left out: `schemas.py` counts these.

It prints the masks that were refused, the slowest ones with the text before them, and how the times are spread (CPU
time of this process). It ends with 1 if a mask was refused.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from first_sight.maskbench import files_of
from peers import folder_of
from tokenizers import Tokenizer

from narrows import Constraint, Grammar, NarrowsError, Vocabulary

NAMED = 10
"""Number of slow masks that are named."""


@dataclass
class Found:
    ends: Counter[str] = field(default_factory=Counter)
    """How many texts were whole, were stopped at a token, or met a limit."""
    nanoseconds: list[int] = field(default_factory=list)
    slowest: list[tuple[int, str]] = field(default_factory=list)
    """A heap of (nanoseconds, where)."""


def texts_of(file: Path, tokenizer: Any, vocabulary: Vocabulary) -> Iterator[tuple[Constraint, list[int]]]:
    """The valid instances of a file, in tokens; nothing if the schema is refused."""
    content = json.loads(file.read_text(encoding="utf-8"))
    try:
        constraint = vocabulary.compile(Grammar.from_json_schema(content["schema"]))
    except NarrowsError:
        return
    for test in content["tests"]:
        if test["valid"]:
            text = json.dumps(test["data"], ensure_ascii=False)
            yield constraint, tokenizer.encode(text, add_special_tokens=False).ids


def write(constraint: Constraint, ids: list[int], name: str, tokenizer: Any, found: Found) -> str:
    """Step through a text, and say how it ends."""
    matcher = constraint.matcher()
    row = np.zeros((constraint.vocabulary.size + 31) // 32, dtype=np.int32)
    for number, token in enumerate(ids):
        start, refused = time.process_time_ns(), None
        try:
            matcher.fill_mask(row)
        except NarrowsError as error:
            refused = error
        nanoseconds = time.process_time_ns() - start
        found.nanoseconds.append(nanoseconds)
        if refused is not None or len(found.slowest) < NAMED or nanoseconds > found.slowest[0][0]:
            where = (
                f"{name}, token {number} of {len(ids)}, after {tokenizer.decode(ids[max(0, number - 6) : number])!r}"
            )
            keep = heapq.heappush if len(found.slowest) < NAMED else heapq.heappushpop
            keep(found.slowest, (nanoseconds, where))
            if refused is not None:
                print(f"{refused.code}: {where}", flush=True)
                return "a limit"
        if not matcher.accept(token):
            return "stopped"
    return "whole"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="MaskBench's folder with *.json")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth file only")
    parser.add_argument(
        "--tokenizer", default="llama3_1", help="a name of tests/support/real_tokenizers.py, or a folder"
    )
    options = parser.parse_args()
    path = str(folder_of(options.tokenizer) / "tokenizer.json")
    tokenizer, vocabulary = Tokenizer.from_file(path), Vocabulary.from_tokenizer_json(path)
    found = Found()
    files = files_of(options.data)[:: options.every]
    for done, file in enumerate(files):
        if done and done % 500 == 0:
            print(f"{done} of {len(files)} files", file=sys.stderr, flush=True)
        for constraint, ids in texts_of(file, tokenizer, vocabulary):
            found.ends[write(constraint, ids, file.stem, tokenizer, found)] += 1
    print(", ".join(f"{how}: {found.ends[how]:,}" for how in ("whole", "stopped", "a limit")))
    quantiles = np.quantile(found.nanoseconds, (0.5, 0.99, 0.999, 1.0)) / 1e3
    print(f"{len(found.nanoseconds):,} masks: p50, p99, p99.9, max {', '.join(f'{us:,.0f}' for us in quantiles)} us")
    for nanoseconds, where in sorted(found.slowest, reverse=True):
        print(f"{nanoseconds / 1e6:6.0f} ms  {where}")
    return int(found.ends["a limit"] > 0)


if __name__ == "__main__":
    sys.exit(main())
