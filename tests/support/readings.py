"""All readings of a short text by an `ir.Module`, in the order in which narrows prefers them: by trying, with recursion. It says what is
captured where every reference has the name of its rule as capture.

Where `greedy` is set, a terminal ends only where it cannot go on. What holds no reference and no lexeme is one terminal, as narrows reads
it. An iteration that reads nothing ends an unbounded repetition.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from narrows.grammar import ir
from narrows.reference import Reference

Part = tuple[str, int, int]
"""A rule, and where its text begins and ends."""


class Readings:
    def __init__(self, module: ir.Module, text: bytes, *, greedy: bool) -> None:
        self._module = module
        self._text = text
        self._greedy = greedy
        self._known: dict[tuple[int, int], list[int]] = {}

    def first(self, rule: str, start: int, end: int) -> list[Part] | None:
        """What the preferred reading of a rule captures: in each rule the first way that leads to its end. For grammars in which no rule
        goes round."""
        return self._first((rule, start, end), frozenset())

    def _first(self, part: Part, opened: frozenset[Part]) -> list[Part] | None:
        found = next(self._ways(part, opened), None)
        if found is None:
            return None
        captured: list[Part] = []
        for inner in found:
            captured += [inner, *(self._first(inner, opened | {part}) or ())]
        return captured

    def every(self, rule: str, start: int, end: int) -> Iterator[list[Part]]:
        """What any reading captures in which no rule is read inside itself for the same text."""
        yield from self._every((rule, start, end), frozenset())

    def _every(self, part: Part, opened: frozenset[Part]) -> Iterator[list[Part]]:
        for way in self._ways(part, opened):
            yield from self._all_of(way, opened | {part})

    def _all_of(self, way: list[Part], opened: frozenset[Part]) -> Iterator[list[Part]]:
        if not way:
            yield []
            return
        for inner in self._every(way[0], opened):
            for rest in self._all_of(way[1:], opened):
                yield [way[0], *inner, *rest]

    def _ways(self, part: Part, opened: frozenset[Part]) -> Iterator[list[Part]]:
        rule, start, end = part
        for last, parts in self._paths(self._module.rules[rule], start, end, opened | {part}):
            if last == end:
                yield parts

    def _paths(self, node: ir.Node, start: int, end: int, opened: frozenset[Part]) -> Iterator[tuple[int, list[Part]]]:
        if isinstance(node, ir.Ref):
            for last in range(end, start - 1, -1):
                part = (node.name, start, last)
                if part not in opened and next(self._ways(part, opened), None) is not None:
                    yield last, [part]
        elif isinstance(node, ir.Lexeme) or _is_plain(node):
            yield from [(last, []) for last in self._ends(node, start) if last <= end]
        elif isinstance(node, ir.Alt):
            for item in node.items:
                yield from self._paths(item, start, end, opened)
        elif isinstance(node, ir.Seq):
            yield from self._row(node.items, start, end, opened)
        else:
            assert isinstance(node, ir.Repeat)
            yield from self._times(node.item, node.min, node.max, start, end, opened)

    def _row(
        self, items: tuple[ir.Node, ...], start: int, end: int, opened: frozenset[Part]
    ) -> Iterator[tuple[int, list[Part]]]:
        if not items:
            yield start, []
            return
        for middle, parts in self._paths(items[0], start, end, opened):
            for last, more in self._row(items[1:], middle, end, opened):
                yield last, parts + more

    def _times(
        self, item: ir.Node, low: int, high: int | None, start: int, end: int, opened: frozenset[Part]
    ) -> Iterator[tuple[int, list[Part]]]:
        if high is None or high > 0:
            for middle, parts in self._paths(item, start, end, opened):
                if middle == start and low <= 0 and high is None:
                    continue
                less = None if high is None else high - 1
                for last, more in self._times(item, max(low - 1, 0), less, middle, end, opened):
                    yield last, parts + more
        if low <= 0:
            yield start, []

    def _ends(self, node: ir.Node, start: int) -> list[int]:
        """Where a terminal that begins here may end, the longest text first."""
        if (id(node), start) not in self._known:
            reference, text = Reference(ir.Module({"root": node})), self._text
            ends = [end for end in range(len(text), start - 1, -1) if reference.accepts(text[start:end])]
            if self._greedy:
                ends = [end for end in ends if end in (start, len(text)) or not reference.viable(text[start : end + 1])]
            self._known[id(node), start] = ends
        return self._known[id(node), start]


def _is_plain(node: ir.Node) -> bool:
    if isinstance(node, (ir.Ref, ir.Lexeme)):
        return False
    if isinstance(node, ir.Repeat):
        return _is_plain(node.item)
    return not isinstance(node, (ir.Seq, ir.Alt)) or (bool(node.items) and all(map(_is_plain, node.items)))


def random_module(seed: int) -> ir.Module:
    """A few rules over "a" and "b". Each reference is captured by the name of its rule."""
    rng = Random(seed)
    rules = [f"r{k}" for k in range(rng.randint(1, 4))]
    return ir.Module({name: _node(rng, 3, rules) for name in rules}, "r0")


def _node(rng: Random, depth: int, rules: list[str]) -> ir.Node:
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        kind = rng.random()
        if kind < 0.35:
            return ir.Bytes(rng.choice([b"a", b"b", b"ab", b"", b"aa"]))
        if kind < 0.5:
            return ir.Lexeme(ir.Repeat(ir.byte_set(b"ab"), rng.choice([0, 1]), rng.choice([1, 2, None])))
        name = rng.choice(rules)
        return ir.Ref(name, ir.Capture(name))
    if kind < 0.6:
        return ir.Seq(tuple(_node(rng, depth - 1, rules) for _ in range(rng.randint(0, 3))))
    if kind < 0.85:
        return ir.Alt(tuple(_node(rng, depth - 1, rules) for _ in range(rng.randint(1, 3))))
    return ir.Repeat(_node(rng, depth - 1, rules), rng.choice([0, 0, 1, 2]), rng.choice([2, 3, None]))
