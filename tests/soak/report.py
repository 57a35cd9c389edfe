"""The result of a soak: the numbers as one object, the checks on them, and both as text."""

from __future__ import annotations

from collections import Counter
from typing import Any

import attacks
from load import Record
from measure import (
    FEW,
    FEW_FIRSTS,
    FIRST_RATIO,
    HEALTH_SECONDS,
    LOG_BYTES,
    MEGABYTE,
    PACE,
    RATIO,
    Clock,
    Phase,
    baseline_check,
    compare,
    flat,
    judge,
    quantile,
)
from process import Server

FLAT_MINUTES = 20
"""In less time caches still fill, so memory need not be flat."""
BUSY = 0.3
"""Processors that other work may use. Beyond that, times say little."""
MOST_BYTES = 2_000 * MEGABYTE


def report(
    *,
    record: Record,
    phases: list[Phase],
    cpu: list[dict[str, Any]],
    attackers: dict[str, dict[str, Any]],
    faults: list[str],
    server: Server,
    ended: str,
    held: str,
    stopping: str,
    minutes: float,
) -> dict[str, Any]:
    clock = Clock(phases)
    gaps, firsts = compare(clock.split(record.gaps)), compare(clock.split(record.firsts))
    health = {}
    for phase in ("without", "with"):
        seen = [(seconds, wrong) for at, seconds, wrong in server.probes if clock.name(at) == phase]
        times = [seconds for seconds, _ in seen]
        health[phase] = {
            "count": len(seen),
            "p99": round(quantile(times, 0.99), 3),
            "max": round(max(times, default=0), 3),
            "failed": dict(Counter(wrong for _, wrong in seen if wrong)),
        }
    text = server.log.read_bytes()
    answered = sum(record.outcomes.values()) + sum(sum(kind["answers"].values()) for kind in attackers.values())
    memory = [(at, held_bytes) for at, held_bytes, *_ in server.samples]
    result: dict[str, Any] = {
        "minutes": minutes,
        "gaps_ms": gaps,
        "first_chunk_ms": firsts,
        "outcomes": {name: _by_class(record, name) for name, _ in sorted(record.outcomes)},
        "failures": [failure | {"phase": clock.name(failure["at"])} for failure in record.failures][:200],
        "tokens": record.tokens,
        "chunks_per_second": {
            phase: round(gaps["all"][phase]["count"] / max(1.0, seconds), 1)
            for phase, seconds in _lengths(phases).items()
        },
        "left": record.left,
        "own_lag_p99_ms": {
            phase: round(1e3 * quantile([lag for at, lag in record.lags if clock.name(at) == phase], 0.99), 1)
            for phase in ("without", "with")
        },
        "health_seconds": health,
        "memory": {
            "first_mb": memory[0][1] >> 20 if memory else 0,
            "most_mb": max((size for _, size in memory), default=0) >> 20,
            "each_minute_mb": [size >> 20 for _, size in memory[::60]],
            **flat(memory),
        },
        "threads_most": max((sample[3] for sample in server.samples), default=0),
        "descriptors_most": max((sample[4] for sample in server.samples), default=0),
        "log": {
            "bytes": len(text),
            "per_answer": round(len(text) / max(1, answered)),
            "tail": text[-1500:].decode(errors="replace"),
        },
        "cpu_seconds": cpu,
        "attackers": attackers,
        "faults": faults,
    }
    forged = sum(line.startswith(attacks.FORGED.encode()) for line in text.splitlines())
    judged_flat = minutes >= FLAT_MINUTES
    result["checks"] = {
        "no well-behaved request fails": f"{len(record.failures)} did" if record.failures else "",
        "every stream comes to its end": ended,
        **judge("gap", gaps, FEW, RATIO),
        **(judge("first chunk", {"all": firsts["all"]}, FEW_FIRSTS, FIRST_RATIO) if minutes >= FLAT_MINUTES else {}),
        "the streams get on": _pace(result["chunks_per_second"]),
        "no harm stays after an attack": baseline_check(record.gaps, phases),
        "/health": _health(health),
        "no attack gets a 5xx": _faults(attackers),
        "every attack gets an answer": _silent(attackers),
        "no connection is used again after two lengths": _smuggled(attackers),
        "no error repeats much of what was sent": _large(attackers),
        "memory is flat in the second half": "" if result["memory"]["flat"] or not judged_flat else str(flat(memory)),
        f"memory stays below {MOST_BYTES // MEGABYTE} MB": server.killed or ("" if result["memory"]["most_mb"] << 20 <= MOST_BYTES else f"{result['memory']['most_mb']} MB"),
        "the log is bounded": "" if len(text) <= 65_536 + LOG_BYTES * answered else f"{len(text)} bytes for {answered} answers",
        "no request writes a line into the log": f"{forged} lines" if forged else "",
        "nothing is held at the end": held,
        "SIGTERM drains, exit code 0": stopping,
    }  # fmt: skip
    return result


