"""Values as regular texts, each in one spelling: so that equal values are equal texts (families/unique_items.py).

`flat` puts rules into one regular node, where that is possible: they must not refer to themselves, and nothing in them
may depend on names. `CANONICAL` matches JSON whose numbers and strings are spelled in one way.

Cost: linear in the node, which `MOST_NODES` bounds.
"""

from __future__ import annotations

from collections.abc import Mapping

from narrows.grammar import ir
from narrows.grammar.json_schema.spelling.spelling import DIGIT, FRACTIONAL, NONZERO, spelling
from narrows.grammar.work import Work

MOST_NODES = 20_000
"""A part that is used twice counts twice."""

WITHOUT_ZEROS = ir.Alt(
    (
        ir.Bytes(b"0"),
        ir.Seq((ir.optional(ir.Bytes(b"-")), NONZERO, ir.Repeat(DIGIT))),
        ir.And((FRACTIONAL, ir.Seq((ir.Repeat(ir.ANY_BYTE), NONZERO)))),
    )
)
"""One spelling of each number."""
_MINIMAL = spelling("compact", "minimal")
_SCALAR = ir.optional(
    ir.Alt((WITHOUT_ZEROS, _MINIMAL.quoted(_MINIMAL.characters), ir.Literals((b"true", b"false", b"null"))))
)
CANONICAL = ir.Seq((_SCALAR, ir.Repeat(ir.Seq((ir.byte_set(b"{}[]:, "), _SCALAR)))))


def flat(rules: Mapping[str, ir.Node], root: ir.Node, work: Work) -> ir.Node | None:
    """The node without references; None where it is not regular, or too large."""
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
                if node.name in open_rules:
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
