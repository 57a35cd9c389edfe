"""From goals to rules: where the grammar of a schema is put together.

A goal (schemas that hold together, see goals.py) becomes a node at its first use, and the node is kept. A scalar
becomes a lexeme at once. Each array or object becomes a rule, which allows recursion and sharing. Its members are
lowered later, from a list of work, so nothing recurses. At the end, finite.py finds the goals that no finite value
satisfies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence

from narrows.grammar import ir
from narrows.grammar.json_schema import check, finite
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.document import Document
from narrows.grammar.json_schema.facts import Facts, Goal, Reason
from narrows.grammar.json_schema.families import any_order, arrays, numbers, objects, strings, unique_items, values
from narrows.grammar.json_schema.finite import Lowered, Need
from narrows.grammar.json_schema.goals import Goals, key_of
from narrows.grammar.json_schema.keywords import KEYWORDS
from narrows.grammar.json_schema.one_spelling import WITHOUT_ZEROS, OneSpelling, Order, one_spelling
from narrows.grammar.json_schema.report import Reporter, unsatisfiable
from narrows.grammar.json_schema.rules import Rules
from narrows.grammar.json_schema.spelling import patterns
from narrows.grammar.json_schema.spelling.remainders import Automaton
from narrows.grammar.json_schema.spelling.spelling import Spelling
from narrows.grammar.options import Whitespace
from narrows.grammar.productive import matches_something, productive_rules
from narrows.grammar.reach import reached
from narrows.grammar.work import Work
from narrows.limits import Limits

_LIKELY = (b'""', b'"a"', b'" "', b'"0"', b'"aa"', b"0", b"1", b"0.5")
"""Texts that many nodes match that match anything: tried first, because a search for a text may be long."""


def _scalars_alone(alternatives: list[Facts]) -> int:
    """The types, if a goal says no more than that the value is a scalar of these types, as most do; else 0."""
    if len(alternatives) != 1:
        return 0
    facts = alternatives[0]
    return facts.types if not facts.types & (f.ARRAY | f.OBJECT) and facts.is_types_alone else 0


class Lowering(Rules):
    """The state of lowering one schema."""

    def __init__(
        self,
        document: Document,
        spelling: Spelling,
        reporter: Reporter,
        limits: Limits | Work,
        prefix: str,
        additional: str = "standard",
        *,
        closed: bool = False,
    ) -> None:
        goals = Goals(document, reporter, Work.of(limits), KEYWORDS, additional)
        goals.keeps_clauses = spelling.key_order == "declared"  # where keys come in order, it is known what came before
        super().__init__(goals, spelling, prefix, closed=closed)
        self.document = document
        self._roots = [document.root]
        self.reporter = reporter
        self._lowered_goals: dict[Hashable, Lowered] = {}
        self._of_types: dict[int, Lowered] = {}
        """By types of scalars: what goals become that say nothing else."""
        self._todo: deque[tuple[int, str, Facts, list[Need], Goal]] = deque()
        self._automata: dict[int, tuple[Automaton, ir.Ref]] = {}
        self._nothing: dict[int, Reason] = {}
        """By the id of an alternative's `needs`: why there is no such array or object."""
        self._in_one_spelling: dict[Whitespace, Lowering] = {}
        self._waiting: list[tuple[int, str, Facts, list[Need], Goal]] = []
        """Where `closed` is set: the arrays whose items differ."""
        self._tails: dict[str, str] = {}
        """Rules, and those of what follows their first byte."""
        self._order = Order(self.work)
        self._alternative_of: dict[str, Hashable] = {}
        """The rules of arrays, and which alternative of which goal each is."""
        self._dead: set[Hashable] = set()
        """Alternatives of which it was found out that nothing satisfies them: there are too few different items."""
        self._impossible: dict[Hashable, Reason] = {}
        """Goals that were found to be satisfied by nothing, and why. Where guards are written (`ir.Guard`) they have to
        be known before the objects are, lest a text ends where only such a key is left."""
        self.finds_nothing = spelling.key_order == "any"
        """Whether they are looked for."""
        self._unasked: list[ir.Node] = []
        """Nodes that may match nothing, of which that was not asked."""

    def hold_to_objects(self) -> None:
        """The whole value is an object, whatever the document says: the arguments of a call are."""
        facts = self.goals.read(self.document.root)
        if not facts.types & f.OBJECT:
            raise unsatisfiable(facts.types_at, "a call's arguments are an object, and this allows none")
        if facts.types != f.OBJECT:
            self._roots.append(self.document.derived("", Facts(types=f.OBJECT, types_at="/type")))

    def run(self) -> str:
        """Lowers the whole document; returns the name of its rule."""
        root = self.goals.goal(self._roots)
        start = self.prefix + "root"
        while True:
            self.rules[start] = ir.EMPTY  # takes its place at the front
            self.rules[start] = self.node(root)
            self.sources[start] = ""
            if not self._write_all():
                continue
            possible = self._possible()
            self._refuse_impossible(root, possible)
            if not self.finds_nothing:  # then the core leaves out what nothing satisfies
                if self._guards_will_pass():
                    break
                self.finds_nothing = True
                self._begin_anew()
                continue
            if not self._find_impossible(possible):
                break
            self._begin_anew()
        self._say()
        return start

    def complete(self) -> bool:
        """Writes all rules that the nodes refer to. False if something was found to match nothing, on which rules that
        are written depend: then there are no rules any more, and all nodes are asked for once more."""
        if not self._write_all():
            return False
        self._say()
        return True

    def _write_all(self) -> bool:
        self.drain()
        if self._in_one_spelling and not self._add_rules():
            self._begin_anew()
            return False
        return True

    def _say(self) -> None:
        for rules in (self, *self._in_one_spelling.values()):
            for pointer, status in rules.notes.items():
                self.reporter.note(pointer, status)

    def _find_impossible(self, possible: set[int]) -> bool:
        """Whether there are further goals that nothing satisfies: `self._impossible` has them now."""
        known = productive_rules(self.rules, self.work, self.requirements)
        impossible = [
            one
            for one in self._lowered_goals.values()
            if one.node is not ir.NEVER
            and (id(one) not in possible or not matches_something(one.node, self.rules, known, self.work))
        ]
        for one in impossible:
            nothing = Reason(one.goal[0].pointer if one.goal else "", "no value satisfies all that is said of it")
            self._impossible[key_of(one.goal)] = one.reason or nothing
        dead = self._dead_alternatives(known)
        self._dead |= dead
        return bool(impossible or dead)

    def _dead_alternatives(self, known: Collection[str]) -> set[Hashable]:
        """Those that the `known` rules, which match something, leave out. In one spelling, all of them: heads were made
        before such a rule was written, as if it matched something."""
        return {
            alternative
            for name, alternative in self._alternative_of.items()
            if name not in known
            and (self.closed or (name in self.requirements and self.rules.get(name) is not ir.NEVER))
        }

    def _begin_anew(self) -> None:
        self.clear()
        self._lowered_goals.clear()
        self._of_types.clear()
        self._automata.clear()
        self._nothing.clear()
        self._todo.clear()
        self._unasked.clear()
        self._alternative_of.clear()
        self._waiting.clear()
        self._tails.clear()
        self._order = Order(self.work)
        for one in self._in_one_spelling.values():
            one._begin_anew()

    def drain(self) -> None:
        """Lowers what the nodes that were asked for refer to."""
        while self._todo:
            todo = (
                self._todo.popleft() if self.closed else self._todo.pop()
            )  # the first branch says how keys are ordered
            if self.closed and todo[1] in self.opaque:
                self._waiting.append(todo)
            else:
                self._write(*todo)

    def _write(self, kind: int, name: str, facts: Facts, needs: list[Need], goal: Goal) -> None:
        self.work.pointer = self.sources[name]
        self.work.spend(8 + len(name) // 64)
        if kind == f.ARRAY:
            node = arrays.lower(self, facts, name, needs)
        else:
            node = objects.lower(self, facts, name, needs, goal)
        self.rules[name] = node
        if node is ir.NEVER:
            what = "array" if kind == f.ARRAY else "object"
            self._nothing[id(needs)] = Reason(self.sources[name], f"no {what} satisfies all that is said of it")

    def node(self, goal: Goal) -> ir.Node:
        """The node that matches any value of the goal; `ir.NEVER` if there is clearly none."""
        return self._lowered(goal).node

    # Rules in which all is written in one spelling.

    def in_one_spelling(self, whitespace: Whitespace) -> Lowering:
        if self.closed:
            return self
        one = self._in_one_spelling.get(whitespace)
        if one is None:
            one = self._in_one_spelling[whitespace] = Lowering(
                self.document,
                one_spelling(whitespace),
                self.reporter,
                self.work,
                f"{self.prefix}one/{whitespace}/",
                self.goals.additional,
                closed=True,
            )
        return one

    def written(self) -> Mapping[str, ir.Node]:
        pointer = self.work.pointer
        self.drain()
        self.work.pointer = pointer
        if not self.rules.keys() & self.spelling.any_rules().keys():
            self.rules.update(self.spelling.any_rules())
            self.containers.update({self.spelling.array.name: False, self.spelling.object.name: True})
        return self.rules

    def in_order(self, keys: Sequence[str]) -> Sequence[str]:
        return self._order.of(keys)

    def after_bracket(self, node: ir.Node) -> ir.Node:
        done: dict[int, ir.Node] = {}
        todo = [(node, False)]
        while todo:
            one, is_ready = todo.pop()
            if isinstance(one, ir.Ref):
                if one.name not in self._tails:
                    self._tails[one.name] = self.fresh(f"{one.name}~")
                    self.rules[self._tails[one.name]] = ir.NEVER
                    self.sources[self._tails[one.name]] = self.sources.get(one.name, "")
                done[id(one)] = ir.Ref(self._tails[one.name])
            elif isinstance(one, ir.Alt) and not is_ready:
                todo.append((one, True))
                todo += [(item, False) for item in one.items]
            elif isinstance(one, ir.Alt):
                done[id(one)] = ir.alt(*[done[id(item)] for item in one.items])
            elif isinstance(one, ir.Seq):
                first, *others = one.items
                assert isinstance(first, ir.Bytes)
                done[id(one)] = ir.seq(ir.Bytes(first.data[1:]), *others)
            else:
                assert isinstance(one, ir.Bytes)
                done[id(one)] = ir.Bytes(one.data[1:])
        return done[id(node)]

    def _finish(self) -> None:
        """Writes all rules, also those that wait for others."""
        self.written()
        while self._waiting:
            self._write(*self._waiting.pop())
            self.drain()
        finished: set[str] = set()
        while finished != self._tails.keys():
            for name, tail in [item for item in self._tails.items() if item[0] not in finished]:
                finished.add(name)
                self.rules[tail] = self.after_bracket(self.rules[name])
                for asked in (self.requirements, self.recounts):
                    if name in asked:
                        asked[tail] = asked[name]

    def _refuse_endless(self, names: Collection[str]) -> None:
        """Where several different items are asked for, and one may hold such an array again: the core looks for the
        shortest end of a text by what each part costs alone, and would not find an end."""
        if self.reporter.on_unsupported != "error":
            return
        for name in names:
            nodes = reached([self.rules[name]], self.rules, self.work)
            if any(isinstance(node, ir.Ref) and node.name == name for node in nodes):
                reason = "uniqueItems is not supported where two items or more are nested without end"
                self.reporter.unsupported(f"{self.sources.get(name, '')}/uniqueItems", reason)

    def _add_rules(self) -> bool:
        """Adds the rules of one spelling that are referred to. False where some of them match nothing, or fewer items
        than others were written for."""
        found: dict[str, ir.Node] = {}
        sources: dict[str, str] = {}
        for one in self._in_one_spelling.values():
            one._finish()
            if one._find_impossible(one._possible()):
                return False
            found.update(one.rules)
            sources.update(one.sources)
            self.places.update(one.places)
        for node in reached(list(self.rules.values()), {**found, **self.rules}, self.work):
            if isinstance(node, ir.Ref) and node.name in found and node.name not in self.rules:
                self.rules[node.name] = found[node.name]
                self.sources[node.name] = sources.get(node.name, "")
        for one in self._in_one_spelling.values():
            self.requirements.update(one.requirements)
            self.recounts.update(one.recounts)
        recounts = [recount for name, recount in self.recounts.items() if name in self.rules]
        if not recounts and not self.requirements.keys() & self.rules.keys():
            return True
        known = productive_rules(self.rules, self.work, self.requirements)
        are_fewer = True in [recount(self.rules, known) for recount in recounts]
        possible = self._possible()
        if not self._dead_alternatives(known) and all(
            matches_something(one.node, self.rules, known, self.work)
            for one in self._lowered_goals.values()
            if id(one) in possible
        ):
            if not are_fewer:
                self._refuse_endless(self.requirements.keys() & self.rules.keys())
            return not are_fewer  # what else matches nothing is left out by the core
        return not (self._find_impossible(possible) or are_fewer)

    def _lowered(self, goal: Goal) -> Lowered:
        key = key_of(goal)
        known = self._lowered_goals.get(key)
        if known is None:
            alternatives, reason = self.goals.explained(goal)
            self.work.spend(6 + 4 * len(alternatives))
            types = _scalars_alone(alternatives)
            known = self._of_types.get(types)
            if known is not None:
                self.count(1 + len(known.needs))
                self._lowered_goals[key] = known
                return known
            known = self._lowered_goals[key] = Lowered(goal, ir.NEVER, alternatives, reason, [])
            if types:
                self._of_types[types] = known
            if goal and key in self._impossible:
                known.reason = self._impossible[key]
            elif goal:
                known.node = self._alternation(known)
            else:
                known.node, known.needs = self.spelling.value, [[]]
        return known

    def _alternation(self, lowered: Lowered) -> ir.Node:
        base = self.prefix + (lowered.goal[0].pointer or "#")
        nodes: dict[int, ir.Node] = {}  # by id: a shared lexeme is added once
        options: list[bytes] = []  # of all enumerations together: an anyOf of many consts is one automaton
        for k, facts in enumerate(lowered.facts):
            for node in self._scalars(facts) if not facts.values else self._literals(facts, lowered, options):
                nodes[id(node)] = node
                lowered.needs.append([])
            for kind, constraints in ((f.ARRAY, facts.items), (f.OBJECT, facts.members)):
                if facts.types & kind and not facts.values:
                    needs: list[Need] = []
                    is_compared = kind == f.ARRAY and unique_items.compares(facts)
                    if is_compared and (key_of(lowered.goal), k) in self._dead:
                        nothing = Reason(lowered.goal[0].pointer, "no array satisfies all that is said of it")
                        self._nothing[id(needs)] = nothing
                        lowered.needs.append(needs)
                        continue
                    if constraints:
                        name = self.fresh(base + ("[]" if kind == f.ARRAY else "{}"))
                        self.rules[name] = ir.NEVER
                        self.sources[name] = lowered.goal[0].pointer
                        self.containers[name] = kind == f.OBJECT
                        if is_compared:
                            self.opaque.add(name)
                            self._alternative_of[name] = (key_of(lowered.goal), k)
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
        return self.rule(base + "|", ir.alt(*nodes.values()))  # a rule, so that it is not copied at each use

    def _scalars(self, facts: Facts) -> list[ir.Node]:
        nodes: list[ir.Node] = []
        if facts.types & f.STRING:
            node = strings.lower(facts.text, self.spelling, self.reporter, self.work)
            if facts.text is None or not self._is_never(node, facts.text.patterns):
                nodes.append(node)
            if facts.text is not None and facts.text.patterns:
                self.places[id(node)] = facts.text.patterns[-1].pointer
        if facts.types & f.NUMBER:
            number = self._number(facts)
            nothing = number is ir.NEVER or (isinstance(number, ir.Lexeme) and number.item is ir.NEVER)
            conditions = (number,) if self.closed else () if facts.range is None else facts.range.not_steps
            if facts.range is None or not (nothing or self._is_never(number, conditions)):
                nodes.append(number)
        if facts.types & f.BOOLEAN:
            nodes.append(self.spelling.boolean)
        if facts.types & f.NULL:
            nodes.append(self.spelling.null)
        return nodes

    def _number(self, facts: Facts) -> ir.Node:
        if isinstance(self.spelling, OneSpelling) and facts.range is None and facts.types & f.INTEGER:
            return self.spelling.number if facts.types & f.FRACTION else self.spelling.integer
        node = numbers.lower(facts.types, facts.range, self.reporter, self._rules_of, self.work)
        if not self.closed:
            return node
        options = node.items if isinstance(node, ir.Alt) else (node,)
        return ir.alt(
            *[
                ir.Lexeme(ir.And((one.item, WITHOUT_ZEROS))) if isinstance(one, ir.Lexeme) else one
                for one in options
                if not isinstance(one, ir.Lexeme) or one.item is not ir.NEVER
            ]
        )

    def _rules_of(self, states: Automaton) -> ir.Node:
        """A rule for each state; shared by all numbers with the same automaton."""
        if id(states) not in self._automata:
            total = sum(len(edges) for _, edges in states)
            self.count(12 * total)  # as much work for the core as so many nodes
            self.work.spend(2 * total)
            base = self.fresh(self.prefix + "multiples")
            refs = [ir.Ref(base if k == 0 else f"{base}/{k}") for k in range(len(states))]
            if self.closed:  # such numbers have more than one spelling
                self.opaque.update([ref.name for ref in refs])
            for ref, (ends, edges) in zip(refs, states, strict=True):
                steps = [ir.Seq((digits, refs[to])) for digits, to in edges]
                self.rules[ref.name] = ir.alt(*([ir.EMPTY] if ends else []), *steps)
            self._automata[id(states)] = (states, refs[0])  # the states are held so that their id is not reused
        return self._automata[id(states)][1]

    # Literal values.

    def _literals(self, facts: Facts, lowered: Lowered, scalars: list[bytes]) -> list[ir.Node]:
        """The options of an enumeration that satisfy all else: scalars are added to the list, the others come back as
        nodes. A pattern beside strings is left to the automaton."""
        held = facts.text.patterns if facts.text is not None else ()
        where = facts.values[0].pointer
        texts: list[bytes] = []
        before = len(scalars)
        nodes: list[ir.Node] = []
        for option in check.surviving(self.goals, facts):
            self.work.spend(1 if isinstance(option, (str, int)) else 6)
            if self.closed and not isinstance(option, str):
                whole = values.whole_text(option, self.spelling, self.in_order, where, self.work)
                if whole is not None and isinstance(option, (list, tuple, dict)):
                    nodes.append(ir.Bytes(whole))
                elif whole is not None:
                    scalars.append(whole)
                continue
            spelled = values.spell_scalar(option, self.spelling, where)
            if spelled is None:
                if self.spelling.key_order == "any":
                    nodes.append(any_order.literal(self, option, where))
                else:
                    nodes.append(values.literal_node(option, self.spelling, where, self.work))
            elif isinstance(option, str) and (held or self.spelling.strings_apart):
                texts += spelled
            else:
                scalars += spelled
        self.count(len(scalars) - before + len(texts) + len(nodes))
        if texts:
            bodies = patterns.bodies(held, self.spelling.escapes, self.reporter, self.work)
            parts = (ir.Literals(tuple(texts)), *(self.spelling.quoted(body) for body in bodies))
            node = self.spelling.whole(ir.And(parts) if bodies else parts[0])
            if not self._is_never(node, held):
                nodes.insert(0, node)
        if not nodes and len(scalars) == before and lowered.reason is None:
            lowered.reason = Reason(where, "none of these values satisfies what stands beside them")
        return nodes

    # Values that cannot be finite.

    def _is_never(self, node: ir.Node, conditions: Collection[object]) -> bool:
        """Whether conditions, such as patterns, exclude each other. The core finds that out, too, but guards need it
        here, and so do items that are compared, whose number may depend on it."""
        if not conditions:
            return False
        if not self.finds_nothing and not self.closed:
            self._unasked.append(node)
            return False
        return self._matches_nothing(node)

    def _guards_will_pass(self) -> bool:
        """Whether there are values of all that guards wait for. What lies in these values has some, too."""
        if not self.guarded:
            return True
        wanted = [self.node(goal) for goal in dict.fromkeys(self.guarded) if not self._has_scalar(goal)]
        unasked = set(map(id, self._unasked))
        below: dict[str, ir.Node] = {}
        for node in reached(wanted, self.rules, self.work):
            if id(node) in unasked and self._matches_nothing(node):
                return False
            if isinstance(node, ir.Ref) and node.name in self.rules:
                below[node.name] = self.rules[node.name]
        known = productive_rules(below, self.work)
        return all(matches_something(node, below, known, self.work) for node in wanted)

    def _has_scalar(self, goal: Goal) -> bool:
        """Whether something plainly satisfies a goal: a scalar, or anything of some type."""
        node = self.node(goal)
        unasked = set(map(id, self._unasked))
        for one in node.items if isinstance(node, ir.Alt) else (node,):
            if one in (self.spelling.value, self.spelling.object, self.spelling.array):
                return True
            if isinstance(one, ir.Lexeme) and id(one) not in unasked and one.item is not ir.NEVER:
                return True
        return False

    def _matches_nothing(self, node: ir.Node) -> bool:
        options = node.items if isinstance(node, ir.Alt) else (node,)
        regular = self.regular
        for option in options:
            if not isinstance(option, ir.Lexeme):
                return False
            term = regular.of(option)
            if any(regular.matches(term, text) for text in _LIKELY) or not regular.is_never(term):
                return False
        return True

    def _refuse_impossible(self, root: Goal, possible: set[int]) -> None:
        lowered = self._lowered(root)
        if id(lowered) in possible:
            return
        for pointer, reason in self.omitted.items():
            self.reporter.unsupported(pointer, f"nothing is left: {reason}")
        why = finite.why_impossible(lowered, possible, self._nothing, self._lowered)
        raise unsatisfiable(why.pointer, why.message)

    def _possible(self) -> set[int]:
        return finite.possible(self._lowered_goals.values(), self._nothing, self._lowered, self.work)
