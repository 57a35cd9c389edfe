"""What do structured outputs cost under vLLM, with narrows' backend and with xgrammar's?

    python bench/vllm.py [--model DIR] [--streams 1 16] [--rounds 5] [--json FILE]    starts both servers; run it with
                                                                                      vLLM's Python
    python bench/vllm.py --url http://a:8000 --peer-url http://b:8000                 compares any two servers

Measured are tokens per second, the time per token and the time to the first token. Both servers run all the time and
get the same requests in turns, in changing order, so a ratio compares neighbouring runs on one machine. Each round
sends, for each number of streams, two requests per stream:
    free      no constraint, for comparison
    one       one schema for all requests (five kinds of fields, an array of forty)
    many      another schema for each request (bench/schemas: tools, extraction, recursive structures)

The first round is reported by itself ("first"), since each grammar is compiled there. A ratio is narrows / xgrammar,
the median over the other rounds. Above 1 is better for tokens per second ("rate"), below 1 for times. Requests carry
seeds, but the two servers may write other texts and lengths, so the values compared are per token.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

HERE = Path(__file__).resolve().parent
# This file has the name of the vLLM package, and a script's own folder is on its path. So the folder is removed. If
# another benchmark has imported this file in place of the package, the package is put back.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
if __name__ == "vllm":
    del sys.modules["vllm"]
    importlib.import_module("vllm")
    sys.path.insert(0, str(HERE))

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 3, "maxLength": 40},
        "email": {"type": "string", "pattern": "^[a-z]{2,12}@[a-z]{2,12}\\.(com|org|net)$"},
        "age": {"type": "integer", "minimum": 18, "maximum": 99},
        "role": {"enum": ["engineer", "designer", "manager", "analyst"]},
        "note": {"anyOf": [{"type": "string", "maxLength": 120}, {"type": "null"}]},
    },
    "required": ["name", "email", "age", "role", "note"],
    "additionalProperties": False,
}
PEOPLE = {
    "type": "object",
    "properties": {"people": {"type": "array", "minItems": 40, "items": PERSON}},
    "required": ["people"],
    "additionalProperties": False,
}
SIDES = ("narrows", "xgrammar")


def schemas() -> list[tuple[str, Any]]:
    """Name and schema of each file's entries."""
    return [
        (entry["name"], entry["schema"])
        for path in sorted((HERE / "schemas").glob("*.json"))
        for entry in json.loads(path.read_text())
    ]


class Side:
    """One server."""

    def __init__(self, url: str, model: str | None) -> None:
        self.http = httpx.Client(base_url=url, timeout=600, limits=httpx.Limits(max_connections=64))
        self.model = model or self.http.get("/v1/models").json()["data"][0]["id"]

    def body(self, question: str, schema: Any, seed: int, tokens: int) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": tokens,
            "temperature": 0.7,
            "seed": seed,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return body if schema is None else body | {"structured_outputs": {"json": schema}}

    def accepts(self, schema: Any) -> bool:
        body = self.body("Hello", schema, 0, 1) | {"stream": False}
        body.pop("stream_options")
        return self.http.post("/v1/chat/completions", json=body).status_code == 200

    def ask(self, question: str, schema: Any, seed: int, tokens: int) -> tuple[int, float, float]:
        """(tokens, seconds to the first, seconds from the first to the last)."""
        started = time.perf_counter()
        first = last = 0.0
        count = 0
        with self.http.stream("POST", "/v1/chat/completions", json=self.body(question, schema, seed, tokens)) as reply:
            reply.raise_for_status()
            for line in reply.iter_lines():
                if '"delta":{' in line and '"role"' not in line:
                    last = time.perf_counter()
                    first = first or last
                elif '"completion_tokens"' in line:
                    count = json.loads(line.removeprefix("data: "))["usage"]["completion_tokens"]
        return count, first - started, last - first

    def batch(self, work: list[tuple[str, Any, int]], streams: int, tokens: int) -> dict[str, float]:
        """All requests, `streams` at a time."""
        started = time.perf_counter()
        with ThreadPoolExecutor(streams) as pool:
            done = list(pool.map(lambda item: self.ask(*item, tokens), work))
        seconds = time.perf_counter() - started
        return {
            "rate": sum(count for count, _, _ in done) / seconds,
            "token_ms": 1000 * statistics.median(rest / (count - 1) for count, _, rest in done if count > 1),
            "first_ms": 1000 * statistics.median(first for _, first, _ in done),
        }


