"""Which real schemas does an engine take, and does it keep to them? narrows, llguidance and xgrammar on the same files.

    pip install -e '.[bench]'
    git clone https://github.com/guidance-ai/jsonschemabench ../jsonschemabench
    python bench/schemas.py ../jsonschemabench/maskbench/data          # all 11,305 files
    python bench/schemas.py DATA --every 10 --engines narrows --key-order any

Each file holds a schema, and instances with a label: valid or not. An instance is written by `json.dumps` without
spaces, and read byte by byte by a vocabulary of single bytes, so that only the grammar is judged. For each engine it
says: how many schemas it refuses and why; how many invalid instances it accepts; how many valid ones it refuses; what
compiling costs (CPU time of one process, the vocabulary aside).

The data set has renamed some keywords (`_format`, `_uniqueItems`). With `--real-names` they get their names back. Then
a validator (jsonschema-rs, formats asserted) says again which instances are valid.

A file that takes longer than `--timeout`, or takes the process down, counts as refused.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as OutOfTime
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pebble import ProcessPool

END = 256
Reads = Callable[[bytes], bool]
"""Whether an engine takes a whole text."""


def narrows(key_order: str) -> Callable[[Any], Reads]:
    from narrows import Grammar, Vocabulary

    vocabulary = Vocabulary([*(bytes([b]) for b in range(256)), b""], special={"<end>": END}, eos=[END])

    def compiled(schema: Any) -> Reads:
        grammar = Grammar.from_json_schema(schema, whitespace="compact", key_order=key_order)
        constraint = vocabulary.compile(grammar)

        def reads(text: bytes) -> bool:
            matcher = constraint.matcher()
            return matcher.accept_bytes(text) and matcher.is_accepting

        return reads

    return compiled


def llguidance(_: str) -> Callable[[Any], Reads]:
    import llguidance as module

    tokenizer = module.LLTokenizer("byte")

    def compiled(schema: Any) -> Reads:
        grammar = module.LLMatcher.grammar_from_json_schema(json.dumps(schema))
        matcher = module.LLMatcher(tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())

        def reads(text: bytes) -> bool:
            one = matcher.deep_copy()
            return bool(one.consume_tokens(list(text))) and one.is_accepting()

        return reads

    return compiled


def xgrammar(_: str) -> Callable[[Any], Reads]:
    import xgrammar as module

    tokens = [*(bytes([b]) for b in range(256)), b"<end>"]
    info = module.TokenizerInfo(tokens, vocab_type=module.VocabType.RAW, stop_token_ids=[END])
    compiler = module.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def compiled(schema: Any) -> Reads:
        grammar = compiler.compile_json_schema(json.dumps(schema), any_whitespace=True, strict_mode=False)

        def reads(text: bytes) -> bool:
            matcher = module.GrammarMatcher(grammar)
            return matcher.accept_string(text) and matcher.accept_token(END)

        return reads

    return compiled


ENGINES: dict[str, Callable[[str], Callable[[Any], Reads]]] = {
    "narrows": narrows, "llguidance": llguidance, "xgrammar": xgrammar,
}  # fmt: skip
RENAMED = {f"_{name}": name for name in ("format", "uniqueItems", "contentEncoding", "contentMediaType")}


@dataclass
class Outcome:
    """What one engine did with one file."""

    seconds: float = 0
    refused: str = ""
    valid: int = 0
    invalid: int = 0
    valid_refused: list[str] = field(default_factory=list)
    invalid_accepted: list[str] = field(default_factory=list)


def with_real_names(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            RENAMED.get(key, key) if not isinstance(value, dict) else key: with_real_names(value)
            for key, value in schema.items()
        }
    return [with_real_names(item) for item in schema] if isinstance(schema, list) else schema


def instances(schema: Any, tests: list[dict[str, Any]], judged_again: bool) -> Iterator[tuple[Any, bool]]:
    if not judged_again:
        yield from ((test["data"], test["valid"]) for test in tests)
        return
    import jsonschema_rs

    try:
        judge = jsonschema_rs.validator_cls_for(schema)(schema, validate_formats=True)
    except (
        ValueError
    ):  # with its real names the judge takes it for none, mostly for what it calls no regular expression
        return
    for test in tests:
        yield test["data"], judge.is_valid(test["data"])


_engines: dict[tuple[str, str], Callable[[Any], Reads]] = {}


def run(engine: str, key_order: str, real_names: bool, file: Path) -> Outcome:
    """In a process of its own, which keeps its engine."""
    compiled = _engines.get((engine, key_order)) or ENGINES[engine](key_order)
    _engines[engine, key_order] = compiled
    content = json.loads(file.read_text(encoding="utf-8"))
    schema = with_real_names(content["schema"]) if real_names else content["schema"]
    outcome = Outcome()
    begin = time.process_time()
    try:
        reads = compiled(schema)
    except Exception as error:  # any refusal of any engine
        outcome.refused = f"{getattr(error, 'code', type(error).__name__)}: {getattr(error, 'message', error)}"
    outcome.seconds = time.process_time() - begin
    if outcome.refused:
        return outcome
    for value, is_valid in instances(schema, content["tests"], real_names):
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        try:
            accepted = reads(text)
        except Exception:  # a text that the engine gives up on
            accepted = False
        if is_valid:
            outcome.valid += 1
            outcome.valid_refused += [] if accepted else [text.decode(errors="replace")]
        else:
            outcome.invalid += 1
            outcome.invalid_accepted += [text.decode(errors="replace")] if accepted else []
    return outcome


def all_outcomes(engine: str, files: list[Path], options: argparse.Namespace, key_order: str) -> dict[Path, Outcome]:
    task = partial(run, engine, key_order, options.real_names)
    found: dict[Path, Outcome] = {}
    with ProcessPool(max_workers=options.processes) as pool:
        results = pool.map(task, files, timeout=options.timeout).result()
        for file in files:
            try:
                found[file] = next(results)
            except OutOfTime:
                found[file] = Outcome(options.timeout, refused=f"not done after {options.timeout:.0f} s")
            except Exception as error:
                found[file] = Outcome(refused=f"the process ended: {type(error).__name__}")
    return found


def reason(refusal: str) -> str:
    """Without names, numbers and places, so that equal reasons are counted together."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\(at [^)]*\)|\d[\d,.]*", "_", refusal.splitlines()[0])[:110]


