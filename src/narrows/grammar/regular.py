"""Questions about a regular node: does it match a text, does it match anything, and does it match only a few texts?

Front ends ask them where one schema meets another: which patterns a property's name matches, and whether any name is
left for a third. Answers are exact. They are found by derivatives (Brzozowski 1964) over terms that are made once, for
one byte of each set of bytes that a term tells apart.

Cost: some 5 us for each new state and byte, charged to the reading's `Work`. So a question that would take too long
ends with its error (`reading_work`). Nothing recurses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from narrows.grammar import ir
from narrows.grammar.work import Work

_ALL_BYTES = (1 << 256) - 1
_PER_STEP = 6

NEVER, EMPTY, ANYTHING = 0, 1, 2
"""The terms that match nothing, the empty text alone, and every text."""


class Regular:
    """Terms, and the answers that are known about them. A term is a number; equal numbers match the same texts."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self._keys: list[tuple[Any, ...]] = []
        self._nullable: list[bool] = []
        self._is_plain: list[bool] = []
        """Holds no intersection and no complement, so that it matches something unless it is `NEVER`."""
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._derivatives: dict[tuple[int, int], int] = {}
        self._classes: dict[int, tuple[int, ...]] = {}
        self._matches_something: dict[int, bool] = {}
        self._term(("never",), False, True)
        self._term(("empty",), True, True)
        self._term(("anything",), True, True)

    def _term(self, key: tuple[Any, ...], nullable: bool, plain: bool) -> int:
        number = self._numbers.get(key)
        if number is None:
            self.work.spend(1 + len(key) // 8)
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
            self._nullable.append(nullable)
            self._is_plain.append(plain)
        return number

    # Building. Each constructor simplifies, so that a term has few derivatives.

    def byte_set(self, bits: int) -> int:
        return self._term(("set", bits), False, True) if bits else NEVER

    def seq(self, first: int, rest: int) -> int:
        if first == NEVER or rest == NEVER:
            return NEVER
        if first == EMPTY or rest == EMPTY:
            return rest if first == EMPTY else first
        items = [first]  # to the right, so that equal texts are equal terms
        while self._keys[items[-1]][0] == "seq":
            _, before, after = self._keys[items.pop()]
            items += [before, after]
        self.work.spend(len(items) // 4)
        for item in reversed(items):
            nullable, plain = (
                self._nullable[item] and self._nullable[rest],
                self._is_plain[item] and self._is_plain[rest],
            )
            rest = self._term(("seq", item, rest), nullable, plain)
        return rest

    def alt(self, items: Iterable[int]) -> int:
        flat = self._flat("alt", items, NEVER)
        if ANYTHING in flat:
            return ANYTHING
        bits, sets = 0, [item for item in flat if self._keys[item][0] == "set"]
        if len(sets) > 1:
            for item in sets:
                bits |= self._keys[item][1]
            flat = (flat - set(sets)) | {self.byte_set(bits)}
        if len(flat) <= 1:
            return next(iter(flat), NEVER)
        nullable, plain = any(self._nullable[item] for item in flat), all(self._is_plain[item] for item in flat)
        return self._term(("alt", *sorted(flat)), nullable, plain)

    def both(self, items: Iterable[int]) -> int:
        """The texts that all of these match."""
        flat = self._flat("and", items, ANYTHING)
        if NEVER in flat:
            return NEVER
        if len(flat) <= 1:
            return next(iter(flat), ANYTHING)
        return self._term(("and", *sorted(flat)), all(self._nullable[item] for item in flat), False)

    def complement(self, item: int) -> int:
        if item in (NEVER, ANYTHING):
            return ANYTHING if item == NEVER else NEVER
        key = self._keys[item]
        return int(key[1]) if key[0] == "not" else self._term(("not", item), not self._nullable[item], False)

    def repeat(self, item: int, low: int, high: int | None) -> int:
        if self._nullable[item]:
            low = 0  # rounds that match nothing fill any minimum
        if high is not None and low > high:
            return NEVER
        if item in (NEVER, EMPTY) or high == 0:
            return EMPTY if low == 0 else NEVER
        if low == high == 1:
            return item
        if low == 0 and high is None and (item == ANYTHING or self._keys[item] == ("set", _ALL_BYTES)):
            return ANYTHING
        return self._term(("rep", item, low, high), low == 0, self._is_plain[item])

    def literals(self, options: Iterable[bytes]) -> int:
        """One of these texts."""
        kept = tuple(sorted(set(options)))
        self.work.spend(len(kept) // 4)
        if kept in ((), (b"",)):
            return EMPTY if kept else NEVER
        return self._term(("literals", kept), kept[0] == b"", True)

    def _flat(self, kind: str, items: Iterable[int], unit: int) -> set[int]:
        flat: set[int] = set()
        for item in items:
            key = self._keys[item]
            flat.update(key[1:] if key[0] == kind else (item,))
        flat.discard(unit)
        return flat

    def of(self, root: ir.Node) -> int:
        """The term of a regular node."""
        done: dict[int, int] = {}
        todo: list[tuple[ir.Node, bool]] = [(root, False)]
        while todo:
            node, ready = todo.pop()
            if id(node) in done:
                continue
            children = _children(node)
            if children and not ready:
                todo.append((node, True))
                todo += [(child, False) for child in children]
            else:
                self.work.spend(1)
                done[id(node)] = self._of(node, [done[id(child)] for child in children])
        return done[id(root)]

    def _of(self, node: ir.Node, children: list[int]) -> int:
        if isinstance(node, ir.Bytes):
            return self.literals([node.data])
        if isinstance(node, ir.ByteSet):
            return self.byte_set(node.bits)
        if isinstance(node, ir.Literals):
            return self.literals(node.options)
        if isinstance(node, ir.Seq):
            term = EMPTY
            for child in reversed(children):
                term = self.seq(child, term)
            return term
        if isinstance(node, ir.Alt):
            return self.alt(children)
        if isinstance(node, ir.And):
            return self.both(children)
        if isinstance(node, ir.Not):
            return self.complement(children[0])
        if isinstance(node, ir.Repeat):
            return self.repeat(children[0], node.min, node.max)
        assert isinstance(node, ir.Lexeme), "a regular node"
        return children[0]

    # Questions.

    def matches(self, term: int, text: bytes) -> bool:
        for byte in text:
            term = self._derivative(term, byte)
            if term in (NEVER, ANYTHING):
                break
        return self._nullable[term]

    def is_never(self, term: int) -> bool:
        """Whether the term matches no text."""
        return not self._has_text(term)

    def texts(self, term: int, most: int) -> list[bytes] | None:
        """All texts that the term matches; None where there are more than `most`."""
        texts: list[bytes] = []
        level = [(b"", term)] if self._has_text(term) else []
        while level:
            longer: list[tuple[bytes, int]] = []
            for text, state in level:
                if self._nullable[state]:
                    texts.append(text)
                for bits in self._told_apart(state):
                    after = self._derivative(state, _lowest(bits))
                    if self._has_text(after):
                        if len(longer) + bin(bits).count("1") > most:
                            return None  # each of these goes on to a text of its own
                        longer += [(text + bytes((byte,)), after) for byte in _bytes(bits)]
            if len(texts) > most:
                return None
            level = longer
        return texts

    def _has_text(self, term: int) -> bool:
        """Depth first, until some state matches the empty text, or is known."""
        known = self._known_text(term)
        if known is not None:
            return known
        path: list[tuple[int, Iterator[int]]] = [(term, self._successors(term))]
        seen = {term}
        while path:
            _, successors = path[-1]
            for after in successors:
                known = self._known_text(after)
                if known:
                    self._matches_something.update(dict.fromkeys((state for state, _ in path), True))
                    return True
                if known is None and after not in seen:
                    seen.add(after)
                    path.append((after, self._successors(after)))
                    break
            else:
                path.pop()
        self._matches_something.update(dict.fromkeys(seen, False))
        return False

    def _known_text(self, term: int) -> bool | None:
        if term == NEVER:
            return False
        if self._nullable[term] or self._is_plain[term]:
            return True
        return self._matches_something.get(term)

    def _successors(self, term: int) -> Iterator[int]:
        for bits in self._told_apart(term):
            yield self._derivative(term, _lowest(bits))

    # Derivatives.

    def _derivative(self, root: int, byte: int) -> int:
        """What may follow this byte."""
        done = self._derivatives
        known = done.get((root, byte))
        if known is not None:
            return known
        todo = [root]
        while todo:
            term = todo[-1]
            missing = [inner for inner in self._left(term) if (inner, byte) not in done]
            if missing and (term, byte) not in done:
                todo += missing
                continue
            todo.pop()
            if (term, byte) not in done:
                self.work.spend(_PER_STEP)
                done[term, byte] = self._derive(term, byte)
        return done[root, byte]

    def _left(self, term: int) -> tuple[int, ...]:
        """The parts whose derivatives make this one's."""
        key = self._keys[term]
        kind = key[0]
        if kind == "seq":
            return (key[1], key[2]) if self._nullable[key[1]] else (key[1],)
        if kind in ("alt", "and"):
            return key[1:]
        return (key[1],) if kind in ("not", "rep") else ()

    def _derive(self, term: int, byte: int) -> int:
        key, done = self._keys[term], self._derivatives
        kind = key[0]
        if kind == "set":
            return EMPTY if key[1] >> byte & 1 else NEVER
        if kind == "literals":
            self.work.spend(len(key[1]) // 16)
            return self.literals([option[1:] for option in key[1] if option[:1] == bytes((byte,))])
        if kind == "seq":
            after = self.seq(done[key[1], byte], key[2])
            return self.alt((after, done[key[2], byte])) if self._nullable[key[1]] else after
        if kind == "alt":
            return self.alt([done[item, byte] for item in key[1:]])
        if kind == "and":
            return self.both([done[item, byte] for item in key[1:]])
        if kind == "not":
            return self.complement(done[key[1], byte])
        if kind == "rep":
            _, item, low, high = key
            rest = self.repeat(item, max(low - 1, 0), None if high is None else high - 1)
            return self.seq(done[item, byte], rest)
        return ANYTHING if term == ANYTHING else NEVER

    def _told_apart(self, root: int) -> tuple[int, ...]:
        """Sets of bytes, disjoint and all of them together: the derivatives by the bytes of one set are equal."""
        known = self._classes
        todo = [root]
        while todo:
            term = todo[-1]
            missing = [inner for inner in self._left(term) if inner not in known]
            if missing and term not in known:
                todo += missing
                continue
            todo.pop()
            if term not in known:
                self.work.spend(2)
                known[term] = self._partition(term)
        return known[root]

    def _partition(self, term: int) -> tuple[int, ...]:
        key = self._keys[term]
        sets: list[int] = []
        if key[0] == "set":
            sets = [key[1]]
        elif key[0] == "literals":
            sets = [1 << byte for byte in {option[0] for option in key[1] if option}]
        for inner in self._left(term):
            sets += self._classes[inner]
        parts = [_ALL_BYTES]
        for bits in dict.fromkeys(sets):
            self.work.spend(len(parts) // 16)
            parts = [piece for part in parts for piece in (part & bits, part & ~bits) if piece]
        return tuple(parts)


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _bytes(bits: int) -> Iterator[int]:
    while bits:
        byte = _lowest(bits)
        yield byte
        bits &= bits - 1


def _children(node: ir.Node) -> tuple[ir.Node, ...]:
    if isinstance(node, (ir.Seq, ir.Alt, ir.And)):
        return node.items
    return (node.item,) if isinstance(node, (ir.Repeat, ir.Not, ir.Lexeme)) else ()
