"""The syntax tree of a regular expression, the same for every dialect.

It holds no groups, names or flags: after parsing they do not change which texts match as a whole. It holds sets of
characters, the ways to combine them, and three conditions that look around. `Edge` looks at the characters next
to a place, `Look` at all text after it, `Behind` at all text before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from narrows.grammar import utf8
from narrows.grammar.utf8 import Ranges


@dataclass(frozen=True, slots=True, eq=False)
class Chars:
    """One character of the set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True, eq=False)
class Concat:
    """The items one after the other. No items: the empty text."""

    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Any of the items."""

    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """The item `min` to `max` times (None: without end). `lazy`: as few times as possible. That does not change which
    texts match as a whole; it matters where a match may end before the text does."""

    item: Tree
    min: int
    max: int | None
    offset: int
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class Side:
    """What may stand on one side of a place: one of these characters or, if `edge` is True, the edge of the text."""

    chars: Ranges
    edge: bool

    @property
    def is_anything(self) -> bool:
        return self.edge and self.chars == utf8.ANY


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """Matches the empty text where the place's left and right sides fit one of the pairs: anchors, word boundaries, and
    look-behind by one character."""

    pairs: tuple[tuple[Side, Side], ...]
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """Matches the empty text where the item matches (or, with `negate`, does not match) some prefix of the text
    after the place."""

    item: Tree
    negate: bool
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Behind:
    """Matches the empty text where the item matches (or, with `negate`, does not match) some suffix of the text
    before the place. If one character decides, an `Edge` is used instead."""

    item: Tree
    negate: bool
    offset: int


Tree = Union[Chars, Concat, Choice, Repeat, Edge, Look, Behind]

EMPTY = Concat(())
ANYTHING = Side(utf8.ANY, True)
_AT_EDGE = Side((), True)


def others(side: Side) -> Side:
    """The side that allows all that this side excludes."""
    return Side(utf8.complement(side.chars), not side.edge)


def text_start(offset: int) -> Edge:
    return Edge(((_AT_EDGE, ANYTHING),), offset)


def text_end(offset: int) -> Edge:
    return Edge(((ANYTHING, _AT_EDGE),), offset)


def line_start(newlines: Ranges, offset: int) -> Edge:
    return Edge(((Side(newlines, True), ANYTHING),), offset)


def line_end(newlines: Ranges, offset: int) -> Edge:
    return Edge(((ANYTHING, Side(newlines, True)),), offset)


def word_start(word: Ranges, offset: int) -> Edge:
    inside = Side(word, False)
    return Edge(((others(inside), inside),), offset)


def word_end(word: Ranges, offset: int) -> Edge:
    inside = Side(word, False)
    return Edge(((inside, others(inside)),), offset)


def word_start_half(word: Ranges, offset: int) -> Edge:
    return Edge(((others(Side(word, False)), ANYTHING),), offset)


def word_end_half(word: Ranges, offset: int) -> Edge:
    return Edge(((ANYTHING, others(Side(word, False))),), offset)


def word_boundary(word: Ranges, offset: int) -> Edge:
    return Edge(word_start(word, offset).pairs + word_end(word, offset).pairs, offset)


def no_word_boundary(word: Ranges, offset: int) -> Edge:
    inside = Side(word, False)
    return Edge(((inside, inside), (others(inside), others(inside))), offset)


def children(tree: Tree) -> tuple[Tree, ...]:
    if isinstance(tree, (Concat, Choice)):
        return tree.items
    if isinstance(tree, (Repeat, Look, Behind)):
        return (tree.item,)
    return ()


def children_first(root: Tree) -> list[Tree]:
    """Every node once, children before parents."""
    order: list[Tree] = []
    seen: set[int] = set()
    stack: list[tuple[Tree, bool]] = [(root, False)]
    while stack:
        tree, ready = stack.pop()
        if ready:
            order.append(tree)
        elif id(tree) not in seen:
            seen.add(id(tree))
            stack.append((tree, True))
            stack.extend((child, False) for child in reversed(children(tree)))
    return order