def summary(found: dict[Path, Outcome]) -> dict[str, Any]:
    every = list(found.values())
    times = sorted(one.seconds for one in every)
    taken = [one for one in every if not one.refused]
    return {
        "schemas": len(every),
        "refused": len(every) - len(taken),
        "refused by reason": dict(Counter(reason(one.refused) for one in every if one.refused).most_common(40)),
        "invalid": sum(one.invalid for one in taken),
        "invalid accepted": sum(len(one.invalid_accepted) for one in taken),
        "schemas with an invalid one accepted": sum(bool(one.invalid_accepted) for one in taken),
        "valid": sum(one.valid for one in taken),
        "valid refused": sum(len(one.valid_refused) for one in taken),
        "schemas with a valid one refused": sum(bool(one.valid_refused) for one in taken),
        "compile ms": {
            name: round(1e3 * times[min(len(times) - 1, int(share * len(times)))], 2)
            for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))
        },
        "examples": {
            "invalid accepted": [
                [file.name, one.invalid_accepted[0][:200]] for file, one in found.items() if one.invalid_accepted
            ][:10],
            "valid refused": [
                [file.name, one.valid_refused[0][:200]] for file, one in found.items() if one.valid_refused
            ][:10],
        },
    }


def table(results: dict[str, dict[str, Any]]) -> str:
    lines = [f"{'':40}" + "".join(f"{name:>22}" for name in results)]
    rows: list[tuple[str, Callable[[dict[str, Any]], str]]] = [
        ("schemas refused", lambda r: f"{r['refused']:,} ({r['refused'] / r['schemas']:.2%})"),
        ("invalid instances accepted", lambda r: f"{r['invalid accepted']:,} of {r['invalid']:,}"),
        ("  in so many schemas", lambda r: f"{r['schemas with an invalid one accepted']:,}"),
        ("valid instances refused", lambda r: f"{r['valid refused']:,} of {r['valid']:,}"),
        ("  in so many schemas", lambda r: f"{r['schemas with a valid one refused']:,}"),
        *((f"compile {q}, ms", lambda r, q=q: f"{r['compile ms'][q]:,}") for q in ("p50", "p90", "p99", "max")),
    ]  # fmt: skip
    lines += [f"{name:40}" + "".join(f"{value(r):>22}" for r in results.values()) for name, value in rows]
    for engine, result in results.items():
        lines.append(f"\n{engine} refuses")
        lines += [f"{count:7,}  {why}" for why, count in result["refused by reason"].items()]
        for kind, examples in result["examples"].items():
            lines += [f"{engine}, {kind}: {name} {text}" for name, text in examples]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of MaskBench's files")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th file")
    parser.add_argument("--key-order", default="declared", choices=("declared", "any"), help="for narrows")
    parser.add_argument("--real-names", action="store_true", help="give renamed keywords their names back")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS", help="for one file")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    options = parser.parse_args()
    files = sorted(options.data.glob("*.json"))[:: options.every]
    if not files:
        parser.error(f"{options.data} has no JSON files")
    results: dict[str, dict[str, Any]] = {}
    for engine in options.engines.split(","):
        found = all_outcomes(engine, files, options, options.key_order)
        results[engine] = summary(found)
    print(json.dumps(results, indent=1) if options.json else f"{len(files):,} schemas\n\n{table(results)}")


if __name__ == "__main__":
    main()
