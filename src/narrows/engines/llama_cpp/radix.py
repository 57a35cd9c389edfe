"""Prefixes of ended sequences: a radix tree over tokens, with a budget in bytes.

A path from the root spells a prefix. What sequences have in common is held once, and the longest common prefix of a
new prompt is found by one walk. The data of a token (its keys and values) is opaque and comes in pieces of up to
`PIECE` tokens, because it is saved and restored by the piece. Where two sequences part within a piece, both sides of
the branch refer to that piece, and it is held until neither does.

When the budget is exceeded, leaves are given up, the least recently used first. A prefix is at least as recently used
as everything that follows it, so it stays longer.

Plain data: no model, no threads. Cost of a walk: one comparison for each piece, some 3 us.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

PIECE = 64
"""Most tokens of a piece."""

Tokens = NDArray[np.int32]


@dataclass(slots=True, eq=False)
class Piece:
    """Saved data of the tokens at the positions start..end-1 of a sequence."""

    start: int
    end: int
    data: bytearray
    nodes: int = 0
    """Number of nodes that refer to it."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a prefix that was found: the positions start..end-1, which lie in `piece`."""

    start: int
    end: int
    piece: Piece


@dataclass(slots=True, eq=False)
class _Node:
    tokens: Tokens
    """The tokens from its parent to it: at least one."""
    start: int
    """Position of the first of them."""
    piece: Piece
    parent: _Node | None
    children: dict[int, _Node] = field(default_factory=dict)
    """By the first token of each."""

    @property
    def end(self) -> int:
        return self.start + self.tokens.size


class RadixTree:
    """Holds at most `most_bytes` bytes of data, and the data of at most `most_tokens` tokens. None is no limit."""

    def __init__(self, most_bytes: int | None, most_tokens: int | None = None, *, piece: int = PIECE) -> None:
        self._most_bytes = most_bytes
        self._most_tokens = most_tokens
        self._piece = piece if most_tokens is None else min(piece, max(1, most_tokens))
        self._top: dict[int, _Node] = {}
        self._recent: OrderedDict[_Node, None] = OrderedDict()
        """All nodes, the least recently used first. A node comes before its parent, so the first one is a leaf."""
        self.bytes = 0
        """Bytes of the data that is held."""
        self.tokens = 0
        """Number of tokens of all nodes."""

    @property
    def keeps_nothing(self) -> bool:
        return self._most_bytes == 0 or self._most_tokens == 0

    def length(self, tokens: Tokens) -> int:
        """Length of the longest prefix of `tokens` that is held. Does not count as a use."""
        return max((end for _, end in self._walk(tokens)), default=0)

    def find(self, tokens: Tokens) -> list[Span]:
        """The longest prefix of `tokens` that is held, as spans that follow each other from 0 on. Counts as a use."""
        spans: list[Span] = []
        path: list[_Node] = []
        for node, end in self._walk(tokens):
            path.append(node)
            if spans and spans[-1].piece is node.piece:
                spans[-1] = Span(spans[-1].start, end, node.piece)
            else:
                spans.append(Span(node.start, end, node.piece))
        self._touch(path)
        return spans

    def insert(self, tokens: Tokens, save: Callable[[int, int], bytearray]) -> None:
        """Hold `tokens` as far as the budget allows. `save(start, end)` gives the data of these positions. It is called
        for what is not held yet, from the front on."""
        if self.keeps_nothing:
            return
        path = [node for node, _ in self._walk(tokens)]
        start = self.length(tokens)
        if path and start < path[-1].end:
            path[-1] = self._split(path[-1], start - path[-1].start)
        self._touch(path)
        added: list[_Node] = []
        while start < tokens.size:
            end = min(start + self._piece, tokens.size)
            parent = added[-1] if added else path[-1] if path else None
            node = _Node(tokens[start:end].copy(), start, Piece(start, end, save(start, end)), parent)
            if not self._make_room(len(node.piece.data), end - start, path):
                break
            self._siblings(node)[int(node.tokens[0])] = node
            self._count(node)
            added.append(node)
            start = end
        self._touch(path + added)

    def _walk(self, tokens: Tokens) -> Iterator[tuple[_Node, int]]:
        """(node, where the common prefix ends in it) along the longest prefix of `tokens`."""
        children, end = self._top, 0
        while end < tokens.size:
            node = children.get(int(tokens[end]))
            if node is None:
                return
            end += common_prefix(node.tokens, tokens[end:])
            yield node, end
            if end < node.end:
                return
            children = node.children

    def _split(self, node: _Node, length: int) -> _Node:
        """Cut a node in two after `length` tokens. The lower one keeps its identity and place. Returns the upper one,
        which has to be touched."""
        upper = _Node(node.tokens[:length].copy(), node.start, node.piece, node.parent)
        self._siblings(node)[int(upper.tokens[0])] = upper
        node.tokens, node.start, node.parent = node.tokens[length:].copy(), node.start + length, upper
        upper.children[int(node.tokens[0])] = node
        node.piece.nodes += 1
        return upper

    def _siblings(self, node: _Node) -> dict[int, _Node]:
        return self._top if node.parent is None else node.parent.children

    def _touch(self, path: list[_Node]) -> None:
        """Make the nodes of a path from the root the most recently used ones."""
        for node in reversed(path):
            self._recent[node] = None
            self._recent.move_to_end(node)

    def _count(self, node: _Node) -> None:
        node.piece.nodes = 1
        self.bytes += len(node.piece.data)
        self.tokens += node.tokens.size

    def _make_room(self, size: int, tokens: int, path: list[_Node]) -> bool:
        """Give up leaves until so much more fits into the budget. False if only the nodes of `path`, and those that
        were just added to it, are left."""
        while not self._fits(size, tokens):
            oldest = next(iter(self._recent), None)
            if oldest is None or (path and oldest is path[-1]):
                return False
            self._give_up(oldest)
        return True

    def _fits(self, size: int, tokens: int) -> bool:
        return (self._most_bytes is None or self.bytes + size <= self._most_bytes) and (
            self._most_tokens is None or self.tokens + tokens <= self._most_tokens
        )

    def _give_up(self, leaf: _Node) -> None:
        del self._recent[leaf]
        del self._siblings(leaf)[int(leaf.tokens[0])]
        self.tokens -= leaf.tokens.size
        leaf.piece.nodes -= 1
        if not leaf.piece.nodes:
            self.bytes -= len(leaf.piece.data)


def common_prefix(a: Tokens, b: Tokens) -> int:
    """Number of equal leading values."""
    length = min(a.size, b.size)
    differ = a[:length] != b[:length]
    return int(differ.argmax()) if differ.any() else length
