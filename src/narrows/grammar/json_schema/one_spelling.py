"""Values as regular texts, each in one spelling: so that equal values are equal texts (families/unique_nested.py).

Where `Rules.closed` is set, scalars are written in one spelling: strings with minimal escapes, numbers without exponent
and needless zeros. `Order` puts keys into one order for all objects. `flat` puts rules into one regular node, where
that is possible: they must not refer to themselves, and nothing in them may depend on names.

Cost: linear in the node, which `MOST_NODES` bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import pairwise

from narrows.grammar import ir
from narrows.grammar.json_schema.spelling.spelling import DIGIT, FRACTIONAL, NONZERO, Spelling
from narrows.grammar.options import Whitespace
from narrows.grammar.work import Work

MOST_NODES = 20_000
"""A part that is used twice counts twice."""

WHOLE_NUMBER = ir.Alt((ir.Bytes(b"0"), ir.Seq((ir.optional(ir.Bytes(b"-")), NONZERO, ir.Repeat(DIGIT)))))
WITHOUT_ZEROS = ir.Alt((WHOLE_NUMBER, ir.And((FRACTIONAL, ir.Seq((ir.Repeat(ir.ANY_BYTE), NONZERO))))))
"""One spelling of each number."""


class OneSpelling(Spelling):
    """Each value in one spelling, up to the order of keys. `whitespace`: one that leaves no choice."""

    def __init__(self, whitespace: Whitespace) -> None:
        super().__init__(whitespace, "minimal", "one")
        self.number = ir.Lexeme(WITHOUT_ZEROS)
        self.integer = ir.Lexeme(WHOLE_NUMBER)


@cache  # two entries
def one_spelling(whitespace: Whitespace) -> OneSpelling:
    return OneSpelling(whitespace)


class Order:
    """One order of keys for many objects: no two keys come in one order here and in another there. An object keeps the
    order that it has, unless objects before it contradict that."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._ordered: list[str] = []
        """All keys so far."""
        self._rank: dict[str, int] = {}
        self._after: dict[str, dict[str, None]] = {}
        """Which keys have come right after which."""
        self._known: dict[tuple[str, ...], list[str]] = {}

    def of(self, keys: Sequence[str]) -> list[str]:
        """The keys of an object, in order."""
        key = tuple(keys)
        self._work.spend(2 + len(key) // 8)
        if key not in self._known:
            self._known[key] = self._put(list(key))
        return self._known[key]

    def _put(self, keys: list[str]) -> list[str]:
        ranks = [self._rank[key] for key in keys if key in self._rank]
        self._work.spend(len(self._ordered) // 16 + len(keys))
        if all(a < b for a, b in pairwise(ranks)):
            self._insert(keys)
        elif not self._sorted_with(keys):
            known = iter(sorted((key for key in keys if key in self._rank), key=self._rank.__getitem__))
            keys = [next(known) if key in self._rank else key for key in keys]
            self._insert(keys)
        for key, following in pairwise(keys):
            self._after.setdefault(key, {})[following] = None
        return keys

    def _insert(self, keys: list[str]) -> None:
        """Where the known ones are in order: each new one right after the one before it."""
        if all(key in self._rank for key in keys):
            return
        at = 0
        for key in keys:
            if key in self._rank:
                at = self._ordered.index(key, at) + 1
            else:
                self._ordered.insert(at, key)
                at += 1
        self._rank = {key: k for k, key in enumerate(self._ordered)}

    def _sorted_with(self, keys: list[str]) -> bool:
        """Orders all keys anew, so that these fit, too; False where that cannot be."""
        after = {key: list(following) for key, following in self._after.items()}
        for key, following in pairwise(keys):
            after.setdefault(key, []).append(following)
        before = dict.fromkeys((*self._ordered, *keys), 0)
        self._work.spend(sum(map(len, after.values())) // 4)
        for following_keys in after.values():
            for following in following_keys:
                before[following] += 1
        ready = [key for key in reversed(before) if before[key] == 0]
        ordered: list[str] = []
        while ready:
            key = ready.pop()
            ordered.append(key)
            for following in after.get(key, ()):
                before[following] -= 1
                if before[following] == 0:
                    ready.append(following)
        if len(ordered) < len(before):
            return False
        self._ordered = ordered
        self._rank = {key: k for k, key in enumerate(ordered)}
        return True


def flat(rules: Mapping[str, ir.Node], root: ir.Node, work: Work, opaque: Collection[str] = ()) -> ir.Node | None:
    """The node without references; None where it is not regular, or too large. `opaque`: rules that are not regular."""
    done: dict[int, tuple[ir.Node, int]] = {}  # by id: the node, and how many nodes it has
    of_rule: dict[str, tuple[ir.Node, int]] = {}
    open_rules: set[str] = set()
    todo: list[tuple[ir.Node, bool]] = [(root, False)]
    while todo:
        node, is_ready = todo.pop()
        if id(node) in done:
            continue
        if isinstance(node, ir.Ref) and node.name in of_rule:
            done[id(node)] = of_rule[node.name]
            continue
        parts = _parts(rules, node)
        work.spend(2)
        if parts is None:
            return None
        if not is_ready:
            if isinstance(node, ir.Ref):
                if node.name in open_rules or node.name in opaque:
                    return None
                open_rules.add(node.name)
            todo.append((node, True))
            todo += [(part, False) for part in parts]
            continue
        size = 1 + sum([done[id(part)][1] for part in parts])
        if size > MOST_NODES:
            return None
        made = _made(node, [done[id(part)][0] for part in parts])
        done[id(node)] = (made, size)
        if isinstance(node, ir.Ref):
            of_rule[node.name] = done[id(node)]
    return done[id(root)][0]


def _parts(rules: Mapping[str, ir.Node], node: ir.Node) -> tuple[ir.Node, ...] | None:
    """What a node is made of; None where it has no place in a regular node."""
    if isinstance(node, (ir.Seq, ir.Alt, ir.And)):
        return node.items
    if isinstance(node, (ir.Repeat, ir.Not, ir.Lexeme)):
        return (node.item,)
    if isinstance(node, ir.Ref):
        return (rules[node.name],) if node.name in rules else None
    return () if isinstance(node, (ir.Bytes, ir.ByteSet, ir.Literals)) else None


def _made(node: ir.Node, parts: list[ir.Node]) -> ir.Node:
    if isinstance(node, (ir.Lexeme, ir.Ref)):
        return parts[0]
    if isinstance(node, (ir.Seq, ir.Alt, ir.And)):
        return type(node)(tuple(parts))
    if isinstance(node, ir.Repeat):
        return ir.Repeat(parts[0], node.min, node.max)
    return ir.Not(parts[0]) if isinstance(node, ir.Not) else node


def is_endless(roots: Sequence[ir.Node], work: Work) -> bool:
    """Whether regular nodes, whose parts all match something, plainly match texts without end; False: not known."""
    seen: set[int] = set()
    todo = list(roots)
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, ir.Repeat):
            if node.max is None:
                work.spend(len(seen) // 4)
                return True
            todo += [node.item] if node.max else []
        elif isinstance(node, (ir.Seq, ir.Alt)):
            todo += node.items
        elif isinstance(node, ir.Lexeme):
            todo.append(node.item)
    work.spend(len(seen) // 4)
    return False
