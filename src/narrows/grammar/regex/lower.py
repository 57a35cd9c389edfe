"""From the syntax tree of a regular expression to the IR.

A part that looks around depends on the text to the left and right of its place. So a pattern is lowered from right to
left, and each step is given `rest`: the language of all texts that may follow. Then

* a look-ahead is an intersection of the rest with the texts that it asks for, or with the complement of these;
* anchors, word boundaries and look-behind by one character ask for one character on the left. The sets that the pattern
  asks for there divide the characters into a few classes. There is one `rest` per class, and one for the start of the
  text;
* look-behind by more than one character is an intersection with all that stands before it, if that part does not look
  around.

This is exact. In a repetition without end that looks around, the rest would have to contain itself: loops.py makes a
graph of it. Only `(?:(?!x).)*` up to the end of the text is one complement.

A counted repetition of a part that looks around is written out, round by round. If there are many rounds, and each has
as many characters as the others, it is a repetition without end instead, and what it reads has a length.

Cost: linear in the tree if nothing looks around. Otherwise the cost is multiplied by the number of classes (a few), and
by the rounds that are written out. `Limits.reading_work` bounds the work, and `Limits.ir_nodes` the nodes. There is no
recursion: the functions that walk the tree are generators that yield the calls they need, and `run` keeps these on a
list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from narrows.errors import LimitError
from narrows.grammar import ir, utf8
from narrows.grammar.regex import loops, tree
from narrows.grammar.regex.build import Steps, alt, looks_behind, partition, repeat, run, seq
from narrows.grammar.regex.found import shortened
from narrows.grammar.regex.tree import Behind, Chars, Choice, Concat, Edge, Look, Repeat, Side, Tree
from narrows.grammar.utf8 import Ranges
from narrows.grammar.work import Work
from narrows.limits import DEFAULT_LIMITS, Limits

Encode = Callable[[Ranges], ir.Node]
"""How one character of a set is spelled. No spelling may be a prefix of another character's spelling."""

Rest = tuple[ir.Node, ...]
"""The texts that may follow, per class of the character before: [0] at the start of the text, [k] after a character of
class k - 1."""


def lower(root: Tree, encode: Encode = utf8.node, limits: Limits | Work = DEFAULT_LIMITS) -> ir.Node:
    """The texts that match as a whole."""
    return _placed(_Lowering(root, encode, Work.of(limits)), lambda lowering: lowering.whole())


def lower_search(
    root: Tree, encode: Encode = utf8.node, limits: Limits | Work = DEFAULT_LIMITS, *, beside_text: bool = False
) -> ir.Node:
    """The texts in which a match is found anywhere. Set `beside_text` only if the node is intersected with a
    node of spelled characters. Then any bytes may follow the match, so that the automaton has no more work after it."""
    anything = Repeat(Chars(utf8.ANY), 0, None, 0)
    search = _Lowering(Concat((anything, shortened(root))), encode, Work.of(limits))
    return _placed(
        search, lambda lowering: lowering.from_start(lowering.any_bytes if beside_text else lowering.any_text)
    )


def _placed(lowering: _Lowering, lower: Callable[[_Lowering], ir.Node]) -> ir.Node:
    """Lowers, and gives a LimitError the offset that the lowering had reached."""
    try:
        lowering.read()
        return lower(lowering)
    except LimitError as error:
        if error.offset is None:
            error.offset = lowering.offset
        raise


_WIDEST = 1 << 62
"""Nested counts would make large numbers."""
_STEP_NODES = 32
"""The number of nodes that one step before a rest counts as. It takes about as much time as so many nodes."""


