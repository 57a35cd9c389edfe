"""Microseconds per delta of the stream parser, as a call grows: flat, or the parser is not linear.

    python bench/stream.py [--delta 4] [--max 1000000] [--formats hermes_json,qwen3_xml] [--json]

One call with one long string argument, and one with many keys, of 1k to 1M characters, fed in deltas of a few characters as a token is.
For each the time per delta of the arguments, and in brackets over the last tenth of them, so that growth cannot hide; then what all the
rest of the call costs once: text and markup before and behind, the first delta (with which some formats' calls begin), and `finish`.
Beside the peers it is measured by stream_peers.py.
"""

from __future__ import annotations

import argparse
import gc
import json
import time

from narrows import formats
from narrows.errors import InputError

SIZES = (1_000, 10_000, 100_000, 1_000_000)
ROUNDS = 4
"""All sizes are measured so many times in turn: a machine that is slow for a while is so for all of them."""
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "write",
            "parameters": {
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "additionalProperties": {"type": "string"},
            },
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


def arguments_in(fmt: formats.Format, arguments: dict[str, str], text: str) -> tuple[int, int]:
    """Where the arguments stand in the rendered call: what differs from a call with others."""
    other = rendered(fmt, {"function": {"name": "write", "arguments": dict.fromkeys(list(arguments)[:1], "-")}})
    begin = alike(text, other)
    return begin, len(text) - alike(text[:begin:-1], other[:begin:-1])


def alike(one: str, other: str) -> int:
    """How many characters are the same at the beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def measure(name: str, arguments: dict[str, str], delta: int) -> tuple[float, float, float]:
    """(us per delta of the arguments, over their last tenth, us for the rest of the call); processor time, the best of some runs."""
    fmt = formats.get(name)
    text = rendered(fmt, {"function": {"name": "write", "arguments": arguments}})
    begin, end = arguments_in(fmt, arguments, text)
    first, *pieces = cut(text[begin:end], delta)
    tail = len(pieces) - len(pieces) // 10
    best = [float("inf")] * 3
    for _ in range(max(2, min(50, 200_000 // len(text)))):
        parser = fmt.parser(TOOLS)
        parser.feed("")  # once per answer, some 60 us: the regions are built
        gc.collect()
        gc.disable()
        times = [time.process_time()]
        for part in ([*cut(text[:begin], delta), first], pieces[:tail], pieces[tail:], cut(text[end:], delta)):
            for piece in part:
                parser.feed(piece)
            times.append(time.process_time())
        events = parser.finish()
        times.append(time.process_time())
        gc.enable()
        assert not events or events[-1].complete  # type: ignore[union-attr]
        whole, last = (times[3] - times[1]) / len(pieces), (times[3] - times[2]) / max(len(pieces) - tail, 1)
        once = times[1] - times[0] + times[5] - times[3]
        best = [min(pair) for pair in zip(best, (whole * 1e6, last * 1e6, once * 1e6), strict=True)]
    return best[0], best[1], best[2]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--delta", type=int, default=4, help="characters per delta")
    options.add_argument("--json", action="store_true")
    options.add_argument("--formats", help="comma-separated; all without it")
    options.add_argument("--max", type=int, default=SIZES[-1], help="longest text")
    chosen = options.parse_args()
    rows = []
    for name in chosen.formats.split(",") if chosen.formats else formats.names():
        for shape, make in (("one argument", one_argument), ("many keys", many_keys)):
            best: dict[int, tuple[float, float, float]] = {}
            for size in [size for size in SIZES if size <= chosen.max] * ROUNDS:
                us = measure(name, make(size), chosen.delta)
                was = best.get(size, us)
                best[size] = (min(us[0], was[0]), min(us[1], was[1]), min(us[2], was[2]))
            timed = [(size, *us) for size, us in best.items()]
            flat = max(t[1] for t in timed) / min(t[1] for t in timed)
            rows.append({"format": name, "shape": shape, "us": timed, "flat": flat})
            if not chosen.json:
                cells = "  ".join(f"{size:>9,}: {whole:5.2f} ({last:5.2f})" for size, whole, last, _ in timed)
                once = min(rest for _, _, _, rest in timed)
                print(f"{name:14} {shape:13} {cells}   flat within {flat:.2f}   the rest {once:.0f} us", flush=True)
    if chosen.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
