"""Lengths and patterns together: what a pattern says about the length of the strings in which it is found.

A bound that every match keeps anyway need not be lowered, one that no match keeps leaves no string at all, and one
beside a single repetition (`^[a-z ]*$`, `^[A-Z][a-z]*-[0-9]{4}$`) becomes the bound of that repetition. Only what is
left becomes an intersection, which costs the engine a mask for each count. Cost: linear in the pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from narrows.grammar.regex import tree
from narrows.grammar.regex.tree import Behind, Chars, Choice, Concat, Edge, Look, Repeat, Tree

_AT_START = tree.text_start(0).pairs
_AT_END = tree.text_end(0).pairs
_FEW = 32
"""Strings that a pattern lists."""
_MOST = 1 << 62
"""What is longer counts as without end: nested counts would make large numbers."""


@dataclass(slots=True)
class _Span:
    """The lengths of a part's matches lie in `low..high` (None: without end)."""

    low: int
    high: int | None
    starts: bool = False
    """Matches only where the text starts."""
    ends: bool = False
    """Matches up to the text's end only."""

    @property
    def is_fixed(self) -> bool:
        return self.low == self.high


class Measured:
    """A pattern and its lengths, in characters."""

    __slots__ = ("_spans", "_texts", "root")

    def __init__(self, root: Tree) -> None:
        self.root = root
        self._texts: tuple[frozenset[str] | None, bool] | None = None
        self._spans: dict[int, _Span] = {}
        for part in tree.children_first(root):
            span = self._measure(part)
            if span.high is None or span.high > _MOST:
                span.low, span.high = min(span.low, _MOST), None
            self._spans[id(part)] = span

    @property
    def least(self) -> int:
        """No string in which the pattern is found is shorter."""
        return self._spans[id(self.root)].low

    @property
    def greatest(self) -> int | None:
        """None is longer; None where the pattern is not anchored at both ends, or has no end."""
        return self._spans[id(self.root)].high if self._is_whole else None

    @property
    def _is_whole(self) -> bool:
        span = self._spans[id(self.root)]
        return span.starts and span.ends

    @property
    def texts(self) -> tuple[frozenset[str] | None, bool]:
        """A few strings, if the pattern is found in no others, as in `^(get|put)$`; and whether it is found in all of
        them. None where they may be more."""
        if self._texts is None:
            found = _texts(self.root) if self._is_whole else None
            self._texts = found, found is not None and self._is_plain
        return self._texts

    @property
    def _is_plain(self) -> bool:
        """Anchored at both ends, and nothing looks around in between."""
        parts = self.root.items if isinstance(self.root, Concat) else ()
        edges = [part for part in tree.children_first(self.root) if isinstance(part, (Edge, Look, Behind))]
        return len(edges) == 2 and len(parts) > 1 and parts[0] in edges and parts[-1] in edges

    def within(self, low: int, high: int | None) -> Tree | None:
        """The pattern with these bounds on the string's length in it, where all of it but one repetition has one
        length; else None."""
        if not self._is_whole:
            return None
        path: list[tuple[Concat, int]] = []
        here = self.root
        while isinstance(here, Concat):
            loose = [k for k, item in enumerate(here.items) if not self._spans[id(item)].is_fixed]
            if len(loose) != 1:
                return None
            path.append((here, loose[0]))
            beside = sum(self._spans[id(item)].low for k, item in enumerate(here.items) if k != loose[0])
            low, high = low - beside, None if high is None else high - beside
            here = here.items[loose[0]]
        if not isinstance(here, Repeat):
            return None
        item = self._spans[id(here.item)]
        if not (item.is_fixed and item.low):
            return None
        least = max(here.min, -(-low // item.low))
        most = _least(here.max, None if high is None else high // item.low)
        if most is not None and most < least:
            return None  # no multiple of the item's length lies between the bounds: an empty intersection says so
        inner: Tree = Repeat(here.item, least, most, here.offset)
        for parent, k in reversed(path):
            inner = Concat((*parent.items[:k], inner, *parent.items[k + 1 :]))
        return inner

    def _measure(self, part: Tree) -> _Span:
        below = [self._spans[id(child)] for child in tree.children(part)]
        if isinstance(part, Chars):
            return _Span(1, 1)
        if isinstance(part, Edge):
            return _Span(0, 0, starts=part.pairs == _AT_START, ends=part.pairs == _AT_END)
        if isinstance(part, (Look, Behind)):
            return _Span(0, 0)
        if isinstance(part, Concat):
            low, high = sum(span.low for span in below), _sum(span.high for span in below)
            starts = _holds_first(below, lambda span: span.starts)
            ends = _holds_first(reversed(below), lambda span: span.ends)
            return _Span(low, high, starts, ends)
        if isinstance(part, Choice):
            if not below:
                return _Span(0, 0)
            highs = [span.high for span in below]
            high = None if None in highs else max(high for high in highs if high is not None)
            starts, ends = all(span.starts for span in below), all(span.ends for span in below)
            return _Span(min(span.low for span in below), high, starts, ends)
        item = below[0]
        if item.high == 0 or part.max == 0:
            high = 0
        else:
            high = None if item.high is None or part.max is None else item.high * part.max
        return _Span(item.low * part.min, high, item.starts and part.min > 0, item.ends and part.min > 0)


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _sum(highs: Iterable[int | None]) -> int | None:
    total = 0
    for high in highs:
        if high is None:
            return None
        total += high
    return total


def _holds_first(spans: Iterable[_Span], holds: Callable[[_Span], bool]) -> bool:
    """Whether it holds of some part that only empty matches stand before."""
    for span in spans:
        if holds(span):
            return True
        if span.high != 0:
            return False
    return False


def _texts(root: Tree) -> frozenset[str] | None:
    """The strings that a part matches, if they are few. What looks around passes everywhere."""
    found: dict[int, frozenset[str] | None] = {}
    for part in tree.children_first(root):
        below = [found[id(child)] for child in tree.children(part)]
        texts: frozenset[str] | None = frozenset(("",))
        if isinstance(part, Chars):
            few = sum(last - first + 1 for first, last in part.ranges) <= _FEW
            codes = [code for first, last in part.ranges for code in range(first, last + 1)] if few else []
            texts = frozenset(map(chr, codes)) if few else None
        elif isinstance(part, Choice):
            texts = None if None in below else frozenset().union(*[one for one in below if one is not None])
        elif isinstance(part, Concat):
            texts = _product(below)
        elif isinstance(part, tree.Repeat):
            once, most = below[0], part.max
            texts = None
            if most is not None and most <= _FEW:
                rounds = [_product([once] * count) for count in range(part.min, most + 1)]
                texts = None if None in rounds else frozenset().union(*[one for one in rounds if one is not None])
        found[id(part)] = None if texts is None or len(texts) > _FEW else texts
    return found[id(root)]


def _product(parts: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """One of each, one after the other."""
    texts = frozenset(("",))
    for part in parts:
        if part is None or len(texts) * len(part) > _FEW:
            return None
        texts = frozenset([before + after for before in texts for after in part])
    return texts
