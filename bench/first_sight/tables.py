"""The tables of docs/benchmarks.md, from the numbers of a run and from nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

ORDER = ("narrows", "llguidance", "xgrammar", "glrmask")


def number(value: float | None) -> str:
    """Three figures or more, as many as a reader can use."""
    if value is None:
        return "-"
    if value >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """In Markdown. The first column is words, the others are numbers."""
    rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " --: |" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


Cell = Callable[[dict[str, Any]], str]


def time_of(what: str, quantile: str) -> Cell:
    return lambda numbers: number(numbers[what].get(quantile))


SCHEMA_ROWS: list[tuple[str, Cell]] = [
    ("mask and accept, mean", time_of("token", "mean")),
    ("p50", time_of("token", "p50")),
    ("p99", time_of("token", "p99")),
    ("p99.9", time_of("token", "p99.9")),
    ("max", time_of("token", "max")),
    ("compilation and first mask, p50", time_of("first", "p50")),
    ("p99", time_of("first", "p99")),
    ("the same definition again, p50", time_of("again", "p50")),
    ("compilation and all masks, beside llguidance", lambda n: number(n["total beside llguidance"])),
]
COUNT_ROWS: list[tuple[str, Cell]] = [
    ("schemas taken", lambda n: f"{n['schemas']:,}"),
    ("schemas refused", lambda n: f"{n['refused']:,}"),
    ("schemas not done in time or in memory", lambda n: f"{n['lost']:,}"),
    ("valid instances with a token refused", lambda n: f"{n['valid refused']:,}"),
    ("so many schemas have one", lambda n: f"{n['schemas with a valid one refused']:,}"),
    ("tokens", lambda n: f"{n['tokens']:,}"),
]


def ahead_of(loading: dict[str, Any], what: str, unit: float) -> str:
    """What an engine makes ahead of the first definition. Empty where that is no number of its own."""
    return f"{loading['ahead'][what] / unit:.3f}" if "ahead" in loading else ""


def schemas(numbers: dict[str, Any]) -> str:
    out = []
    for key, title in (
        ("each", "over the schemas that each engine takes"),
        ("all", f"over the {numbers['common']:,} schemas that all take with every valid instance"),
    ):
        names = in_order(numbers[key])
        rows = (SCHEMA_ROWS + COUNT_ROWS) if key == "each" else SCHEMA_ROWS
        cells = [[label, *(cell(numbers[key][name]) for name in names)] for label, cell in rows]
        out.append(table([f"microseconds, {title}", *names], cells))
    return "\n\n".join(out)


def answer_cell(answer: dict[str, Any], what: str) -> str:
    """A number, with a word where the engine did not do all that was asked."""
    if "refused" in answer:
        return "refused"
    if "unread" in answer:
        return ""
    if "lost" in answer:
        return "not done"
    return number(answer[what]) + (" (masks a valid text)" if answer["wrong"] else "")


def of_definitions(rows: dict[str, Any], first_column: str) -> str:
    """Per definition: the mean and the longest mask, and the time to the first one."""
    names = in_order(next(iter(rows.values())))
    out = []
    for what, title in (("mean", "mean mask"), ("max", "longest mask"), ("first", "compilation and first mask")):
        cells = [[name, *(answer_cell(answers[engine], what) for engine in names)] for name, answers in rows.items()]
        out.append(table([f"{first_column}: {title}, microseconds", *names], cells))
    return "\n\n".join(out)


def vocabularies(found: dict[str, Any]) -> str:
    """Per tokenizer and engine: ordinary masks, and what a definition costs."""
    here = {name: one for name, one in found.items() if "engines" in one}
    names = in_order(next(iter(here.values()))["engines"]) if here else []
    out = []
    for title, cell in (
        ("mask and accept, mean, microseconds", time_of("token", "mean")),
        ("mask and accept, p99, microseconds", time_of("token", "p99")),
        ("compilation and first mask, p50, microseconds", time_of("first", "p50")),
        ("loading, seconds", lambda numbers: number(numbers["loading"]["seconds"])),
        ("loading, megabytes", lambda numbers: number(numbers["loading"]["bytes"] / 1e6)),
        ("made ahead, seconds", lambda numbers: ahead_of(numbers["loading"], "seconds", 1)),
        ("made ahead, megabytes", lambda numbers: ahead_of(numbers["loading"], "bytes", 1e6)),
    ):
        rows = [
            [f"{name}, {one['size']:,} tokens", *(cell(one["engines"][engine]) for engine in names)]
            for name, one in sorted(here.items(), key=lambda item: item[1]["size"])
        ]
        out.append(table([title, *names], rows))
    out += [f"{name} is left out: {one['left out']}" for name, one in found.items() if "left out" in one]
    return "\n\n".join(out)


def batch_row(count: int, what: str) -> tuple[str, Cell]:
    title = f"a known mask, of {count} filled in one call: {what} time"
    return title, lambda numbers: number(numbers["batches"][str(count)][what.lower()])


OPERATION_ROWS: list[tuple[str, Cell]] = [
    ("loading the vocabulary, seconds", lambda n: number(n["loading"]["seconds"])),
    ("loading the vocabulary, megabytes", lambda n: number(n["loading"]["bytes"] / 1e6)),
    ("made ahead of the first definition, seconds", lambda n: ahead_of(n["loading"], "seconds", 1)),
    ("made ahead of the first definition, megabytes", lambda n: ahead_of(n["loading"], "bytes", 1e6)),
    ("one token checked without a mask, first pass, mean", lambda n: number(n["checks"]["first pass"])),
    ("one token checked without a mask, known, p50", lambda n: number(n["checks"]["known"])),
    ("nine masks along a draft of 8, first pass, mean", lambda n: number(n["drafts"]["first pass"])),
    ("nine masks along a draft of 8, known, p50", lambda n: number(n["drafts"]["known"])),
    *(batch_row(count, what) for count in (1, 8, 64, 512) for what in ("CPU", "wall")),
    ("a known mask while new ones are made, wall p50", lambda n: number(n["beside"]["p50"])),
    ("a known mask while new ones are made, wall p99", lambda n: number(n["beside"]["p99"])),
    ("a known mask while new ones are made, wall max", lambda n: number(n["beside"]["max"])),
]


def operations(found: dict[str, Any]) -> str:
    names = in_order(found)

    def cell(read: Cell, numbers: dict[str, Any]) -> str:
        try:
            return read(numbers)
        except KeyError:  # the engine was lost on the way
            return "not done"

    rows = [[label, *(cell(read, found[name]) for name in names)] for label, read in OPERATION_ROWS]
    parsers = found.get("narrows", {}).get("parsers", {})
    rows += [
        [f"a stream parser and its first delta, {what}", *(number(time) if name == "narrows" else "" for name in names)]
        for what, time in parsers.items()
    ]
    return table(["microseconds, where nothing else is said", *names], rows)


PARTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "schemas": schemas,
    "features": lambda rows: of_definitions(rows, "feature"),
    "languages": lambda rows: of_definitions(rows, "language"),
    "vocabularies": vocabularies,
    "operations": operations,
}


def page(numbers: dict[str, Any]) -> str:
    return "\n\n".join(make(numbers[part]) for part, make in PARTS.items() if part in numbers)
