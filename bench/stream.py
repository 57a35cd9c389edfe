"""Microseconds per delta of the stream parser as a call grows: if they are not flat, the parser is not linear.

    python bench/stream.py [--delta 4] [--max 1000000] [--formats hermes_json,qwen3_xml] [--json]

One call with one long string argument, and one with many keys, of 1k to 1M characters. Deltas have a few characters, as
tokens do. Reported is the time per delta of the arguments. In brackets is the time over their last tenth, where growth
would show. Then comes the one-time cost of the rest of the call: text and markup before and after, the first delta
(with which some formats' calls begin), and `finish`. stream_peers.py compares this with other parsers.
"""

from __future__ import annotations

import argparse
import gc
import json
import time

from narrows import formats
from narrows.errors import InputError, UnsupportedError

SIZES = (1_000, 10_000, 100_000, 1_000_000)
ROUNDS = 4
"""All sizes are measured this often, in turns, so that a machine that is slow for a while is slow for all of them."""
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
    """A text and a call, or only the call where the format has no room for text."""
    try:
        return fmt.render({"content": "Here it is.", "tool_calls": [call]})
    except InputError:
        return fmt.render({"content": None, "tool_calls": [call]})


def arguments_in(fmt: formats.Format, arguments: dict[str, str], text: str) -> tuple[int, int]:
    """The span of the arguments in the rendered call: the part that differs from a call with other arguments."""
    other = rendered(fmt, {"function": {"name": "write", "arguments": dict.fromkeys(list(arguments)[:1], "-")}})
    begin = alike(text, other)
    return begin, len(text) - alike(text[:begin:-1], other[:begin:-1])


def alike(one: str, other: str) -> int:
    """The length of the common prefix, in characters."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def measure(name: str, arguments: dict[str, str], delta: int) -> tuple[float, float, float]:
    """(us per delta of the arguments, us per delta of their last tenth, us for the rest of the call): CPU time, the
    best of some runs."""
    fmt = formats.get(name)
    text = rendered(fmt, {"function": {"name": "write", "arguments": arguments}})
    begin, end = arguments_in(fmt, arguments, text)
    first, *pieces = cut(text[begin:end], delta)
    tail = len(pieces) - len(pieces) // 10
    best = [float("inf")] * 3
    for _ in range(max(2, min(50, 200_000 // len(text)))):
        parser = fmt.parser(TOOLS)
        parser.feed("")  # builds the regions of text: about 50 us, once per answer
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
    options.add_argument("--formats", help="comma-separated; by default all")
    options.add_argument("--max", type=int, default=SIZES[-1], help="longest text")
    chosen = options.parse_args()
    rows = []
    for name in chosen.formats.split(",") if chosen.formats else formats.names():
        for shape, make in (("one argument", one_argument), ("many keys", many_keys)):
            best: dict[int, tuple[float, float, float]] = {}
            for size in [size for size in SIZES if size <= chosen.max] * ROUNDS:
                try:
                    us = measure(name, make(size), chosen.delta)
                except UnsupportedError:
                    continue  # more keys than `Limits.stream_keys`: the parser would read another call
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
