"""From goals to rules: the one place where the IR of a schema is put together.

A goal (schemas that hold together) becomes a node when something first asks for it, and keeps it. What is a scalar is a lexeme
on the spot; each array or object is a rule, so that recursion and sharing come for free, and its members are lowered later,
from a list of work: nothing recurses. When all is done, a least fixpoint over "an object needs its required members" finds
goals that no finite value satisfies.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from narrows.errors import InputError
from narrows.grammar import ir
from narrows.grammar.json_schema import check, declared, disjoint, keywords, normal
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.document import Document, Site
from narrows.grammar.json_schema.facts import Facts, Goal, Pattern, Values
from narrows.grammar.json_schema.families import arrays, numbers, objects, strings, values
from narrows.grammar.json_schema.families.property_names import settle
from narrows.grammar.json_schema.report import Reporter, invalid, over_limit, unsatisfiable
from narrows.grammar.json_schema.spelling import multiples
from narrows.grammar.json_schema.spelling.spelling import Spelling
from narrows.grammar.work import Work
from narrows.limits import Limits


@dataclass(slots=True)
class _Lowered:
    """What became of a goal. `needs`: per alternative, the goals without which it has no value; productive once one list is."""

    goal: Goal
    node: ir.Node
    facts: list[Facts]
    reason: normal.Reason | None
    needs: list[list[Goal]]


class Lowering:
    """One schema on its way to rules. Names of rules are the JSON pointers of their schemas after `prefix`."""

    def __init__(
        self,
        document: Document,
        spelling: Spelling,
        reporter: Reporter,
        limits: Limits | Work,
        prefix: str,
        additional: str = "standard",
    ) -> None:
        if additional not in ("standard", "declared"):
            raise InputError(f'additional must be "standard" or "declared", not {additional!r}', code="invalid_option")
        self.document = document
        self.spelling = spelling
        self.reporter = reporter
        self.work = Work.of(limits)
        self.limits = self.work.limits
        self.prefix = prefix
        self.additional = additional
        self.rules: dict[str, ir.Node] = {}
        self.sources: dict[str, str] = {}
        self._goals: dict[Hashable, _Lowered] = {}
        self._alternatives: dict[Hashable, tuple[list[Facts], normal.Reason | None]] = {}
        self._todo: list[tuple[int, str, Facts, list[Goal], Goal]] = []
        self._declared: dict[Hashable, tuple[str, ...] | None] = {}
        self._bare: dict[Site, Site | None] = {}
        self._value_keys: dict[int, frozenset[Hashable]] = {}
        self._names: dict[Site, f.Members | None] = {}
        self._taken: dict[str, int] = {}
        self._automata: dict[int, tuple[multiples.Automaton, ir.Ref]] = {}
        self._nodes = 0

    def run(self) -> str:
        """Lowers the whole document; returns the name of its rule."""
        root = self.goal([self.document.root])
        start = self.prefix + "root"
        self.rules[start] = ir.EMPTY  # takes its place at the front
        node = self.node(root)
        self.drain()
        self._refuse_impossible(root)
        self.rules[start] = node
        self.sources[start] = ""
        return start

    def drain(self) -> None:
        """Lowers what the nodes that were asked for refer to, and proves every `oneOf` on the way."""
        while self._todo:
            kind, name, facts, needs, goal = self._todo.pop()
            self.work.pointer = self.sources[name]
            self.work.spend(8 + len(name) // 64)
            if kind == f.ARRAY:
                self.rules[name] = arrays.lower(self, facts, name, needs)
            else:
                self.rules[name] = objects.lower(self, facts, name, needs, goal)
        disjoint.check_all(self)

    # Goals.

    def goal(self, sites: Iterable[Site | None]) -> Goal:
        """The schemas as a goal: references followed, what says nothing and repetitions left out."""
        kept: dict[Site, None] = {}
        for site in sites:
            if site is not None:
                followed = self._bare[site] if site in self._bare else self._follow(site)
                if followed is not None:
                    kept[followed] = None
        return tuple(kept)

    def _follow(self, site: Site) -> Site | None:
        """Where a schema that is nothing but a `$ref` leads to; None if that says nothing at all."""
        chain: dict[Site, None] = {}
        here = site
        while True:
            facts = self.read(here)
            if here in chain:
                raise invalid(
                    here.pointer, "the reference leads back to itself without anything in between, and so says nothing"
                )
            chain[here] = None
            if facts.is_bare and not facts.choices and len(facts.also) == 1:
                here = facts.also[0]
                continue
            end = None if facts.is_anything else here
            self._bare.update(dict.fromkeys(chain, end))
            return end

    def read(self, site: Site) -> Facts:
        return keywords.read(site, self.document, self.reporter, self.work)

    def node(self, goal: Goal) -> ir.Node:
        """What matches any value of the goal; `ir.NEVER` where there plainly is none."""
        return self._lowered(goal).node

    def alternatives(self, goal: Goal) -> list[Facts]:
        """The conjunctions of facts of which one must hold; lowers nothing."""
        return self._normal(goal)[0]

    def declared(self, goal: Goal) -> tuple[str, ...] | None:
        """The keys that the schemas of a goal name (declared.py)."""
        key = _key(goal)
        if key not in self._declared:
            self._declared[key] = declared.names_at(self, goal)
        return self._declared[key]

    def listed_names(self, names: Site, find: Callable[[Lowering, Site], f.Members | None]) -> f.Members | None:
        """The keys that a `propertyNames` lists (names.py), found once."""
        if names not in self._names:
            self._names[names] = find(self, names)
        return self._names[names]

    def _normal(self, goal: Goal) -> tuple[list[Facts], normal.Reason | None]:
        if not goal:
            return _ANYTHING, None
        key = _key(goal)
        known = self._alternatives.get(key)
        if known is None:
            self.work.spend(4 + len(goal) // 4)
            found, reason = normal.alternatives(goal, self.read, self.work)
            known = self._alternatives[key] = ([settle(self, facts) for facts in found], reason)
        return known

    def _lowered(self, goal: Goal) -> _Lowered:
        key = _key(goal)
        known = self._goals.get(key)
        if known is None:
            found, reason = self._normal(goal)
            self.work.spend(6 + 4 * len(found))
            known = self._goals[key] = _Lowered(goal, ir.NEVER, found, reason, [])
            if goal:
                known.node = self._alternation(known)
            else:
                known.node, known.needs = self.spelling.value, [[]]
        return known

    def _alternation(self, lowered: _Lowered) -> ir.Node:
        base = self.prefix + (lowered.goal[0].pointer or "#")
        nodes: dict[int, ir.Node] = {}  # by identity: shared lexemes come once
        options: list[bytes] = []  # of all enumerations together: an anyOf of many consts is one automaton
        for facts in lowered.facts:
            for node in self._scalars(facts) if not facts.values else self._literals(facts, lowered, options):
                nodes[id(node)] = node
                lowered.needs.append([])
            for kind, constraints in ((f.ARRAY, facts.items), (f.OBJECT, facts.members)):
                if facts.types & kind and not facts.values:
                    needs: list[Goal] = []
                    if constraints:
                        name = self._fresh(base + ("[]" if kind == f.ARRAY else "{}"))
                        self.rules[name] = ir.NEVER
                        self.sources[name] = lowered.goal[0].pointer
                        self._todo.append((kind, name, facts, needs, lowered.goal))
                        node = ir.Ref(name)
                    else:
                        node = self.spelling.array if kind == f.ARRAY else self.spelling.object
                    nodes[id(node)] = node
                    lowered.needs.append(needs)
        if options:
            node = ir.Lexeme(ir.Literals(tuple(options)))
            nodes[id(node)] = node
            lowered.needs.append([])
        self.count(1 + len(nodes))
        if not nodes:
            return ir.NEVER
        if len(nodes) <= 8:
            return ir.alt(*nodes.values())
        return self.rule(base + "|", ir.alt(*nodes.values()))  # a rule, lest it be copied at each use

    def _scalars(self, facts: Facts) -> list[ir.Node]:
        found: list[ir.Node] = []
        if facts.types & f.STRING:
            found.append(strings.lower(facts.text, self.spelling, self.reporter, self.work))
        if facts.types & f.NUMBER:
            found.append(self._number(facts))
        if facts.types & f.BOOLEAN:
            found.append(self.spelling.boolean)
        if facts.types & f.NULL:
            found.append(self.spelling.null)
        return found

    def _number(self, facts: Facts) -> ir.Node:
        integer = not facts.types & f.FRACTION
        return numbers.lower(facts.range, self.reporter, self._rules_of, self.work, integer=integer)

    def _rules_of(self, states: multiples.Automaton) -> ir.Node:
        """A rule for each state; shared by all numbers with the same automaton."""
        if id(states) not in self._automata:
            total = sum(len(edges) for _, edges in states)
            self.count(12 * total)  # as much work for the core as so many nodes
            self.work.spend(2 * total)
            base = self._fresh(self.prefix + "multiples")
            refs = [ir.Ref(base if k == 0 else f"{base}/{k}") for k in range(len(states))]
            for ref, (ends, edges) in zip(refs, states, strict=True):
                steps = [ir.Seq((digits, refs[to])) for digits, to in edges]
                self.rules[ref.name] = ir.alt(*([ir.EMPTY] if ends else []), *steps)
            self._automata[id(states)] = (states, refs[0])  # with the states, so that their id stays their own
        return self._automata[id(states)][1]

    # Literal values.

    def _literals(self, facts: Facts, lowered: _Lowered, scalars: list[bytes]) -> list[ir.Node]:
        """The options of an enumeration that satisfy all else: scalars are added to the list, the others come back as nodes. A
        pattern beside strings is left to the automaton."""
        patterns = facts.text.patterns if facts.text is not None else ()
        where = facts.values[0].pointer
        texts: list[bytes] = []
        before = len(scalars)
        nodes: list[ir.Node] = []
        for option in self.surviving(facts):
            self.work.spend(1 if isinstance(option, (str, int)) else 6)
            spelled = values.spell_scalar(option, self.spelling, where)
            if spelled is None:
                nodes.append(values.literal_node(option, self.spelling, where, self.work))
            elif isinstance(option, str) and (patterns or self.spelling.strings_apart):
                texts += spelled
            else:
                scalars += spelled
        self.count(len(scalars) - before + len(texts) + len(nodes))
        if texts:
            bodies = strings.bodies(patterns, self.spelling, self.reporter, self.work)
            parts = (ir.Literals(tuple(texts)), *(self.spelling.quoted(body) for body in bodies))
            nodes.insert(0, self.spelling.whole(ir.And(parts) if bodies else parts[0]))
        if not nodes and len(scalars) == before and lowered.reason is None:
            lowered.reason = normal.Reason(where, "none of these values satisfies what stands beside them")
        return nodes

    def surviving(self, facts: Facts) -> Iterator[Any]:
        """The options of the shortest enumeration that satisfy all facts but the patterns of strings."""
        chosen = min(facts.values, key=lambda v: len(v.options))
        self.work.spend(2 + len(chosen.options) // 4)
        others = tuple(v for v in facts.values if v is not chosen)
        if others or facts.text or facts.range or facts.items or facts.members:
            rest = Facts(facts.types, values=others, range=facts.range, items=facts.items, members=facts.members)
            rest.text = f.Text(facts.text.min, facts.text.max) if facts.text is not None else None
            yield from (option for option in chosen.options if check.run(check.fits(self, rest, option)))
        else:
            yield from (option for option in chosen.options if check.type_of(option) & facts.types)

    def value_keys(self, values: Values) -> frozenset[Hashable]:
        """The options of an enumeration as a set, made once."""
        known = self._value_keys.get(id(values))
        if known is None:
            self.work.spend(len(values.options) // 4)
            known = frozenset([check.key_of(option, self.work) for option in values.options])
            self._value_keys[id(values)] = known
        return known

    def pattern_holds(self, pattern: Pattern, value: str) -> bool:
        self.reporter.unsupported(
            pattern.pointer, "a pattern or format inside the values of an enum of arrays or objects is not evaluated"
        )
        return True

    # Rules.

    def rule(self, name: str, node: ir.Node) -> ir.Ref:
        """A rule of this name, or of one like it that is not taken."""
        name = self._fresh(name)
        self.rules[name] = node
        return ir.Ref(name)

    def _fresh(self, name: str) -> str:
        if name not in self.rules:
            return name
        k = self._taken.get(name, 1) + 1
        while f"{name}{k}" in self.rules:
            k += 1
        self._taken[name] = k
        return f"{name}{k}"

    def count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > self.limits.ir_nodes:
            raise over_limit("ir_nodes", self.limits.ir_nodes, "the schema lowers to too large a grammar")

    # Values that cannot be finite.

    def _refuse_impossible(self, root: Goal) -> None:
        possible = self._possible()
        lowered = self._lowered(root)
        if id(lowered) in possible:
            return
        # Follow what is needed and impossible down to a reason.
        seen = {id(lowered)}
        stack = [lowered]
        while stack:
            here = stack.pop()
            if here.reason is not None and not here.needs:
                raise unsatisfiable(here.reason.pointer, here.reason.message)
            for needs in here.needs:
                for goal in needs:
                    below = self._lowered(goal)
                    if id(below) not in possible and id(below) not in seen:
                        seen.add(id(below))
                        stack.append(below)
        raise unsatisfiable(root[0].pointer if root else "", "every value would have to be nested without end")

    def _possible(self) -> set[int]:
        """The goals (by id of their `_Lowered`) that some finite value satisfies: a least fixpoint, in linear time."""
        waiting: dict[int, list[list[int]]] = {}  # goal -> alternatives [how many needs are open, whose]
        done: list[int] = []
        for lowered in self._goals.values():
            self.work.spend(1 + sum(map(len, lowered.needs)) // 2)
            for needs in lowered.needs:
                entry = [len(needs), id(lowered)]
                if not needs:
                    done.append(id(lowered))
                for goal in needs:
                    waiting.setdefault(id(self._lowered(goal)), []).append(entry)
        possible: set[int] = set()
        while done:
            here = done.pop()
            if here in possible:
                continue
            possible.add(here)
            for entry in waiting.get(here, ()):
                entry[0] -= 1
                if entry[0] == 0:
                    done.append(entry[1])
        return possible


_ANYTHING = [Facts()]


def _key(goal: Goal) -> Hashable:
    return goal[0] if len(goal) == 1 else frozenset(goal)
