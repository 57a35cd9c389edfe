"""A tree of draft tokens, as speculative decoders give it: for each node its first child and its next sibling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from narrows.compat.xgrammar.bitmask import array_of
from narrows.compat.xgrammar.exception import CompatError


class DraftTree:
    """Cost: linear in the nodes."""

    def __init__(self, next_token: Any, next_sibling: Any, tokens: Any) -> None:
        """int64[nodes] each. Raises CompatError `draft_tree_invalid` if the indices lead out of the tree."""
        named = {"retrieve_next_token": next_token, "retrieve_next_sibling": next_sibling, "draft_tokens": tokens}
        arrays = [array_of(name, value, np.int64, (1,)).tolist() for name, value in named.items()]
        self._children, self._siblings, self._tokens = arrays
        count = len(self._children)
        if not count or len(self._siblings) != count or len(self._tokens) != count:
            raise CompatError("a draft tree has a root, and arrays of one length", code="draft_tree_invalid")
        if not all(-1 <= node < count for node in (*self._children, *self._siblings)):
            raise CompatError("an index leads out of the draft tree", code="draft_tree_invalid")
        self._left = -1

    def __len__(self) -> int:
        return len(self._children)

    def leave(self, node: int) -> None:
        """Do not go below this node, which `walk` has just yielded."""
        self._left = node

    def walk(self) -> Iterator[tuple[int, int, int]]:
        """(node, how deep it is, its token), each before those below it. The root has depth 0. Raises CompatError
        `draft_tree_invalid` if the nodes go round."""
        todo = [(0, 0)]
        met: set[int] = set()
        while todo:
            node, depth = todo.pop()
            if node in met:
                raise CompatError("the nodes of the draft tree go round", code="draft_tree_invalid")
            met.add(node)
            yield node, depth, self._tokens[node]
            if self._siblings[node] >= 0 and depth:
                todo.append((self._siblings[node], depth))
            if self._children[node] >= 0 and self._left != node:
                todo.append((self._children[node], depth + 1))