class _Lowering:
    def __init__(self, root: Tree, encode: Encode, work: Work) -> None:
        self.root = root
        self.spell = encode
        self.work = work
        self.written_out = 0
        self.encoded: dict[int, tuple[Ranges, ir.Node]] = {}
        """id of a set -> (the set, its node). The set is held so that its id is not reused."""
        self.offset = 0
        """The offset of the part that was reached last, among the parts that have one."""
        self.any_text: ir.Node = ir.EMPTY
        self.any_bytes: ir.Node = ir.Not(ir.NEVER)  # the core treats this form as a unit
        self.plain: dict[int, ir.Node] = {}
        """id of a part that does not look around -> its IR."""
        self.cuts: dict[int, tuple[Ranges, list[Ranges]]] = {}
        """id of a set -> (the set, its intersection with each class)."""
        self.nullables: dict[int, tuple[ir.Node, bool]] = {}
        self.widths: dict[int, int] = {}
        """id of a part whose matches all have one length, in characters -> that length."""
        self.looks_left = False
        self.classes: list[Ranges] = []

    def read(self) -> None:
        """Lowers the parts that do not look around, and divides the characters into classes."""
        work = self.work
        self.any_text = ir.Repeat(self.encode(utf8.ANY))
        order = tree.children_first(self.root)
        work.spend(len(order))
        for part in order:
            self._lower_plain(part)
            width = self._width(part)
            if width is not None and width <= _WIDEST:
                self.widths[id(part)] = width
        lefts = {left.chars for part in order if isinstance(part, Edge) for left, _ in part.pairs if not _is_free(left)}
        self.looks_left = any(not left.is_anything for p in order if isinstance(p, Edge) for left, _ in p.pairs)
        self.classes = partition(lefts, work) if self.looks_left else []

    def encode(self, ranges: Ranges) -> ir.Node:
        known = self.encoded.get(id(ranges))
        if known is None:
            self.work.spend(utf8.cost(ranges, not self.work.first(ranges)))
            known = self.encoded[id(ranges)] = ranges, self.spell(ranges)
        return known[1]

    def whole(self) -> ir.Node:
        if id(self.root) in self.plain:
            return self.plain[id(self.root)]
        return self.from_start(ir.EMPTY)

    def from_start(self, end: ir.Node) -> ir.Node:
        """The whole pattern and then `end`. Look-behind is an intersection with all that stands before it, if that part
        does not look around. So items are first lowered from left to right, up to the first one that is not a plain
        part, a start of the text, or such a look-behind."""
        items = _flat(self.root)
        before: ir.Node = ir.EMPTY
        passed = 0
        looks_behind = any(isinstance(item, Behind) for item in items)
        for item in items if looks_behind else ():
            if id(item) in self.plain:
                before = self._seq((before, self.plain[id(item)]))
            elif isinstance(item, Edge) and item.pairs == _AT_START:
                before = ir.EMPTY if self._nullable(before) else ir.NEVER
            elif isinstance(item, Behind) and id(item.item) in self.plain:
                ends: ir.Node = self._seq((self.any_text, self.plain[id(item.item)]))
                before = (self._but if item.negate else self._both)(before, ends)
            else:
                break
            passed += 1
        rest = run(self._before(Concat(items[passed:]), self._same(end)))
        if _uniform(rest):
            return self._seq((before, rest[0]))
        empty = rest[0] if self._nullable(before) else ir.NEVER
        return alt((empty, *self._by_last(before, rest)))

    def _width(self, part: Tree) -> int | None:
        """The length that all matches of the part have, given those of its parts; None where they differ."""
        if isinstance(part, Chars):
            return 1
        if isinstance(part, (Edge, Look, Behind)):
            return 0
        widths = [self.widths.get(id(child)) for child in tree.children(part)]
        if isinstance(part, Repeat):
            once = 0 if part.max == 0 else widths[0]
            return once * part.min if once == 0 or (once and part.min == part.max) else None
        if isinstance(part, Concat):
            known = [width for width in widths if width is not None]
            return sum(known) if len(known) == len(widths) else None
        return widths[0] if len(set(widths)) == 1 else None if widths else 0

    # Parts that do not look around.

    def _lower_plain(self, part: Tree) -> None:
        if isinstance(part, (Edge, Look, Behind)) or any(id(child) not in self.plain for child in tree.children(part)):
            return
        if isinstance(part, Chars):
            node = self.encode(part.ranges) if part.ranges else ir.NEVER
        elif isinstance(part, Concat):
            node = self._seq(self.plain[id(item)] for item in part.items)
        elif isinstance(part, Choice):
            node = alt([self.plain[id(item)] for item in part.items])
        else:
            node = repeat(self.plain[id(part.item)], part.min, part.max)
        self.plain[id(part)] = node

    # Parts that look around, and the parts before them.

    def _same(self, node: ir.Node) -> Rest:
        return (node,) * (len(self.classes) + 1)

    def _before(self, part: Tree, rest: Rest) -> Steps[Rest]:
        """The language of the part and then the rest."""
        self._write_out(part, len(rest))
        if id(part) in self.plain and _uniform(rest):
            return self._same(self._seq((self.plain[id(part)], rest[0])))
        if isinstance(part, Chars):
            steps = [
                self._seq((self.encode(chars), after))
                for chars, after in zip(self._cut(part.ranges), rest[1:], strict=True)
                if chars
            ]
            return self._same(alt(steps))
        if isinstance(part, Concat):
            for item in reversed(part.items):
                rest = yield self._before(item, rest)
            return rest
        if isinstance(part, Choice):
            branches = []
            for item in part.items:
                branches.append((yield self._before(item, rest)))
            return _by_class(branches, lambda *nodes: alt(nodes))
        if isinstance(part, Repeat):
            repeated: Rest = yield self._before_repeat(part, rest)
            return repeated
        if isinstance(part, Edge):
            return self._before_edge(part, rest)
        if isinstance(part, Behind):
            raise looks_behind(part)
        alone = not part.negate and all(node is self.any_text for node in rest)
        wanted: Rest = yield self._before(part.item, self._same(self.any_text if alone else self.any_bytes))
        return wanted if alone else _by_class([rest, wanted], self._but if part.negate else self._both)

    def _write_out(self, part: Tree, classes: int) -> None:
        """Charges one step before a rest."""
        if isinstance(part, (Repeat, Edge, Look, Behind)):
            self.offset = part.offset
        self.work.spend(4 + 2 * classes)
        self.written_out += _STEP_NODES * classes
        bound = self.work.limits.ir_nodes
        if self.written_out > bound:
            raise LimitError(
                f"the regular expression needs more than {bound:,} nodes where it looks around",
                limit="ir_nodes",
                hint="Look around less, or raise Limits.ir_nodes if the pattern is trusted",
            )

    def _cut(self, ranges: Ranges) -> list[Ranges]:
        """The intersection of the set with each class."""
        known = self.cuts.get(id(ranges))
        if known is None:
            self.work.spend(sum([2 + len(ranges) + len(chars) for chars in self.classes]))
            known = self.cuts[id(ranges)] = ranges, [utf8.intersection(ranges, chars) for chars in self.classes]
        return known[1]

    def _before_edge(self, edge: Edge, rest: Rest) -> Rest:
        branches = []
        for left, right in edge.pairs:
            self.work.spend(2 + len(self.classes))
            fits = [left.edge, *(utf8.contains(left.chars, c[0][0]) for c in self.classes)]
            memo: dict[int, ir.Node] = {}
            for after in rest:
                memo.setdefault(id(after), after if right.is_anything else self._starting_with(right, after))
            branches.append(
                tuple(
                    memo[id(after)] if fit else ir.NEVER for after, fit in zip(rest, self._for_each(fits), strict=True)
                )
            )
        return _by_class(branches, lambda *nodes: alt(nodes))

    def _for_each(self, fits: list[bool]) -> list[bool]:
        """One value per rest. If nothing looks left, there is one rest, and everything fits."""
        return fits if self.looks_left else [True]

    def _starting_with(self, side: Side, rest: ir.Node) -> ir.Node:
        """The texts of the rest whose beginning fits the side."""
        alone = rest is self.any_text
        begins: ir.Node = ir.NEVER
        if side.chars:
            begins = self._seq((self.encode(side.chars), self.any_text if alone else self.any_bytes))
        wanted = alt((ir.EMPTY, begins)) if side.edge else begins
        return wanted if alone else self._both(rest, wanted)

    def _before_repeat(self, part: Repeat, rest: Rest) -> Steps[Rest]:
        item, low, high = part.item, part.min, part.max
        width = self.widths.get(id(item))
        if width == 0:  # matching once is the same as matching more often
            low, high = min(low, 1), 1 if high is None else min(high, 1)
        if high == 0 or (high is not None and high < low):
            return rest if low == 0 else self._same(ir.NEVER)
        if id(item) in self.plain:
            counted: Rest = yield self._before_plain_repeat(part, rest)
            return counted
        if all(node == ir.EMPTY for node in rest) and (tempered := _tempered(item)):
            to_the_end: Rest | None = yield self._before_end(part, *tempered)
            if to_the_end is not None:
                return to_the_end
        if width and max(low, high or 0) > loops.FEW_ROUNDS:
            bounds = ir.Repeat(self.encode(utf8.ANY), low * width, None if high is None else high * width)
            known: Rest = yield self._before_loop(part, min(low, 1), rest, bounds)
            return known
        if high is None:
            after: Rest = yield self._before_loop(part, min(low, 1), rest)
            low = max(low - 1, 0)
        else:
            after = rest
            for _ in range(high - low):
                once = yield self._before(item, after)
                after = _by_class([rest, once], lambda *nodes: alt(nodes))
        for _ in range(low):
            after = yield self._before(item, after)
        return after

    def _before_plain_repeat(self, part: Repeat, rest: Rest) -> Steps[Rest]:
        """The item does not look around, but the text after the repetition depends on its last character."""
        item, low, high = part.item, part.min, part.max
        node = self.plain[id(item)]
        if self._nullable(node):  # split the whole by its last character
            whole = self.plain[id(part)]
            ends = self._by_last(whole, rest)
            low = 0
        else:  # all iterations but the last, and the last
            last = yield self._before(item, rest)
            ends = [self._seq((repeat(node, max(low - 1, 0), None if high is None else high - 1), last[0]))]
        some = alt(ends)
        return _by_class([rest], lambda after: alt((after, some))) if low == 0 else self._same(some)

    def _by_last(self, node: ir.Node, rest: Rest) -> list[ir.Node]:
        """The non-empty texts of the node, each followed by the rest for its last character."""
        return [
            self._seq((ir.And((node, ir.Seq((self.any_text, self.encode(chars))))), after))
            for chars, after in zip(self.classes, rest[1:], strict=True)
            if after != ir.NEVER
        ]

    def _before_end(self, part: Repeat, looks: tuple[Look, ...], chars: Chars) -> Steps[Rest | None]:
        """`(?:(?!x)[y])*` up to the end of the text: characters of y, none of them at a place where x matches. None if
        x looks back."""
        one = self.encode(chars.ranges)
        refused: list[ir.Node] = []
        for look in looks:
            follows = yield self._before(look.item, self._same(self.any_bytes))
            if not _uniform(follows):
                return None
            refused.append(follows[0] if look.negate else ir.Not(follows[0]))
        somewhere = ir.And((ir.Seq((one, self.any_bytes)), alt(refused)))
        return self._same(ir.And((repeat(one, part.min, part.max), ir.Not(ir.Seq((ir.Repeat(one), somewhere))))))

    def _before_loop(self, part: Repeat, low: int, rest: Rest, bounds: ir.Node | None = None) -> Steps[Rest]:
        """A repetition without end, at least 0 or 1 times, of a part that looks around. What it reads is one of the
        texts of `bounds`."""
        loop = loops.Loop(
            Repeat(part.item, low, None, part.offset),
            self.encode,
            self.classes,
            self.plain,
            [id(node) for node in rest],
            self._languages,
            self.work,
        )
        found: list[list[loops.Exit]] = yield loops.exits(loop)
        # One node for equal exits, so that a uniform rest stays uniform.
        known: dict[tuple[int, int, int], ir.Node] = {}

        def way(exit_: loops.Exit) -> ir.Node:
            key = id(exit_.read), exit_.left, id(exit_.owed)
            if key not in known:
                after, read = rest[exit_.left], exit_.read
                if bounds is not None:
                    read = self._both(read, bounds)
                known[key] = self._seq((read, after if exit_.owed is None else self._both(after, exit_.owed)))
            return known[key]

        joined: dict[tuple[int, ...], ir.Node] = {}
        result = []
        for exits in found:
            ways = [way(exit_) for exit_ in exits]
            key = tuple(map(id, ways))
            if key not in joined:
                joined[key] = alt(ways)
            result.append(joined[key])
        return tuple(result)

    def _languages(self, item: Tree, encode: Encode) -> Steps[list[ir.Node]]:
        """The texts in which the item is found at the start, by class on the left, in another spelling."""
        inner = _Lowering(item, encode, self.work)
        inner.read()
        texts: Rest = yield inner._before(item, inner._same(inner.any_bytes))
        if not inner.looks_left:
            return [texts[0]] * (len(self.classes) + 1)
        of_ours = {}
        for k, chars in enumerate(inner.classes):  # each is a union of ours
            of_ours.update({ours: texts[1 + k] for ours in self.classes if utf8.contains(chars, ours[0][0])})
        return [texts[0], *(of_ours[ours] for ours in self.classes)]

    def _seq(self, items: Iterable[ir.Node]) -> ir.Node:
        return seq(items, self.work)

    # Intersection and difference, with the cases that need no node. The second operand may end in any bytes: the rest
    # already holds spelled characters only, so their intersection does too. Only if the rest is any bytes itself
    # (inside a look-ahead, or with `beside_text`) does the result end in any bytes.

    def _both(self, rest: ir.Node, wanted: ir.Node) -> ir.Node:
        if rest == ir.NEVER or wanted == ir.NEVER:
            return ir.NEVER
        if rest is self.any_bytes or rest is wanted:
            return wanted
        if wanted is self.any_bytes:
            return rest
        if rest == ir.EMPTY or wanted == ir.EMPTY:
            return ir.EMPTY if self._nullable(rest) and self._nullable(wanted) else ir.NEVER
        return ir.And((rest, wanted))

    def _but(self, rest: ir.Node, unwanted: ir.Node) -> ir.Node:
        """The texts of the rest that are not in `unwanted`."""
        if rest == ir.NEVER or rest is unwanted or unwanted is self.any_bytes:
            return ir.NEVER
        if unwanted == ir.NEVER:
            return rest
        if rest == ir.EMPTY:
            return ir.NEVER if self._nullable(unwanted) else rest
        if rest is self.any_bytes:
            return ir.Not(unwanted)
        return ir.And((rest, ir.Not(unwanted)))

    def _nullable(self, node: ir.Node) -> bool:
        return run(self._nullable_steps(node))

    def _nullable_steps(self, node: ir.Node) -> Steps[bool]:
        if id(node) in self.nullables:
            return self.nullables[id(node)][1]
        self.work.spend(2)
        if isinstance(node, ir.Bytes):
            result = not node.data
        elif isinstance(node, ir.Literals):
            result = b"" in node.options
        elif isinstance(node, (ir.Seq, ir.And, ir.Alt)):
            stop = isinstance(node, ir.Alt)
            result = not stop
            for item in node.items:
                if (yield self._nullable_steps(item)) is stop:
                    result = stop
                    break
        elif isinstance(node, ir.Repeat):
            result = node.min == 0 or (yield self._nullable_steps(node.item))
        elif isinstance(node, ir.Not):
            result = not (yield self._nullable_steps(node.item))
        else:
            result = False
        self.nullables[id(node)] = (node, result)  # the node is held so that its id is not reused
        return result


