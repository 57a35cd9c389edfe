"""What does a grammar of the parts of a text cost, compared with llguidance?

    python bench/substrings.py                          # --tokenizer qwen3, --sizes 10000,100000, --json

The text is that of Python's own documentation and library, as they come with the interpreter. Each row is one size and
one unit. "compile" reads the text and makes the constraint; "first" is the first mask. The other masks are those of 200
*random walks*: at most 30 tokens, each picked at random among those that the mask allows; and of 200 *quotations* of 200
characters, in the tokenizer's own tokens. All of them are new to the engine or not, as they come. Both engines walk the
same tokens: those that narrows picks. Times are CPU microseconds of the Python call. "MiB" is what narrows' constraint
holds at the end.
"""

from __future__ import annotations

import argparse
import inspect
import json
import random
import smtplib
import socket
import subprocess
import sys
import tarfile
import time
import typing
from collections.abc import Callable
from pydoc_data import topics
from typing import Any

import numpy as np
import peers

WALKS, STEPS = 200, 30
QUOTED = 200
LLGUIDANCE = {"characters": "substring_chars", "words": "substring_words"}


def document(size: int) -> str:
    """So many bytes of prose and programs, or the few that are missing to a whole character less."""
    modules = (typing, argparse, tarfile, subprocess, socket, smtplib, inspect, random)
    whole = "\n".join([*topics.topics.values(), *map(inspect.getsource, modules)])
    return (whole.encode() * (1 + size // len(whole)))[:size].decode(errors="ignore")


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    started = time.thread_time()
    result = call()
    return 1e6 * (time.thread_time() - started), result


def allowed(row: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.unpackbits(np.ascontiguousarray(row).view(np.uint8), bitorder="little"))


def random_walks(start: Callable[[], peers.Session], ends: set[int]) -> list[list[int]]:
    """Tokens, picked by the masks of one engine."""
    rng = random.Random(1)
    walks = []
    for _ in range(WALKS):
        session, walk = start(), list[int]()
        for _ in range(STEPS):
            session.fill()
            tokens = [t for t in rng.sample(allowed(session.row).tolist(), 1) if t not in ends]
            if not tokens or not session.accept(tokens[0]):
                break
            walk += tokens
        walks.append(walk)
    return walks


def quotations(text: str, unit: str, encode: Callable[[str], list[int]]) -> list[list[int]]:
    """Without their last tokens, which may go beyond a cut."""
    rng = random.Random(2)
    is_cut = {
        "characters": lambda at: True,
        "words": lambda at: text[at - 1].isspace() and not text[at].isspace(),
        "lines": lambda at: text[at - 1] == "\n",
    }[unit]
    places = [at for at in range(1, max(2, len(text) - 2 * QUOTED)) if is_cut(at)]
    return [encode(text[at : at + QUOTED])[:-2] for at in (rng.choice(places) for _ in range(WALKS))]


def replay(start: Callable[[], peers.Session], walks: list[list[int]]) -> list[float]:
    """The masks after the first one of each walk."""
    times = []
    for walk in walks:
        session = start()
        for token in walk:
            if not session.accept(token):
                raise SystemExit(f"a token of a walk is refused: {token}")
            times.append(timed(session.fill)[0])
    return times


def quantiles(times: list[float]) -> dict[str, float]:
    times = sorted(times)
    return {"p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100], "max": times[-1]}


def measured(engine: Any, source: Any, kind: str, walks: dict[str, list[list[int]]]) -> dict[str, Any]:
    """One row of one engine."""
    try:
        compile_us, start = timed(lambda: engine.compile(source, kind))
    except ValueError as error:
        return {"refused": str(error).splitlines()[0]}
    first_us = timed(start().fill)[0]
    found: dict[str, Any] = {"compile": compile_us, "first": first_us}
    for name, some in walks.items():
        found[name] = quantiles(replay(start, some))
    return found


class Fresh:
    """narrows with a vocabulary of its own for each row, so that no row finds what another one has made."""

    def __init__(self, folder: Any) -> None:
        self.engine = peers.Narrows(folder)

    def compile(self, source: tuple[str, str], kind: str) -> Callable[[], peers.Session]:
        text, unit = source
        self.last = self.engine.vocabulary.compile(self.engine.narrows.Grammar.substring(text, unit))
        return lambda: peers.NarrowsSession(self.last.matcher(), self.engine.words)


def rows(folder: Any, sizes: list[int]) -> list[dict[str, Any]]:
    tokenizer = peers.hugging_face(folder)
    llguidance = peers.LLGuidance(folder)
    found = []
    for size in sizes:
        text = document(size)
        for unit in ("characters", "words", "lines"):
            narrows = Fresh(folder)
            ends = set(narrows.engine.vocabulary.eos_ids)
            quoted = quotations(text, unit, lambda part: tokenizer.encode(part, add_special_tokens=False))
            picker = Fresh(folder)
            walked = random_walks(picker.compile((text, unit), ""), ends)
            walks = {"walks": walked, "quotations": quoted}
            mine = measured(narrows, (text, unit), "", walks)
            mine["bytes"] = narrows.last.bytes
            row = {"size": len(text.encode()), "unit": unit, "narrows": mine}
            if unit in LLGUIDANCE:
                lark = f"start: %regex {{ {json.dumps(LLGUIDANCE[unit])}: {json.dumps(text)} }}"
                row["llguidance"] = measured(llguidance, lark, "lark", walks)
            found.append(row)
            print(f"{size:,} {unit}", file=sys.stderr)
    return found


def table(found: list[dict[str, Any]]) -> str:
    lines = [
        "| text | engine | compile | first mask | random walks: p50, p99, max | quotations: p50, p99, max | MiB |",
        "| --- | --- | --: | --: | --: | --: | --: |",
    ]
    for row in found:
        for engine in ("narrows", "llguidance"):
            if engine not in row:
                continue
            got, name = row[engine], f"{row['size']:,} bytes, {row['unit']}"
            if "refused" in got:
                lines.append(f"| {name} | {engine} | refused | | | | |")
                continue
            masks = [
                ", ".join(f"{got[kind][q]:,.0f}" for q in ("p50", "p99", "max")) for kind in ("walks", "quotations")
            ]
            held = f"{got['bytes'] / 2**20:.1f}" if "bytes" in got else ""
            lines.append(
                f"| {name} | {engine} | {got['compile']:,.0f} | {got['first']:,.0f} | {masks[0]} | {masks[1]} | {held} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--tokenizer", default="llama3_1", help="a folder, or a name of tests/support/real_tokenizers.py"
    )
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = rows(peers.folder_of(args.tokenizer), [int(size) for size in args.sizes.split(",")])
    print(json.dumps(found, indent=2) if args.json else table(found))


if __name__ == "__main__":
    main()
