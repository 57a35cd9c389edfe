"""`name[stop="</x>"]: ...`: a terminal and then this text, which llguidance takes back after the model has written it.

narrows takes nothing back, so the text stays, and the language is that of `suffix`. There is one case in which it is
not: where what comes next must begin with the same text, as in `part "</x>"`, llguidance does not ask for it again. So
it is left out there. Whether it must is found out from the bytes with which something can begin after each use of the
rule. If that does not decide it, the rule is refused.

`stop=""` says that the model's end token ends the part. At the end of the whole text it does so in any case. Elsewhere
it would have to be taken back, so it is refused.

Cost: linear in the right sides for each time that more is found out about a rule, mostly two or three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from narrows.grammar.languages.lark import tree
from narrows.grammar.languages.lark.tree import Definition, Name, Text, Tree
from narrows.grammar.languages.text import GrammarText

Bits = int
_Place = tuple[int, int]
"""The id of what a part stands in, and its index there."""
END = 1 << 256
"""The text may end. The bits below stand for bytes."""
TOKEN = 1 << 257
"""A special token."""
JSON = 1 << 258
"""A JSON value."""
SOMETHING = 1 << 259
"""A text of another grammar: it is not known how it begins."""
_MAY_BE_FORCED = "stop, where what must come next may begin with the stop text: llguidance then writes it once"
_MAY_BE_FORCED_HINT = 'Write suffix="...", and leave the text out of what comes next'
_OF_JSON = sum(1 << byte for byte in b' \t\r\n"-0123456789[{ntf')


class Stops:
    """The rules with `stop` of one grammar."""

    def __init__(
        self,
        text: GrammarText,
        bodies: Mapping[str, Tree],
        stops: Mapping[str, Definition],
        start: str,
        first_of: Callable[[Tree], tuple[Bits, bool]],
        ignored: Bits,
    ) -> None:
        """bodies: the right sides of all rules that are reached but the lazy ones. stops: the rules with `stop`.
        first_of: with which bytes a terminal begins, and whether it may be empty; a lazy rule counts as one. ignored:
        the same of what may be ignored."""
        self._text = text
        self._bodies = bodies
        self._stops = stops
        self._start = start
        self._first_of = first_of
        self._ignored = ignored
        self._first: dict[str, tuple[Bits, bool]] = dict.fromkeys(bodies, (0, False))
        self._after: dict[str, Bits] = dict.fromkeys([*bodies, *stops], 0)
        self._uses: dict[str, dict[_Place, tuple[Bits, Tree | None]]] = {name: {} for name in stops}
        """What comes after each use, and what stands there, if it stands beside it."""
        self.repeated: set[str] = set()
        """After `settled`: the rules whose stop text is also the beginning of what comes next."""
        self._find_firsts()
        self._find_afters()

    # With what a rule begins, and what comes after it.

    def _find_firsts(self) -> None:
        changed = True
        while changed:
            changed = False
            for name, body in self._bodies.items():
                found = self._firsts(body)[id(body)]
                changed = changed or found != self._first[name]
                self._first[name] = found

    def _firsts(self, root: Tree) -> dict[int, tuple[Bits, bool]]:
        """id of each part -> the bytes with which it begins, and whether it may be empty."""
        done: dict[int, tuple[Bits, bool]] = {}
        todo: list[tuple[Tree, bool]] = [(root, False)]
        while todo:
            node, is_ready = todo.pop()
            if id(node) in done:
                continue
            inner = tree.children(node) if isinstance(node, (tree.Seq, tree.Choice, tree.Repeat)) else ()
            if inner and not is_ready:
                todo.append((node, True))
                todo += [(child, False) for child in inner]
                continue
            self._text.work.spend(2)
            parts = [done[id(child)] for child in inner]
            if isinstance(node, tree.Seq):
                done[id(node)] = _in_a_row(parts)
            elif isinstance(node, tree.Choice):
                done[id(node)] = _any([bits for bits, _ in parts]), any(empty for _, empty in parts)
            elif isinstance(node, tree.Repeat):
                done[id(node)] = parts[0][0], parts[0][1] or node.low == 0
            elif isinstance(node, Name) and node.name in self._first:
                done[id(node)] = self._first[node.name]
            else:
                done[id(node)] = self._first_of(node)
        return done

    def _find_afters(self) -> None:
        self._after[self._start] = END
        todo = dict.fromkeys(self._bodies)
        while todo:
            name = next(reversed(todo))
            del todo[name]
            todo.update(dict.fromkeys(self._walk(name)))

    def _walk(self, rule: str) -> list[str]:
        """Tells the names in a right side what may come after them. Returns the rules for which that was news."""
        news: list[str] = []
        body = self._bodies[rule]
        firsts = self._firsts(body)
        todo: list[tuple[Tree, Bits, _Place, Tree | None]] = [(body, self._after[rule], (id(body), -1), None)]
        while todo:
            node, after, place, following = todo.pop()
            self._text.work.spend(2)
            if isinstance(node, tree.Seq):
                following = None
                for index in reversed(range(len(node.items))):
                    item = node.items[index]
                    todo.append((item, after, (id(node), index), following))
                    bits, empty = firsts[id(item)]
                    after, following = bits | (after if empty else 0), item
            elif isinstance(node, tree.Choice):
                todo += [(item, after, (id(node), index), None) for index, item in enumerate(node.items)]
            elif isinstance(node, tree.Repeat):
                again = firsts[id(node.item)][0] if node.high is None or node.high > 1 else 0
                todo.append((node.item, after | again, (id(node), 0), None))
            elif isinstance(node, Name) and node.name in self._stops:
                known = self._uses[node.name].get(place, (0, None))[0]
                self._uses[node.name][place] = known | after, following
            elif (
                isinstance(node, Name)
                and node.name in self._after
                and self._after[node.name] | after != self._after[node.name]
            ):
                self._after[node.name] |= after
                news.append(node.name)
        return news

    # What becomes of a stop.

    def settled(self) -> dict[str, Tree]:
        """The right sides, where what must come after a stop does not repeat it. Raises `UnsupportedError`
        (`lark_unsupported`)."""
        shortened: dict[_Place, Text] = {}
        for name, definition in self._stops.items():
            uses = self._uses[name]
            if definition.end is None:
                self._check_end(definition, [after for after, _ in uses.values()])
                continue
            begins = self._first_of(definition.end)[0]
            forced = {place: use[1] for place, use in uses.items() if self._may_be_forced(use[0], begins)}
            for (sequence, index), following in forced.items():
                rest = self._rest(definition.end, following)
                if rest is None or len(forced) < len(uses):
                    self._text.unsupported(_MAY_BE_FORCED, definition.offset, _MAY_BE_FORCED_HINT)
                shortened[sequence, index + 1] = rest
                self.repeated.add(name)
        return {name: self._rebuilt(body, shortened) for name, body in self._bodies.items()}

    def _may_be_forced(self, after: Bits, begins: Bits) -> bool:
        """Whether what comes next may have to begin as the stop does: there is no other byte."""
        after = (after | self._ignored) & ~END  # llguidance does not look at whether the text may end
        if after.bit_count() != 1:
            return False
        return bool(after & (begins | SOMETHING) or (after & JSON and begins & _OF_JSON))

    def _check_end(self, definition: Definition, afters: list[Bits]) -> None:
        if any(after & ~(self._ignored | END) for after in afters):
            self._text.unsupported(
                'stop="" where the text goes on: the end token would have to be taken back',
                definition.offset,
                'Write suffix="..." with a text that ends it',
            )

    def _rest(self, end: Tree, following: Tree | None) -> Text | None:
        """What is left of a text that begins with the stop."""
        if not isinstance(end, Text) or end.folded or not isinstance(following, Text) or following.folded:
            return None
        rest = following.text.removeprefix(end.text)
        return replace(following, text=rest) if rest != following.text else None

    def _rebuilt(self, root: Tree, shortened: Mapping[_Place, Text]) -> Tree:
        if not shortened:
            return root

        def change(node: Tree, inner: tuple[Tree, ...]) -> Tree:
            places = enumerate(inner)
            inner = tuple([shortened.get((id(node), index), item) for index, item in places])
            return tree.with_children(node, inner)

        return tree.rebuilt(root, change, self._text.work.spend)


def _in_a_row(parts: list[tuple[Bits, bool]]) -> tuple[Bits, bool]:
    bits = 0
    for first, empty in parts:
        bits |= first
        if not empty:
            return bits, False
    return bits, True


def _any(parts: list[Bits]) -> Bits:
    bits = 0
    for part in parts:
        bits |= part
    return bits
