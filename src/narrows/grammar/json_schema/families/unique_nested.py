"""What tells items apart under `uniqueItems` where they may be arrays or objects: their texts, in one spelling.

Where every item is regular, a whole item is one name (`ir.Distinct`), so items that are different are known as such.
Elsewhere the name of an array or object is its head (heads.py), and what follows it is read by other rules. Two items
with equal heads count as equal, though they may differ after that: less than the standard allows, never more.

Objects with keys of any name come in many orders, and so have no head, and neither have arrays whose own items differ.
Of such objects with more than one key, and of such arrays with more than one item, an outer array has at most one.

Heads are the same function of the text for all places of a tuple, because their names are compared with each other.

Cost: that of the rules in one spelling, which all arrays of a schema share, and of the texts before the cuts.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from narrows.grammar import ir
from narrows.grammar.json_schema import check
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.facts import Facts, Goal, Items, Members
from narrows.grammar.json_schema.families.unique_scalars import Item, Unsupported, scalar
from narrows.grammar.json_schema.goals import key_of
from narrows.grammar.json_schema.heads import Head, Heads
from narrows.grammar.json_schema.one_spelling import flat, is_endless
from narrows.grammar.json_schema.rules import Rules
from narrows.grammar.json_schema.spelling.spelling import seq
from narrows.grammar.options import Whitespace
from narrows.grammar.productive import matches_something
from narrows.grammar.reach import reached

DEPTHS = (3, 2, 1)
"""Levels of an item that its head may reach into, the best first."""
FEW_HEADS, MOST_HEADS = 12, 48
"""Heads of one item: each is copied as often as an array may have items. More than the first only where fewer levels
make no fewer."""

_SCALARS = Facts(types=f.ANY & ~(f.ARRAY | f.OBJECT))
_PLAIN = {f.ARRAY: Facts(types=f.ARRAY), f.OBJECT: Facts(types=f.OBJECT)}
_SHORT = {
    f.ARRAY: Facts(types=f.ARRAY, items=(Items(max=1),)),
    f.OBJECT: Facts(types=f.OBJECT, members=(Members(most=1),)),
}
_LONG = {
    f.ARRAY: Facts(types=f.ARRAY, items=(Items(min=2),)),
    f.OBJECT: Facts(types=f.OBJECT, members=(Members(least=2),)),
}
_ATTEMPTS = [(short, depth) for short in ((), (f.ARRAY,), (f.OBJECT,), (f.ARRAY, f.OBJECT)) for depth in DEPTHS]
"""The kinds whose longer values have no head, and the levels; the best first."""

_SPELLED = "an item is written in one spelling"
_NOTHING_LEFT = "uniqueItems is not supported where items must have keys that the schema does not name"
_CLOSED = "objects in them have no keys but those that the schema names"
_CUT = "items that are the same up to an array or object in them that cannot be compared count as equal"
_ONE_LONG = {
    f.ARRAY: "at most one of the items is an array of more than one item",
    f.OBJECT: "at most one of the items is an object of more than one key",
}


def may_be_nested(rules: Rules, goal: Goal) -> bool:
    """Whether a value may be an array or an object."""
    for facts in rules.goals.alternatives(goal):
        rules.work.spend(4)
        if facts.values:
            rules.work.spend(len(facts.values[0].options) // 8)
            if any(isinstance(option, (list, tuple, dict)) for option in check.surviving(rules.goals, facts)):
                return True
        elif facts.types & (f.ARRAY | f.OBJECT):
            return True
    return False


def items(rules: Rules, whitespace: Whitespace, goals: Sequence[Goal], most: int) -> list[Item | None]:
    """The values of each goal, each as a name; None where there is none."""
    key = (whitespace, _key(goals))
    found = rules.compared.get(key)
    if found is None:
        one = rules.in_one_spelling(whitespace)
        found = _whole(rules, one, goals, most)
        if found is None:
            found = _ByHeads(rules, one, goals, most).items()
        rules.compared[key] = found
    if rules.goals.reporter.on_unsupported != "error" and any(item and _CLOSED in item.notes for item in found):
        raise Unsupported("uniqueItems is not supported where items may have keys that the schema does not name")
    return found


def _key(goals: Sequence[Goal]) -> tuple[Hashable, ...]:
    return tuple([key_of(goal) if goal else () for goal in goals])


def _whole(rules: Rules, one: Rules, goals: Sequence[Goal], most: int) -> list[Item | None] | None:
    """Where all of them are regular."""
    regular = one.regular
    nodes = [one.node(goal) for goal in goals]
    written = one.written()
    found: list[Item | None] = []
    for node in nodes:
        made = flat(written, node, rules.work, one.opaque)
        if made is None:
            return None
        term = regular.of(made)
        if regular.is_never(term):
            if _loses_keys(one, node):
                raise Unsupported(_NOTHING_LEFT)
            found.append(None)
            continue
        texts = regular.texts(term, most)
        values = None if texts is None else frozenset[Hashable](texts)
        found.append(Item(ir.Distinct(ir.Lexeme(made)), f.ANY, values, _notes(one, node)))
    return found


def _notes(one: Rules, root: ir.Node) -> tuple[str, ...]:
    return (_SPELLED, _CLOSED) if _loses_keys(one, root) else (_SPELLED,)


def _loses_keys(one: Rules, root: ir.Node) -> bool:
    """Whether objects lose keys that the schema does not name."""
    nodes = reached([root], one.rules, one.work) if one.left_out else ()
    return any(isinstance(node, ir.Ref) and node.name in one.left_out for node in nodes)


def has_names(rules: Rules, item: Item, count: int, all_rules: Collection[str], known: Collection[str]) -> bool:
    """Whether there are so many names that a text can go on after, if the `known` rules match something."""
    if item.others is None:
        return True
    live = _live(rules, item, count, all_rules, known)
    return live is None or len(live) + len(item.others) >= count


def recount(rules: Rules, item: Item, most: int, all_rules: Collection[str], known: Collection[str]) -> bool:
    """Whether there are fewer names that a text can go on after than the item was written for, which has `most` or
    more if its values are not known. Remembers them then."""
    if item.others is None:
        return False
    live = _live(rules, item, most, all_rules, known)
    if live is None or live == rules.names_left.get(item.key):
        return False
    if len(live) + len(item.others) >= (most if item.values is None else len(item.values)):
        return False
    rules.names_left[item.key] = live
    return True


def _live(
    rules: Rules, item: Item, most: int, all_rules: Collection[str], known: Collection[str]
) -> frozenset[Hashable] | None:
    """The heads that a text can go on after; None if they are more than `most`."""
    live = [head for head, rest in item.heads if matches_something(rest, all_rules, known, rules.work)]
    if is_endless(live, rules.work):
        return None
    regular = rules.regular
    texts = regular.texts(regular.of(ir.alt(*live)), most)
    return None if texts is None else frozenset(texts)


class _ByHeads:
    def __init__(self, rules: Rules, one: Rules, goals: Sequence[Goal], most: int) -> None:
        self._rules = rules
        self._one = one
        self._goals = goals
        self._most = most
        self._regular = one.regular

    def items(self) -> list[Item | None]:
        """By the first attempt that makes few heads. In the other spelling of an array it is mostly the same one."""
        key = self._key = _key(self._goals)
        known = self._rules.compared.get(key)
        looked_at: dict[tuple[int, ...], tuple[Heads, list[tuple[ir.Node, bool]]]] = {}
        for short, depth in [*([known] if known else []), *_ATTEMPTS]:
            if short not in looked_at:
                looked_at[short] = self._reader(short)
            reader, roots = looked_at[short]
            heads = reader.of(roots, depth)
            most = MOST_HEADS if depth == DEPTHS[-1] else FEW_HEADS
            if heads is not None and all(len(one) <= most for one in heads):
                self._rules.compared[key] = short, depth
                n = len(self._goals)
                return [self._item(k, short, depth, heads[k], heads[n + k]) for k in range(n)]
        raise Unsupported(
            "uniqueItems is not supported where items are too large to be compared, or begin with multiples of a number"
        )

    def _reader(self, short: Collection[int]) -> tuple[Heads, list[tuple[ir.Node, bool]]]:
        """And what it is to read: the goals' arrays, then their objects."""
        kinds = [(_SHORT if kind in short else _PLAIN)[kind] for kind in (f.ARRAY, f.OBJECT)]
        roots = [(self._node(goal, kind), f.OBJECT in short) for kind in kinds for goal in self._goals]
        one = self._one
        return Heads(one.written(), one.containers, one.opaque, one.productive, self._rules.work), roots

    def _item(self, k: int, short: Sequence[int], depth: int, arrays: list[Head], objects: list[Head]) -> Item | None:
        goal = self._goals[k]
        scalars = scalar(self._rules, self._with(self._rules, goal, _SCALARS), self._most)
        options: list[ir.Node] = [] if scalars.values == frozenset() else [scalars.node]
        types = scalars.types
        names: list[ir.Node] = []
        notes: dict[str, None] = {}
        cuts: list[tuple[ir.Node, ir.Node]] = []
        for kind, heads in ((f.ARRAY, arrays), (f.OBJECT, objects)):
            if kind == f.OBJECT and kind in short:  # the kinds of keys may exclude each other
                heads = [head for head in heads if not self._regular.is_never(self._regular.of(head.node))]
            plain = self._node(goal, _PLAIN[kind])
            if heads or _loses_keys(self._one, plain):
                notes.update(dict.fromkeys(_notes(self._one, plain)))
            if heads:
                types |= kind
            for head in heads:
                rest = self._rest(ir.seq(*head.rest), goal)
                names.append(head.node)
                cuts.append((head.node, rest))
                options.append(seq(ir.Distinct(ir.Lexeme(head.node)), rest))
                if head.rest:
                    notes[_CUT] = None
            if kind in short:
                longer = self._node(goal, _LONG[kind])
                if longer is not ir.NEVER:
                    types |= kind
                    bracket = ir.Bytes(b"[" if kind == f.ARRAY else b"{")
                    rest = self._one.after_bracket(longer)
                    names.append(bracket)
                    cuts.append((bracket, rest))
                    options.append(seq(ir.Distinct(ir.Lexeme(bracket)), rest))
                    notes.update(dict.fromkeys((*_notes(self._one, longer), _ONE_LONG[kind])))
        key = (self._one.prefix, self._key, tuple(short), depth, k)
        left = self._rules.names_left.get(key)
        values = scalars.values
        if not options or (left == frozenset() and values == frozenset()):
            if _CLOSED in notes:
                raise Unsupported(_NOTHING_LEFT)
            return None
        if values is not None and left is not None:
            values |= left
        elif values is not None and is_endless(names, self._rules.work):
            values = None
        elif values is not None:
            texts = self._regular.texts(self._regular.of(ir.alt(*names)), self._most)
            values = None if texts is None or len(texts) + len(values) > self._most else values | set(texts)
        return Item(ir.alt(*options), types, values, tuple(notes), tuple(cuts), scalars.values, key)

    def _rest(self, node: ir.Node, goal: Goal) -> ir.Node:
        """A rule of its own, so that names in it are its own, and so that it is not copied with each item."""
        if node is ir.EMPTY or isinstance(node, ir.Ref):
            return node
        made = self._rules.rule(self._rules.prefix + (goal[0].pointer if goal else "") + "..", node)
        self._rules.sources[made.name] = goal[0].pointer if goal else ""
        return made

    def _node(self, goal: Goal, facts: Facts) -> ir.Node:
        return self._one.node(self._with(self._one, goal, facts))

    def _with(self, rules: Rules, goal: Goal, facts: Facts) -> Goal:
        """The values of the goal of which this is true, too."""
        name = ("uniqueItems", facts.types, bool(facts.items or facts.members), facts in _LONG.values())
        return rules.goals.goal([*goal, rules.goals.document.derived("", facts, name)])