def requests(kind: str, count: int, turn: int, known: list[tuple[str, Any]]) -> list[tuple[str, Any, int]]:
    if kind == "many":
        chosen = [known[(turn * count + number) % len(known)] for number in range(count)]
        return [(f"Write an example of {name.replace('_', ' ')} as JSON.", schema, turn) for name, schema in chosen]
    schema = PEOPLE if kind == "one" else None
    return [("List forty people of a company as JSON.", schema, turn * count + number) for number in range(count)]


def measure(sides: dict[str, Side], streams: list[int], rounds: int, tokens: int) -> list[dict[str, Any]]:
    entries = schemas()
    verdicts = {name: {entry: side.accepts(schema) for entry, schema in entries} for name, side in sides.items()}
    both = [(entry, schema) for entry, schema in entries if all(verdicts[name][entry] for name in sides)]
    rows: list[dict[str, Any]] = [
        {
            "accepted": {name: sum(verdicts[name].values()) for name in sides},
            "schemas": len(entries),
            "measured": len(both),
        }
    ]
    for many in streams:
        for kind in ("free", "one", "many"):
            runs: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
            for turn in range(rounds + 1):
                for name in list(sides) if turn % 2 else list(sides)[::-1]:
                    work = requests(kind, 2 * many, turn, both)
                    runs[name].append(sides[name].batch(work, many, tokens))
            row: dict[str, Any] = {"kind": kind, "streams": many, "rounds": rounds}
            for key in ("rate", "token_ms", "first_ms"):
                for name in sides:
                    row[f"{name}_{key}"] = round(statistics.median(run[key] for run in runs[name][1:]), 2)
                ratios = [a[key] / b[key] for a, b in zip(*(runs[name] for name in sides), strict=True)]
                row[f"{key}_ratio"] = round(statistics.median(ratios[1:]), 3)
                row[f"{key}_ratio_first"] = round(ratios[0], 3)
            rows.append(row)
            print(json.dumps(row), file=sys.stderr)
    return rows


@contextmanager
def servers(model: Path | None) -> Iterator[dict[str, str]]:
    """Starts both servers, as the tests do, with the small model if no other is named. Yields their URLs."""
    sys.path.insert(0, str(HERE.parent / "tests" / "plugins" / "vllm"))
    import model_folder
    from server import vllm_server

    if model is None and not model_folder.PLAIN.is_dir():
        sys.exit(
            "the small model is not here as a folder: run tests/plugins/vllm/model_folder.py, or name one with --model"
        )
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                vllm_server("--structured-outputs-config.backend", name, model=model or model_folder.PLAIN)
            )
            for name in SIDES
        }


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| | streams | tokens/s | ratio | ms per token | ratio | ms to the first | ratio |"
    yield "| --- | --: | --: | --: | --: | --: | --: | --: |"
    for row in rows[1:]:
        cells = [row["kind"], str(row["streams"])]
        for key in ("rate", "token_ms", "first_ms"):
            cells += [" / ".join(f"{row[f'{name}_{key}']:.4g}" for name in SIDES), f"{row[f'{key}_ratio']:.2f}"]
        yield "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server with narrows' backend, without a path; by default both are started")
    parser.add_argument("--peer-url", help="the same with another backend")
    parser.add_argument("--model", type=Path, help="the model's folder; with --url, the model's name in requests")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    options = parser.parse_args()
    if bool(options.url) != bool(options.peer_url):
        parser.error("--url and --peer-url go together")
    with ExitStack() as stack:
        urls = (
            dict(zip(SIDES, (options.url, options.peer_url), strict=True))
            if options.url
            else stack.enter_context(servers(options.model))
        )
        named = str(options.model) if options.url and options.model else None
        sides = {name: Side(url, named) for name, url in urls.items()}
        rows = measure(sides, options.streams, options.rounds, options.tokens)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(
        f"schemas accepted: {rows[0]['accepted']} of {rows[0]['schemas']}; {' / '.join(SIDES)}", *table(rows), sep="\n"
    )


if __name__ == "__main__":
    main()
