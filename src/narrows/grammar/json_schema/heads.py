"""Heads: what items of an array are compared by where a whole item has no regular form.

An item is written in one spelling (one_spelling.py), so different texts are different values, and so are texts with
different beginnings. The head of an item is its text up to the first array or object at one of a set of places, or all
of it where there is none. A place is known by the keys that lead to it, so where the text is cut depends on the text
alone, whichever branch of a schema it was read by. Hence items that are equal have equal heads.

The set holds what is not regular: what is nested without end, has names of its own (`ir.Distinct`), or is too large.
`Heads` finds it: an array or object that cannot be read as part of a head is added to the set, and all items are read
again, until nothing is added. The more levels it may look into, the longer are the heads.

Cost: linear in what lies before the cuts, for each time that the set grows.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

from narrows.grammar import ir
from narrows.grammar.json_schema.one_spelling import MOST_NODES, flat
from narrows.grammar.productive import productive_rules
from narrows.grammar.reach import reached
from narrows.grammar.work import Work

MOST_CUTS = 64
"""Of one item: what may follow after a head."""
MOST_COUNTED = 16
"""Items of a bounded array, each of which may be the first that is cut."""

_Frame = tuple[bool, bytes]
"""An open object or array: whether it is an object, and the key of the value that comes next."""
_State = tuple[_Frame, ...]
_Path = tuple[bytes, ...]
"""The keys that lead to an array or object (`_ITEM` in an array), and how it begins."""
_ANY_KEY = b"*"
_ITEM = b"[]"
_OPEN_ARRAY, _OPEN_OBJECT = b"[", b"{"


@dataclass(frozen=True, slots=True)
class Head:
    """What an item is compared by, as a regular node, and what follows it."""

    node: ir.Node
    rest: tuple[ir.Node, ...] = ()


@dataclass(slots=True)
class _Part:
    """What a node matches. `cuts`: texts in which something is cut, by what follows the cut. `whole`: the others, None
    where there are none; the text is in the state `after` then."""

    cuts: dict[tuple[int, ...], tuple[list[ir.Node], tuple[ir.Node, ...]]] = field(default_factory=dict)
    whole: ir.Node | None = None
    after: _State = ()

    def add(self, heads: Sequence[ir.Node], rest: tuple[ir.Node, ...]) -> None:
        self.cuts.setdefault(tuple(map(id, rest)), ([], rest))[0].extend(heads)


_Walk = Generator["_Walk", Union["_Part", None], Union["_Part", None]]


class Heads:
    """The heads of several items that are compared with each other."""

    def __init__(
        self,
        rules: Mapping[str, ir.Node],
        containers: Mapping[str, bool],
        opaque: Collection[str],
        productive: dict[str, bool],
        work: Work,
    ) -> None:
        """`containers`: the rules that match arrays and objects, and whether it is objects. `opaque`: rules that are
        not regular. `productive`: rules of which it is known whether they match something; it grows."""
        self._rules = rules
        self._containers = containers
        self._opaque = opaque
        self._productive = productive
        self._work = work
        self._regular: dict[str, ir.Node | None] = {}

    def of(self, items: Sequence[tuple[ir.Node, bool]], depth: int) -> list[list[Head]] | None:
        """The heads of each item; None where one has none. They go into `depth` levels, the item itself included. An
        item may come with `True`: its keys are any, but it has one at most."""
        by_key = True
        cut: set[_Path] = set()
        while True:
            reader = _Reader(
                self._rules, self._containers, self._opaque, self._regular, self._productive, self._work,
                cut, depth, by_key,
            )  # fmt: skip
            made: list[list[Head]] = []
            for item, has_one_key in items:
                part = reader.read(item, has_one_key)
                if part is None:
                    return None
                heads = [Head(ir.alt(*heads), rest) for heads, rest in part.cuts.values()]
                made.append([*heads, *([] if part.whole is None else [Head(part.whole)])])
            if by_key and reader.mixes_keys:
                by_key = False
                cut = set()
            elif reader.missing:
                cut |= reader.missing
            else:
                return made


class _Reader:
    """One time through all items."""

    def __init__(
        self,
        rules: Mapping[str, ir.Node],
        containers: Mapping[str, bool],
        opaque: Collection[str],
        regular: dict[str, ir.Node | None],
        productive: dict[str, bool],
        work: Work,
        cut: Collection[_Path],
        depth: int,
        by_key: bool,
    ) -> None:
        self._rules = rules
        self._containers = containers
        self._opaque = opaque
        self._regular = regular
        self._productive = productive
        self._work = work
        self._cut = cut
        self._beyond = {
            (*path[:k], _OPEN_ARRAY if path[k] == _ITEM else _OPEN_OBJECT) for path in cut for k in range(len(path) - 1)
        }
        """What holds them."""
        self._depth = depth
        self._by_key = by_key
        self._done: dict[tuple[int, _State, bool], _Part | None] = {}
        self._held: list[ir.Node] = []
        """Nodes that were made here, because `_done` and the cuts have their ids."""
        self._open: set[tuple[str, _State]] = set()
        self._keys: dict[_Path, bool] = {}
        """Objects, and whether it is known by which keys they lead on."""
        self._has_one_key = False
        self._size = 0
        self.missing: set[_Path] = set()
        self.mixes_keys = False

    def read(self, item: ir.Node, has_one_key: bool) -> _Part | None:
        self._has_one_key = has_one_key
        stack: list[_Walk] = [self._walk(item, ())]
        answer: _Part | None = None
        while stack:
            try:
                deeper = stack[-1].send(answer)
            except StopIteration as stop:
                stack.pop()
                answer = stop.value
            else:
                stack.append(deeper)
                answer = None
        return answer

    def _walk(self, node: ir.Node, state: _State) -> _Walk:
        key = (id(node), state, self._has_one_key)
        if key in self._done:
            return self._done[key]
        self._work.spend(4)
        part: _Part | None = None
        if isinstance(node, ir.Lexeme):
            part = self._scalar(node.item, state)
        elif isinstance(node, (ir.Literals, ir.ByteSet)):
            part = self._scalar(node, state)
        elif isinstance(node, ir.Distinct):
            if self._has_one_key and len(state) == 1 and state[0][0]:
                part = self._scalar(node.item.item, state)
        elif isinstance(node, ir.Bytes):
            part = self._bytes(node, state)
        elif isinstance(node, ir.Seq):
            part = yield self._seq(node, state)
        elif isinstance(node, ir.Alt):
            part = yield self._alt(node, state)
        elif isinstance(node, ir.Repeat):
            part = yield self._repeat(node, state)
        elif isinstance(node, ir.Ref):
            part = yield self._reference(node, state)
        if part is not None:
            self._size += 1 + 2 * len(part.cuts)
            if self._size > MOST_NODES or len(part.cuts) > MOST_CUTS:
                part = None
        self._done[key] = part
        return part

    def _scalar(self, node: ir.Node, state: _State) -> _Part:
        """A scalar, or a key that is one of many."""
        return _Part(whole=node, after=_after_any_key(state))

    def _reference(self, node: ir.Ref, state: _State) -> _Walk:
        name = node.name
        if name not in self._rules:
            return None
        if name not in self._opaque and not self._is_productive(name):
            return _Part()
        if name not in self._containers:
            here = (name, state)
            if here in self._open or name in self._opaque:
                return None
            self._open.add(here)
            part = yield self._walk(self._rules[name], state)
            self._open.discard(here)
            return part
        path = self._path(state, self._containers[name])
        if path not in self._cut:
            if path not in self._beyond and name not in self._opaque:
                written = self._written(name)
                if written is not None:
                    return _Part(whole=written, after=_after_any_key(state))
            if len(state) < self._depth and name not in self._opaque:
                part = yield self._walk(self._rules[name], state)
                if part is not None:
                    return part
            if not state:
                return None
            self.missing.add(path)
        part = _Part()
        part.add([ir.EMPTY], (node,))
        return part

    def _is_productive(self, name: str) -> bool:
        """Whether the rule matches something. Opaque rules may not have been written yet: they count as if they do."""
        if name not in self._productive:
            below: dict[str, ir.Node] = {}
            todo = [name]
            while todo:
                here = todo.pop()
                if here in below or here in self._opaque or here not in self._rules:
                    continue
                if here in self._productive:
                    if not self._productive[here]:
                        below[here] = ir.NEVER
                    continue
                below[here] = self._rules[here]
                todo += [node.name for node in reached([below[here]], {}, self._work) if isinstance(node, ir.Ref)]
            known = productive_rules(below, self._work)
            self._productive.update({one: one in known for one in below})
        return self._productive[name]

    def _written(self, name: str) -> ir.Node | None:
        """The rule as a regular node, None where it has none."""
        if name not in self._regular:
            self._regular[name] = flat(self._rules, ir.Ref(name), self._work, self._opaque)
        return self._regular[name]

    def _path(self, state: _State, is_object: bool) -> _Path:
        """The place of an array or object that begins here."""
        path: list[bytes] = []
        for in_object, key in state:
            if not in_object:
                path.append(_ITEM)
            elif not self._by_key:
                path.append(_ANY_KEY)
            else:
                is_known = key != _ANY_KEY
                if self._keys.setdefault(tuple(path), is_known) is not is_known:
                    self.mixes_keys = True
                path.append(key)
        return (*path, _OPEN_OBJECT if is_object else _OPEN_ARRAY)

    def _bytes(self, node: ir.Bytes, state: _State) -> _Part | None:
        """Whole tokens of JSON."""
        data, at = node.data, 0
        self._work.spend(len(data) // 16)
        while at < len(data):
            char = data[at : at + 1]
            if char == b'"':
                end = at + 1
                while end < len(data) and data[end : end + 1] != b'"':
                    end += 2 if data[end : end + 1] == b"\\" else 1
                if end >= len(data):
                    return None
                if state and state[-1][0] and data[end + 1 : end + 2] == b":":
                    state = (*state[:-1], (True, data[at : end + 1]))
                at = end + 1
                continue
            if char in b"{[":
                path = self._path(state, char == _OPEN_OBJECT)
                if path in self._cut:
                    part = _Part()
                    before, after = ir.Bytes(data[:at]), ir.Bytes(data[at:])
                    self._held += [before, after]
                    part.add([before if at else ir.EMPTY], (after,))
                    return part
                state = (*state, (char == _OPEN_OBJECT, _ANY_KEY))
            elif char in b"}]":
                state = state[:-1]
            at += 1
        return _Part(whole=node, after=state)

    def _seq(self, node: ir.Seq, state: _State) -> _Walk:
        made = _Part(after=state)
        before: list[ir.Node] = []
        for k, item in enumerate(node.items):
            part = yield self._walk(item, made.after)
            if part is None:
                return None
            self._work.spend(2 + len(part.cuts))
            following = node.items[k + 1 :]
            if ir.NEVER not in following:
                for heads, rest in part.cuts.values():
                    made.add([ir.seq(*before, ir.alt(*heads))], (*rest, *following))
            if part.whole is None:
                return made
            before.append(part.whole)
            made.after = part.after
        made.whole = ir.seq(*before)
        return made

    def _alt(self, node: ir.Alt, state: _State) -> _Walk:
        made = _Part()
        wholes: list[ir.Node] = []
        after: _State | None = None
        for item in node.items:
            part = yield self._walk(item, state)
            if part is None:
                return None
            self._work.spend(2 + len(part.cuts))
            for heads, rest in part.cuts.values():
                made.add(heads, rest)
            if part.whole is not None:
                wholes.append(part.whole)
                after = part.after if after is None else _either(after, part.after)
        if wholes and after is not None:
            made.whole, made.after = ir.alt(*wholes), after
        return made

    def _repeat(self, node: ir.Repeat, state: _State) -> _Walk:
        state = _after_any_key(state)
        part = yield self._walk(node.item, state)
        if part is None:
            return None
        low, high, whole = node.min, node.max, part.whole
        made = _Part(after=state)
        if whole is not None:
            made.whole = ir.Repeat(whole, low, high)
        elif low == 0:
            made.whole = ir.EMPTY
        if not part.cuts or high == 0:
            return made
        if whole is None:
            rounds: list[tuple[ir.Node, int]] = [(ir.EMPTY, 0)]
        elif high is None and low <= MOST_COUNTED:
            rounds = [*[(_times(whole, k), k) for k in range(low)], (ir.Repeat(whole, low), low)]
        elif high is not None and high <= MOST_COUNTED:
            rounds = [(_times(whole, k), k) for k in range(high)]
        else:
            return None
        self._size += len(rounds) * (1 + 2 * len(part.cuts))
        for before, k in rounds:
            more = ir.Repeat(node.item, max(low - 1 - k, 0), None if high is None else high - 1 - k)
            self._held.append(more)
            for heads, rest in part.cuts.values():
                made.add([ir.seq(before, ir.alt(*heads))], rest if high == 1 + k else (*rest, more))
        return made


def _times(node: ir.Node, count: int) -> ir.Node:
    return ir.Repeat(node, count, count) if count else ir.EMPTY


def _after_any_key(state: _State) -> _State:
    return (*state[:-1], (True, _ANY_KEY)) if state and state[-1][0] else state


def _either(one: _State, other: _State) -> _State:
    return one if one == other else _after_any_key(one)
