"""When does the first content come under vLLM, with tools offered?

    python bench/vllm_ttft.py [--model DIR] [--runs 3] [--turns 2] [--json FILE] [--picture FILE.svg]

Run it with vLLM's Python. It compares narrows' parser, vLLM's own, and a loop that buffers until the end. It starts two
servers that differ in their tool parser, and sends both the requests of bench/ttft.py, in turns. The buffering loop is
not run: its first content would come with the last token. So its time is the total time of the same answers, with the
faster of the two parsers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ttft
from openai import OpenAI

SIDES = {"narrows": "narrows_hermes_json", "vLLM": "hermes"}
BUFFERING = "buffering loop"
COLOURS = {"narrows": "#2f81f7", "vLLM": "#8b949e", BUFFERING: "#d29922"}


def measure(clients: dict[str, OpenAI], runs: int, turns: int) -> list[dict[str, Any]]:
    """One row per scenario: milliseconds until the first content, medians."""
    taken: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in clients}
    for turn in range(turns):
        for name in list(clients) if turn % 2 else list(clients)[::-1]:
            taken[name].append(ttft.measure(clients[name], "small", runs))
    rows = []
    for number, sample in enumerate(taken["narrows"][0]):

        def median(name: str, key: str, number: int = number) -> float:
            return round(statistics.median(rows[number][key] for rows in taken[name]), 1)

        row = {"scenario": sample["scenario"], **{name: median(name, "first_ms") for name in clients}}
        row[BUFFERING] = min(median(name, "total_ms") for name in clients)
        if "first_ms_without_tools" in sample:
            row["without tools"] = median("narrows", "first_ms_without_tools")
        rows.append(row)
    return rows


def picture(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The rows as bars, in SVG."""
    names = [*SIDES, BUFFERING]
    longest = max(row[name] for row in rows for name in names)
    height = 30 + len(rows) * (len(names) * 20 + 26)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{height}" font-family="sans-serif" font-size="13" fill="#768390">'
    yield '<text x="0" y="16">Milliseconds until the first content, tools offered (less is better)</text>'
    y = 30
    for row in rows:
        yield f'<text x="0" y="{y + 14}" font-weight="bold">{row["scenario"]}</text>'
        y += 22
        for name in names:
            width = max(1, round(480 * row[name] / longest))
            yield f'<text x="0" y="{y + 13}">{name}</text>'
            yield f'<rect x="120" y="{y}" width="{width}" height="16" rx="2" fill="{COLOURS[name]}"/>'
            yield f'<text x="{126 + width}" y="{y + 13}">{row[name]:,.0f}</text>'
            y += 20
        y += 4
    yield "</svg>"


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    names = [*SIDES, BUFFERING, "without tools"]
    yield "| ms until the first content | " + " | ".join(names) + " |"
    yield "| --- |" + " --: |" * len(names)
    for row in rows:
        yield (
            f"| {row['scenario']} | " + " | ".join(f"{row[name]:,.0f}" if name in row else "" for name in names) + " |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="the model's folder; by default the small model")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    # The tests have the code that starts servers.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "plugins" / "vllm"))
    import model_folder
    from server import vllm_server

    with ExitStack() as stack:
        clients = {}
        for name, parser_name in SIDES.items():
            arguments = ("--enable-auto-tool-choice", "--tool-call-parser", parser_name)
            url = stack.enter_context(vllm_server(*arguments, model=options.model or model_folder.MARKERS))
            clients[name] = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        rows = measure(clients, options.runs, options.turns)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if options.picture:
        options.picture.write_text("\n".join(picture(rows)) + "\n")
    print(*table(rows), sep="\n")


if __name__ == "__main__":
    main()
