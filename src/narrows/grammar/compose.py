"""Grammars made of grammars: one after the other, any of them, one several times. No text is pasted together.

The rules of each part keep their names after a prefix (embed.py), so that parts never meet by their names. A part that
is a str stands for exactly this text.

Cost: linear in the nodes of the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from narrows.errors import InputError
from narrows.grammar import ir
from narrows.grammar.embed import embedded

Part = tuple[ir.Module, dict[str, Any]]
"""A grammar's rules and report."""
_START = "root"


@dataclass(slots=True)
class _Parts:
    rules: dict[str, ir.Node] = field(default_factory=lambda: {_START: ir.EMPTY})
    sources: dict[str, str] = field(default_factory=dict)
    places: dict[int, str] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)

    def add(self, part: str | Part, pointer: str) -> ir.Node:
        """What stands for the part. `pointer` goes before those of its report."""
        if isinstance(part, str):
            return ir.Bytes(_encoded(part, pointer))
        module, report = part
        rules, start, sources = embedded(module, f"{len(self.rules)}/")
        self.rules.update(rules)
        self.sources.update(sources)
        self.places.update(module.places)
        self.report.update({pointer + inner: status for inner, status in report.items()})
        return start

    def whole(self, node: ir.Node) -> Part:
        self.rules[_START] = node
        return ir.Module(self.rules, _START, self.sources, self.places), self.report


def joined(parts: Sequence[str | Part], how: Callable[..., ir.Node]) -> Part:
    """The parts as one grammar: `how` is `ir.seq` or `ir.alt`. The report's pointers begin with a part's index."""
    whole = _Parts()
    return whole.whole(how(*[whole.add(part, f"/{index}") for index, part in enumerate(parts)]))


def repeated(part: Part, low: int, high: int | None, separator: str | Part | None) -> Part:
    """A part `low` to `high` times (None: without end), with `separator` between each two. The report has the part's
    pointers, and those of the separator after /separator."""
    if low < 0 or (high is not None and high < low):
        raise InputError(f"{low} to {high} times: the bounds are out of order", code="repeat_invalid", pointer="/max")
    whole = _Parts()
    item = whole.add(part, "")
    if separator is None or high == 0:
        return whole.whole(ir.Repeat(item, low, high))
    more = ir.seq(whole.add(separator, "/separator"), item)
    some = ir.seq(item, ir.Repeat(more, max(low - 1, 0), None if high is None else high - 1))
    return whole.whole(some if low else ir.optional(some))


def _encoded(text: str, pointer: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InputError(
            "the text holds a lone surrogate, which is not a character", code="text_invalid", pointer=pointer
        ) from None
