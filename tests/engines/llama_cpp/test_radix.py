"""The tree of kept prefixes against a naive one: a set of prefixes, each with the time of its last use."""

from __future__ import annotations

import random

import numpy as np
import pytest

from narrows.engines.llama_cpp.radix import RadixTree, common_prefix

COST = 3
"""Bytes of data for each token."""


def ids(tokens):
    return np.array(tokens, dtype=np.int32)


def insert(tree, tokens):
    """Insert `tokens`, whose data at each position says the token. Returns the ranges that were saved."""
    saved = []

    def save(start, end):
        saved.append((start, end))
        return bytearray().join(bytes([t]) * COST for t in tokens[start:end])

    tree.insert(ids(tokens), save)
    return saved


def found(tree, tokens):
    """The prefix that the tree finds, read back from the data of its spans."""
    text = []
    for span in tree.find(ids(tokens)):
        assert span.start == len(text), "the spans follow each other"
        assert span.piece.start <= span.start < span.end <= span.piece.end
        own = span.piece.data[COST * (span.start - span.piece.start) : COST * (span.end - span.piece.start)]
        text += own[::COST]
    return text


def check(tree):
    """What the tree counts is what it holds."""
    nodes, pieces = [], {}
    stack = list(tree._top.values())
    while stack:
        node = stack.pop()
        nodes.append(node)
        pieces.setdefault(id(node.piece), (node.piece, []))[1].append(node)
        assert all(first == child.tokens[0] and child.parent is node for first, child in node.children.items())
        stack += node.children.values()
    assert tree.tokens == sum(node.tokens.size for node in nodes)
    assert tree.bytes == sum(len(piece.data) for piece, _ in pieces.values())
    assert all(piece.nodes == len(users) for piece, users in pieces.values())
    assert set(tree._recent) == set(nodes)
    order = {node: i for i, node in enumerate(tree._recent)}
    assert all(order[node] < order[node.parent] for node in nodes if node.parent is not None)


class Naive:
    """Prefixes one by one, for pieces of one token. The least recently used go first, of equal ones the longest."""

    def __init__(self, most):
        self.most, self.clock, self.used = most, 0, {}

    def longest(self, tokens):
        return max((n for n in range(1, len(tokens) + 1) if tuple(tokens[:n]) in self.used), default=0)

    def touch(self, tokens, length):
        self.clock += 1
        for n in range(1, length + 1):
            self.used[tuple(tokens[:n])] = self.clock

    def insert(self, tokens):
        self.touch(tokens, min(len(tokens), self.most))
        while len(self.used) > self.most:
            del self.used[min(self.used, key=lambda prefix: (self.used[prefix], -len(prefix)))]


def texts(choose, count):
    """Sequences that share beginnings of all lengths."""
    made = []
    for _ in range(count):
        start = choose.choice(made)[: choose.randrange(20)] if made else []
        made.append(start + [choose.randrange(3) for _ in range(choose.randrange(1, 20))])
    return made


@pytest.mark.parametrize("seed", range(20))
def test_the_longest_common_prefix_is_found_whatever_the_pieces(seed):
    choose = random.Random(seed)
    tree = RadixTree(None, piece=choose.randrange(1, 9))
    held = texts(choose, 30)
    for i, tokens in enumerate(held):
        insert(tree, tokens)
        check(tree)
        for other in texts(choose, 5) + held[:i]:
            best = max(common_prefix(ids(other), ids(each)) for each in held[: i + 1])
            assert tree.length(ids(other)) == best
            assert found(tree, other) == other[:best]
    distinct = {tuple(t[:n]) for t in held for n in range(1, len(t) + 1)}
    assert tree.tokens == len(distinct), "shared parts are held once"


@pytest.mark.parametrize("seed", range(20))
def test_the_least_recently_used_leaves_go_first(seed):
    choose = random.Random(seed)
    most = choose.randrange(1, 60)
    tree, naive = RadixTree(most * COST, piece=1), Naive(most)
    for tokens in texts(choose, 60):
        if choose.random() < 0.3:
            assert found(tree, tokens) == tokens[: naive.longest(tokens)]
            naive.touch(tokens, naive.longest(tokens))
        else:
            insert(tree, tokens)
            naive.insert(tokens)
        check(tree)
        assert tree.tokens == len(naive.used)
        assert all(tree.length(ids(prefix)) == len(prefix) for prefix in naive.used)


@pytest.mark.parametrize("seed", range(20))
def test_budgets_hold_with_long_pieces(seed):
    choose = random.Random(seed)
    most_bytes, most_tokens = choose.randrange(20, 200), choose.randrange(10, 60)
    tree = RadixTree(most_bytes, most_tokens, piece=choose.randrange(1, 9))
    for tokens in texts(choose, 80):
        insert(tree, tokens)
        check(tree)
        assert tree.bytes <= most_bytes
        assert tree.tokens <= most_tokens
        assert found(tree, tokens) == tokens[: tree.length(ids(tokens))]


def test_only_what_is_new_is_saved():
    tree = RadixTree(None, piece=4)
    assert insert(tree, [1, 2, 3, 4, 5, 6]) == [(0, 4), (4, 6)]
    assert insert(tree, [1, 2, 3, 4, 5, 6]) == []
    assert insert(tree, [1, 2, 3, 4, 5]) == []
    assert insert(tree, [1, 2, 9]) == [(2, 3)]
    assert insert(tree, [1, 2, 3, 4, 5, 6, 7]) == [(6, 7)]


def test_a_piece_stays_until_neither_side_of_its_branch_needs_it():
    tree = RadixTree(5 * COST, piece=4)
    insert(tree, [1, 2, 3, 4])
    insert(tree, [1, 2, 9])
    assert (tree.bytes, tree.tokens) == (5 * COST, 5)
    insert(tree, [1, 2, 8])  # 3 4 goes, but not its data: 1 2 lies in it
    check(tree)
    assert found(tree, [1, 2, 3, 4]) == [1, 2]
    assert found(tree, [1, 2, 8]) == [1, 2, 8]


def test_a_budget_of_nothing_saves_nothing():
    for tree in (RadixTree(0), RadixTree(None, 0)):
        assert insert(tree, [1, 2, 3]) == []
        assert tree.length(ids([1])) == 0