def _lengths(phases: list[Phase]) -> dict[str, float]:
    """Seconds of all phases without attackers, and with them."""
    return {name: sum(p.end - p.begin for p in phases if p.name == name) for name in ("without", "with")}


def _by_class(record: Record, name: str) -> dict[str, int]:
    return {outcome: count for (kind, outcome), count in record.outcomes.items() if kind == name}


def _pace(chunks: dict[str, float]) -> str:
    return "" if chunks["with"] >= PACE * chunks["without"] else f"chunks per second: {chunks}"


def _health(health: dict[str, dict[str, Any]]) -> str:
    """Both phases are judged, since harm may come late."""
    wrong = []
    for phase, row in health.items():
        if row["failed"]:
            wrong.append(f"{phase} attackers {row['failed']}")
        if row["max"] > HEALTH_SECONDS:
            wrong.append(f"{phase} attackers p99 {row['p99']} s, max {row['max']} s")
    return "; ".join(wrong)


def _faults(attackers: dict[str, dict[str, Any]]) -> str:
    """Only floods of connections may get 503."""
    faults = [
        f"{name}: {answer} ({count})"
        for name, kind in attackers.items()
        for answer, count in kind["answers"].items()
        if answer.removeprefix("status ").startswith("5") and not (kind["aim"] == "connection" and "503" in answer)
    ]
    return "; ".join(faults)


def _silent(attackers: dict[str, dict[str, Any]]) -> str:
    silent = [
        f"{name}: {answer} ({count})"
        for name, kind in attackers.items()
        for answer, count in kind["answers"].items()
        if answer.startswith("nothing in")
    ]
    return "; ".join(silent)


def _smuggled(attackers: dict[str, dict[str, Any]]) -> str:
    answers = attackers.get("two lengths", {"answers": {}})["answers"]
    twice = {
        answer: count for answer, count in answers.items() if answer.endswith(" answers") and answer != "0 answers"
    }
    return ", ".join(f"{answer} ({count})" for answer, count in twice.items())


def _large(attackers: dict[str, dict[str, Any]]) -> str:
    large = [
        f"{name}: {answer} ({count})"
        for name, kind in attackers.items()
        for answer, count in kind["answers"].items()
        if answer.endswith(" KB")
    ]
    return "; ".join(large)


def show(result: dict[str, Any]) -> str:
    lines = [
        f"{'gaps, ms':20} {'without':>8} {'p50':>7} {'p99':>7} {'p99.9':>7} {'max':>8} {'with':>8} {'p50':>7} {'p99':>7} {'p99.9':>7} {'max':>8}  p99 ratio"
    ]
    for title, table in (("", result["gaps_ms"]), ("first chunk, ms", result["first_chunk_ms"])):
        lines += [title] if title else []
        for kind, row in table.items():
            numbers = "".join(
                f" {row[phase]['count']:>8}"
                + "".join(f" {row[phase][q]:>7.0f}" for q in ("p50", "p99", "p99.9"))
                + f" {row[phase]['max']:>8.0f}"
                for phase in ("without", "with")
            )
            lines.append(f"{kind:20}{numbers}  {row['ratio']}")
    lines += ["", "answers"] + [f"{name:20} {counts}" for name, counts in result["outcomes"].items()]
    for failure in result["failures"][:12]:
        lines.append(
            f"  failed, {failure['phase']}: {failure['class']}, after {failure['seconds']} s: {failure['what'][:160]}"
        )
    lines += ["", f"{'attacks':38} {'slowest s':>9} {'largest':>8}  answers"]
    for name, kind in result["attackers"].items():
        answers = ", ".join(f"{answer}: {count}" for answer, count in sorted(kind["answers"].items()))
        lines.append(f"{name:38} {kind['slowest_seconds']:>9.1f} {kind['largest_bytes']:>8}  {answers}")
    lines += [f"  {fault}" for fault in result["faults"]]
    memory = {key: value for key, value in result["memory"].items() if key != "each_minute_mb"}
    lines += [
        "",
        f"chunks/s   {result['chunks_per_second']}",
        f"/health    {result['health_seconds']}",
        f"memory     {memory}",
        f"log        {result['log']['bytes']} bytes, {result['log']['per_answer']} for an answer",
    ]
    lines += [
        (
            f"process    {result['threads_most']} threads, {result['descriptors_most']} descriptors at most; "
            f"this one was late by {result['own_lag_p99_ms']} ms at p99"
        )
    ]
    lines += [f"cpu        {row}" for row in result["cpu_seconds"]]
    others = sum(row["machine"] - row["server"] - row["attackers"] - row["load"] for row in result["cpu_seconds"])
    share = others / max(1.0, sum(row["seconds"] for row in result["cpu_seconds"]))
    if share > BUSY:
        lines.append(f"busy       {share:.1f} processors did other work: these times say little")
    lines.append("")
    for name, wrong in result["checks"].items():
        lines.append(f"{'FAILED' if wrong else 'ok':7} {name}{': ' + wrong[:400] if wrong else ''}")
    return "\n".join(lines)
