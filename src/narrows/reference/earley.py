"""Rules, by Earley's algorithm: each position has a set of items (node, progress, start position). Left recursion,
ambiguity and rules that match nothing need no special care. Nodes that no text matches are never entered. So a position
that has an item has a completion: this is what `viable` returns.

J. Earley, "An efficient context-free parsing algorithm", CACM 13 (1970).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Union

from narrows.grammar import ir
from narrows.limits import DEFAULT_LIMITS
from narrows.reference.regular import Terms, children_first

Symbol = Union[int, tuple[str, int]]
"""A byte (0..255), or ("token", id)."""


class Position:
    """A position in a text: the items that are open there. `waiting[n, names]` are the items that wait here for node n,
    with these names read before."""

    def __init__(self) -> None:
        self.items: set[Item] = set()
        self.waiting: dict[tuple[int, Names], list[Item]] = {}
        self.complete: set[tuple[int, Names]] = set()
        """Nodes that began here and matched the empty text."""
        self.accepting = False

    @property
    def viable(self) -> bool:
        return bool(self.items)


Names = frozenset[bytes]
Item = tuple[int, Any, Position, Names, Names]
"""(node, progress, start, names before, names now). Progress: for a seq the number of items passed; for an alt or a
token 0 or 1; for a repetition the count; for a regular part the derivative that is left; for a distinct part its
derivative and its text so far; for a counted part its derivative, the tokens that are left, and whether it has read
anything. The names are those that distinct parts have read in this run of the rule. A rule
begins with no names, any other node with the names of the item that waits for it."""
_NO_NAMES: Names = frozenset()


class Reference:
    """The language of a module. `special` maps the names of special tokens to ids (for `Marker`); `eos`
    are the ids that a negated `Token` leaves out."""

    def __init__(
        self,
        module: ir.Module,
        *,
        special: Mapping[str, int] | None = None,
        eos: Collection[int] = (),
        object_keys: int = DEFAULT_LIMITS.object_keys,
    ) -> None:
        self.module = module
        self.special = dict(special or {})
        self.eos = frozenset(eos)
        self.object_keys = object_keys
        self.terms = Terms()
        self._nodes: list[tuple] = []  # type: ignore[type-arg]
        self._root = self._flatten(module)
        self._nullable, self._productive = self._properties()
        self.start = Position()
        if self._productive[self._root]:
            self._close(self.start, [self._fresh(self._root, self.start, _NO_NAMES)])

    # Questions about a text.

    def accepts(self, text: bytes | Iterable[Symbol]) -> bool:
        """Whether the grammar matches the whole text."""
        return self.position(text).accepting

    def viable(self, text: bytes | Iterable[Symbol]) -> bool:
        """Whether the text is a prefix of a text that the grammar matches."""
        return self.position(text).viable

    def mask(
        self,
        text_tokens: Iterable[int],
        vocab_tokens: Sequence[bytes | None],
        special: Mapping[str, int] | None = None,
        eos: Collection[int] | None = None,
    ) -> set[int]:
        """The ids that may come next. `vocab_tokens[i]` are the bytes of token i, or None if there is no such token.

        A token is allowed by its bytes if it has any and is neither special nor an end token. It is allowed as one
        symbol if the grammar names it. An end token is also allowed if the grammar matches the whole text. Nothing is
        allowed after an end token.
        """
        special = self.special if special is None else special
        eos = self.eos if eos is None else eos
        if dict(special) != self.special or frozenset(eos) != self.eos:
            return Reference(self.module, special=special, eos=eos).mask(text_tokens, vocab_tokens)
        by_name = {*self.special.values(), *self.eos}
        place = self.start
        for token in text_tokens:
            if token in self.eos:
                return set()
            place = self.after_token(place, token, b"" if token in by_name else vocab_tokens[token] or b"")
        return self.mask_at(place, vocab_tokens)

    def mask_at(self, place: Position, vocab_tokens: Sequence[bytes | None]) -> set[int]:
        """`mask` at a position, before any end token."""
        by_name = {*self.special.values(), *self.eos}
        walked: dict[bytes, Position] = {b"": place}
        allowed = set()
        for token, data in enumerate(vocab_tokens):
            if data is None:
                continue
            ordinary = b"" if token in by_name else data
            if (
                (token in self.eos and place.accepting)
                or self.after(place, ("token", token)).viable
                or (ordinary and self._walk(walked, ordinary).viable)
            ):
                allowed.add(token)
        return allowed

    # Single steps, for tests.

    def position(self, text: bytes | Iterable[Symbol]) -> Position:
        place = self.start
        for symbol in text:
            place = self.after(place, symbol)
        return place

    def after(self, place: Position, symbol: Symbol) -> Position:
        return self._join([(place, symbol)])

    def after_token(self, place: Position, token: int, data: bytes) -> Position:
        """The position after a token with these bytes, read as bytes or as one symbol."""
        edges: list[tuple[Position, Symbol]] = [(place, ("token", token))]
        if data:
            for byte in data[:-1]:
                place = self.after(place, byte)
            edges.append((place, data[-1]))
        reached = self._join(edges)
        self._end_token(reached)
        return reached

    def _end_token(self, place: Position) -> None:
        """What has no tokens left ends, if it can end here."""
        kept: set[Item] = set()
        for node, progress, *rest in place.items:
            after = progress
            if self._nodes[node][0] == "counted" and progress[2]:
                after = (progress[0], max(progress[1] - 1, 0), True)
                if not after[1] and self.terms.nullable[after[0]]:
                    continue
            kept.add((node, after, *rest))
        if kept or place.accepting:
            place.items = kept

    def _walk(self, walked: dict[bytes, Position], data: bytes) -> Position:
        known = len(data)
        while data[:known] not in walked:
            known -= 1
        place = walked[data[:known]]
        for end in range(known, len(data)):
            if not place.viable:
                break
            place = walked[data[: end + 1]] = self.after(place, data[end])
        return place

    # Earley's algorithm.

    def _join(self, edges: Iterable[tuple[Position, Symbol]]) -> Position:
        """The position after any of these symbols, each from its own position."""
        scanned = []
        for place, symbol in edges:
            found: list[Item] = []
            for node, progress, start, before, names in place.items:
                after = self._scan(node, progress, names, symbol)
                if after is not None:
                    found.append((node, after, start, before, names))
            if self.module.longest and isinstance(symbol, int):
                # What began before goes on, if any of it can. What begins here is given up.
                found = [item for item in found if item[2] is not place] or found
            scanned += found
        reached = Position()
        self._close(reached, scanned)
        return reached

    def _scan(self, node: int, progress: Any, names: Names, symbol: Symbol) -> Any:
        """The progress of a terminal after a symbol, or None if the symbol does not fit."""
        key = self._nodes[node]
        if key[0] == "distinct" and isinstance(symbol, int):
            rest, text = self.terms.derivative(progress[0], symbol), progress[1] + bytes((symbol,))
            return (rest, text) if self._has_another_name(rest, text, key, names) else None
        if key[0] == "counted" and isinstance(symbol, int):
            rest = self.terms.derivative(progress[0], symbol)
            return (rest, progress[1], True) if self.terms.live(rest) else None
        if key[0] == "term" and isinstance(symbol, int):
            rest = self.terms.derivative(progress, symbol)
            return rest if self.terms.live(rest) else None
        if key[0] == "token" and not isinstance(symbol, int) and progress == 0:
            _, ids, negate = key
            named = symbol[1] in ids if not negate else symbol[1] not in ids and symbol[1] not in self.eos
            return 1 if named else None
        return None

    def _has_another_name(self, rest: int, text: bytes, key: Any, names: Names) -> bool:
        """Whether what is left of a distinct part can end in a name that has not been read. Where that takes a long
        search, there are many names."""
        if not names or key[3] is not None:
            return self.terms.live(rest) and (not names or _name(b"", *key[2:]) not in names)
        if self.terms.nullable[rest] and _name(text, *key[2:]) not in names:
            return True
        open_ = [(rest, text)]
        for rest, text in open_:
            if len(open_) > 500:
                return True
            for byte in range(256):
                after = self.terms.derivative(rest, byte), text + bytes((byte,))
                if self.terms.nullable[after[0]] and _name(after[1], *key[2:]) not in names:
                    return True
                if self.terms.live(after[0]):
                    open_.append(after)
        return False

    def _close(self, place: Position, items: list[Item]) -> None:
        """Adds the items, and all items that follow from them without a further symbol. An iteration that matches
        nothing is not counted: `_least` has already allowed for it."""
        todo = items
        while todo:
            item = todo.pop()
            if item in place.items:
                continue
            place.items.add(item)
            node, progress, start, before, names = item
            for child, next_progress in self._wanted(node, progress):
                waiter = (node, next_progress, start, before, names)
                wanted = self._fresh(child, place, names)
                place.waiting.setdefault((child, wanted[3]), []).append(waiter)
                todo.append(wanted)
                if (child, wanted[3]) in place.complete and self._nodes[node][0] != "repeat":
                    todo.append(waiter)
            if self._is_complete(node, progress, names):
                waiting = start.waiting.get((node, before), ())
                if start is place:
                    place.complete.add((node, before))
                    todo.extend(w for w in waiting if self._nodes[w[0]][0] != "repeat")
                elif node < self._rules:
                    todo.extend(waiting)
                else:
                    read = self._names_after(node, progress, names)
                    todo.extend((*w[:4], read) for w in waiting)
                if node == self._root and start is self.start:
                    place.accepting = True

    def _fresh(self, node: int, place: Position, names: Names) -> Item:
        key = self._nodes[node]
        progress: Any = key[1] if key[0] == "term" else (key[1], b"") if key[0] == "distinct" else 0
        if key[0] == "counted":
            progress = (*key[1:], False)
        names = _NO_NAMES if node < self._rules else names
        return (node, progress, place, names, names)

    def _names_after(self, node: int, progress: Any, names: Names) -> Names:
        key = self._nodes[node]
        if key[0] != "distinct" or (key[3] is None and len(names) >= self.object_keys):
            return names
        return names | {_name(progress[1], *key[2:])}

    def _wanted(self, node: int, progress: int) -> list[tuple[int, int]]:
        """(part, progress after it) for each part that the item may read next. Never a part that no text matches."""
        key = self._nodes[node]
        if key[0] == "seq" and progress < len(key[1]):
            return [(key[1][progress], progress + 1)]
        if key[0] == "alt" and progress == 0:
            return [(child, 1) for child in key[1] if self._productive[child]]
        if key[0] == "repeat":
            _, child, _, high = key
            low = self._least(node)
            if self._productive[child] and (high is None or progress < high):
                return [(child, min(progress + 1, low) if high is None else progress + 1)]
        return []

    def _is_complete(self, node: int, progress: Any, names: Names) -> bool:
        key = self._nodes[node]
        if key[0] == "distinct":
            return self.terms.nullable[progress[0]] and _name(progress[1], *key[2:]) not in names
        if key[0] == "guard":
            return bool((key[1] <= names) != key[2])
        if key[0] == "term":
            return bool(self.terms.nullable[progress])
        if key[0] == "counted":
            return bool(self.terms.nullable[progress[0]])
        if key[0] == "seq":
            return bool(progress == len(key[1]))
        if key[0] == "repeat":
            return bool(progress >= self._least(node))
        return bool(progress == 1)

    def _least(self, node: int) -> int:
        """The least count of a repetition. Iterations that match nothing fill any minimum."""
        _, child, low, _ = self._nodes[node]
        return 0 if self._nullable[child] else low

    # The module as a flat table.

    def _flatten(self, module: ir.Module) -> int:
        """Fills `_nodes` with ("term", term), ("token", ids, negate), ("distinct", term, spelling, name), ("counted",
        term, most), ("guard", names, negate), ("seq", items), ("alt", items) and ("repeat", item, min, max), where
        items are indices; a rule is an alt of one item. Returns the start rule's."""
        rules = {name: k for k, name in enumerate(module.rules)}
        self._nodes = [("alt", ()) for _ in rules]
        self._rules = len(rules)
        done: dict[int, int] = {}
        for name, body in module.rules.items():
            for node in children_first(body, stop_at_regular=True):
                if id(node) in done:
                    continue
                if isinstance(node, ir.Ref):
                    done[id(node)] = rules[node.name]
                    continue
                if isinstance(node, ir.Marker) and node.text in self.special:
                    key: tuple = ("token", frozenset((self.special[node.text],)), False)  # type: ignore[type-arg]
                elif isinstance(node, ir.Marker):
                    key = ("term", self.terms.literals([node.text.encode()]))
                elif isinstance(node, ir.Distinct):
                    key = ("distinct", self.terms.of(node.item), node.spelling, node.name)
                elif isinstance(node, ir.Counted):
                    key = ("counted", self.terms.of(node.item), node.most)
                elif isinstance(node, ir.Guard):
                    key = ("guard", frozenset(_name(b"", node.spelling, name) for name in node.names), node.negate)
                elif isinstance(node, ir.Token):
                    key = ("token", frozenset((*node.ids, *(self.special[n] for n in node.names))), node.negate)
                elif isinstance(node, ir.Seq):
                    key = ("seq", tuple(done[id(i)] for i in node.items))
                elif isinstance(node, ir.Alt):
                    key = ("alt", tuple(done[id(i)] for i in node.items))
                elif isinstance(node, ir.Repeat):
                    key = ("repeat", done[id(node.item)], node.min, node.max)
                else:
                    key = ("term", self.terms.of(node))
                done[id(node)] = len(self._nodes)
                self._nodes.append(key)
            self._nodes[rules[name]] = ("alt", (done[id(body)],))
        return rules[module.start]

    def _properties(self) -> tuple[list[bool], list[bool]]:
        """Per node: whether it matches the empty text, and whether it matches any text. Least fixpoints."""
        nullable = [key[0] in ("term", "counted") and self.terms.nullable[key[1]] for key in self._nodes]
        productive = [
            (key[0] in ("term", "distinct", "counted") and self.terms.live(key[1]))
            or (key[0] == "token" and bool(key[1] or key[2]))
            or key[0] == "guard"
            for key in self._nodes
        ]
        for values, is_productive in ((nullable, False), (productive, True)):
            changed = True
            while changed:
                changed = False
                for node in reversed(range(len(self._nodes))):
                    if not values[node] and self._holds(node, values, nullable, is_productive):
                        values[node] = changed = True
        return nullable, productive

    def _holds(self, node: int, values: list[bool], nullable: list[bool], productive: bool) -> bool:
        key = self._nodes[node]
        if key[0] == "seq":
            return all(values[child] for child in key[1])
        if key[0] == "alt":
            return any(values[child] for child in key[1])
        if key[0] == "repeat":
            _, child, low, high = key
            possible = high is None or low <= high
            return possible and (low == 0 or nullable[child] or (productive and values[child]))
        return False


def _name(text: bytes, spelling: ir.NameSpelling, only: bytes | None) -> bytes:
    """The name that a text of a distinct part spells, unless it has just this one. The first byte tells strings from
    what stands for itself."""
    if only is not None:
        return (b"b" if spelling == "bytes" else b"s") + only
    if spelling == "json":
        return b"s" + str(json.loads(text, strict=False)).encode("utf-8", "surrogatepass")
    if spelling == "single":
        escapes = {"n": "\n", "r": "\r", "t": "\t"}
        parts = text.decode()[1:-1].split("\\")
        name = parts[0]
        quoted = False  # the part before was an escaped backslash
        for part in parts[1:]:
            if quoted or not part:
                name, quoted = name + (part if quoted else "\\"), not quoted
            else:
                name += escapes.get(part[0], part[0]) + part[1:]
        return b"s" + name.encode()
    return b"b" + text
