"""The picture of docs/benchmarks.md: bars in SVG, on a scale on which each step is ten times the one before."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from first_sight.tables import in_order, number

COLOURS = {"narrows": "#2f81f7", "llguidance": "#8b949e", "xgrammar": "#d29922", "glrmask": "#57ab5a"}
BARS = [
    ("mask and accept, mean", "token", "mean"),
    ("mask and accept, 99.9th percentile", "token", "p99.9"),
    ("compilation and first mask, median", "first", "p50"),
    ("compilation and first mask, 99th percentile", "first", "p99"),
]
LEFT, WIDTH = 120, 480


def picture(numbers: dict[str, Any]) -> Iterator[str]:
    """From the part "schemas": the schemas that all engines take with every valid instance."""
    found = numbers["all"]
    names = in_order(found)
    groups = [
        (title, [(name, found[name][what][quantile]) for name in names if found[name][what]])
        for title, what, quantile in BARS
    ]
    values = [value for _, bars in groups for _, value in bars]
    if not values:
        return
    low = math.floor(math.log10(min(values)))
    high = math.ceil(math.log10(max(values)))
    height = 50 + sum(26 + 20 * len(bars) for _, bars in groups)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{height}" '
        'font-family="sans-serif" font-size="13" fill="#768390">'
    )
    yield '<text x="0" y="16">Microseconds of CPU time, schemas seen for the first time (less is better)</text>'
    for step in range(low, high + 1):
        x = LEFT + WIDTH * (step - low) / max(1, high - low)
        yield f'<line x1="{x:.0f}" y1="38" x2="{x:.0f}" y2="{height}" stroke="#768390" stroke-opacity="0.25"/>'
        yield f'<text x="{x:.0f}" y="34" text-anchor="middle" font-size="11">{10**step:,g}</text>'
    y = 42
    for title, bars in groups:
        yield f'<text x="0" y="{y + 14}" font-weight="bold">{title}</text>'
        y += 22
        for name, value in bars:
            width = max(1, round(WIDTH * (math.log10(value) - low) / max(1, high - low)))
            yield f'<text x="0" y="{y + 13}">{name}</text>'
            yield f'<rect x="{LEFT}" y="{y}" width="{width}" height="16" rx="2" fill="{COLOURS.get(name, "#768390")}"/>'
            yield f'<text x="{LEFT + 6 + width}" y="{y + 13}">{number(value)}</text>'
            y += 20
        y += 4
    yield "</svg>"