_AT_START = tree.text_start(0).pairs


def _flat(root: Tree) -> tuple[Tree, ...]:
    """The items of a sequence, and of the sequences in it."""
    items: list[Tree] = []
    todo = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, Concat):
            todo.extend(reversed(item.items))
        else:
            items.append(item)
    return tuple(items)


def _is_free(side: Side) -> bool:
    return side.chars in ((), utf8.ANY)


def _uniform(rest: Rest) -> bool:
    return all(node is rest[0] for node in rest)


def _by_class(branches: list[Rest], join: Callable[..., ir.Node]) -> Rest:
    """Joins class by class. Equal arguments give one node object, so that a uniform rest stays uniform."""
    joined: dict[tuple[int, ...], ir.Node] = {}
    result = []
    for nodes in zip(*branches, strict=True):
        key = tuple(id(node) for node in nodes)
        if key not in joined:
            joined[key] = join(*nodes)
        result.append(joined[key])
    return tuple(result)


def _tempered(item: Tree) -> tuple[tuple[Look, ...], Chars] | None:
    """The parts of `(?!x)(?=z)[y]`, if the item is of that form."""
    if not isinstance(item, Concat) or len(item.items) < 2:
        return None
    looks, last = [i for i in item.items[:-1] if isinstance(i, Look)], item.items[-1]
    if len(looks) == len(item.items) - 1 and isinstance(last, Chars) and last.ranges:
        return tuple(looks), last
    return None
