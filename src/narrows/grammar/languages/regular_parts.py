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
        nodes = _walk(self._rules[rule], self._work)
        return list(dict.fromkeys(node.name for node in nodes if isinstance(node, ir.Ref)))

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
        if isinstance(node, ir.Counted):
            raise NotRegular("it has a bound on tokens")
        kind = "a token" if isinstance(node, (ir.Token, ir.Marker)) else "names that must differ"
        raise NotRegular(f"it has {kind}")


class Nullable:
    """Which of these rules match the empty text. Cost: linear in the rules; a rule is looked at again when one that it
    refers to turns out to match it."""

    def __init__(self, rules: Mapping[str, ir.Node], work: Work) -> None:
        self._work = work
        self._names: set[str] = set()
        users: dict[str, list[str]] = {}
        for name, root in rules.items():
            for used in {node.name for node in _walk(root, work) if isinstance(node, ir.Ref)}:
                users.setdefault(used, []).append(name)
        todo = list(rules)
        while todo:
            name = todo.pop()
            if name not in self._names and self.of(rules[name]):
                self._names.add(name)
                todo += users.get(name, ())

    def of(self, node: ir.Node) -> bool:
        """Whether this node matches the empty text."""
        return _matches_empty(node, self._names, self._work)


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
    if isinstance(node, (ir.Lexeme, ir.Distinct, ir.Counted)):
        return inner[0]
    if isinstance(node, ir.Ref):
        return node.name in nullable
    if isinstance(node, ir.Bytes):
        return not node.data
    return isinstance(node, ir.Guard) or (isinstance(node, ir.Literals) and b"" in node.options)


def _walk(root: ir.Node, work: Work) -> Iterator[ir.Node]:
    seen: set[int] = set()
    todo = [root]
    while todo:
        node = todo.pop()
        if id(node) not in seen:
            seen.add(id(node))
            work.spend(1)
            yield node
            todo += _children(node)


def _children(node: ir.Node) -> tuple[ir.Node, ...]:
    if isinstance(node, (ir.Seq, ir.Alt, ir.And)):
        return node.items
    return (node.item,) if isinstance(node, (ir.Repeat, ir.Not, ir.Lexeme, ir.Distinct, ir.Counted)) else ()
