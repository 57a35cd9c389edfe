"""Microseconds per delta of the stream parser, as a call grows: flat, or the parser is not linear.

    python bench/stream.py [--delta 4] [--json]

One call with one long string argument, and one with many keys, at 1k to 1M characters, fed in deltas of a few characters as a
token is. For each the time per delta over the whole text, and over its last tenth, so that growth cannot hide. Beside the peers
it is measured by stream_peers.py.
"""

from __future__ import annotations

import argparse
import gc
import json
import time

from narrows import formats
from narrows.errors import InputError

SIZES = (1_000, 10_000, 100_000, 1_000_000)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "write",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
        },
    }
]
WORDS = 'The quick brown fox, "quoted", jumps over <b>1 < 2</b>;\n\tdef f(x): return [x, {"a": x}] '


def one_argument(size: int) -> dict[str, str]:
    return {"text": (WORDS * (size // len(WORDS) + 1))[:size]}


def many_keys(size: int) -> dict[str, str]:
    return {f"key_{i}": f"value {i}" for i in range(size // 24 + 1)}


def rendered(fmt: formats.Format, call: dict[str, object]) -> str:
    """A text and a call, or the call alone where the format has no room for text."""
    try:
        return fmt.render({"content": "Here it is.", "tool_calls": [call]})
    except InputError:
        return fmt.render({"content": None, "tool_calls": [call]})


def measure(name: str, arguments: dict[str, str], delta: int) -> tuple[float, float]:
    """(us per delta overall, us per delta over the last tenth); processor time, the best of some runs."""
    fmt = formats.get(name)
    text = rendered(fmt, {"function": {"name": "write", "arguments": arguments}})
    pieces = [text[at : at + delta] for at in range(0, len(text), delta)]
    tail = len(pieces) - len(pieces) // 10
    best = (float("inf"), float("inf"))
    for _ in range(max(2, min(20, 200_000 // len(text)))):
        parser = fmt.parser(TOOLS)
        parser.feed("")  # once per answer, some 60 us: the regions are built
        gc.collect()
        gc.disable()
        began = time.process_time()
        for piece in pieces[:tail]:
            parser.feed(piece)
        middle = time.process_time()
        for piece in pieces[tail:]:
            parser.feed(piece)
        events = parser.finish()
        ended = time.process_time()
        gc.enable()
        assert not events or events[-1].complete  # type: ignore[union-attr]
        whole, last = (ended - began) / len(pieces), (ended - middle) / max(len(pieces) - tail, 1)
        best = min(best[0], whole * 1e6), min(best[1], last * 1e6)
    return best


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--delta", type=int, default=4, help="characters per delta")
    options.add_argument("--json", action="store_true")
    options.add_argument("--max", type=int, default=SIZES[-1], help="longest text")
    chosen = options.parse_args()
    rows = []
    for name in formats.names():
        for shape, make in (("one argument", one_argument), ("many keys", many_keys)):
            timed = [(size, *measure(name, make(size), chosen.delta)) for size in SIZES if size <= chosen.max]
            flat = max(t[1] for t in timed) / min(t[1] for t in timed)
            rows.append({"format": name, "shape": shape, "us": timed, "flat": flat})
            if not chosen.json:
                cells = "  ".join(f"{size:>9,}: {whole:5.2f} ({last:5.2f})" for size, whole, last in timed)
                print(f"{name:12} {shape:13} {cells}   flat within {flat:.2f}")
    if chosen.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
