"""Embeds a grammar in another one: its rules get a prefix, so that names do not collide. Also walks over references."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from narrows.errors import UnsupportedError
from narrows.grammar import ir
from narrows.grammar.fuse import children


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

    def renamed(ref: ir.Ref) -> ir.Ref:
        return ir.Ref(prefix + ref.name, ref.capture, ref.is_ignored)

    rules = {prefix + name: node for name, node in with_refs(module.rules, renamed).items()}
    sources = {prefix + name: source for name, source in module.sources.items()}
    return rules, ir.Ref(prefix + module.start), sources


def with_refs(rules: Mapping[str, ir.Node], change: Callable[[ir.Ref], ir.Ref]) -> dict[str, ir.Node]:
    """The rules with each reference changed. What is shared stays shared. Cost: linear in the nodes."""
    done: dict[int, ir.Node] = {}
    return {name: _changed(node, change, done) for name, node in rules.items()}


def _changed(root: ir.Node, change: Callable[[ir.Ref], ir.Ref], done: dict[int, ir.Node]) -> ir.Node:
    """Shared nodes are visited once. The stack is explicit."""
    todo: list[tuple[ir.Node, bool]] = [(root, False)]
    while todo:
        node, ready = todo.pop()
        if id(node) in done:
            continue
        if isinstance(node, ir.Ref):
            done[id(node)] = change(node)
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


def refs_in(root: ir.Node) -> list[ir.Ref]:
    """All references in a node."""
    found: list[ir.Ref] = []
    seen: set[int] = set()
    todo = [root]
    while todo:
        node = todo.pop()
        if id(node) not in seen:
            seen.add(id(node))
            if isinstance(node, ir.Ref):
                found.append(node)
            todo += children(node)
    return found
