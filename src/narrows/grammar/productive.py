"""Which rules match some text at all. The core leaves out those that do not. A front end asks where it must know
before.

What a lexeme matches is not looked into, but where nothing is written there. A guard that asks for a name counts as
open where some match of its rule may read the name, in whatever order. Other guards count as open.

Cost: linear in the rules for each pass over them. There are as many passes as rules refer back, and mostly two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from narrows.grammar import ir
from narrows.grammar.work import Work

Requirement = Callable[[Collection[str], Collection[str]], bool]
"""Whether a rule can match some text, given the names of all rules, and of those that are known to."""


def productive_rules(
    rules: Mapping[str, ir.Node], work: Work, requirements: Mapping[str, Requirement] | None = None
) -> set[str]:
    """The names of the rules that match some text. A name that is not among the rules counts as one that does.
    `requirements`: what must hold of a rule besides; it holds all the more as more rules are known."""
    also = requirements or {}
    known: set[str] = set()
    waiting = list(rules)[::-1]  # those that others refer to stand behind them, mostly
    while True:
        left = []
        for name in waiting:
            if matches_something(rules[name], rules, known, work) and (name not in also or also[name](rules, known)):
                known.add(name)
            else:
                left.append(name)
        if len(left) == len(waiting):
            return known
        waiting = left


def matches_something(root: ir.Node, rules: Collection[str], known: Collection[str], work: Work) -> bool:
    """Whether a node matches some text, if the `known` rules do and no other ones. The node is the whole of a rule, or
    it holds no guards."""
    matching, has_guards = _matching(root, rules, known, None, work)
    if not (has_guards and matching[id(root)]):
        return matching[id(root)]
    # A match goes through one alternative. What the others read opens no guard in it.
    for one in root.items if isinstance(root, ir.Alt) else (root,):
        if matching[id(one)]:
            names = _names(one, matching, work)
            if _matching(one, rules, known, names, work)[0][id(one)]:
                return True
    return False


def _matching(
    root: ir.Node, rules: Collection[str], known: Collection[str], names: Collection[bytes] | None, work: Work
) -> tuple[dict[int, bool], bool]:
    """Whether each part of a node matches some text, by its id, and whether there are guards that ask for names. These
    are open where the `names` hold theirs; with None, all are."""
    done: dict[int, bool] = {}
    has_guards = False
    todo: list[tuple[ir.Node, bool]] = [(root, False)]
    while todo:
        node, is_ready = todo.pop()
        if id(node) in done:
            continue
        parts = _parts(node)
        if parts and not is_ready:
            todo.append((node, True))
            todo += [(part, False) for part in parts]
            continue
        work.spend(1)
        if isinstance(node, ir.Guard) and not node.negate:
            has_guards = True
            done[id(node)] = names is None or all(name in names for name in node.names)
        else:
            done[id(node)] = _matches(node, [done[id(part)] for part in parts], rules, known)
    return done, has_guards


def _parts(node: ir.Node) -> tuple[ir.Node, ...]:
    return node.items if isinstance(node, (ir.Seq, ir.Alt)) else (node.item,) if isinstance(node, ir.Repeat) else ()


def _names(root: ir.Node, matching: Mapping[int, bool], work: Work) -> set[bytes]:
    """The names that parts of a node read which a match may go through."""
    names: set[bytes] = set()
    seen: set[int] = set()
    todo: list[ir.Node] = [root]
    while todo:
        node = todo.pop()
        if id(node) in seen or not matching[id(node)]:
            continue
        seen.add(id(node))
        work.spend(1)
        if isinstance(node, ir.Distinct) and node.name is not None:
            names.add(node.name)
        todo += _parts(node)
    return names


def _matches(node: ir.Node, parts: list[bool], rules: Collection[str], known: Collection[str]) -> bool:
    if isinstance(node, ir.Seq):
        return all(parts)
    if isinstance(node, ir.Alt):
        return any(parts)
    if isinstance(node, ir.Repeat):
        return node.min == 0 or parts[0]
    if isinstance(node, ir.Ref):
        return node.name in known or node.name not in rules
    if isinstance(node, (ir.Lexeme, ir.Distinct, ir.Counted)):
        item = node.item if isinstance(node, ir.Lexeme) else node.item.item
        return not (isinstance(item, ir.Alt) and not item.items)
    return True
