"""Questions about a regular node: does it match a text, does it match anything, and does it match only a few texts?

Front ends ask them where one schema meets another: which patterns a property's name matches, and whether any name is
left for a third. Answers are exact. They are found by derivatives (Brzozowski 1964) over terms that are made once, in
the core (core/automata/regular.hpp), which has them for masks.

All questions of one reading share their terms, and what was found out about them. Cost: some 0.3 us for each new state
and class of bytes, charged to the reading's `Work`. So a question that would take too long ends with its error
(`reading_work`, or `constraint_bytes` for its memory).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from narrows._core import Regular as CoreRegular
from narrows.errors import LimitError
from narrows.grammar import ir
from narrows.grammar.work import Work

_ALL_BYTES = (1 << 256) - 1

NEVER, EMPTY, ANYTHING = 0, 1, 2
"""The terms that match nothing, the empty text alone, and every text."""

_UNITS = 100
"""Of the core's work, in one unit of a reading's."""

T = TypeVar("T")


class Regular:
    """Terms, and the answers that are known about them. A term is a number; equal numbers match the same texts."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self._core = CoreRegular(work.limits.constraint_bytes, min(work.limits.term_depth, 4_000))
        self._terms: dict[int, tuple[ir.Node, int]] = {}
        """By the id of a node, which is held so that its id is not used again: its term. Patterns share nodes, such as
        that of any character."""
        self._derivatives: dict[int, list[tuple[int, int]]] = {}

    @staticmethod
    def of_reading(work: Work) -> Regular:
        """The one of a reading."""
        if work.regular is None:
            work.regular = Regular(work)
        assert isinstance(work.regular, Regular)
        return work.regular

    # Building.

    def byte_set(self, bits: int) -> int:
        return self._core.byte_set(bits.to_bytes(32, "little"))

    def seq(self, first: int, rest: int) -> int:
        return self._made(lambda: self._core.seq(first, rest))

    def alt(self, items: Iterable[int]) -> int:
        return self._made(lambda: self._core.alt(list(items)))

    def both(self, items: Iterable[int]) -> int:
        """The texts that all of these match."""
        return self._made(lambda: self._core.both(list(items)))

    def complement(self, item: int) -> int:
        return self._made(lambda: self._core.complement(item))

    def repeat(self, item: int, low: int, high: int | None) -> int:
        return self._made(lambda: self._core.repeat(item, low, high))

    def literals(self, options: Iterable[bytes]) -> int:
        """One of these texts."""
        texts = list(options)
        self.work.spend(1 + (len(texts) + sum(map(len, texts)) // 16) // 4)
        return self._made(lambda: self._core.literals(texts))

    def substrings(self, node: ir.Substrings) -> int:
        """The parts of a text."""
        self.work.spend(1 + len(node.text) // 8)
        term = self._made(lambda: self._core.substrings(node.text, node.unit == "characters"))
        for byte in node.read:
            term = self.after(term, byte)
        return term

    def of(self, root: ir.Node) -> int:
        """The term of a regular node."""
        terms = self._terms
        todo: list[tuple[ir.Node, bool]] = [(root, False)]
        while todo:
            node, ready = todo.pop()
            if id(node) in terms:
                continue
            children = _children(node)
            if children and not ready:
                todo.append((node, True))
                todo += [(child, False) for child in children]
            else:
                self.work.spend(1)
                terms[id(node)] = (node, self._of(node, [terms[id(child)][1] for child in children]))
        return terms[id(root)][1]

    def _of(self, node: ir.Node, children: list[int]) -> int:
        if isinstance(node, ir.Bytes):
            return self.literals([node.data])
        if isinstance(node, ir.ByteSet):
            return self.byte_set(node.bits)
        if isinstance(node, ir.Literals):
            return self.literals(node.options)
        if isinstance(node, ir.Substrings):
            return self.substrings(node)
        if isinstance(node, ir.Seq):
            term = EMPTY
            for child in reversed(children):
                term = self.seq(child, term)
            return term
        if isinstance(node, ir.Alt):
            return self.alt(children)
        if isinstance(node, ir.And):
            return self.both(children)
        if isinstance(node, ir.Not):
            return self.complement(children[0])
        if isinstance(node, ir.Repeat):
            return self.repeat(children[0], node.min, node.max)
        assert isinstance(node, ir.Lexeme), "a regular node"
        return children[0]

    def _made(self, make: Callable[[], int]) -> int:
        try:
            return make()
        except LimitError as error:
            raise self.work.refusal(error.limit or "term_depth", error.message) from None

    # Questions.

    def matches(self, term: int, text: bytes) -> bool:
        return self._asked(lambda: self._core.matches(term, text))

    def is_never(self, term: int) -> bool:
        """Whether the term matches no text."""
        return self._asked(lambda: self._core.is_never(term))

    def texts(self, term: int, most: int) -> list[bytes] | None:
        """All texts that the term matches; None where there are more than `most`."""
        return self._asked(lambda: self._core.texts(term, most))

    def after(self, term: int, byte: int) -> int:
        """What may follow this byte."""
        return self._asked(partial(self._core.derivative, term, byte))[0]

    # What terms are made of, for who writes them otherwise.

    def derivatives(self, term: int) -> list[tuple[int, int]]:
        """What may follow each byte: sets of bytes, as bits, disjoint and all of them together; with what follows."""
        known = self._derivatives.get(term)
        if known is None:
            known = self._derivatives[term] = []
            left = _ALL_BYTES
            while left:
                byte = (left & -left).bit_length() - 1
                after, same = self._asked(partial(self._core.derivative, term, byte))
                bits = int.from_bytes(same, "little") & left
                known.append((bits, after))
                left &= ~bits
        return known

    def shape(self, term: int) -> tuple[Any, ...]:
        """The kind of a term, and its parts: ("set", bits as 32 bytes), ("literals", texts), ("seq", first, rest),
        ("alt", ...), ("and", ...), ("not", item), ("rep", item, least, most or None), ("empty",) or ("never",)."""
        return self._core.shape(term)

    def _asked(self, question: Callable[[], T]) -> T:
        """Charges a question with what it takes, at least one unit."""
        work = self.work
        self._core.left = before = _UNITS * max(work.most - work.spent, 0)
        try:
            answer = question()
        except LimitError as error:
            if error.limit == "step_work":
                work.spend(work.most - work.spent + 1)
            raise work.refusal(error.limit or "reading_work", error.message) from None
        work.spend(1 + (before - self._core.left) // _UNITS)
        return answer


def _children(node: ir.Node) -> tuple[ir.Node, ...]:
    if isinstance(node, (ir.Seq, ir.Alt, ir.And)):
        return node.items
    return (node.item,) if isinstance(node, (ir.Repeat, ir.Not, ir.Lexeme)) else ()
