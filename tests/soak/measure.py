"""From measurements to checks: phases, quantiles, verdicts. Nothing here knows of servers or sockets."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

RATIO = 1.5
"""How much the p99 gap may grow at most while others attack."""
FIRST_RATIO = 4.0
"""The same for the first text. Attackers that ask for answers too share the places and the time for prompts."""
PACE = 0.5
"""The least share of their chunks per second that the streams must keep beside attackers. Fair shares of 16 places
would leave two thirds."""
FEW = 300
"""With fewer gaps than this in a phase, a p99 is not worth comparing."""
FEW_FIRSTS = 100
HEALTH_SECONDS = 0.2
LOG_BYTES = 1_000
"""Bytes of the log, on average, for each request and connection."""
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Phase:
    name: str
    """"warm", "without", "with", "settle"."""
    begin: float
    end: float


def plan(minutes: float) -> list[Phase]:
    """Phases without attackers and with them, in turn, so that other work on the machine affects both. Seconds from 0.

    After each attack some seconds count for neither, so that its effects can go.
    """
    whole = minutes * 60
    warm, settle = min(60.0, whole / 15), min(10.0, whole / 60)
    turns = max(2, round(minutes / 4))
    length = (whole - warm) / turns
    phases, at = [Phase("warm", 0, warm)], warm
    for _ in range(turns):
        ends = [at + 0.4 * length, at + length - settle, at + length]
        for name, end in zip(("without", "with", "settle"), ends, strict=True):
            phases.append(Phase(name, at, end))
            at = end
    return phases


class Clock:
    """The phases by time."""

    def __init__(self, phases: Sequence[Phase]) -> None:
        self.phases = phases
        self._begins = [phase.begin for phase in phases]

    def name(self, at: float) -> str:
        index = bisect_right(self._begins, at) - 1
        return self.phases[index].name if index >= 0 else "warm"

    def split(self, rows: Iterable[tuple[str, float, float]]) -> dict[str, dict[str, list[float]]]:
        """phase -> class -> values, with a class "all". A stall belongs to the phase in which it began."""
        by_phase: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for kind, at, value in rows:
            phase = self.name(at)
            by_phase[phase][kind].append(value)
            by_phase[phase]["all"].append(value)
        return by_phase


def quantile(values: Sequence[float], q: float) -> float:
    """The nearest of the values themselves; 0 where there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else 0.0


def compare(split: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, Any]]:
    """By class, for both phases: count, p50, p99, p99.9 and max in milliseconds; and the ratio of the p99s."""
    rows = {}
    for kind in sorted({"all", *split.get("without", {}), *split.get("with", {})}, key=lambda k: (k == "all", k)):
        row: dict[str, Any] = {}
        for phase in ("without", "with"):
            values = split.get(phase, {}).get(kind, [])
            milliseconds = {f"p{q * 100:g}": round(quantile(values, q) * 1e3, 1) for q in (0.5, 0.99, 0.999)}
            row[phase] = {"count": len(values), **milliseconds, "max": round(max(values, default=0) * 1e3, 1)}
        base = row["without"]["p99"]
        row["ratio"] = round(row["with"]["p99"] / base, 2) if base else None
        rows[kind] = row
    return rows


def flat(samples: Sequence[tuple[float, int]]) -> dict[str, Any]:
    """Whether memory is flat in the second half, by its straight line, and by the maximum of the last quarter compared
    with the quarter before.

    Each may rise by 5 % and 32 MB, since an allocator returns pages late, and a cache fills once.
    """
    if len(samples) < 20:
        return {"flat": False, "why": f"{len(samples)} samples only"}
    begin, end = samples[0][0], samples[-1][0]
    half = [(t, b) for t, b in samples if t >= (begin + end) / 2]
    third, last = ([b for t, b in half if (t >= begin + 0.75 * (end - begin)) is late] for late in (False, True))
    mean_t, mean_b = sum(t for t, _ in half) / len(half), sum(b for _, b in half) / len(half)
    spread = sum((t - mean_t) ** 2 for t, _ in half)
    slope = sum((t - mean_t) * (b - mean_b) for t, b in half) / spread if spread else 0.0
    rise, higher = slope * (half[-1][0] - half[0][0]), max(last) - max(third)
    allowed = 0.05 * mean_b + 32 * MEGABYTE
    return {
        "flat": rise <= allowed and higher <= allowed,
        "trend_mb": round(rise / MEGABYTE, 1),
        "last_quarter_higher_by_mb": round(higher / MEGABYTE, 1),
        "allowed_mb": round(allowed / MEGABYTE, 1),
        "mb_per_minute": round(slope * 60 / MEGABYTE, 2),
    }


def judge(unit: str, table: dict[str, dict[str, Any]], few: int, most: float) -> dict[str, str]:
    """Check -> the problem, or "". A class with fewer than `few` values is not judged, but "all" always is."""
    checks = {}
    for kind, row in table.items():
        counts = [row[phase]["count"] for phase in ("without", "with")]
        if min(counts) >= few:
            wrong = f"{row['with']['p99']} ms with attackers, {row['without']['p99']} ms without: {row['ratio']} times"
            checks[f"p99 {unit}, {kind}"] = "" if row["ratio"] <= most else wrong
        elif kind == "all":
            checks[f"p99 {unit}, all"] = f"too few to compare: {counts[0]} without attackers, {counts[1]} with them"
    return checks


def baseline_check(rows: Iterable[tuple[str, float, float]], phases: Sequence[Phase]) -> str:
    """An attack whose harm stays also slows the phases without attackers. So these are compared with the first one."""
    calm = [phase for phase in phases if phase.name == "without"]
    by_phase: list[list[float]] = [[] for _ in calm]
    clock = Clock(calm)
    for _, at, value in rows:
        index = bisect_right(clock._begins, at) - 1
        if index >= 0 and at < calm[index].end:
            by_phase[index].append(value)
    p99 = [quantile(values, 0.99) for values in by_phase]
    listed = ", ".join(f"{value * 1e3:.0f}" for value in p99)
    silent = not by_phase or any(4 * len(values) < len(by_phase[0]) for values in by_phase)
    return f"p99 gaps of the phases without attackers: {listed} ms" if silent or max(p99) > RATIO * p99[0] else ""
