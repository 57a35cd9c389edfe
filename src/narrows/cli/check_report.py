"""What `narrows check` prints: what is not enforced first, then what is narrower, then what is exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.markup import escape

from narrows.cli.reading import Answer, Refusal
from narrows.cli.terminal import out, print_beside, print_table, visible
from narrows.errors import InputError

_ORDER = {"ignored": "red", "over": "red", "under": "yellow", "exact": "green"}
"""Statuses, the worst first, and their colours."""
_AT = 9
"""The column in which a report's text begins."""
_FEW = 3


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds, microseconds, counts and bytes, as their names say."""

    lower_ms: float
    compile_ms: float
    first_mask_us: float
    repeated_mask_us: float
    stats: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        times = {name: getattr(self, name) for name in ("lower_ms", "compile_ms", "first_mask_us", "repeated_mask_us")}
        return {**{name: round(value, 3) for name, value in times.items()}, **self.stats}


@dataclass(frozen=True, slots=True)
class Text:
    """A text or an instance that was read."""

    source: str
    """Its file, or the option that holds it."""
    kind: str
    """ "instance" or "text"."""
    answer: Answer
    error: InputError | None = None
    """Of an instance: why it is no JSON text."""
    captures: list[dict[str, Any]] | None = None
    """Of a text that is allowed: what is captured in it."""

    @property
    def allowed(self) -> bool:
        return self.error is None and self.answer.allowed

    def to_dict(self) -> dict[str, Any]:
        refusal = self.answer.refusal
        return {
            "source": self.source,
            "allowed": self.allowed,
            "error": None if self.error is None else self.error.to_dict(),
            "refusal": None if refusal is None else refusal.to_dict(),
            "only_spelling": self.answer.spelling,
            **({"captures": self.captures or []} if self.kind == "text" else {}),
        }


def show_report(report: Mapping[str, Mapping[str, str]], verbose: bool) -> None:
    """The keywords of a schema, the worst first. Those that are exact are counted, unless `verbose`."""
    for status, colour in _ORDER.items():
        found = [(pointer, entry["reason"]) for pointer, entry in report.items() if entry["status"] == status]
        if status == "exact" and found and not verbose:
            annotations = sum(1 for _, reason in found if reason)
            noted = f", {annotations} of them with a note" if annotations else ""
            print_beside(status, f"{_count(len(found), 'keyword')}{noted} (--verbose lists them)", style=colour, at=_AT)
            continue
        for pointer, reason in found:
            print_beside(status, pointer or "/", style=colour, at=_AT)
            if reason:
                print_beside("", reason, at=_AT + 2, dim=True)


def show_verdict(enforced: bool, narrower: bool) -> None:
    if not enforced:
        out.print("[red]not enforced[/]: see the report")
    elif narrower:
        out.print("[green]enforced[/], and less is allowed than the schema allows: see the report")
    else:
        out.print("[green]enforced exactly[/]")


def show_closed(closable: Sequence[str], chosen: bool) -> None:
    """The objects whose schema does not say `additionalProperties`."""
    if chosen:
        out.print("closed to the declared keys, as asked")
    elif closable:
        print_beside("", "any other key is allowed, as the schema does not say additionalProperties:", at=0)
        for pointer in closable[:_FEW]:
            print_beside("", pointer or "/", at=2)
        if len(closable) > _FEW:
            out.print(f"  and {_count(len(closable) - _FEW, 'more object')}")
        print_beside("", "serve and generate close these objects (--additional declared)", at=0)


def show_cost(cost: Cost, vocabulary: str) -> None:
    print_beside(
        "",
        f"cost with {vocabulary}: front end {cost.lower_ms:.2f} ms, compile {cost.compile_ms:.2f} ms, "
        f"first mask {cost.first_mask_us:.0f} us, repeated {cost.repeated_mask_us:.1f} us",
        at=0,
    )
    print_beside("", ", ".join(f"{name} {value}" for name, value in cost.stats.items()), at=0, dim=True)


def show_text(text: Text, report: Mapping[str, Mapping[str, str]], schema: str) -> None:
    """Whether a text is allowed, and where it stops if it is not."""
    name = escape(visible(text.source))
    refusal = text.answer.refusal
    if text.error is not None:
        out.print(f"{name}: [red]not JSON[/]: {escape(visible(str(text.error)))}")
    elif refusal is None and text.allowed:
        out.print(f"{name}: [green]allowed[/]")
        if text.captures:
            rows = [(one["name"], f"{one['start']}-{one['end']}", repr(one["text"])[1:-1]) for one in text.captures]
            print_table(("captured", "bytes", "text"), rows)
    elif refusal is None:
        out.print(f"{name}: [red]not allowed[/]")
    elif text.answer.spelling is not None:
        out.print(f"{name}: [yellow]not allowed: only the spelling[/]. The schema allows the value.")
        print_beside("  spelling", text.answer.spelling, at=12)
        _show_place(refusal, refusal.characters, schema)
    else:
        out.print(f"{name}: [red]not allowed[/]")
        for label, pointers in (("  refused", refusal.keywords), ("  schema", _unless(refusal.keywords, refusal))):
            for number, pointer in enumerate(pointers):
                lead = f"by {schema}: " if label == "  refused" and number == 0 else ""
                print_beside(label if number == 0 else "", f"{lead}{pointer or '/'}", at=12)
                entry = report.get(pointer)
                if entry is not None and entry["status"] == "under":
                    note = f"the schema may allow the value; this keyword is enforced as less: {entry['reason']}"
                    print_beside("", note, at=14, dim=True)
        _show_place(refusal, refusal.expected, schema)


def _unless(keywords: Sequence[str], refusal: Refusal) -> Sequence[str]:
    """The schemas of the place, where no keyword was found to be to blame."""
    return () if keywords else refusal.schemas[:_FEW]


def _show_place(refusal: Refusal, expected: str, grammar: str) -> None:
    where = f"line {refusal.line}, column {refusal.column}"
    if refusal.value is not None:
        where += f", in the value {refusal.value or '/'}"
    print_beside("  at", where, at=12)
    print_beside("  found", repr(refusal.found) if refusal.found else "the end of the text", at=12)
    print_beside("  expected", expected, at=12)
    if refusal.rules:
        print_beside("  rules", f"{', '.join(refusal.rules[:_FEW])} of {grammar}", at=12)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
