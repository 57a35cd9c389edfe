"""Regular parts, by Brzozowski derivatives: the derivative of an expression by a byte is the expression for what may
follow that byte. `And` and `Not` are as easy as `Alt`. An expression is dead if no chain of derivatives leads to one
that accepts the empty text. There are finitely many derivatives, and `live` searches them.

J. Brzozowski, "Derivatives of regular expressions", JACM 11 (1964).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from narrows.grammar import ir


class Terms:
    """Regular expressions over bytes, as numbers. Expressions that are equal by the rules below have the same number.

    A key is ("lits", options), ("set", bits), ("seq", items), ("alt", items), ("and", items), ("not", item) or ("rep",
    item, min, max). `alt` and `conj` ignore order and duplicates. This makes the number of derivatives of an expression
    finite.
    """

    def __init__(self) -> None:
        self.keys: list[tuple] = []  # type: ignore[type-arg]
        self.nullable: list[bool] = []
        self._plain: list[bool] = []  # no "and" or "not" inside: dead only if it is `never`
        self._numbers: dict[tuple, int] = {}  # type: ignore[type-arg]
        self._derivatives: dict[tuple[int, int], int] = {}
        self._live: dict[int, bool] = {}
        self.never = self._number(("alt", ()), nullable=False, plain=True)
        self.empty = self._number(("seq", ()), nullable=True, plain=True)
        self.any_text = self._number(("not", self.never), nullable=True, plain=False)
        self._live[self.any_text] = True

    def _number(self, key: tuple, *, nullable: bool, plain: bool) -> int:  # type: ignore[type-arg]
        if key not in self._numbers:
            self._numbers[key] = len(self.keys)
            self.keys.append(key)
            self.nullable.append(nullable)
            self._plain.append(plain)
        return self._numbers[key]

    # Constructors, with simple simplifications.

    def literals(self, options: Iterable[bytes]) -> int:
        distinct = tuple(sorted(set(options)))
        if not distinct:
            return self.never
        if distinct == (b"",):
            return self.empty
        return self._number(("lits", distinct), nullable=distinct[0] == b"", plain=True)

    def byte_set(self, bits: int) -> int:
        return self._number(("set", bits), nullable=False, plain=True) if bits else self.never

    def seq(self, items: Iterable[int]) -> int:
        flat: list[int] = []
        for item in items:
            flat.extend(self.keys[item][1] if self.keys[item][0] == "seq" else (item,))
        if self.never in flat:
            return self.never
        if len(flat) == 1:
            return flat[0]
        return self._number(
            ("seq", tuple(flat)), nullable=all(self.nullable[i] for i in flat), plain=all(self._plain[i] for i in flat)
        )

    def alt(self, items: Iterable[int]) -> int:
        flat = self._flat("alt", items)
        if self.any_text in flat:
            return self.any_text
        if len(flat) == 1:
            return flat.pop()
        return self._number(
            ("alt", tuple(sorted(flat))),
            nullable=any(self.nullable[i] for i in flat),
            plain=all(self._plain[i] for i in flat),
        )

    def conj(self, items: Iterable[int]) -> int:
        flat = self._flat("and", items) - {self.any_text}
        if self.never in flat:
            return self.never
        if not flat:
            return self.any_text
        if len(flat) == 1:
            return flat.pop()
        return self._number(("and", tuple(sorted(flat))), nullable=all(self.nullable[i] for i in flat), plain=False)

    def _flat(self, kind: str, items: Iterable[int]) -> set[int]:
        flat: set[int] = set()
        for item in items:
            flat.update(self.keys[item][1] if self.keys[item][0] == kind else (item,))
        return flat

    def complement(self, item: int) -> int:
        if self.keys[item][0] == "not":
            inner: int = self.keys[item][1]
            return inner
        return self._number(("not", item), nullable=not self.nullable[item], plain=False)

    def repeat(self, item: int, low: int, high: int | None) -> int:
        if high is not None and low > high:
            return self.never
        if self.nullable[item]:
            low = 0  # iterations that match nothing fill any minimum
        if item in (self.never, self.empty) or high == 0:
            return self.empty if low == 0 else self.never
        return self._number(("rep", item, low, high), nullable=low == 0, plain=self._plain[item])

    def of(self, root: ir.Node) -> int:
        """The number of a regular IR node."""
        done: dict[int, int] = {}
        for node in children_first(root):
            if isinstance(node, ir.Bytes):
                term = self.literals([node.data])
            elif isinstance(node, ir.ByteSet):
                term = self.byte_set(node.bits)
            elif isinstance(node, ir.Literals):
                term = self.literals(node.options)
            elif isinstance(node, ir.Substrings):
                parts = _parts_of_text(node)
                term = self.literals(part[len(node.read) :] for part in parts if part.startswith(node.read))
            elif isinstance(node, ir.Seq):
                term = self.seq(done[id(i)] for i in node.items)
            elif isinstance(node, ir.Alt):
                term = self.alt(done[id(i)] for i in node.items)
            elif isinstance(node, ir.And):
                term = self.conj(done[id(i)] for i in node.items)
            elif isinstance(node, ir.Not):
                term = self.complement(done[id(node.item)])
            elif isinstance(node, ir.Repeat):
                term = self.repeat(done[id(node.item)], node.min, node.max)
            elif isinstance(node, ir.Lexeme):
                term = done[id(node.item)]
            else:
                raise ValueError(f"{type(node).__name__} inside a regular part")
            done[id(node)] = term
        return done[id(root)]

    # Reading.

    def derivative(self, term: int, byte: int) -> int:
        """The derivative by `byte`. The stack is explicit, because an expression may be nested deeply."""
        known = self._derivatives
        found = known.get((term, byte))
        if found is not None:
            return found
        stack = [term]
        while stack:
            top = stack[-1]
            if (top, byte) in known:
                stack.pop()
                continue
            missing = [h for h in self._heads(top) if (h, byte) not in known]
            stack.extend(missing)
            if not missing:
                known[top, byte] = self._derive(top, byte)
                stack.pop()
        return known[term, byte]

    def _heads(self, term: int) -> Sequence[int]:
        """The parts whose derivatives the derivative of the whole needs."""
        key = self.keys[term]
        if key[0] in ("alt", "and"):
            return key[1]  # type: ignore[no-any-return]
        if key[0] in ("not", "rep"):
            return (key[1],)
        if key[0] == "seq":
            first_fixed = next((k for k, i in enumerate(key[1]) if not self.nullable[i]), len(key[1]))
            return key[1][: first_fixed + 1]  # type: ignore[no-any-return]
        return ()

    def _derive(self, term: int, byte: int) -> int:
        key = self.keys[term]
        if key[0] == "lits":
            return self.literals(option[1:] for option in key[1] if option and option[0] == byte)
        if key[0] == "set":
            return self.empty if key[1] >> byte & 1 else self.never
        parts = [self._derivatives[h, byte] for h in self._heads(term)]
        if key[0] == "alt":
            return self.alt(parts)
        if key[0] == "and":
            return self.conj(parts)
        if key[0] == "not":
            return self.complement(parts[0])
        if key[0] == "seq":  # the byte belongs to item k, and all items before it match the empty text
            return self.alt(self.seq((part, *key[1][k + 1 :])) for k, part in enumerate(parts))
        _, item, low, high = key
        return self.seq((parts[0], self.repeat(item, max(low - 1, 0), None if high is None else high - 1)))

    def live(self, term: int) -> bool:
        """Whether any text matches: searches the derivatives for one that accepts the empty text."""
        if self._plain[term]:
            return term != self.never
        if term in self._live:
            return self._live[term]
        alphabet = self._one_of_each(term)
        reached_from: dict[int, int | None] = {term: None}
        for current in (queue := [term]):
            if self.nullable[current] or self._live.get(current) or (self._plain[current] and current != self.never):
                witness: int | None = current
                while witness is not None:
                    self._live[witness] = True
                    witness = reached_from[witness]
                return True
            for byte in alphabet:
                after = self.derivative(current, byte)
                if after not in reached_from and after != self.never and self._live.get(after) is not False:
                    reached_from[after] = current
                    queue.append(after)
        self._live.update(dict.fromkeys(reached_from, False))
        return False

    def _one_of_each(self, term: int) -> list[int]:
        """One byte of each class of bytes that the expression treats alike."""
        sets: set[int] = set()
        seen, stack = {term}, [term]
        while stack:
            key = self.keys[stack.pop()]
            if key[0] == "set":
                sets.add(key[1])
            elif key[0] == "lits":
                sets.update(1 << byte for option in key[1] for byte in option)
            else:
                parts = key[1] if isinstance(key[1], tuple) else (key[1],)
                stack.extend(p for p in parts if p not in seen)
                seen.update(parts)
        return list({tuple(bits >> byte & 1 for bits in sets): byte for byte in range(256)}.values())


def _parts_of_text(node: ir.Substrings) -> set[bytes]:
    """All of them, written out."""
    plain, begins, ends = b"", {0}, set[int]()
    for byte in node.text:
        is_mark = node.unit == "pieces" and bytes([byte]) in (ir.CUT, ir.END)
        if is_mark or (node.unit == "characters" and byte & 0xC0 != 0x80):
            ends.add(len(plain))
            begins |= {len(plain)} if bytes([byte]) == ir.CUT or not is_mark else set()
        plain += b"" if is_mark else bytes([byte])
    if node.unit == "characters":
        ends.add(len(plain))
        begins -= {0} if plain and plain[0] & 0xC0 == 0x80 else set()
    return {b""} | {plain[i:j] for i in begins for j in ends}


def children_first(root: ir.Node, *, stop_at_regular: bool = False) -> list[ir.Node]:
    """Each node from the root down, once, children before parents. `stop_at_regular` leaves out the nodes of regular
    parts."""
    order: list[ir.Node] = []
    seen: set[int] = set()
    stack: list[tuple[ir.Node, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(_children(node, stop_at_regular)))
    return order


def _children(node: ir.Node, stop_at_regular: bool) -> tuple[ir.Node, ...]:
    if stop_at_regular and isinstance(node, (ir.Lexeme, ir.And, ir.Not, ir.Distinct, ir.Counted)):
        return ()
    if isinstance(node, (ir.Seq, ir.Alt, ir.And)):
        return node.items
    if isinstance(node, (ir.Repeat, ir.Not, ir.Lexeme)):
        return (node.item,)
    return ()
