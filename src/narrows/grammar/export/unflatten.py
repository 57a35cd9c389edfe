"""Reads the flat arrays of a grammar (grammar/flatten.py) back into nodes.

The arrays are what is left of a grammar when it is compiled: markers are tokens or bytes there, and sets of tokens are
ids. Nodes that stand once in the arrays are one object. Cost: linear in the arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from narrows.grammar import ir
from narrows.grammar.flatten import NO_MAX

_SPELLINGS: tuple[ir.NameSpelling, ...] = ("bytes", "json", "single")


def rule_name(number: int) -> str:
    """The name by which references call the rule of this number."""
    return str(number)


def unflatten(arrays: Mapping[str, Any]) -> ir.Module:
    """The module of these arrays. Its rules have numbers for names; `sources` has their names in the arrays."""
    reader = _Reader(arrays)
    nodes: list[ir.Node] = []
    for number in range(len(reader.kinds)):
        nodes.append(reader.node(number, nodes))
    rules = {rule_name(i): nodes[root] for i, root in enumerate(arrays["rules"].tolist())}
    sources = {rule_name(i): name for i, name in enumerate(arrays["rule_names"])}
    return ir.Module(rules, rule_name(arrays["start"]), sources, longest=arrays["longest"], marked=True)


class _Reader:
    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.kinds: list[int] = arrays["kinds"].tolist()
        self._a: list[int] = arrays["a"].tolist()
        self._b: list[int] = arrays["b"].tolist()
        self._children: list[int] = arrays["children"].tolist()
        self._child_offsets: list[int] = arrays["child_offsets"].tolist()
        self._offsets: list[int] = arrays["string_offsets"].tolist()
        self._bytes: bytes = arrays["string_bytes"].tobytes()
        self._tokens: list[int] = arrays["tokens"].tolist()

    def node(self, number: int, nodes: list[ir.Node]) -> ir.Node:
        """The node of this number. `nodes` holds those before it, among which are its children."""
        a, b = self._a[number], self._b[number]
        start, end = self._child_offsets[number], self._child_offsets[number + 1]
        items = tuple(nodes[child] for child in self._children[start:end])
        kind = self.kinds[number]
        if kind == 0:
            return ir.Bytes(self._string(a))
        if kind == 1:
            return ir.ByteSet(int.from_bytes(self._string(a), "little"))
        if kind == 2:
            return ir.Literals(tuple(map(self._string, range(a, a + b))))
        if kind == 3:
            return ir.Substrings(self._string(a), "characters" if b & 1 else "pieces", self._string(b >> 1))
        if kind == 4:
            return ir.Seq(items)
        if kind == 5:
            return ir.Alt(items)
        if kind == 6:
            return ir.Repeat(items[0], a, None if b == NO_MAX else b)
        if kind == 7:
            return ir.And(items)
        if kind == 8:
            return ir.Not(items[0])
        if kind == 9:
            return ir.Lexeme(items[0])
        if kind == 10:
            return ir.Ref(rule_name(a))
        if kind == 11:
            return ir.Token(tuple(self._tokens[a : a + b]))
        if kind == 12:
            return ir.Distinct(cast("ir.Lexeme", items[0]), _SPELLINGS[a], self._string(b - 1) if b else None)
        names = tuple(map(self._string, range(a, a + b // 4)))
        return ir.Guard(names, "json" if b & 1 else "bytes", bool(b & 2))

    def _string(self, number: int) -> bytes:
        return self._bytes[self._offsets[number] : self._offsets[number + 1]]
