"""Writes a `Module` as the flat arrays that the core compiles (core/grammar/ir.hpp describes them).

A marker becomes the vocabulary's special token of that name, or its bytes. Regular parts that a front end has not
marked become lexemes (fuse.py). The core checks the arrays again.

Cost: about 0.3 us per node. `Limits.reading_work` bounds it, together with the work of reading the text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from narrows._core import Flattening
from narrows.arguments import quoted
from narrows.errors import GrammarError, LimitError
from narrows.grammar import ir
from narrows.grammar.fuse import fused
from narrows.grammar.work import Work, place_of
from narrows.limits import Limits


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """The facts of a vocabulary that flattening a grammar needs."""

    special: Mapping[str, int]
    end_tokens: Collection[int]
    usable: Mapping[int, None]
    """The ids that have a token, in order: no holes, no padding."""
    names: Mapping[str, int] = field(default_factory=dict)
    """More names that a grammar may call tokens by, such as their texts. Markers do not look here."""


class _TokenSets:
    """The ids of all sets of tokens, one set after the other. Equal sets stand once."""

    def __init__(self, facts: TokenFacts) -> None:
        self._facts = facts
        self._places: dict[ir.Token | ir.Marker, tuple[int, int]] = {}
        self.ids: list[int] = []

    def place(self, node: ir.Token | ir.Marker) -> tuple[int, int] | None:
        """Where the set begins and how many ids it has. None for a marker that the vocabulary has no token for."""
        known = self._places.get(node)
        if known is None:
            ids = self._of(node)
            if ids is None:
                return None
            known = self._places[node] = (len(self.ids), len(ids))
            self.ids.extend(ids)
        return known

    def _of(self, node: ir.Token | ir.Marker) -> Collection[int] | None:
        if isinstance(node, ir.Marker):
            special = self._facts.special.get(node.text)
            return None if special is None else (special,)
        usable = self._facts.usable
        ids = {*node.ids, *map(self._named, node.names)}
        if node.negate:
            left_out = {*ids, *self._facts.end_tokens}
            return [t for t in usable if t not in left_out]
        return [t for t in sorted(ids) if t in usable]

    def _named(self, name: str) -> int:
        token = self._facts.special.get(name, self._facts.names.get(name))
        if token is None:
            raise GrammarError(
                f"the vocabulary has no special token {quoted(name)}",
                code="token_unknown",
                hint="Give the token's id, or write its text as text",
            )
        return token


NO_MAX = 0xFFFFFFFF


def flatten(module: ir.Module, facts: TokenFacts, limits: Limits, spent: int = 0) -> dict[str, Any]:
    """The arrays of a module, as numpy arrays of the widths that the core wants. `spent`: the work that reading the
    module took.

    Raises GrammarError (`rule_missing`, `repeat_too_large`, `token_unknown`) and LimitError (`ir_nodes`,
    `reading_work`) with the place of the rule.
    """
    work = Work(limits, spent)
    work.spend(len(module.rules))
    names = list(module.rules)
    numbers = {name: i for i, name in enumerate(names)}
    if module.start not in numbers:
        raise GrammarError(f"the grammar has no rule {module.start!r} to start from", code="rule_missing")
    nodes = module.rules if module.marked or module.longest else fused(module, work)
    sets = _TokenSets(facts)
    written = Flattening(module.rules, numbers, sets.place, max(work.spent, 0), work.most, limits.ir_nodes)
    roots: list[int] = []
    for name in names:
        try:
            roots.append(written.add(nodes[name]))
        except LimitError as error:
            work.source = module.sources.get(name)
            raise work.refusal(error.limit or "", str(error.message)) from None
        except GrammarError as error:
            if error.line is None:
                error.line, error.column = place_of(module.sources.get(name, ""))
            raise
    arrays = {name: np.frombuffer(data, _WIDTHS[name]) for name, data in written.arrays().items()}
    return {
        **arrays,
        "tokens": np.array(sets.ids, dtype=np.uint32),
        "rules": np.array(roots, dtype=np.uint32),
        "rule_names": [module.sources.get(name, name) for name in names],
        "start": numbers[module.start],
        "longest": module.longest,
    }


def is_flat(value: object) -> bool:
    """Whether these are a module's arrays, by their names and types. The core checks their content."""
    if not isinstance(value, Mapping):
        return False
    rows = all(
        isinstance(row := value.get(name), np.ndarray) and (row.dtype, row.ndim) == (dtype, 1)
        for name, dtype in _WIDTHS.items()
    )
    names, start = value.get("rule_names"), value.get("start")
    return (
        rows
        and isinstance(names, list)
        and all(isinstance(n, str) for n in names)
        and type(start) is int
        and 0 <= start < NO_MAX
        and type(value.get("longest")) is bool
    )


_WIDTHS: dict[str, np.dtype[Any]] = {
    **dict.fromkeys(("kinds", "string_bytes"), np.dtype(np.uint8)),
    **dict.fromkeys(("a", "b", "child_offsets", "children", "string_offsets", "tokens", "rules"), np.dtype(np.uint32)),
}
