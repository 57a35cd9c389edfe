"""Where a lazy rule and a terminal can begin at the same place, the lazy rule goes first.

    start: (call | other)* TEXT
    call: opener %json {...} "</call>"
    opener[lazy]: TEXT "<call>"

In llguidance all terminals that may stand at a place are read side by side. As soon as a lazy one ends, the others are
given up. So in the text above, `TEXT` can not read over `<call>`. Without this, it would read any call as text.

Here the terminal is made smaller: it matches no text of which a lazy rule matches a beginning. `rivals` finds out for
which terminals. It looks at each place of a right side: what may begin there, through rules and what may be empty. What
may follow after the end of the rule itself is not looked at.

Cost: linear in the right sides for each lazy rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from narrows.grammar.languages.lark import tree
from narrows.grammar.languages.lark.tree import Name, Repeat, Seq, Tree
from narrows.grammar.work import Work


def rivals(
    bodies: Mapping[str, Tree], lazy: Collection[str], is_empty: Callable[[Tree], bool], work: Work
) -> dict[int, frozenset[str]]:
    """id of a name, string or pattern in the bodies -> the lazy rules that can begin where it begins, without itself.

    bodies: the right sides of all rules that are reached but the lazy ones. is_empty: whether a terminal (a name of
    one, a string, a pattern) matches the empty text.
    """
    places = _Places(bodies, lazy, is_empty, work)
    found: dict[int, set[str]] = {}
    for name in lazy:
        for leaf in places.that_begin_beside(name):
            if not (isinstance(leaf, Name) and leaf.name == name):
                found.setdefault(id(leaf), set()).add(name)
    return {leaf: frozenset(names) for leaf, names in found.items()}


class _Places:
    """A graph of the places of all right sides. An edge leads to what may begin at a place."""

    def __init__(
        self, bodies: Mapping[str, Tree], lazy: Collection[str], is_empty: Callable[[Tree], bool], work: Work
    ) -> None:
        self._bodies = bodies
        self._work = work
        self._is_empty_terminal = is_empty
        self._empty_rules: set[str] = set()
        self._find_empty_rules()
        self._known: dict[int, bool] = {}
        """id of a part of a right side -> whether it may be empty."""
        self._begins: list[list[int]] = []
        self._begun_by: list[list[int]] = []
        self._leaves: dict[int, Tree] = {}
        """Place -> the name, string or pattern that it is."""
        self._lazy: dict[str, list[int]] = {name: [] for name in lazy}
        self._rules = {name: self._new() for name in bodies}
        for name, body in bodies.items():
            self._add(body, self._rules[name])

    def that_begin_beside(self, name: str) -> Iterable[Tree]:
        """Names, strings and patterns that can begin where this lazy rule begins."""
        above = self._reached(self._lazy[name], self._begun_by)
        return [self._leaves[place] for place in self._reached(above, self._begins) if place in self._leaves]

    def _reached(self, places: Iterable[int], edges: list[list[int]]) -> dict[int, None]:
        found = dict.fromkeys(places)
        todo = list(found)
        while todo:
            place = todo.pop()
            self._work.spend(1 + len(edges[place]))
            new = [other for other in edges[place] if other not in found]
            found.update(dict.fromkeys(new))
            todo += new
        return found

    def _new(self) -> int:
        self._begins.append([])
        self._begun_by.append([])
        return len(self._begins) - 1

    def _edge(self, place: int, begins: int) -> None:
        self._begins[place].append(begins)
        self._begun_by[begins].append(place)

    def _add(self, body: Tree, place: int) -> None:
        """The places inside a right side that begins at `place`."""
        todo: list[tuple[Tree, int, int | None]] = [(body, place, None)]
        while todo:
            node, here, after = todo.pop()
            self._work.spend(3)
            if isinstance(node, Seq):
                at: int | None = here
                for k, item in enumerate(node.items):
                    assert at is not None
                    last = k == len(node.items) - 1
                    behind = after if last else self._new()
                    self._inside(at, item, behind, todo)
                    if behind is not None and self._may_be_empty(item, self._known):
                        self._edge(at, behind)
                    at = behind
            elif isinstance(node, tree.Choice):
                for item in node.items:
                    self._inside(here, item, after, todo)
            elif isinstance(node, Repeat):
                again = after
                if node.high is None or node.high > 1:  # behind one of them, another may follow
                    again = self._new()
                    if after is not None:
                        self._edge(again, after)
                    self._inside(again, node.item, again, todo)
                self._inside(here, node.item, again, todo)
            else:
                self._leaf(node, here)

    def _inside(self, place: int, item: Tree, after: int | None, todo: list[tuple[Tree, int, int | None]]) -> None:
        inner = self._new()
        self._edge(place, inner)
        todo.append((item, inner, after))

    def _leaf(self, node: Tree, here: int) -> None:
        if isinstance(node, Name) and node.name in self._rules:
            self._edge(here, self._rules[node.name])
            return
        self._leaves[here] = node
        if isinstance(node, Name) and node.name in self._lazy:
            self._lazy[node.name].append(here)

    # What may be empty.

    def _find_empty_rules(self) -> None:
        while True:
            left = [name for name in self._bodies if name not in self._empty_rules]
            new = [name for name in left if self._may_be_empty(self._bodies[name], {})]
            if not new:
                return
            self._empty_rules.update(new)

    def _may_be_empty(self, root: Tree, done: dict[int, bool]) -> bool:
        todo: list[tuple[Tree, bool]] = [(root, False)]
        while todo:
            node, is_ready = todo.pop()
            if id(node) in done:
                continue
            inner = tree.children(node)
            if inner and not is_ready and not isinstance(node, (Name, tree.Negated)):
                todo.append((node, True))
                todo += [(child, False) for child in inner]
                continue
            self._work.spend(1)
            if isinstance(node, Seq):
                done[id(node)] = all(done[id(child)] for child in inner)
            elif isinstance(node, tree.Choice):
                done[id(node)] = any(done[id(child)] for child in inner)
            elif isinstance(node, Repeat):
                done[id(node)] = node.low == 0 or done[id(node.item)]
            elif isinstance(node, Name) and node.name in self._bodies:
                done[id(node)] = node.name in self._empty_rules
            else:
                done[id(node)] = self._is_empty_terminal(node)
        return done[id(root)]
