"""Where is the engine slow? Measured beside what is fast, so that a change shows.

    python bench/engine_limits.py        # options as for bench/engine.py

    counters  Strings with a maximal length, with and without a pattern; patterns with counters inside counters.
    epochs    The same texts, when the remembered masks fit into limits.constraint_bytes and when they hardly fit.
    locks     How long a known mask waits while another thread computes slow new ones, or compiles.

CPU time of the calling thread, in microseconds. Waits are wall time, so a busy machine changes them.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

from engine import Bench, Row, instances, main, quantiles, schemas, walk

import narrows

PATIENT = replace(narrows.Limits(), step_work=1_000_000_000)


def counters(bench: Bench) -> list[Row]:
    rows: list[Row] = []
    text = ("the quick brown fox jumps over the lazy dog " * 12)[:500]
    for name, extra in (
        ("string", {}),
        ("maxLength 1000", {"maxLength": 1000}),
        ("pattern [a-z ]*", {"pattern": "^[a-z ]*$"}),
        ("pattern [a-z ]{0,1000}", {"pattern": "^[a-z ]{0,1000}$"}),
        ("pattern [a-z ]*, maxLength 1000", {"pattern": "^[a-z ]*$", "maxLength": 1000}),
        ("pattern ([a-z]+ ?)*, maxLength 1000", {"pattern": "^([a-z]+ ?)*$", "maxLength": 1000}),
    ):
        vocabulary = bench.vocabulary()
        constraint = vocabulary.compile(narrows.Grammar.from_json_schema({"type": "string", **extra}))
        ids = bench.encode(json.dumps(text))
        rows.append({"counters": name, **walk(bench, constraint, ids)})
    for pattern, text in (
        (r"#[0-9a-f]{3,8}", "#a1b2c3"),
        (r"\d{1,3}(\.\d{1,3}){3}", "192.168.100.27"),
        (r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z]{2,6}", "a-rather-long-host-name.department.example.org"),
        (
            r"[a-zA-Z0-9._%+-]{1,64}@([a-z0-9-]{1,63}\.){1,8}[a-z]{2,6}",
            "somebody.somewhere@mail.department.example.org",
        ),
        (r"(\w{1,20} ){0,9}\w{1,20}", "one two three fourfold and five"),
        (r"([a-z0-9]{1,63}-?){1,20}", "a-slug-with-some-words-in-it"),
        (r"(([a-z]{1,9}_?){1,9}-?){1,5}", "a-slug_with-some_words"),
        (r"(([a-z]{1,9}_?){1,9}-?){1,9}", "a-slug_with-some_words"),
    ):
        grammar = narrows.Grammar.from_regex(pattern, "ecma")
        ids = bench.encode(text)
        try:
            spent = walk(bench, bench.vocabulary().compile(grammar), ids)
        except narrows.LimitError as error:
            if error.limit != "step_work":
                raise
            row: Row = {
                "pattern": pattern,
                "step_work": "met: raised",
                **walk(bench, bench.vocabulary().compile(grammar, PATIENT), ids),
            }
        else:
            row = {"pattern": pattern, "step_work": "", **spent}
        rows.append(row)
    return rows


def epochs(bench: Bench) -> list[Row]:
    """The same texts, when the remembered masks fit into the limit and when they hardly fit."""
    vocabulary = bench.vocabulary()
    entry = next(s for s in schemas() if s["name"] == "create_issue")
    grammar = narrows.Grammar.from_json_schema(entry["schema"])
    lists = [bench.encode(json.dumps(i, ensure_ascii=False)) for i in instances(entry, 20, bench.random)]
    rows = []
    for budget in (64_000_000, 200_000, 100_000, 70_000):
        constraint = vocabulary.compile(grammar, replace(narrows.Limits(), constraint_bytes=budget))
        spent: list[float] = []
        row: Row = {"constraint_bytes": budget}
        try:
            for ids in lists:
                matcher = constraint.matcher()
                for token in ids:
                    spent.append(bench.fill(matcher))
                    matcher.accept(token)
        except narrows.LimitError as error:
            row["error"] = str(error)[:60]
        row |= {
            "tokens": len(spent),
            **(quantiles(spent, "mask ") if spent else {}),
            "epochs": constraint.stats()["epoch"],
        }
        rows.append(row)
    return rows


def locks(bench: Bench) -> list[Row]:
    """How long a known mask waits (wall time) while another thread computes slow new ones, or compiles, for the same
    vocabulary or for another."""
    slow = narrows.Grammar.from_regex("(([a-z]{1,9}_?){1,9}-?){1,5}")
    keys = {f"key_{i}": {"type": "integer"} for i in range(300)}
    large = narrows.Grammar.from_json_schema({"type": "object", "properties": keys, "additionalProperties": False})

    def masks(vocabulary: narrows.Vocabulary) -> Iterator[float]:
        row = bench.row.copy()
        matcher = vocabulary.compile(slow, PATIENT).matcher()
        for token in bench.encode("a-slug_with-some_words"):
            start = time.perf_counter()
            matcher.fill_mask(row)
            yield (time.perf_counter() - start) * 1e6
            matcher.accept(token)

    def compilations(vocabulary: narrows.Vocabulary) -> Iterator[float]:
        for _ in range(10):
            start = time.perf_counter()
            vocabulary.compile(large)
            yield (time.perf_counter() - start) * 1e6

    rows: list[Row] = []
    for work in (masks, compilations):
        for same in (False, True):
            vocabulary, other = bench.vocabulary(), bench.vocabulary()
            matcher = vocabulary.compile(narrows.Grammar.from_regex("[0-9]+")).matcher()
            row = bench.row.copy()
            matcher.fill_mask(row)
            durations: list[float] = []
            maker = work(vocabulary if same else other)
            thread = threading.Thread(target=durations.extend, args=(maker,))
            waits = []
            thread.start()
            while thread.is_alive():
                start = time.perf_counter()
                matcher.fill_mask(row)
                waits.append((time.perf_counter() - start) * 1e6)
            rows.append(
                {
                    "wait of": f"known masks beside {work.__name__} of {'the same' if same else 'another'} vocabulary"
                    " (wall)",
                    "known masks": len(waits), **quantiles(waits, "wait "),
                    "waits over 5 ms": sum(w > 5_000 for w in waits), "slowest beside": max(durations),
                }
            )  # fmt: skip
    return rows


if __name__ == "__main__":
    main({"counters": counters, "epochs": epochs, "locks": locks}, __doc__)
