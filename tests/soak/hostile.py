"""Does every call return soon, or raise? 1,000 random grammars and 1,000 mutated schemas, on the vocabulary of Llama 3.

    python tests/soak/hostile.py [--runs 1000] [--first 0] [--kinds named grammar schema] [--json FILE]

In CPU seconds of the calling thread: a call that does not raise takes at most 0.5 s, a compilation at most 2 s. Memory
may grow by twice `Limits.constraint_bytes` (which is checked between calls and may double within one) and by
`Limits.vocabulary_bytes`. A case that is too slow runs again in a new process, and counts if it is too slow both times:
on a busy machine even CPU time varies. Exit code 1 if a case counts.
"""

from __future__ import annotations

import argparse
import json
import select
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

from narrows.limits import DEFAULT_LIMITS

CALL_SECONDS = 0.5
COMPILE_SECONDS = 2.0
CASE_SECONDS = 30.0
"""CPU seconds after which a case is ended; the wall-clock limit is forty times as long."""
CASE_BYTES = 3_000_000_000
SLACK = 200_000_000
"""Bytes that one compilation uses and frees again, and bytes that the allocator keeps."""
CONSTRAINT_BYTES = 2 * DEFAULT_LIMITS.constraint_bytes
BOUND = CONSTRAINT_BYTES + DEFAULT_LIMITS.vocabulary_bytes + SLACK


def run(kind: str, numbers: list[str]) -> list[dict[str, Any]]:
    """One line per case. A case that does not end, or takes too much, is killed, and a new process does the rest."""
    results: list[dict[str, Any]] = []
    left = list(numbers)
    while left:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("walks.py")), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n".join(left).encode())
        process.stdin.close()
        current, killed, read = "", "", b""
        watched, begun, before, most = psutil.Process(process.pid), time.monotonic(), 0.0, 0
        while True:
            ready, _, _ = select.select([process.stdout], [], [], 0.2)
            data = process.stdout.read1(1 << 16) if ready else None
            if data == b"":
                break
            *lines, read = (read + (data or b"")).split(b"\n")
            for line in map(json.loads, lines):
                if "begun" in line:
                    current, begun, before, most = line["begun"], time.monotonic(), line["cpu"], 0
                    continue
                results.append(line | {"most": most})
                left.remove(line["number"])
                current = ""
                if len(results) % 100 == 0:
                    print(f"{kind}: {len(results)} of {len(numbers)}", file=sys.stderr, flush=True)
            try:
                held, times = watched.memory_info().rss, watched.cpu_times()
            except psutil.Error:
                continue
            most = max(most, held)
            spent, passed = times.user + times.system - before, time.monotonic() - begun
            if current and (spent > CASE_SECONDS or passed > 40 * CASE_SECONDS or held > CASE_BYTES):
                killed = f"killed after {spent:.0f} s of CPU, {passed:.0f} s by the clock, at {held >> 20} MB"
                process.kill()
                break
        process.wait()
        if current:
            results.append(
                {
                    "number": current,
                    "killed": killed or f"the process ended: {process.returncode}",
                    "slowest": {},
                    "calls": 0,
                }
            )
            left.remove(current)
        elif left and process.returncode:
            raise SystemExit(f"walks.py ended with {process.returncode}")
        print(f"{kind}: {len(results)} of {len(numbers)}", file=sys.stderr, flush=True)
    return results


def wrong(case: dict[str, Any]) -> list[str]:
    if "killed" in case:
        return [case["killed"]]
    problems = []
    for name, seconds in case["slowest"].items():
        if name == "all calls together":
            continue  # reported, but without a bound
        most = COMPILE_SECONDS if name.startswith("compile") else CALL_SECONDS
        if seconds > most and (name.startswith("compile") or not name.endswith("raising")):
            problems.append(f"{name} {seconds:.2f} s")
    if case["constraint_bytes"] > CONSTRAINT_BYTES:
        problems.append(f"constraint_bytes {case['constraint_bytes'] >> 20} MB")
    if case["shared_bytes"] > DEFAULT_LIMITS.vocabulary_bytes:
        problems.append(f"shared_bytes {case['shared_bytes'] >> 20} MB")
    if case["grown"] > BOUND:
        problems.append(f"grown by {case['grown'] >> 20} MB")
    return problems


def judge(kind: str, numbers: list[str]) -> dict[str, Any]:
    cases = run(kind, numbers)
    suspects = [case["number"] for case in cases if wrong(case)]
    again = {case["number"]: case for number in suspects for case in run(kind, [number])}
    failed = [
        case | {"wrong": wrong(again[case["number"]])}
        for case in cases
        if case["number"] in again and wrong(again[case["number"]])
    ]
    slowest: dict[str, list[tuple[float, str]]] = {}
    for case in cases:
        for name, seconds in case["slowest"].items():
            slowest.setdefault(name, []).append((seconds, case["number"]))
    return {
        "kind": kind,
        "cases": len(cases),
        "calls": sum(case["calls"] for case in cases),
        "ended": dict(Counter(case.get("error") or ("killed" if "killed" in case else "walked") for case in cases)),
        "slowest": {name: sorted(rows, reverse=True)[:8] for name, rows in sorted(slowest.items())},
        "most_grown_mb": max((case.get("grown", 0) for case in cases), default=0) >> 20,
        "slow_once_only": len(suspects) - len(failed),
        "failed": failed,
    }


def show(result: dict[str, Any]) -> None:
    print(
        f"\n{result['kind']}: {result['cases']} cases, {result['calls']} calls, "
        f"grown by {result['most_grown_mb']} MB at most; {result['ended']}"
    )
    for name, rows in result["slowest"].items():
        print(f"  {name:20} " + ", ".join(f"{seconds:.3f} ({number})" for seconds, number in rows))
    print(f"  too slow once, not again: {result['slow_once_only']}; wrong: {len(result['failed'])}")
    for case in result["failed"]:
        print(f"  WRONG {case['number']}: {'; '.join(case['wrong'])}\n    {case.get('text', '')[:300]!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000, help="the number of random grammars, and of schemas")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kinds", nargs="+", default=["named", "grammar", "schema"])
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    from walks import NAMED

    numbers = [str(i) for i in range(options.first, options.first + options.runs)]
    results = [judge(kind, list(NAMED) if kind == "named" else numbers) for kind in options.kinds]
    for result in results:
        show(result)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(any(result["failed"] for result in results))


if __name__ == "__main__":
    main()
