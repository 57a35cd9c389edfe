"""Do streams stall while a long prompt is computed? Measures any OpenAI-compatible server.

    python bench/long_prompt.py                                     # starts narrows with the small model
    python bench/long_prompt.py --url http://host:8000/v1 --model NAME --tokens 3000 --streams 4 [--json]

Several streams run. When all of them have begun, a request with a prompt of about `--tokens` tokens comes, which no
request had before. The gaps between the pieces of each stream are printed: the median alone, and, while the prompt is
computed, the median and the longest. The last column says how long the prompt took.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import threading
import time
from typing import Any

from openai import OpenAI
from ttft import server


def stream(client: OpenAI, model: str, number: int, times: list[float], done: threading.Event) -> None:
    """Read a long text until `done`, and note when each piece comes."""
    pieces = client.completions.create(
        model=model,
        prompt=f"Once upon a time, on island number {number},",
        max_tokens=3000,
        temperature=1,
        seed=number,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    for piece in pieces:
        if piece.choices and piece.choices[0].text:
            times.append(time.perf_counter())
        if done.is_set():
            pieces.close()
            return


def measure(client: OpenAI, model: str, tokens: int, streams: int) -> dict[str, Any]:
    times: list[list[float]] = [[] for _ in range(streams)]
    done = threading.Event()
    threads = [
        threading.Thread(target=stream, args=(client, model, i, mine, done), daemon=True)
        for i, mine in enumerate(times)
    ]
    for thread in threads:
        thread.start()
    while any(len(mine) < 20 for mine in times):
        time.sleep(0.01)
    words = f"{time.time()} " + "the sea and the shore and the ship " * (tokens // 8)
    started = time.perf_counter()
    answer = client.completions.create(model=model, prompt=words, max_tokens=1)
    ended = time.perf_counter()
    done.set()
    for thread in threads:
        thread.join()
    alone = [b - a for mine in times for a, b in itertools.pairwise(mine) if b <= started]
    beside = [b - a for mine in times for a, b in itertools.pairwise(mine) if a >= started and b <= ended]
    return {
        "prompt_tokens": answer.usage.prompt_tokens if answer.usage else 0,
        "streams": streams,
        "gap_ms_alone": round(1000 * statistics.median(alone), 1),
        "gap_ms_beside": round(1000 * statistics.median(beside), 1),
        "longest_ms_alone": round(1000 * max(alone), 1),
        "longest_ms_beside": round(1000 * max(beside), 1),
        "longest_by_median": round(max(beside) / statistics.median(beside), 2),
        "p99_by_median": round(statistics.quantiles(beside, n=100)[98] / statistics.median(beside), 2),
        "prompt_seconds": round(ended - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="base URL with /v1; by default a narrows server is started")
    parser.add_argument("--model", help="the model's name; by default the server's first model")
    parser.add_argument("--serve-args", default="", help="options of the server that is started")
    parser.add_argument("--tokens", type=int, default=3000)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.url:
        report(options, options.url)
    else:
        with server(*options.serve_args.split()) as url:
            report(options, url)


def report(options: argparse.Namespace, url: str) -> None:
    client = OpenAI(base_url=url, api_key="none", max_retries=0, timeout=3600)
    model = options.model or client.models.list().data[0].id
    row = measure(client, model, options.tokens, options.streams)
    print(json.dumps(row) if options.json else "\n".join(f"{name:<20} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
