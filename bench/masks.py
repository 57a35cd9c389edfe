"""How long does a schema take to compile, and a mask to fill? narrows and its peers in one run.

    pip install -e '.[bench]'
    python bench/masks.py                      # Qwen3's 151,669 tokens, the schemas of bench/schemas
    python bench/masks.py --tokenizer llama3_1 --engines narrows,llguidance --json

Each valid instance of each schema is written by `json.dumps`, cut into the tokenizer's tokens, and replayed: fill the
mask, check that the token is in it, accept the token. The engines take turns schema by schema, so that a busy machine
slows all of them. One thread. Times are CPU time of the Python call, including the clock's own half microsecond.
"first" is the first time that an engine gets a schema. "again" is the second time, when each engine uses what it keeps
between requests. A schema that an engine refuses, and a valid token that it masks, are counted; the run goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from peers import ENGINES, Engine, folder_of

HERE = Path(__file__).parent

now = time.process_time_ns
"""CPU time of the whole process, which a busy machine does not change. `--clock wall` measures wall time."""


# The work.


@dataclass
class Case:
    name: str
    schema: str
    token_lists: list[list[int]]


@dataclass
class Times:
    """Nanoseconds, one entry per event."""

    compile: list[int] = field(default_factory=list)
    first_mask: list[int] = field(default_factory=list)
    """From the schema's text to the first mask."""
    mask: list[int] = field(default_factory=list)
    accept: list[int] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    slowest: list[tuple[float, str]] = field(default_factory=list)
    """(microseconds, where) of the slowest masks."""


def cases(folder: Path, files: list[Path]) -> Iterator[Case]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for file in files:
        for entry in json.loads(file.read_text(encoding="utf-8")):
            texts = [json.dumps(instance, ensure_ascii=False) for instance in entry["instances"]]
            ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
            yield Case(f"{file.stem}/{entry['name']}", json.dumps(entry["schema"]), ids)


def run(engine: Engine, case: Case, times: Times) -> None:
    start = now()
    try:
        begin = engine.compile(case.schema)
        compiled = now()
        begin().fill()
        first = now()
    except Exception as error:  # any refusal of any engine
        times.refused[case.name] = f"{type(error).__name__}: {error}"[:200]
        return
    times.compile.append(compiled - start)
    times.first_mask.append(first - start)
    for tokens in case.token_lists:
        session = begin()
        for step, token in enumerate(tokens):
            t0 = now()
            session.fill()
            t1 = now()
            allowed = bool(session.row[token >> 5] >> (token & 31) & 1)
            t2 = now()
            taken = session.accept(token)
            t3 = now()
            times.mask.append(t1 - t0)
            times.accept.append(t3 - t2)
            if t1 - t0 > 100_000:
                times.slowest.append(((t1 - t0) / 1e3, f"{case.name}, step {step}"))
            if not (allowed and taken):
                times.wrong[case.name] = f"token {step} ({token}): in the mask {allowed}, accepted {taken}"
                break


# The report.

QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))


def summary(values: list[int]) -> dict[str, float]:
    """Mean and quantiles, in microseconds."""
    if not values:
        return {}
    ordered = sorted(values)
    out = {name: ordered[min(len(ordered) - 1, int(q * len(ordered)))] / 1e3 for name, q in QUANTILES}
    return {"mean": sum(ordered) / len(ordered) / 1e3, **out}


def table(results: dict[str, dict[str, Times]]) -> str:
    lines = [f"{'':24}{'what':12}{'mean':>10}{'p50':>10}{'p90':>10}{'p99':>10}{'max':>11}   (us)"]
    for pass_name, by_engine in results.items():
        for what in ("compile", "first_mask", "mask", "accept"):
            for name, times in by_engine.items():
                s = summary(getattr(times, what))
                if s:
                    numbers = "".join(f"{s[k]:>10.1f}" for k in ("mean", "p50", "p90", "p99")) + f"{s['max']:>11.1f}"
                    lines.append(f"{pass_name:8}{name:16}{what:12}{numbers}")
            lines.append("")
    for name, times in results["first"].items():
        lines.append(
            f"{name}: {len(times.mask)} masks, {len(times.refused)} schemas refused, {len(times.wrong)} valid texts masked"
        )
        lines += [f"    refused {case}: {why}" for case, why in times.refused.items()]
        lines += [f"    masked  {case}: {why}" for case, why in times.wrong.items()]
        lines += [f"    slow    {us:.0f} us at {where}" for us, where in sorted(times.slowest, reverse=True)[:5]]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tokenizer", default="qwen3", help="a name from tests/support/real_tokenizers.py, or a folder"
    )
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--schemas", nargs="*", type=Path, default=sorted((HERE / "schemas").glob("*.json")))
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.add_argument("--clock", choices=("cpu", "wall"), default="cpu")
    options = parser.parse_args()
    if options.clock == "wall":
        globals()["now"] = time.perf_counter_ns

    folder = folder_of(options.tokenizer)
    engines: list[Engine] = []
    for name in options.engines.split(","):
        try:
            engines.append(ENGINES[name](folder))
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    work = list(cases(folder, options.schemas))
    warm_up = Case("warm-up", '{"type": "boolean"}', [])
    for engine in engines:  # imports, and what is built once per process
        run(engine, warm_up, Times())
    results = {pass_name: {e.name: Times() for e in engines} for pass_name in ("first", "again")}
    for by_engine in results.values():
        for n, case in enumerate(work):
            for k in range(len(engines)):
                engine = engines[(n + k) % len(engines)]
                run(engine, case, by_engine[engine.name])
    if options.json:
        shown = {
            pass_name: {
                name: {
                    **{what: summary(getattr(times, what)) for what in ("compile", "first_mask", "mask", "accept")},
                    "masks": len(times.mask), "refused": times.refused, "wrong": times.wrong,
                }
                for name, times in by_engine.items()
            }
            for pass_name, by_engine in results.items()
        }  # fmt: skip
        print(json.dumps(shown, indent=1))
    else:
        print(f"{folder.name}: {len(work)} schemas, {sum(len(t) for c in work for t in c.token_lists)} tokens\n")
        print(table(results))


if __name__ == "__main__":
    main()
