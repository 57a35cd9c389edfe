"""Rules written out as regular nodes: what stands in an `ir.And` or `ir.Not` has no references.

Cost: linear in the nodes of the rules that are written out. What is shared stays shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from narrows.grammar import ir
from narrows.grammar.work import Work

_LEAVES = (ir.Bytes, ir.ByteSet, ir.Literals)


class NotRegular(Exception):
    """Why a rule cannot be written out."""


class RegularParts:
    """Of these rules. They must not change while this is used."""

    def __init__(self, rules: Mapping[str, ir.Node], work: Work) -> None:
        self._rules = rules
        self._work = work
        self._bodies: dict[str, ir.Node] = {}

    def of_rule(self, name: str) -> ir.Node:
        """The body of a rule, without references and lexemes. Raises NotRegular."""
        open_names: set[str] = set()
        todo = [name]
        while todo:
            here = todo[-1]
            if here in self._bodies:
                todo.pop()
                continue
            missing = [used for used in self._names(here) if used not in self._bodies]
            for used in missing:
                if used == here or used in open_names:
                    raise NotRegular(f"the rule {used!r} refers to itself")
            if missing:
                open_names.add(here)
                todo += missing
            else:
                todo.pop()
                open_names.discard(here)
                self._bodies[here] = self._written_out(self._rules[here])
        return self._bodies[name]

    def _names(self, rule: str) -> list[str]:
        return list(dict.fromkeys(node.name for node in self._walk(rule) if isinstance(node, ir.Ref)))

    def _walk(self, rule: str) -> Iterator[ir.Node]:
        seen: set[int] = set()
        todo = [self._rules[rule]]
        while todo:
            node = todo.pop()
            if id(node) not in seen:
                seen.add(id(node))
                self._work.spend(1)
                yield node
                todo += _children(node)

    def _written_out(self, root: ir.Node) -> ir.Node:
        done: dict[int, ir.Node] = {}
        todo: list[tuple[ir.Node, bool]] = [(root, False)]
        while todo:
            node, is_ready = todo.pop()
            if id(node) in done:
                continue
            inner = _children(node)
            if inner and not is_ready:
                todo.append((node, True))
                todo += [(child, False) for child in inner]
                continue
            done[id(node)] = self._made(node, tuple([done[id(child)] for child in inner]))
        return done[id(root)]

    def _made(self, node: ir.Node, inner: tuple[ir.Node, ...]) -> ir.Node:
        if isinstance(node, _LEAVES):
            return node
        if isinstance(node, ir.Ref):
            return self._bodies[node.name]
        if isinstance(node, (ir.Seq, ir.Alt, ir.And)):
            return type(node)(inner)
        if isinstance(node, ir.Repeat):
            return ir.Repeat(inner[0], node.min, node.max)
        if isinstance(node, ir.Not):
            return ir.Not(inner[0])
        if isinstance(node, ir.Lexeme):
            return inner[0]
        kind = "a token" if isinstance(node, (ir.Token, ir.Marker)) else "names that must differ"
        raise NotRegular(f"it has {kind}")


def is_nullable(root: ir.Node, rules: Mapping[str, ir.Node], work: Work) -> bool:
    """Whether a node matches the empty text. Cost: linear in the rules that it leads to, for each pass over them; there
    are as many as rules refer back, and mostly two."""
    names: dict[str, None] = {}
    todo = [root]
    seen: set[int] = set()
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        todo += _children(node)
        if isinstance(node, ir.Ref) and node.name not in names:
            names[node.name] = None
            todo.append(rules[node.name])
    nullable: set[str] = set()
    waiting = list(names)[::-1]
    while True:
        left = [name for name in waiting if not _matches_empty(rules[name], nullable, work)]
        nullable.update(set(waiting) - set(left))
        if len(left) == len(waiting):
            return _matches_empty(root, nullable, work)
        waiting = left


def _matches_empty(root: ir.Node, nullable: set[str], work: Work) -> bool:
    done: dict[int, bool] = {}
    todo: list[tuple[ir.Node, bool]] = [(root, False)]
    while todo:
        node, is_ready = todo.pop()
        if id(node) in done:
            continue
        inner = _children(node)
        if inner and not is_ready:
            todo.append((node, True))
            todo += [(child, False) for child in inner]
            continue
        work.spend(1)
        done[id(node)] = _is_empty(node, [done[id(child)] for child in inner], nullable)
    return done[id(root)]


def _is_empty(node: ir.Node, inner: list[bool], nullable: set[str]) -> bool:
    if isinstance(node, (ir.Seq, ir.And)):
        return all(inner)
    if isinstance(node, ir.Alt):
        return any(inner)
    if isinstance(node, ir.Repeat):
        return node.min == 0 or inner[0]
    if isinstance(node, ir.Not):
        return not inner[0]
    if isinstance(node, (ir.Lexeme, ir.Distinct)):
        return inner[0]
    if isinstance(node, ir.Ref):
        return node.name in nullable
    if isinstance(node, ir.Bytes):
        return not node.data
    return isinstance(node, ir.Guard) or (isinstance(node, ir.Literals) and b"" in node.options)


def _children(node: ir.Node) -> tuple[ir.Node, ...]:
    if isinstance(node, (ir.Seq, ir.Alt, ir.And)):
        return node.items
    return (node.item,) if isinstance(node, (ir.Repeat, ir.Not, ir.Lexeme, ir.Distinct)) else ()
