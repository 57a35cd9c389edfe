"""The texts that may follow a prefix: the quotient of a grammar by the prefix, as a grammar again.

It is used for a prompt that ends inside a call. It takes derivatives byte by byte (Brzozowski 1964 for the regular
parts; Might, Darais and Spiewak 2011 for rules). Only the left edge changes: each byte adds one rule for each rule at
that edge, and rules that are no longer reached are dropped. Nodes are hash-consed and derivatives of lexemes are
cached, so that a long string costs little. Markers in the prefix count as their characters. A name in the prefix
(`ir.Distinct`) may come again after it, and so no rule that the prefix has entered may hold an `ir.Guard`.

Cost: about 0.1 ms per byte. Nothing recurses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from narrows.grammar import ir


def quotient(rules: dict[str, ir.Node], start: str, prefix: bytes) -> tuple[dict[str, ir.Node], str]:
    """(rules, start) of the texts that, appended to `prefix`, give a text of `start`. If there are none,
    rules[start] is `ir.NEVER`. Raises NamesUnknown."""
    derivation = _Derivation(rules)
    for at, byte in enumerate(prefix, 1):
        start = derivation.step(start, byte)
        if at % _BETWEEN == 0:
            derivation.drop_unreached(start)
    if prefix:
        derivation.drop_unreached(start)
        derivation.refuse_guards()
    return derivation.rules, start


_BETWEEN = 32
"""Steps after which the rules that are no longer reached are dropped. Looking for them takes longer than a step."""


class NamesUnknown(Exception):
    """What may follow the prefix depends on names in it."""


class _Derivation:
    def __init__(self, rules: dict[str, ir.Node]) -> None:
        self.rules = dict(rules)
        self._names: dict[str, str] = {}  # a rule -> its derivative by the current byte
        self._count = 0
        self._base: dict[str, str] = {}  # a derived rule -> the rule that it was derived from first
        self._nodes: dict[tuple[Any, ...], ir.Node] = {}
        self._lexemes: dict[tuple[int, int], tuple[ir.Node, ir.Node]] = {}  # (id, byte) -> (the lexeme, its derivative)
        self._empty: dict[int, tuple[ir.Node, bool]] = {}  # id -> a lexeme, and whether it matches the empty text
        self._nullable: set[str] = set()
        self._grow_nullable(rules)

    def step(self, start: str, byte: int) -> str:
        """Takes the derivative by one byte. Returns the new start rule."""
        self._names = {}
        derived: dict[str, ir.Node] = {}
        todo = [start]
        while todo:
            name = todo.pop()
            if self._name(name) not in derived:
                derived[self._name(name)], wanted = self._derive(self.rules[name], byte)
                todo += wanted
        derived = self._without_dead(derived)
        self.rules |= derived
        self._grow_nullable(derived)
        return self._name(start)

    def drop_unreached(self, start: str) -> None:
        """Drops the rules that the start rule does not refer to."""
        self.rules = _reached(self.rules, start)
        self._nullable &= self.rules.keys()

    def refuse_guards(self) -> None:
        """Raises NamesUnknown where a rule that the prefix has entered holds a guard."""
        todo = [self.rules[name] for name in self._base if name in self.rules]
        seen: set[int] = set()
        while todo:
            node = todo.pop()
            if isinstance(node, ir.Guard):
                raise NamesUnknown
            if id(node) not in seen and not isinstance(node, ir.Lexeme):
                seen.add(id(node))
                todo += _children(node)

    def _name(self, name: str) -> str:
        """The name of this rule's derivative."""
        derived = self._names.get(name)
        if derived is None:
            self._count += 1
            base = self._base.get(name, name)
            derived = self._names[name] = f"{base}~{self._count}"
            self._base[derived] = base
        return derived

    # One rule's body.

    def _derive(self, root: ir.Node, byte: int) -> tuple[ir.Node, list[str]]:
        """(the derivative, the rules whose derivatives it refers to)."""
        done: dict[int, ir.Node] = {}
        empty: dict[int, bool] = {}
        wanted: list[str] = []
        todo: list[tuple[ir.Node, bool]] = [(root, False)]
        while todo:
            node, ready = todo.pop()
            if id(node) in done:
                continue
            known = self._lexemes.get((id(node), byte)) if isinstance(node, ir.Lexeme) else None
            if known is not None:
                done[id(node)] = known[1]
            elif not ready:
                todo.append((node, True))
                todo += [(child, False) for child in self._left(node, empty)]
            else:
                done[id(node)] = self._derivative(node, byte, done, empty, wanted)
                if isinstance(node, ir.Lexeme):
                    self._lexemes[id(node), byte] = (node, done[id(node)])
        return done[id(root)], wanted

    def _left(self, node: ir.Node, empty: dict[int, bool]) -> list[ir.Node]:
        """The children that the first byte may belong to."""
        if not isinstance(node, ir.Seq):
            return list(_children(node))
        left: list[ir.Node] = []
        for item in node.items:
            left.append(item)
            if not self._is_nullable(item, empty):
                break
        return left

    def _derivative(
        self, node: ir.Node, byte: int, done: dict[int, ir.Node], empty: dict[int, bool], wanted: list[str]
    ) -> ir.Node:
        """The derivative of a node whose children at the left edge have theirs."""
        if isinstance(node, ir.Marker):
            node = ir.Bytes(node.text.encode())
        if isinstance(node, ir.Bytes):
            return self._leaf(ir.Bytes(node.data[1:])) if node.data[:1] == bytes((byte,)) else ir.NEVER
        if isinstance(node, ir.ByteSet):
            return ir.EMPTY if node.bits >> byte & 1 else ir.NEVER
        if isinstance(node, ir.Literals):
            rests = tuple(option[1:] for option in node.options if option[:1] == bytes((byte,)))
            return self._leaf(ir.Literals(rests)) if rests else ir.NEVER
        if isinstance(node, ir.Substrings):
            after = replace(node, read=node.read + bytes((byte,)))
            return self._leaf(after) if _has_part(after) else ir.NEVER
        if isinstance(node, ir.Ref):
            wanted.append(node.name)
            return self._leaf(ir.Ref(self._name(node.name)))
        if isinstance(node, ir.Seq):
            left = self._left(node, empty)
            return self._alt(self._seq((done[id(item)], *node.items[at + 1 :])) for at, item in enumerate(left))
        if isinstance(node, ir.Alt):
            return self._alt(done[id(item)] for item in node.items)
        if isinstance(node, ir.Repeat):
            if node.max == 0:
                return ir.NEVER
            rest = node
            if node.min or node.max is not None:
                rest = ir.Repeat(node.item, max(node.min - 1, 0), None if node.max is None else node.max - 1)
            return self._seq((done[id(node.item)], rest))
        if isinstance(node, ir.And):
            items = [done[id(item)] for item in node.items]
            return ir.NEVER if any(item == ir.NEVER for item in items) else self._unique(ir.And, items)
        if isinstance(node, ir.Not):
            return self._unique(ir.Not, [done[id(node.item)]])
        if isinstance(node, ir.Lexeme):
            item = done[id(node.item)]
            return item if item in (ir.NEVER, ir.EMPTY) else self._unique(ir.Lexeme, [item])
        if isinstance(node, ir.Distinct):
            return done[id(node.item)]
        if isinstance(node, ir.Counted):  # of the prefix, the tokens are not known
            item = done[id(node.item)]
            return ir.Counted(item, node.most) if isinstance(item, ir.Lexeme) else item
        if isinstance(node, ir.Guard):
            raise NamesUnknown
        return ir.NEVER  # a token by its id has no characters

    # Constructors that return the same object for equal nodes.

    def _leaf(self, node: ir.Node) -> ir.Node:
        return self._nodes.setdefault((type(node), node), node)

    def _unique(self, kind: Any, children: list[ir.Node]) -> ir.Node:
        key = (kind, *map(id, children))
        known = self._nodes.get(key)
        if known is None:
            single = kind in (ir.Not, ir.Lexeme)
            known = self._nodes[key] = kind(children[0]) if single else kind(tuple(children))
        return known

    def _seq(self, items: tuple[ir.Node, ...]) -> ir.Node:
        if items[0] == ir.NEVER:
            return ir.NEVER
        flat: list[ir.Node] = []
        for item in items:
            flat += item.items if isinstance(item, ir.Seq) else [] if item == ir.EMPTY else [item]
        return flat[0] if len(flat) == 1 else self._unique(ir.Seq, flat) if flat else ir.EMPTY

    def _alt(self, options: Iterable[ir.Node]) -> ir.Node:
        distinct: dict[int, ir.Node] = {}
        for option in options:
            for inner in option.items if isinstance(option, ir.Alt) else (option,):
                distinct[id(inner)] = inner
        if len(distinct) == 1:
            return next(iter(distinct.values()))
        return self._unique(ir.Alt, list(distinct.values())) if distinct else ir.NEVER

    # Rules that match nothing, and nodes that match the empty text.

    def _without_dead(self, rules: dict[str, ir.Node]) -> dict[str, ir.Node]:
        """The new rules without the alternatives that begin with a rule that matches nothing."""
        dead: set[str] = set()
        while True:
            newly_dead = {name for name, node in rules.items() if node == ir.NEVER} - dead
            if not newly_dead:
                return rules
            dead |= newly_dead
            rules = {name: self._pruned(node, dead) for name, node in rules.items()}

    def _pruned(self, root: ir.Node, dead: set[str]) -> ir.Node:
        done: dict[int, ir.Node] = {}
        todo: list[tuple[ir.Node, bool]] = [(root, False)]
        while todo:
            node, ready = todo.pop()
            edge = node.items if isinstance(node, ir.Alt) else node.items[:1] if isinstance(node, ir.Seq) else ()
            if edge and not ready:
                todo.append((node, True))
                todo += [(child, False) for child in edge]
            elif isinstance(node, ir.Alt):
                done[id(node)] = self._alt(done[id(item)] for item in node.items)
            elif isinstance(node, ir.Seq):
                done[id(node)] = self._seq((done[id(node.items[0])], *node.items[1:])) if node.items else node
            else:
                done[id(node)] = ir.NEVER if isinstance(node, ir.Ref) and node.name in dead else node
        return done[id(root)]

    def _is_nullable(self, root: ir.Node, known: dict[int, bool]) -> bool:
        todo: list[tuple[ir.Node, bool]] = [(root, False)]
        while todo:
            node, ready = todo.pop()
            if id(node) in known:
                continue
            remembered = self._empty.get(id(node))
            if remembered is not None:
                known[id(node)] = remembered[1]
                continue
            children = _children(node)
            if children and not ready:
                todo.append((node, True))
                todo += [(child, False) for child in children]
                continue
            known[id(node)] = self._matches_empty(node, [known[id(child)] for child in children])
            if isinstance(node, ir.Lexeme):
                self._empty[id(node)] = node, known[id(node)]
        return known[id(root)]

    def _matches_empty(self, node: ir.Node, children: list[bool]) -> bool:
        """Whether the node matches the empty text, given whether its children do."""
        if isinstance(node, (ir.Seq, ir.And)):
            return all(children)
        if isinstance(node, ir.Alt):
            return any(children)
        if isinstance(node, ir.Repeat):
            return node.min == 0 or children[0]
        if isinstance(node, ir.Not):
            return not children[0]
        if isinstance(node, (ir.Lexeme, ir.Distinct, ir.Counted)):
            return children[0]
        if isinstance(node, ir.Ref):
            return node.name in self._nullable
        if isinstance(node, ir.Bytes):
            return not node.data
        if isinstance(node, ir.Substrings):
            return not node.read or _has_part(node, whole=True)
        return isinstance(node, ir.Literals) and b"" in node.options

    def _grow_nullable(self, rules: dict[str, ir.Node]) -> None:
        """Least fixpoint over these rules."""
        grown = True
        while grown:
            grown = False
            for name, node in rules.items():
                if name not in self._nullable and self._is_nullable(node, {}):
                    self._nullable.add(name)
                    grown = True


