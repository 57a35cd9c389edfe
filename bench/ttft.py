"""Does offering tools delay the first content? Measures any OpenAI-compatible server.

    python bench/ttft.py                                        # starts narrows with the small model
    python bench/ttft.py --url http://host:8000/v1 --model NAME --runs 20 [--json]

Three scenarios. The runs with and without tools alternate, so that other load on the machine falls on both:
    call         a tool call: until the first piece of its arguments (with tools only)
    short text   a one-line answer with tools offered, compared with the same without
    long text    a long answer with tools offered, compared with the same without

Without tools, a system message describes them instead. It is padded until both prompts have as many tokens. So the
difference is the server's own work for tools: grammar, parser, held text. The same is measured with the bare prompt,
which does not describe the tools ("bare"); there the model's longer context counts too. All runs have the same prompts,
so a server's prefix cache is warm after the first run, which is not counted. If a server holds text back while it waits
for a possible call, that shows in the ratio "with tools / without" of the first content, and in the longest silence
after it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from openai import OpenAI

TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {field: {"type": "string", "maxLength": 80}},
                "required": [field],
                "additionalProperties": False,
            },
        },
    }
    for name, description, field in (
        ("get_weather", "The weather of a city", "city"),
        ("search", "Search the web", "query"),
    )
]
SHORT = [{"role": "user", "content": "Say hello in one short sentence."}]
LONG = [{"role": "user", "content": "Write a long story about a lighthouse keeper and the sea."}]
CALL = [{"role": "user", "content": "What is the weather in Paris?"}]


def one(client: OpenAI, model: str, messages: list[Any], max_tokens: int, **options: Any) -> dict[str, float]:
    """Seconds from the request to the first content or arguments, and the longest silence after that."""
    started = last = time.perf_counter()
    first, silence = 0.0, 0.0
    stream = client.chat.completions.create(
        model=model, messages=messages, max_tokens=max_tokens, temperature=0, stream=True, **options
    )
    for chunk in stream:
        delta = chunk.choices[0].delta if chunk.choices else None
        if delta is None or not (
            delta.content or any(call.function and call.function.arguments for call in delta.tool_calls or ())
        ):
            continue
        now = time.perf_counter()
        if first:
            silence = max(silence, now - last)
        else:
            first = now - started
        last = now
    return {"first": first, "silence": silence, "total": time.perf_counter() - started}


def of_same_length(client: OpenAI, model: str, messages: list[Any], options: dict[str, Any]) -> dict[str, Any]:
    """A system message that makes the prompt as many tokens long as the server's own description of the tools."""

    def prompt_tokens(messages: list[Any], **options: Any) -> int:
        answer = client.chat.completions.create(model=model, messages=messages, max_tokens=1, **options)
        return answer.usage.prompt_tokens if answer.usage else 0

    text = f"You know of these tools, but may not call them:\n{json.dumps(TOOLS)}"
    target = prompt_tokens(messages, **options)
    for _ in range(4):
        missing = target - prompt_tokens([{"role": "system", "content": text}, *messages])
        if missing == 0:
            break
        text = text + " and" * missing if missing > 0 else text[: 3 * missing]
    return {"role": "system", "content": text}


def ratio(these: list[dict[str, float]], those: list[dict[str, float]]) -> float | None:
    """The median over the runs of the ratio of times to the first content. None where no run had content."""
    pairs = [(a["first"], b["first"]) for a, b in zip(these, those, strict=True)]
    ratios = [a / b for a, b in pairs if a and b]
    return round(statistics.median(ratios), 3) if ratios else None


def milliseconds(runs: list[dict[str, float]], key: str) -> float | None:
    """The median over the runs that had content. None where no run had any."""
    seconds = [run[key] for run in runs if run["first"]]
    return round(1000 * statistics.median(seconds), 1) if seconds else None


def measure(client: OpenAI, model: str, runs: int) -> list[dict[str, Any]]:
    """One row per scenario, medians over the runs."""
    rows = []
    with_tools = {"tools": TOOLS, "tool_choice": "auto"}
    scenarios: tuple[tuple[str, list[Any], int, dict[str, Any], bool], ...] = (
        ("call", CALL, 60, {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}, False),
        ("short text", SHORT, 24, with_tools, True),
        ("long text", LONG, 96, with_tools, True),
    )
    for name, messages, max_tokens, options, compared in scenarios:
        offered, plain, bare = [], [], []
        described = of_same_length(client, model, messages, options) if compared else {}
        for run in range(runs + 1):
            result = one(client, model, messages, max_tokens, **options)
            if not compared:
                offered += [result] if run else []
                continue
            same = one(client, model, [described, *messages], max_tokens)
            short = one(client, model, messages, max_tokens)
            if run:
                offered.append(result)
                plain.append(same)
                bare.append(short)
        row: dict[str, Any] = {"scenario": name, "runs": runs}
        for key in ("first", "silence", "total"):
            row[f"{key}_ms"] = milliseconds(offered, key)
            if plain:
                row[f"{key}_ms_without_tools"] = milliseconds(plain, key)
        if plain:
            row["first_ms_bare"] = milliseconds(bare, "first")
            row["first_ratio"] = ratio(offered, plain)
            row["first_ratio_bare"] = ratio(offered, bare)
        rows.append(row)
    return rows


@contextmanager
def server(*arguments: str) -> Iterator[str]:
    """Starts a narrows server with these arguments, and yields its URL."""
    command = [sys.executable, "-m", "narrows.cli", "serve", "--port", "0", "--json", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"] + "/v1"
        finally:
            process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="base URL with /v1; by default a narrows server is started")
    parser.add_argument("--model", help="the model's name; by default the server's first model")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.url:
        report(options, options.url)
    else:
        with server() as url:
            report(options, url)


def report(options: argparse.Namespace, url: str) -> None:
    client = OpenAI(base_url=url, api_key="none", max_retries=0)
    rows = measure(client, options.model or client.models.list().data[0].id, options.runs)
    if options.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(
            f"{row['scenario']:<12}",
            "  ".join(f"{key}={value}" for key, value in row.items() if key not in ("scenario", "runs")),
        )


if __name__ == "__main__":
    main()
