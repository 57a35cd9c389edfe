"""The rules of a module as networks: states, and moves from one to the next that read a terminal, a token or a rule.

A state's moves stand in the order in which a reading tries them: alternatives as they are written, another iteration
before the end of a repetition. What no text completes is left out. Counts of repetitions are written out.

Cost: linear in the nodes of the rules that are reached, with counts written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from narrows.errors import UnsupportedError
from narrows.grammar import ir
from narrows.grammar.captures.loops import loops
from narrows.grammar.captures.work import Terminals
from narrows.grammar.flatten import TokenFacts
from narrows.grammar.fuse import children, is_leaf
from narrows.grammar.regular import EMPTY, NEVER
from narrows.grammar.work import Work


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Reads a terminal."""

    first: int
    """A state of `Terminals`."""


@dataclass(frozen=True, slots=True, eq=False)
class OneName:
    """Reads a name that has not been read in this run of the rule (`ir.Distinct`)."""

    first: int
    node: ir.Distinct


@dataclass(frozen=True, slots=True, eq=False)
class Token:
    """Reads one token, whatever its bytes."""

    ids: frozenset[int]
    negate: bool


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """Reads what a rule reads."""

    number: int
    capture: ir.Capture | None
    is_ignored: bool


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """Reads nothing (`ir.Guard`)."""

    node: ir.Guard


@dataclass(frozen=True, slots=True, eq=False)
class End:
    """The end of the rule."""


Reads = Union[Text, OneName, Token, Rule, Check, End]
Move = tuple[Reads, int]
"""What is read, and the state after it."""
_END = End()


