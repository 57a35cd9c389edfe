"""Decides which parts of a module become one automaton, if the front end has not marked them.

A part is fused if it is regular (every rule that it refers to is regular and not recursive), holds no lexeme, and is
small when these rules are written out. This changes the speed, never the meaning: a fused part is one automaton whose
masks are cached per state. Otherwise it would be a network that is walked byte by byte.

Cost: linear in the module, once per compilation.
"""

from __future__ import annotations

from collections.abc import Iterator

from narrows.grammar import ir
from narrows.grammar.work import Work

MAX_FUSED_NODES = 4_000
"""A part with more nodes, when written out, stays a network: its automaton could be much larger still."""

_LEAF = (ir.Bytes, ir.ByteSet, ir.Literals, ir.Substrings)


def children(node: ir.Node) -> tuple[ir.Node, ...]:
    """The nodes directly inside a node."""
    if isinstance(node, (ir.Seq, ir.Alt, ir.And)):
        return node.items
    if isinstance(node, (ir.Repeat, ir.Not, ir.Lexeme, ir.Distinct, ir.Counted)):
        return (node.item,)
    return ()


def _walk_outside(root: ir.Node) -> Iterator[ir.Node]:
    """Every distinct node object below a root that is not inside a lexeme, parents first."""
    seen = set()
    todo = [root]
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        todo.extend(_outside(node))


def _outside(node: ir.Node) -> tuple[ir.Node, ...]:
    return () if isinstance(node, ir.Lexeme) else children(node)


class Fuser:
    """Answers `size(node)`: how many nodes the part has when written out, or None if it must not be fused."""

    def __init__(self, module: ir.Module, work: Work) -> None:
        self._module = module
        self._work = work
        self._sizes: dict[int, int | None] = {}
        self._rules: dict[str, int | None] = {}
        for name in module.rules:
            work.source = module.sources.get(name)
            self._settle_rule(name)

    def size(self, node: ir.Node) -> int | None:
        """None if the node holds a lexeme, a marker, a token or a recursive rule, or is too large to be one
        automaton."""
        self._settle_node(node)
        return self._sizes[id(node)]

    def _settle_rule(self, name: str) -> None:
        # Depth first over rules. A rule that is met again while it is open is recursive, and so are the rules that
        # refer to it.
        if name in self._rules:
            return
        stack: list[tuple[str, Iterator[str]]] = [(name, self._references(name))]
        open_rules = {name}
        while stack:
            current, references = stack[-1]
            callee = next(references, None)
            if callee is None:
                stack.pop()
                open_rules.discard(current)
                if current not in self._rules:
                    root = self._module.rules[current]
                    self._settle_node(root)
                    self._rules[current] = self._sizes[id(root)]
            elif callee in open_rules:
                self._rules[callee] = None
            elif callee not in self._rules:
                open_rules.add(callee)
                stack.append((callee, self._references(callee)))

    def _references(self, name: str) -> Iterator[str]:
        names: list[str] = []
        count = 0
        for node in _walk_outside(self._module.rules[name]):
            count += 1
            if isinstance(node, ir.Ref):
                names.append(node.name)
        self._work.spend(count)  # this walk, and that of `_settle_node`
        return iter(names)

    def _settle_node(self, root: ir.Node) -> None:
        todo = [root]
        while todo:
            node = todo[-1]
            if id(node) in self._sizes:
                todo.pop()
                continue
            pending = [c for c in _outside(node) if id(c) not in self._sizes]
            if pending:
                todo.extend(pending)
                continue
            todo.pop()
            self._sizes[id(node)] = self._own_size(node)

    def _own_size(self, node: ir.Node) -> int | None:
        # The parts of a text are an automaton of their own: inside another one, each place in the text is a state.
        if isinstance(node, (ir.Lexeme, ir.Marker, ir.Token, ir.Distinct, ir.Guard, ir.Counted, ir.Substrings)):
            return None
        if isinstance(node, ir.Ref):
            return self._rules.get(node.name)
        total = 1
        for child in children(node):
            size = self._sizes[id(child)]
            if size is None:
                return None
            total += size
        return total if total <= MAX_FUSED_NODES else None


def fused(module: ir.Module, work: Work) -> dict[str, ir.Node]:
    """The module's rules with each maximal regular part as a lexeme. Inside of one, a `Ref` stands for the rule's body.
    What is shared stays shared."""
    fuser = Fuser(module, work)
    made: dict[int, ir.Node] = {}
    parts_of: dict[int, tuple[ir.Node, ...]] = {}  # holds the new nodes, because `made` has their ids
    for name, root in module.rules.items():
        work.source = module.sources.get(name)
        todo = [root]
        while todo:
            node = todo[-1]
            if id(node) in made:
                todo.pop()
            elif is_leaf(node):
                made[id(node)] = node
            elif fuser.size(node) is not None:
                made[id(node)] = ir.Lexeme(node)
            elif not isinstance(node, (ir.Seq, ir.Alt, ir.Repeat)):
                made[id(node)] = node
            else:
                parts = parts_of.get(id(node))
                if parts is None:
                    work.spend(1)
                    parts = _runs(node.items, fuser) if isinstance(node, ir.Seq) else children(node)
                    parts_of[id(node)] = parts
                pending = [part for part in parts if id(part) not in made]
                if pending:
                    todo.extend(pending)
                    continue
                made[id(node)] = _rebuilt(node, tuple([made[id(part)] for part in parts]))
    work.source = None
    return {name: made[id(root)] for name, root in module.rules.items()}


def _rebuilt(node: ir.Seq | ir.Alt | ir.Repeat, parts: tuple[ir.Node, ...]) -> ir.Node:
    if isinstance(node, ir.Repeat):
        return ir.Repeat(parts[0], node.min, node.max)
    return ir.Seq(parts) if isinstance(node, ir.Seq) else ir.Alt(parts)


def _runs(items: tuple[ir.Node, ...], fuser: Fuser) -> tuple[ir.Node, ...]:
    """The items of a sequence, with each run of two or more fusible items as one item, or as several if one would be
    too large."""
    out: list[ir.Node] = []
    run: list[ir.Node] = []
    weight = 1  # of the run as a sequence of its own

    def flush() -> None:
        nonlocal weight
        out.extend([ir.Seq(tuple(run))] if len(run) > 1 else run)
        run.clear()
        weight = 1

    for item in items:
        size = fuser.size(item)
        if size is None:
            flush()
            out.append(item)
            continue
        if weight + size > MAX_FUSED_NODES:
            flush()
        run.append(item)
        weight += size
    flush()
    return tuple(out)


def is_leaf(node: ir.Node) -> bool:
    """The core reads these as one automaton in any case."""
    return isinstance(node, _LEAF)
