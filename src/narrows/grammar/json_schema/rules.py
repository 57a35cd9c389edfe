"""The rules that a schema becomes, in the making: their names, how many nodes they have, and what a family's `lower`
asks for.

A family writes the node of its own type and asks for the nodes of what lies inside (`Rules.node`). Who answers,
lower.py, gives a rule's name for every array and object and writes the rule later, so that nothing recurses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from narrows.grammar import ir
from narrows.grammar.json_schema.facts import Goal
from narrows.grammar.json_schema.goals import Goals
from narrows.grammar.json_schema.report import Status, over_limit
from narrows.grammar.json_schema.spelling.spelling import Spelling
from narrows.grammar.options import Whitespace
from narrows.grammar.productive import Requirement
from narrows.grammar.regular import Regular


class Rules(ABC):
    """The rules of one schema. Their names are the JSON pointers of their schemas after `prefix`."""

    def __init__(self, goals: Goals, spelling: Spelling, prefix: str, *, closed: bool = False) -> None:
        """`closed`: all is written in one spelling, and objects that have named keys have no others, so that what is
        written can be regular."""
        self.goals = goals
        self.spelling = spelling
        self.prefix = prefix
        self.closed = closed
        self.left_out: set[str] = set()
        """The rules of objects that have lost keys, because of `closed`."""
        self.containers: dict[str, bool] = {}
        """The rules that match an array or an object, and whether it is an object."""
        self.opaque: set[str] = set()
        """Those of them whose items differ. Where `closed` is set, they are written when all others are. Also rules of
        numbers that have more than one spelling."""
        self.compared: dict[Hashable, Any] = {}
        """Of families/unique_nested.py: items that are compared, by their goals."""
        self.productive: dict[str, bool] = {}
        """Of heads.py: whether a rule matches something."""
        self.guarded: list[Goal] = []
        """What values satisfy of which guards wait for one."""
        self.requirements: dict[str, Requirement] = {}
        """What must hold of rules for them to match something, besides that their parts do (productive.py)."""
        self.recounts: dict[str, Requirement] = {}
        """By rule: asks how many names its items have, now that all rules are there. True if they are fewer than it was
        written for: then `names_left` has them, and all is written anew."""
        self.names_left: dict[Hashable, frozenset[Hashable]] = {}
        """Of families/unique_nested.py: the heads of items after which a text can go on, where they are few."""
        self.notes: dict[str, Status] = {}
        """What is to be said in the report of keywords, once it is final."""
        self.omitted: dict[str, str] = {}
        """Keywords because of which alternatives are left out, and why: so nobody says that nothing satisfies them."""
        self.work = goals.work
        self.limits = goals.work.limits
        self.rules: dict[str, ir.Node] = {}
        self.sources: dict[str, str] = {}
        """Rule -> JSON pointer of what it comes from, for messages."""
        self.places: dict[int, str] = {}
        """id of a lexeme that intersects patterns -> JSON pointer of one of them."""
        self._taken: dict[str, int] = {}
        self._nodes = 0

    @abstractmethod
    def node(self, goal: Goal) -> ir.Node:
        """What matches any value of the goal; `ir.NEVER` where there plainly is none."""

    @abstractmethod
    def in_one_spelling(self, whitespace: Whitespace) -> Rules:
        """Rules of the same schema, with `closed`. Those that nothing here refers to are left out in the end.
        `whitespace`: one that leaves no choice."""

    @abstractmethod
    def written(self) -> Mapping[str, ir.Node]:
        """All rules, after those are written that can be by now."""

    @abstractmethod
    def in_order(self, keys: Sequence[str]) -> Sequence[str]:
        """These keys of an object in an order that all objects of `closed` rules share (one_spelling.py)."""

    @abstractmethod
    def after_bracket(self, node: ir.Node) -> ir.Node:
        """What follows the first byte of arrays, or of objects, that a node matches."""

    @property
    def regular(self) -> Regular:
        """Answers about regular nodes. All of a reading ask the same one, because what they ask is alike."""
        return Regular.of_reading(self.work)

    def under(self, pointer: str, reason: str) -> None:
        """Says in the report that less is allowed than by the keyword."""
        known = self.notes.get(pointer)
        if known is None:
            self.notes[pointer] = Status("under", reason)
        elif reason not in known.reason:
            self.notes[pointer] = Status("under", f"{known.reason}; {reason}")

    def leave_out(self, pointer: str, reason: str) -> None:
        """The same where all of an alternative is left out."""
        self.under(pointer, reason)
        self.omitted[pointer] = reason

    def clear(self) -> None:
        """No rule, no node."""
        self.rules.clear()
        self.sources.clear()
        self.places.clear()
        self.guarded.clear()
        self.left_out.clear()
        self.containers.clear()
        self.opaque.clear()
        self.compared.clear()
        self.productive.clear()
        self.requirements.clear()
        self.recounts.clear()
        self.notes.clear()
        self.omitted.clear()
        self._taken.clear()
        self._nodes = 0

    def rule(self, name: str, node: ir.Node) -> ir.Ref:
        """A rule of this name, or of one like it that is not taken."""
        name = self.fresh(name)
        self.rules[name] = node
        return ir.Ref(name)

    def fresh(self, name: str) -> str:
        """This name, or one like it that no rule has."""
        if name not in self.rules:
            return name
        k = self._taken.get(name, 1) + 1
        while f"{name}{k}" in self.rules:
            k += 1
        self._taken[name] = k
        return f"{name}{k}"

    def count(self, nodes: int) -> None:
        """Counts nodes of the grammar. Raises LimitError (`ir_nodes`)."""
        self._nodes += nodes
        if self._nodes > self.limits.ir_nodes:
            raise over_limit("ir_nodes", self.limits.ir_nodes, "the schema lowers to too large a grammar")