class Network:
    """`moves[state]`, `first[rule]`, and what is known of rules by their numbers. Rule 0 is the one to start from."""

    def __init__(self, module: ir.Module, terminals: Terminals, work: Work, facts: TokenFacts | None) -> None:
        """facts: those of the vocabulary, if the text consists of tokens."""
        self._module = module
        self._terminals = terminals
        self._work = work
        self._facts = facts
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._steps: list[list[int]] = []
        """State -> states that are reached without reading, in order."""
        self._reads: list[Reads | None] = []
        """State -> what is read there; the state after it is the only one in `_steps`."""
        self._states_of: list[range] = []
        self.first: list[int] = []
        self._rule(module.start)
        done = 0
        while done < len(self._names):
            self._add_rule(done)
            done += 1
        self._dead = self._dead_states()
        self.moves: list[tuple[Move, ...]] = [()] * len(self._steps)
        self._set_moves()
        self.empty_rank = [0] * len(self.first)
        """Above 0 for a rule that may read nothing. It can do so by rules of smaller ranks alone."""
        self._set_empty_ranks()
        self.rule_loop = self._rule_loops()
        """Rules with the same number may read a text by way of each other, and nothing else."""
        self.state_loop = self._state_loops()
        """States with the same number lead to each other without text."""

    def _rule(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
        return number

    def _state(self) -> int:
        self._work.spend(1)
        self._steps.append([])
        self._reads.append(None)
        return len(self._steps) - 1

    # Building.

    def _add_rule(self, number: int) -> None:
        begin = len(self._steps)
        first, last = self._state(), self._state()
        self.first.append(first)
        self._reads[last] = _END
        body = self._module.rules[self._names[number]]
        regular = self._regular_parts(body)
        todo: list[tuple[ir.Node, int, int]] = [(body, first, last)]
        while todo:
            node, start, end = todo.pop()
            if id(node) in regular or not isinstance(node, (ir.Seq, ir.Alt, ir.Repeat)):
                self._leaf(node, start, end)
            elif isinstance(node, ir.Seq):
                for item in node.items[:-1]:
                    middle = self._state()
                    todo.append((item, start, middle))
                    start = middle
                if node.items:
                    todo.append((node.items[-1], start, end))
                else:
                    self._steps[start].append(end)
            elif isinstance(node, ir.Alt):
                for item in node.items:
                    branch = self._state()
                    self._steps[start].append(branch)
                    todo.append((item, branch, end))
            else:
                self._repeat(node, start, end, todo)
        self._states_of.append(range(begin, len(self._steps)))

    def _repeat(self, node: ir.Repeat, start: int, end: int, todo: list[tuple[ir.Node, int, int]]) -> None:
        if node.max is not None and node.max < node.min:
            return
        self._work.spend(4 * (node.min if node.max is None else node.max))
        for _ in range(node.min):
            middle = self._state()
            todo.append((node.item, start, middle))
            start = middle
        if node.max is None:
            again, behind = self._state(), self._state()
            self._steps[start].append(again)
            self._steps[again] += [behind, end]
            # A state that reads has one state after it, so the item gets a state of its own.
            todo.append((node.item, behind, again))
            return
        for _ in range(node.max - node.min):
            item, behind = self._state(), self._state()
            self._steps[start] += [item, end]
            todo.append((node.item, item, behind))
            start = behind
        self._steps[start].append(end)

    def _leaf(self, node: ir.Node, start: int, end: int) -> None:
        reads = self._read_by(node)
        if reads is None:
            return
        if isinstance(reads, Text) and reads.first == EMPTY:
            self._steps[start].append(end)
            return
        here = self._state()
        self._steps[start].append(here)
        self._reads[here] = reads
        self._steps[here].append(end)

    def _read_by(self, node: ir.Node) -> Reads | None:
        """None if nothing matches."""
        if isinstance(node, ir.Ref):
            return Rule(self._rule(node.name), node.capture, node.is_ignored)
        if isinstance(node, ir.Marker):
            token = self._facts.special.get(node.text) if self._facts else None
            if token is not None:
                return Token(frozenset((token,)), False)
            node = ir.Bytes(node.text.encode())
        if isinstance(node, ir.Token):
            return self._token(node)
        if isinstance(node, ir.Guard):
            return Check(node)
        if isinstance(node, ir.Distinct):
            first = self._terminals.of(node.item)
            return None if first == NEVER else OneName(first, node)
        first = self._terminals.of(node.item if isinstance(node, ir.Counted) else node)  # the text is given
        return None if first == NEVER else Text(first)

    def _token(self, node: ir.Token) -> Token | None:
        if self._facts is None:
            raise UnsupportedError(
                "the grammar names tokens, and a text does not tell which tokens it consists of",
                code="captures_unsupported",
                hint="Ask a matcher that has accepted the tokens: matcher.captures()",
            )
        named = [self._facts.special.get(name, self._facts.names.get(name, -1)) for name in node.names]
        ids = frozenset((*node.ids, *named))
        if not node.negate:
            return Token(ids, False) if ids else None
        return Token(ids | frozenset(self._facts.end_tokens), True)

    def _regular_parts(self, root: ir.Node) -> set[int]:
        """The ids of nodes that are read as one terminal. Where terminals are cut by the longest match, none but what
        is a terminal already."""
        found: set[int] = set()
        done: set[int] = set()
        todo: list[tuple[ir.Node, bool]] = [(root, False)]
        while todo:
            node, is_ready = todo.pop()
            if id(node) in done:
                continue
            if isinstance(node, (ir.Lexeme, ir.And, ir.Not)) or is_leaf(node):
                done.add(id(node))
                if not isinstance(node, (ir.Lexeme, ir.Substrings)):  # as in fuse.py
                    found.add(id(node))
                continue
            inner = children(node) if isinstance(node, (ir.Seq, ir.Alt, ir.Repeat)) else ()
            if inner and not is_ready:
                todo.append((node, True))
                todo += [(child, False) for child in inner]
                continue
            self._work.spend(1)
            done.add(id(node))
            if inner and not self._module.longest and all(id(child) in found for child in inner):
                found.add(id(node))
        return found

    # What leads to the end of a rule.

    def _dead_states(self) -> set[int]:
        """States from which no text leads to the end of their rule."""
        dead = set(range(len(self._steps)))
        before: dict[int, list[int]] = {}
        waiting: dict[int, list[int]] = {}
        """Rule -> states that read it."""
        for state, steps in enumerate(self._steps):
            self._work.spend(1)
            for after in steps:
                before.setdefault(after, []).append(state)
            reads = self._reads[state]
            if isinstance(reads, Rule):
                waiting.setdefault(reads.number, []).append(state)
        firsts = {first: number for number, first in enumerate(self.first)}
        todo = [states[1] for states in self._states_of]  # the end of each rule
        while todo:
            state = todo.pop()
            if state not in dead:
                continue
            reads = self._reads[state]
            if isinstance(reads, Rule) and self.first[reads.number] in dead:
                continue  # it is looked at again when the rule is known to match
            dead.discard(state)
            todo += before.get(state, ())
            if state in firsts:
                ready = waiting.get(firsts[state], ())
                todo += [one for one in ready if self._steps[one][0] not in dead]
        return dead

    def _set_moves(self) -> None:
        """For the states that a rule begins in, and those after something was read."""
        wanted = [*self.first]
        wanted += [self._steps[state][0] for state, reads in enumerate(self._reads) if reads and reads is not _END]
        for state in dict.fromkeys(wanted):
            self.moves[state] = self._moves_of(state)

    def _moves_of(self, root: int) -> tuple[Move, ...]:
        found: list[Move] = []
        seen: set[int] = set()
        todo = [root]
        while todo:
            state = todo.pop()
            if state in seen or state in self._dead:
                continue
            seen.add(state)
            self._work.spend(1)
            reads = self._reads[state]
            if reads is None:
                todo += reversed(self._steps[state])
            else:
                found.append((reads, state if reads is _END else self._steps[state][0]))
        return tuple(found)

    # What may read nothing, and what may read nothing but itself.

    def reads_nothing(self, reads: Reads) -> bool:
        """Whether a move may read the empty text."""
        if isinstance(reads, Text):
            return self._terminals.ends(reads.first)
        return isinstance(reads, Rule) and self.empty_rank[reads.number] > 0

    def turns_empty(self, rule: int, reads: Reads) -> bool:
        """Whether a rule that reads nothing must not do so by this move, which could lead back. There is a way without
        such moves."""
        if not isinstance(reads, Rule) or self.rule_loop[rule] != self.rule_loop[reads.number]:
            return False
        return self.empty_rank[reads.number] >= self.empty_rank[rule]

    def _set_empty_ranks(self) -> None:
        users: dict[int, list[int]] = {}
        for number, states in enumerate(self._states_of):
            for state in states:
                reads = self._reads[state]
                if isinstance(reads, Rule):
                    users.setdefault(reads.number, []).append(number)
        found = 0
        todo = list(range(len(self.first)))
        while todo:
            rule = todo.pop()
            if self.empty_rank[rule]:
                continue
            if any(isinstance(reads, End) for reads, _ in self._without_text(self.first[rule])):
                found += 1
                self.empty_rank[rule] = found
                todo += users.get(rule, ())

    def _without_text(self, first: int) -> list[Move]:
        """The moves of the states that are reached from this one without reading."""
        found: list[Move] = []
        seen, todo = {first}, [first]
        while todo:
            state = todo.pop()
            self._work.spend(1 + len(self.moves[state]))
            for reads, after in self.moves[state]:
                found.append((reads, after))
                if after not in seen and self.reads_nothing(reads):
                    seen.add(after)
                    todo.append(after)
        return found

    def _rule_loops(self) -> list[int]:
        """Each rule leads to those that may read all of its text."""
        leads: list[list[int]] = []
        for first in self.first:
            over: dict[int, None] = {}
            for reads, after in self._without_text(first):
                if isinstance(reads, Rule) and reads.number not in over:
                    rest = self._without_text(after)
                    if any(isinstance(last, End) for last, _ in rest):
                        over[reads.number] = None
            leads.append(list(over))
        return loops(leads)

    def _state_loops(self) -> list[int]:
        """Each state leads to those behind it without text."""
        return loops(
            [
                [after for reads, after in moves if isinstance(reads, Check) or self.reads_nothing(reads)]
                for moves in self.moves
            ]
        )
