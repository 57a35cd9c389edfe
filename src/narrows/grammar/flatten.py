"""Writes a `Module` as the flat arrays that the core compiles (core/grammar/ir.hpp describes them).

A marker becomes the vocabulary's special token of that name, or its bytes. Regular parts that a front end has not
marked become lexemes (fuse.py). The core checks the arrays again.

Cost: about 3 us per node. `Limits.reading_work` bounds it, together with the work of reading the text. Front ends use
the same lexemes and repeated items again and again (a JSON string, its characters). Their arrays are kept and copied,
at a tenth of the cost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from narrows.errors import GrammarError
from narrows.grammar import ir
from narrows.grammar.fuse import MAX_FUSED_NODES, Fuser, children, is_leaf
from narrows.grammar.work import Kept, Work
from narrows.limits import Limits

NO_MAX = 0xFFFFFFFF
_BYTES, _SET, _LITERALS, _SEQ, _ALT, _REPEAT, _AND, _NOT, _LEXEME, _RULE, _TOKEN, _DISTINCT, _GUARD = range(13)
_SPELLINGS = get_args(ir.NameSpelling)
_COMPOSITE: dict[type, int] = {ir.Seq: _SEQ, ir.Alt: _ALT, ir.And: _AND, ir.Not: _NOT, ir.Lexeme: _LEXEME}


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """The facts of a vocabulary that flattening a grammar needs."""

    special: Mapping[str, int]
    end_tokens: Collection[int]
    usable: Mapping[int, None]
    """The ids that have a token, in order: no holes, no padding."""


class _Arrays:
    def __init__(self, work: Work) -> None:
        self.work = work
        self.most = work.limits.ir_nodes
        self.kinds = bytearray()
        self.a: list[int] = []
        self.b: list[int] = []
        self.child_offsets = [0]
        self.children: list[int] = []
        self.strings: list[bytes] = []
        self.string_index: dict[bytes, int] = {}
        self.tokens: list[int] = []
        self.token_sets: dict[ir.Token, tuple[int, int]] = {}
        """A set of tokens -> (where its ids begin in `tokens`, how many there are)."""
        self.weight = 0

    def grow(self, weight: int) -> None:
        self.weight += weight
        if self.weight > self.most:
            raise self.work.refusal("ir_nodes", f"the grammar has more than {self.most:,} nodes")

    def add(self, kind: int, a: int = 0, b: int = 0, inner: tuple[int, ...] = ()) -> int:
        # `grow` and `spend`, written out: this is called for each node.
        work = self.work
        self.weight += 1
        work.spent += 2 + len(inner) // 4
        if self.weight > self.most or work.spent > work.most:
            self.grow(0)
            work.spend(0)
        self.kinds.append(kind)
        self.a.append(a)
        self.b.append(b)
        self.children.extend(inner)
        self.child_offsets.append(len(self.children))
        return len(self.a) - 1

    def string(self, data: bytes) -> int:
        index = self.string_index.get(data)
        if index is None:
            index = self.string_index[data] = len(self.strings)
            self.strings.append(data)
            self.grow(len(data) // 16)
        return index

    def literals(self, options: tuple[bytes, ...]) -> int:
        first = len(self.strings)
        self.strings.extend(options)
        weight = sum(map(len, options)) // 16 + len(options) // 16
        self.grow(weight)
        self.work.spend(weight // 8)
        return self.add(_LITERALS, first, len(options))

    def guard(self, node: ir.Guard) -> int:
        first = len(self.strings)
        self.strings.extend(node.names)
        self.grow(sum(map(len, node.names)) // 16 + len(node.names) // 16)
        self.work.spend(len(node.names) // 8)
        return self.add(_GUARD, first, 4 * len(node.names) + 2 * node.negate + (node.spelling != "bytes"))

    def splice(self, part: _Arrays) -> int:
        """Appends the arrays of a part that refers to nothing outside, with its root last. Returns the root's index."""
        self.grow(part.weight)
        self.work.spend(2 + part.weight // 8)
        base, first_child = len(self.a), len(self.children)
        strings = [self.string(data) for data in part.strings]
        named = (_BYTES, _SET)
        self.kinds += part.kinds
        self.a.extend([strings[a] if kind in named else a for kind, a in zip(part.kinds, part.a, strict=True)])
        self.b.extend(part.b)
        self.children.extend([c + base for c in part.children])
        self.child_offsets.extend([o + first_child for o in part.child_offsets[1:]])
        return len(self.a) - 1


MAX_FRAGMENTS, MAX_FRAGMENT_WEIGHT = 512, 2_000
MOST_KEPT = 20_000
"""The most nodes that one `flatten` visits and writes out once more, to keep them for later calls."""
_fragments: Kept[tuple[ir.Node, _Arrays | None]] = Kept(MAX_FRAGMENTS * 800)
"""id of a regular node -> (the node, its arrays, or None if they cannot be kept). The node is held so that its id is
not reused."""
_met: set[int] = set()
"""Ids of regular nodes that were written out once. A node is kept only if it occurs again. (An id that is reused does
no harm.)"""


def _comes_again(node: ir.Node) -> bool:
    if len(_met) > 16 * MAX_FRAGMENTS:
        _met.clear()
    again = id(node) in _met
    _met.add(id(node))
    return again and _fragments.get(id(node)) is None


def _size_alone(root: ir.Node) -> tuple[bool, int]:
    """(Whether the node can be kept: no `Ref`, no `Literals`, at most MAX_FRAGMENT_WEIGHT nodes; how many nodes were
    visited.)"""
    todo, count = [root], 0
    while todo:
        node = todo.pop()
        count += 1
        if count > MAX_FRAGMENT_WEIGHT or isinstance(node, (ir.Ref, ir.Literals)):
            return False, count
        todo.extend(children(node))
    return True, count


def flatten(module: ir.Module, facts: TokenFacts, limits: Limits, spent: int = 0) -> dict[str, Any]:
    """The arrays of a module, as numpy arrays of the widths that the core wants. `spent`: the work that reading the
    module took.

    Raises GrammarError (`rule_missing`, `repeat_too_large`) and LimitError (`ir_nodes`, `reading_work`) with the place
    of the rule.
    """
    work = Work(limits, spent)
    work.spend(len(module.rules))
    fuser = None if module.marked else Fuser(module, work)
    names = list(module.rules)
    numbers = {name: i for i, name in enumerate(names)}
    if module.start not in numbers:
        raise GrammarError(f"the grammar has no rule {module.start!r} to start from", code="rule_missing")
    out = _Arrays(work)
    done: dict[tuple[int, bool], int] = {}
    wanted: list[ir.Node] = []
    with_runs: dict[int, tuple[ir.Node, ...]] = {}  # holds the new nodes, because `done` has their ids

    def write(out: _Arrays, done: dict[tuple[int, bool], int], root: ir.Node, fused: bool) -> int:
        todo: list[tuple[ir.Node, bool]] = [(root, fused)]
        while todo:
            node, inside = todo[-1]
            key = (id(node), inside)
            if key in done:
                todo.pop()
                continue
            if fuser and not inside and not is_leaf(node) and fuser.size(node) is not None:
                # One automaton: it is written out below, with the rules' bodies instead of references.
                if (id(node), True) not in done:
                    todo.append((node, True))
                    continue
                todo.pop()
                done[key] = out.add(_LEXEME, inner=(done[(id(node), True)],))
                continue
            fragment = _fragments.get(id(node))
            if fragment is not None and fragment[1] is not None:
                todo.pop()
                done[key] = out.splice(fragment[1])
                continue
            inner = _parts(node, inside, module)
            within = inside or isinstance(node, (ir.Lexeme, ir.And, ir.Not))
            if fuser and not within and isinstance(node, ir.Seq):
                if id(node) not in with_runs:
                    with_runs[id(node)] = _runs(inner, fuser)
                inner = with_runs[id(node)]
            pending = [(c, within) for c in inner if (id(c), within) not in done]
            if pending:
                todo.extend(reversed(pending))
                continue
            todo.pop()
            done[key] = _emit_one(out, node, tuple(done[(id(c), within)] for c in inner), numbers, facts, inside)
            if within and isinstance(node, (ir.Lexeme, ir.Repeat)):
                wanted.append(node if isinstance(node, ir.Lexeme) else node.item)
        return done[(id(root), fused)]

    roots: list[int] = []
    for name in names:
        work.source = module.sources.get(name)
        roots.append(write(out, done, module.rules[name], False))
    room = MOST_KEPT
    for node in tuple(wanted):  # `write` appends to `wanted`
        if is_leaf(node) or not _comes_again(node):
            continue
        stands_alone, count = _size_alone(node)
        room -= count
        if room < 0:
            break
        part = _Arrays(Work(limits)) if stands_alone else None
        if part is not None:
            write(part, {}, node, True)
        _fragments.put(id(node), (node, part), 800 if part is None else 800 + part.weight)
    lengths = np.fromiter((len(s) for s in out.strings), dtype=np.uint32, count=len(out.strings))
    joined = b"".join(out.strings)
    return {
        "kinds": np.frombuffer(bytes(out.kinds), dtype=np.uint8),
        "a": np.array(out.a, dtype=np.uint32),
        "b": np.array(out.b, dtype=np.uint32),
        "child_offsets": np.array(out.child_offsets, dtype=np.uint32),
        "children": np.array(out.children, dtype=np.uint32),
        "string_offsets": np.concatenate([np.zeros(1, np.uint32), np.cumsum(lengths, dtype=np.uint32)]),
        "string_bytes": np.frombuffer(joined, dtype=np.uint8),
        "tokens": np.array(out.tokens, dtype=np.uint32),
        "rules": np.array(roots, dtype=np.uint32),
        "rule_names": [module.sources.get(name, name) for name in names],
        "start": numbers[module.start],
    }


def is_flat(value: object) -> bool:
    """Whether these are a module's arrays, by their names and types. The core checks their content."""
    if not isinstance(value, Mapping):
        return False
    rows = all(
        isinstance(row := value.get(name), np.ndarray) and (row.dtype, row.ndim) == (dtype, 1)
        for name, dtype in _WIDTHS.items()
    )
    names, start = value.get("rule_names"), value.get("start")
    return (
        rows
        and isinstance(names, list)
        and all(isinstance(n, str) for n in names)
        and type(start) is int
        and 0 <= start < NO_MAX
    )


_WIDTHS = {
    **dict.fromkeys(("kinds", "string_bytes"), np.dtype(np.uint8)),
    **dict.fromkeys(("a", "b", "child_offsets", "children", "string_offsets", "tokens", "rules"), np.dtype(np.uint32)),
}


def _parts(node: ir.Node, inside: bool, module: ir.Module) -> tuple[ir.Node, ...]:
    if isinstance(node, ir.Ref):
        if node.name not in module.rules:
            raise GrammarError(f"the grammar has no rule {node.name!r}", code="rule_missing")
        return (module.rules[node.name],) if inside else ()
    return children(node)


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


def _emit_one(
    out: _Arrays, node: ir.Node, inner: tuple[int, ...], numbers: dict[str, int], facts: TokenFacts, inside: bool
) -> int:
    kind = _COMPOSITE.get(type(node))
    if kind is not None:
        return out.add(kind, inner=inner)
    if isinstance(node, ir.Bytes):
        return out.add(_BYTES, out.string(node.data))
    if isinstance(node, ir.ByteSet):
        return out.add(_SET, out.string(node.bits.to_bytes(32, "little")))
    if isinstance(node, ir.Literals):
        return out.literals(node.options)
    if isinstance(node, ir.Repeat):
        high = NO_MAX if node.max is None else node.max
        if node.min >= 1 << 31 or (node.max is not None and node.max >= 1 << 31):
            raise GrammarError("a repetition is bounded by more than 2147483647", code="repeat_too_large")
        if node.min > high:
            return out.add(_ALT)
        return out.add(_REPEAT, node.min, high, inner)
    if isinstance(node, ir.Distinct):
        name = 0 if node.name is None else 1 + out.string(node.name)
        return out.add(_DISTINCT, _SPELLINGS.index(node.spelling), name, inner)
    if isinstance(node, ir.Guard):
        return out.guard(node)
    if isinstance(node, ir.Ref):
        return out.add(_LEXEME, inner=inner) if inside else out.add(_RULE, numbers[node.name])
    if isinstance(node, ir.Marker):
        special = facts.special.get(node.text)
        if special is None:
            return out.add(_BYTES, out.string(node.text.encode()))
        return _emit_tokens(out, (special,))
    if isinstance(node, ir.Token):
        known = out.token_sets.get(node)
        if known is None:
            index = _emit_tokens(out, _tokens(node, facts, out.work))
            out.token_sets[node] = out.a[index], out.b[index]
            return index
        return out.add(_TOKEN, *known)
    raise TypeError(f"not a node of the intermediate form: {node!r}")


def _tokens(node: ir.Token, facts: TokenFacts, work: Work) -> tuple[int, ...]:
    usable = facts.usable
    if node.negate:
        work.spend(len(usable) // 16)
        left_out = {*node.ids, *facts.end_tokens}
        return tuple(t for t in usable if t not in left_out)
    return tuple(t for t in sorted(set(node.ids)) if t in usable)


def _emit_tokens(out: _Arrays, ids: tuple[int, ...]) -> int:
    first = len(out.tokens)
    out.tokens.extend(ids)
    return out.add(_TOKEN, first, len(ids))