def _has_part(node: ir.Substrings, whole: bool = False) -> bool:
    """Whether some part of the text begins with what has been read, or is just that. It is not empty. Linear in the
    text, and in how often it occurs there."""
    data = np.frombuffer(node.text, np.uint8)
    if node.unit == "characters":
        plain = node.text
        begins = np.append((data & 0xC0) != 0x80, True)
        ends = begins
    else:
        is_mark = data >= ir.END[0]
        plain = data[~is_mark].tobytes()
        at = np.cumsum(~is_mark)  # of each mark: its place in the plain text
        begins, ends = np.zeros(len(plain) + 1, bool), np.zeros(len(plain) + 1, bool)
        begins[0] = True
        begins[at[data == ir.CUT[0]]] = True
        ends[at[is_mark]] = True
    last = int(np.flatnonzero(ends)[-1]) if ends.any() else 0
    found = plain.find(node.read)
    while found >= 0:
        end = found + len(node.read)
        if begins[found] and end <= last and (ends[end] or not whole):
            return True
        found = plain.find(node.read, found + 1)
    return False


def _children(node: ir.Node) -> tuple[ir.Node, ...]:
    if isinstance(node, (ir.Seq, ir.Alt, ir.And)):
        return node.items
    return (node.item,) if isinstance(node, (ir.Repeat, ir.Not, ir.Lexeme, ir.Distinct, ir.Counted)) else ()


def _reached(rules: dict[str, ir.Node], start: str) -> dict[str, ir.Node]:
    """The rules that the start rule refers to, directly or through other rules."""
    reached: dict[str, ir.Node] = {}
    todo = [start]
    while todo:
        name = todo.pop()
        if name in reached:
            continue
        reached[name] = rules[name]
        seen: set[int] = set()
        below = [rules[name]]
        while below:
            node = below.pop()
            if id(node) in seen or isinstance(node, ir.Lexeme):
                continue
            seen.add(id(node))
            if isinstance(node, ir.Ref):
                todo.append(node.name)
            below += _children(node)
    return reached
