"""A repetition without end of a part that looks around, such as `(?:(?!x)y)*z` or `(?:[^,]+(?:,|$))*`. lower.py makes
one of many counted rounds, too.

What a look-ahead in the part asks for may lie after the repetition. So the repetition is not one language: it is a list
of *exits*. Each has a language for what the repetition reads, and an *owed* language, which is what the look-aheads on
the way still ask of the text that follows. The text that follows is the rest of the pattern, as it may stand after the
exit's last character, intersected with what is owed. This is exact:

* The part becomes a graph, as by Thompson (1968), with an edge for each look-ahead and anchor.
* A state is a place in this graph, the class of the character on the left, and what is owed. A look-ahead adds its
  language, or the complement, to what is owed. A character takes the derivative of it (Brzozowski 1964). There are
  finitely many derivatives, so there are finitely many states. A state where nothing can satisfy what is owed is left
  out.
* States that read the same are merged. Then they are eliminated one after the other (Kleene 1956), which leaves one
  regular expression for each exit.

Rounds that match the empty text need no care. They read nothing and only ask for more, so what they allow is allowed
without them. (Engines leave such rounds out.)

The characters are divided into the classes that the part tells apart, and each class is one byte here. That is exact
because every set in the part is a union of classes.

Cost: some 50 us for each state and for each part of the expression, and a refusal where there are more than some
hundred states or some thousand parts. Parts stand in many others, and are made once. Nothing recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from narrows.errors import UnsupportedError
from narrows.grammar import ir, utf8
from narrows.grammar.regex import tree
from narrows.grammar.regex.build import Steps, alt, looks_behind, partition, repeat, seq
from narrows.grammar.regex.merge import Label, merged
from narrows.grammar.regex.tree import Behind, Chars, Choice, Concat, Edge, Look, Repeat, Side, Tree
from narrows.grammar.regular import ANYTHING, EMPTY, NEVER, Regular
from narrows.grammar.utf8 import Ranges
from narrows.grammar.work import Work

FEW_ROUNDS = 32
"""Rounds that are written out, though their characters could be counted. Up to here masks cost the same, and a
repetition without end takes longer to read, and may take too many states."""
_MOST_CLASSES = 128
_MOST_PLACES = 2_000
_MOST_STATES = 400
_MOST_PARTS = 20_000
"""Parts that are made for the regular expression. Written out it may be far longer, as it is for `[a-z-]{1,63}(?<!-)`:
what follows a hyphen and what follows a letter go on together after each character."""
_PER_STATE = 20
_PER_PART = 12

Encode = Callable[[Ranges], ir.Node]


@dataclass(frozen=True, slots=True)
class Exit:
    """One way to leave the repetition: what it has read, the class of the last character (0: the text's start), and
    what it owes; None: nothing."""

    read: ir.Node
    left: int
    owed: ir.Node | None


@dataclass(frozen=True, slots=True)
class Loop:
    """What stands around the repetition."""

    part: Repeat
    """With a minimum of 0 or 1, and without end."""
    encode: Encode
    classes: list[Ranges]
    """The classes of the character on the left; none if nothing looks left."""
    plain: dict[int, ir.Node]
    """id of a part that does not look around -> its node."""
    same: list[Hashable]
    """By class on the left (0: the text's start): equal values have the same rest."""
    languages: Callable[[Tree, Encode], Steps[list[ir.Node]]]
    """The texts in which a look-ahead's item is found at the start, by class on the left."""
    work: Work


@dataclass(slots=True)
class _Place:
    """A place of the part's graph. It has one of these edges, or is the place where a round begins and ends."""

    then: list[int]
    chars: Ranges = ()
    looks: Edge | Look | None = None
    plain: Tree | None = None
    """A part that does not look around, to be read as a whole where nothing is owed."""


_State = tuple[int, int, int]
"""(Place, class on the left, what is owed)."""
_Exit = tuple[int, int]
"""(The first class on the left with the same rest, what is owed)."""
_Row = dict[int, ir.Node]
"""From a state to each state (0, 1 ...) and each exit (-1, -2 ...): what is read."""


class _Owed(Regular):
    """Languages over classes of characters, each of which is a byte."""

    def __init__(self, classes: list[Ranges], encode: Encode, work: Work) -> None:
        super().__init__(work)
        self.classes = classes
        self._encode = encode
        self._sets: dict[int, tuple[Ranges, int]] = {}
        self._nodes: dict[int, ir.Node] = {EMPTY: ir.EMPTY, NEVER: ir.NEVER, ANYTHING: ir.Not(ir.NEVER)}

    def bits(self, ranges: Ranges) -> int:
        """The classes of which the set consists."""
        known = self._sets.get(id(ranges))
        if known is None:
            self.work.spend(len(self.classes))
            inside = sum(1 << k for k, part in enumerate(self.classes) if utf8.contains(ranges, part[0][0]))
            known = self._sets[id(ranges)] = ranges, inside  # the set is held so that its id is not reused
        return known[1]

    def characters(self, bits: int) -> Ranges:
        return utf8.union(*[part for k, part in enumerate(self.classes) if bits >> k & 1])

    def starting_with(self, side: Side) -> int:
        begins = self.seq(self.byte_set(self.bits(side.chars)), ANYTHING)
        return self.alt([begins, EMPTY]) if side.edge else begins

    def node(self, root: int) -> ir.Node:
        """The language over characters as they are spelled. Beyond spelled characters it is not defined."""
        nodes, todo = self._nodes, [root]
        while todo:
            term = todo[-1]
            key = self.shape(term)
            inner = {"seq": key[1:], "alt": key[1:], "and": key[1:], "not": key[1:], "rep": key[1:2]}.get(key[0], ())
            missing = [part for part in inner if part not in nodes]
            if missing and term not in nodes:
                todo += missing
                continue
            todo.pop()
            if term not in nodes:
                self.work.spend(4)
                nodes[term] = self._node(key, [nodes[part] for part in inner])
        return nodes[root]

    def _node(self, key: tuple[Hashable, ...], inner: list[ir.Node]) -> ir.Node:
        kind = key[0]
        if kind == "set":
            assert isinstance(key[1], bytes)
            return self._encode(self.characters(int.from_bytes(key[1], "little")))
        if kind == "literals":
            assert isinstance(key[1], tuple)
            self.work.spend(sum(map(len, key[1])))
            spelled = [[self._encode(self.classes[byte]) for byte in text] for text in key[1]]
            return alt([seq(text, self.work) for text in spelled])
        if kind == "seq":
            return seq(inner, self.work)
        if kind == "alt":
            return alt(inner)
        if kind == "and":
            return ir.And(tuple(inner))
        if kind == "not":
            return ir.Not(inner[0])
        _, _, low, high = key
        assert isinstance(low, int)
        assert high is None or isinstance(high, int)
        return repeat(inner[0], low, high)


def exits(loop: Loop) -> Steps[list[list[Exit]]]:
    """The exits of the repetition, by class on its left. Raises UnsupportedError where there are too many states."""
    found: list[list[Exit]] = yield _Walk(loop).walk()
    return found


class _Walk:
    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.work = loop.work
        parts = tree.children_first(loop.part.item)
        self.work.spend(_PER_PART * len(parts))  # with what look-aheads in it take to be lowered again
        sets: dict[Ranges, None] = dict.fromkeys(loop.classes)
        for part in parts:
            if isinstance(part, Chars):
                sets[part.ranges] = None
            elif isinstance(part, Edge):
                sets.update((side.chars, None) for pair in part.pairs for side in pair)
        divided = partition(sets, self.work) if len(sets) < _MOST_CLASSES else []
        if not 0 < len(divided) <= _MOST_CLASSES:
            raise self.refusal()
        self.owed = _Owed(divided, loop.encode, self.work)
        self.left_after = [
            1 + next(k for k, chars in enumerate(loop.classes) if utf8.contains(chars, part[0][0]))
            if loop.classes
            else 0
            for part in divided
        ]
        self.places: list[_Place] = [_Place([])]
        self.asked: dict[int, list[int]] = {}
        """id of a look-ahead -> what it asks for, by class on the left."""
        self.opened: dict[int, int] = {}
        """A place with a plain part -> the first place of the graph of that part."""
        self.ways_out: dict[_Exit, int] = {}
        self.parts = 0

    def refusal(self) -> UnsupportedError:
        return UnsupportedError(
            "a repetition of a part that looks around takes too many states in a regular expression",
            code="regex_unsupported",
            offset=self.loop.part.offset,
            hint=f"Repeat it at most {FEW_ROUNDS} times, or look around outside the repetition",
        )

    def walk(self) -> Steps[list[list[Exit]]]:
        loop = self.loop
        first = yield self.build(loop.part.item, 0)
        self.places[0].then = [first]
        for place in self.places:
            look = place.looks
            if isinstance(look, Look) and id(look) not in self.asked:
                nodes: list[ir.Node] = yield loop.languages(look.item, self.encode)
                terms = [self.owed.of(node) for node in nodes]
                self.asked[id(look)] = [self.owed.complement(term) for term in terms] if look.negate else terms
        starts = [(first if loop.part.min else 0, left, ANYTHING) for left in range(len(loop.same))]
        edges, ends = yield self.explore(starts)
        classes = merged(starts, edges, ends, self.work)
        reached = self.eliminate({classes[start] for start in starts}, classes, edges, ends)
        result = []
        for start in starts:
            found = reached[classes[start]]
            result.append(
                [
                    Exit(node, left, None if owed == ANYTHING else self.owed.node(owed))
                    for (left, owed), node in found.items()
                ]
            )
        return result

    def encode(self, ranges: Ranges) -> ir.Node:
        return ir.ByteSet(self.owed.bits(ranges))

    # The graph of the part.

    def place(self, *then: int, chars: Ranges = (), looks: Edge | Look | None = None, plain: Tree | None = None) -> int:
        self.work.spend(2)
        if len(self.places) >= _MOST_PLACES:
            raise self.refusal()
        self.places.append(_Place(list(then), chars, looks, plain))
        return len(self.places) - 1

    def build(self, part: Tree, then: int, *, opened: bool = False) -> Steps[int]:
        """The place from which the part leads to the place `then`. `opened`: a plain part character by character."""
        if isinstance(part, Chars):
            return self.place(then, chars=part.ranges) if part.ranges else self.place()
        if not opened and id(part) in self.loop.plain:
            return self.place(then, plain=part)
        if isinstance(part, Concat):
            for item in reversed(part.items):
                then = yield self.build(item, then, opened=opened)
            return then
        if isinstance(part, Choice):
            branches = []
            for item in part.items:
                branches.append((yield self.build(item, then, opened=opened)))
            return self.place(*branches)
        if isinstance(part, Repeat):
            repeated: int = yield self.build_repeat(part, then, opened=opened)
            return repeated
        if isinstance(part, Behind):
            raise looks_behind(part)
        return self.place(then, looks=part)

    def build_repeat(self, part: Repeat, then: int, *, opened: bool) -> Steps[int]:
        low, high = part.min, part.max
        if high is None:
            again = self.place(then)
            self.places[again].then.append((yield self.build(part.item, again, opened=opened)))
            then = again
        for k in range(low if high is None else high):
            inner = yield self.build(part.item, then, opened=opened)
            is_required = high is None or k >= high - low
            then = inner if is_required else self.place(inner, then)
        return then

    # The states.

    def explore(
        self, starts: list[_State]
    ) -> Steps[tuple[dict[_State, dict[_State, Label]], dict[_State, set[_Exit]]]]:
        """The edges between states, each with what it reads, and the exits from each."""
        edges: dict[_State, dict[_State, Label]] = {}
        ends: dict[_State, set[_Exit]] = {}
        todo = list(dict.fromkeys(starts))
        seen = set(todo)
        for state in todo:
            reading, ends[state] = yield self.closure(state)
            after: dict[_State, tuple[int, set[int]]] = {}  # -> (the characters' classes, ids of plain parts)
            for place, _, owed in reading:
                then = self.places[place].then[0]
                part = self.places[place].plain
                if part is not None:
                    to = (then, 1 if self.loop.classes else 0, owed)
                    after.setdefault(to, (0, set()))[1].add(id(part))
                    continue
                inside = self.owed.bits(self.places[place].chars)
                for bits, rest in self.owed.derivatives(owed):
                    if self.owed.is_never(rest):
                        continue
                    for last, some in self.by_left(inside & bits).items():
                        self.work.spend(_PER_STATE // 4)
                        to = (then, last, rest)
                        known = after.get(to, (0, set()))
                        after[to] = known[0] | some, known[1]
            edges[state] = {to: (bits, *sorted(parts)) for to, (bits, parts) in after.items()}
            for to in after:
                if to not in seen:
                    if len(seen) >= _MOST_STATES:
                        raise self.refusal()
                    seen.add(to)
                    todo.append(to)
        return edges, ends

    def by_left(self, bits: int) -> dict[int, int]:
        """The classes of characters, by the class that they are on the left of what follows."""
        found: dict[int, int] = {}
        for k, left in enumerate(self.left_after):
            if bits >> k & 1:
                found[left] = found.get(left, 0) | 1 << k
        return found

    def closure(self, start: _State) -> Steps[tuple[list[_State], set[_Exit]]]:
        """The states that read something, and the exits, that are reached without reading."""
        reading: list[_State] = []
        ends: set[_Exit] = set()
        todo, seen = [start], {start}
        while todo:
            state = todo.pop()
            index, left, owed = state
            place = self.places[index]
            self.work.spend(_PER_STATE // 4)
            reached: list[_State] = []
            if index == 0:
                ends.add((self.loop.same.index(self.loop.same[left]), owed))
            if place.looks is not None:
                reached = [(place.then[0], left, both) for both in self.asking(place.looks, left, owed)]
            elif place.plain is not None and not self.is_whole(place.plain, owed):
                if index not in self.opened:
                    self.opened[index] = yield self.build(place.plain, place.then[0], opened=True)
                reached = [(self.opened[index], left, owed)]
            elif place.chars or place.plain is not None:
                reading.append(state)
            else:
                reached = [(to, left, owed) for to in place.then]
            todo += [to for to in reached if to not in seen]
            seen.update(reached)
        return reading, ends

    def is_whole(self, part: Tree, owed: int) -> bool:
        """Whether a plain part may be read as a whole: nothing is owed, and the class of its last character is
        known."""
        return owed == ANYTHING and (
            not self.loop.classes or (len(self.loop.classes) == 1 and _least(part, self.work) > 0)
        )

    def asking(self, looks: Edge | Look, left: int, owed: int) -> list[int]:
        """What is owed after a condition, for each way to satisfy it."""
        if isinstance(looks, Look):
            wanted = [self.asked[id(looks)][left]]
        else:
            wanted = []
            for side, right in looks.pairs:
                if not self.loop.classes:
                    fits = True  # nothing looks left
                else:
                    fits = utf8.contains(side.chars, self.loop.classes[left - 1][0][0]) if left else side.edge
                if fits:
                    wanted.append(ANYTHING if right.is_anything else self.owed.starting_with(right))
        both = [self.owed.both([owed, more]) for more in wanted]
        return [term for term in dict.fromkeys(both) if not self.owed.is_never(term)]

    # From states to a regular expression.

    def eliminate(
        self,
        starts: set[int],
        classes: dict[_State, int],
        edges: dict[_State, dict[_State, Label]],
        ends: dict[_State, set[_Exit]],
    ) -> dict[int, dict[_Exit, ir.Node]]:
        """For each start: what is read on the way to each exit."""
        rows: dict[int, _Row] = {}
        for state, number in classes.items():
            if number not in rows:
                row: _Row = {}
                labels: dict[int, list[Label]] = {}
                for after, label in edges[state].items():
                    if after in classes:
                        labels.setdefault(classes[after], []).append(label)
                for target, some in labels.items():
                    row[target] = self.read(some)
                for end in sorted(ends[state]):
                    row[-1 - self.ways_out.setdefault(end, len(self.ways_out))] = ir.EMPTY
                rows[number] = row
        users: dict[int, set[int]] = {number: set() for number in rows}
        for number, row in rows.items():
            for to in row:
                if to >= 0:
                    users[to].add(number)
        done: list[int] = []
        left = set(rows)
        while left:  # the starts last
            number = min(left, key=lambda n: (n in starts, (len(users[n] - {n})) * len(rows[n]), n))
            left.discard(number)
            done.append(number)
            self.close(rows[number], number)
            for user in users[number] - {number}:
                if user in left:
                    self.put_in(rows[user], number, rows[number])
                    for to in rows[number]:
                        if to >= 0:
                            users[to].add(user)
        for number in reversed([n for n in done if n in starts]):
            for to in [to for to in rows[number] if to >= 0]:
                self.put_in(rows[number], to, rows[to])
        ways_out = list(self.ways_out)
        return {number: {ways_out[-1 - to]: way for to, way in rows[number].items()} for number in starts}

    def read(self, labels: list[Label]) -> ir.Node:
        bits = 0
        parts: dict[int, None] = {}
        for some, *plain in labels:
            bits |= some
            parts.update(dict.fromkeys(plain))
        nodes = [self.loop.plain[part] for part in parts]
        if bits:
            nodes.append(self.loop.encode(self.owed.characters(bits)))
        return alt(nodes)

    def close(self, row: _Row, number: int) -> None:
        """The state's way back to itself becomes a repetition."""
        if number not in row:
            return
        again = repeat(row.pop(number), 0, None)
        for to, node in row.items():
            row[to] = self.made(seq((again, node), self.work))

    def put_in(self, row: _Row, number: int, other: _Row) -> None:
        """Goes on from the state, as its row says."""
        before = row.pop(number)
        for to, node in other.items():
            way = seq((before, node), self.work)
            row[to] = self.made(alt((row[to], way)) if to in row else way)

    def made(self, node: ir.Node) -> ir.Node:
        self.work.spend(_PER_STATE // 4)
        self.parts += 1
        if self.parts > _MOST_PARTS:
            raise self.refusal()
        return node


def _least(part: Tree, work: Work) -> int:
    """0 if the part, which does not look around, may match the empty text; else 1."""
    least: dict[int, int] = {}
    order = tree.children_first(part)
    work.spend(len(order))
    for inner in order:
        below = [least[id(child)] for child in tree.children(inner)]
        if isinstance(inner, Chars):
            least[id(inner)] = 1
        elif isinstance(inner, Concat):
            least[id(inner)] = max(below, default=0)
        elif isinstance(inner, Choice):
            least[id(inner)] = min(below, default=1)
        else:
            least[id(inner)] = below[0] if isinstance(inner, Repeat) and inner.min else 0
    return least[id(part)]
