"""How soon does the second request with the same tools begin to answer? Measures any OpenAI-compatible server.

    python bench/prefix_cache.py                                    # starts narrows with the small model
    python bench/prefix_cache.py --serve-args "--cache-ram 64"      # the same with options
    python bench/prefix_cache.py --url http://host:8000/v1 --model NAME --runs 10 [--json]

Each run has three tools of its own, which no request before it had. It asks four times, and takes the time until the
first piece of the call:
    first      the tools are new
    second     the same tools, another question
    after      the same tools again, when `--others` requests with other system messages have run, four at a time
    beside     the same once more, while four streams run
Each is compared with the first of its own run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from openai import OpenAI
from ttft import server

QUESTIONS = (
    "What is the weather in Paris?",
    "Will it rain in Oslo tomorrow?",
    "Who won the match in Rome?",
    "How do I get to Berlin?",
)


def tools(run: int) -> list[Any]:
    """Three tools that no other run has."""

    def tool(name: str, says: str, properties: dict[str, Any]) -> dict[str, Any]:
        parameters = {"type": "object", "properties": properties, "required": list(properties)[:1]}
        parameters["additionalProperties"] = False
        return {"type": "function", "function": {"name": name, "description": says, "parameters": parameters}}

    text = {"type": "string", "maxLength": 40}
    return [
        tool(
            f"weather_{run}",
            "The weather of a city on one day, or on each of several days",
            {"city": text, "days": {"type": "integer", "minimum": 1, "maximum": 14}, "unit": {"enum": ["C", "F"]}},
        ),
        tool(
            f"search_{run}",
            "Search the web, and return the titles and addresses of the first results",
            {"query": text, "language": {"enum": ["en", "fr", "de", "it"]}, "results": {"type": "integer"}},
        ),
        tool(
            f"route_{run}",
            "The way from one place to another by train, car or on foot",
            {"to": text, "from": text, "by": {"enum": ["train", "car", "foot"]}, "at": text},
        ),
    ]


def first_piece(client: OpenAI, model: str, question: str, offered: list[Any]) -> float:
    """Seconds until the first piece of the call."""
    started = time.perf_counter()
    stream = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": question}],
        tools=offered,
        tool_choice="required",
        parallel_tool_calls=False,
        temperature=0,
        max_tokens=60,
        stream=True,
    )
    first = 0.0
    for chunk in stream:
        delta = chunk.choices[0].delta if chunk.choices else None
        if not first and delta is not None and (delta.content or delta.tool_calls):
            first = time.perf_counter() - started
    return first


def talk(client: OpenAI, model: str, name: str, max_tokens: int) -> None:
    """A request with a system message of its own, some 150 tokens long."""
    system = f"You are the keeper of archive {name}. " + f"Archive {name} holds letters, maps and logs. " * 10
    messages: list[Any] = [{"role": "system", "content": system}, {"role": "user", "content": "Tell me of a ship."}]
    client.chat.completions.create(model=model, messages=messages, max_tokens=max_tokens, temperature=0)


def measure(client: OpenAI, model: str, runs: int, others: int) -> list[dict[str, float]]:
    """The seconds of each run."""
    rows = []
    stamp = int(time.time())  # a server that has run before has not seen these tools
    for run in range(runs):
        offered = tools(stamp + run)
        row = {"first": first_piece(client, model, QUESTIONS[0], offered)}
        row["second"] = first_piece(client, model, QUESTIONS[1], offered)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda i, run=run: talk(client, model, f"{stamp}-{run}-{i}", 8), range(others)))
        row["after"] = first_piece(client, model, QUESTIONS[2], offered)
        streams = [threading.Thread(target=talk, args=(client, model, f"{stamp}-{run}-s{i}", 60)) for i in range(4)]
        for stream in streams:
            stream.start()
        time.sleep(3)
        row["beside"] = first_piece(client, model, QUESTIONS[3], offered)
        for stream in streams:
            stream.join()
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="base URL with /v1; by default a narrows server is started")
    parser.add_argument("--model", help="the model's name; by default the server's first model")
    parser.add_argument("--serve-args", default="", help="options of the server that is started")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--others", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.url:
        report(options, options.url)
    else:
        with server(*options.serve_args.split()) as url:
            report(options, url)


def report(options: argparse.Namespace, url: str) -> None:
    client = OpenAI(base_url=url, api_key="none", max_retries=0)
    rows = measure(client, options.model or client.models.list().data[0].id, options.runs, options.others)
    table = {
        name: {
            "ms": round(1000 * statistics.median(row[name] for row in rows), 1),
            "ratio": round(statistics.median(row[name] / row["first"] for row in rows), 3),
            "worst_ratio": round(max(row[name] / row["first"] for row in rows), 3),
        }
        for name in rows[0]
    }
    if options.json:
        print(json.dumps(table))
        return
    for name, row in table.items():
        print(f"{name:<8}", "  ".join(f"{key}={value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
