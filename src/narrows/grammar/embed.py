"""Embeds a grammar in another one: its rules get a prefix, so that names do not collide."""

from __future__ import annotations

from narrows.errors import UnsupportedError
from narrows.grammar import ir


def embedded(module: ir.Module, prefix: str) -> tuple[dict[str, ir.Node], ir.Ref, dict[str, str]]:
    """(the module's rules, each named `prefix` and its own name; a reference to its start rule; their sources). Cost:
    linear in the nodes.

    Raises UnsupportedError `lexer_unsupported` if the module cuts its text by the longest match."""
    if module.longest:
        raise UnsupportedError(
            'a grammar with lexer="greedy" cannot be a part of another one',
            code="lexer_unsupported",
            hint='Read it with lexer="all"',
        )
    done: dict[int, ir.Node] = {}
    rules = {prefix + name: _renamed(node, prefix, done) for name, node in module.rules.items()}
    sources = {prefix + name: source for name, source in module.sources.items()}
    return rules, ir.Ref(prefix + module.start), sources


def _renamed(root: ir.Node, prefix: str, done: dict[int, ir.Node]) -> ir.Node:
    """The node with its references renamed. Shared nodes are visited once. The stack is explicit."""
    todo: list[tuple[ir.Node, bool]] = [(root, False)]
    while todo:
        node, ready = todo.pop()
        if id(node) in done:
            continue
        if isinstance(node, ir.Ref):
            done[id(node)] = ir.Ref(prefix + node.name)
        elif isinstance(node, (ir.Seq, ir.Alt)):
            if not ready:
                todo.append((node, True))
                todo += [(item, False) for item in node.items]
            else:
                done[id(node)] = type(node)(tuple(done[id(item)] for item in node.items))
        elif isinstance(node, ir.Repeat):
            if not ready:
                todo += [(node, True), (node.item, False)]
            else:
                done[id(node)] = ir.Repeat(done[id(node.item)], node.min, node.max)
        else:  # within a lexeme there are no references
            done[id(node)] = node
    return done[id(root)]
