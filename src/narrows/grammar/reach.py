"""Which nodes rules lead to. What lexemes are made of is not looked into.

Cost: linear in the nodes, each of which is met once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from narrows.grammar import ir
from narrows.grammar.work import Work


def reached(roots: Iterable[ir.Node], rules: Mapping[str, ir.Node], work: Work) -> Iterator[ir.Node]:
    """Every node from these on, references followed. One to a rule that is not there leads nowhere."""
    seen: set[int] = set()
    named: set[str] = set()
    todo = list(roots)
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        work.spend(1)
        yield node
        if isinstance(node, (ir.Seq, ir.Alt)):
            todo += node.items
        elif isinstance(node, ir.Repeat):
            todo.append(node.item)
        elif isinstance(node, ir.Ref) and node.name not in named and node.name in rules:
            named.add(node.name)
            todo.append(rules[node.name])
