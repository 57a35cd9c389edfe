"""Free text: any text without certain strings, and free text that switches into other grammars and back.

A run of free text is one lexeme. It ends where a *stop* begins: a trigger, or what must follow the run. There is one
rule for what a run may hold:

    No banned string begins in the run and is complete when the stop after the run is.

All triggers are banned, and the strings that the caller excludes. So a trigger in free text always switches, at the
first place where one is complete. Of two that are complete at the same place, the one that begins first counts. The
beginning of a trigger is text, also at the end of a run. If triggers are beginnings of one another (`<a`, `<ab`), the
text behind the shorter one may go on as either.

Cost: some 2 us per byte of the strings. The automaton of a run has about one state per byte of them, made when it is
reached. Nothing recurses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrows.arguments import quoted
from narrows.errors import InputError
from narrows.grammar import ir, utf8
from narrows.grammar.embed import embedded
from narrows.grammar.spelled import spelled
from narrows.grammar.work import Work

ANYTHING = ir.Repeat(ir.ANY_BYTE)
"""Any bytes, as a regular node."""
TEXT = ir.Repeat(utf8.node(utf8.ANY))
"""Any text, as a regular node."""


def without(text: ir.Node, *banned: ir.Node) -> ir.Node:
    """Texts of `text` that match none of `banned`: regular."""
    return ir.And((text, *(ir.Not(b) for b in banned))) if banned else text


def containing(literals: Iterable[str]) -> ir.Node:
    """Any bytes with one of these somewhere."""
    return ir.Seq((ANYTHING, _one_of(literal.encode() for literal in literals), ANYTHING))


def ending(literals: Iterable[str]) -> ir.Node:
    """Any bytes that end with one of these."""
    return ir.Seq((ANYTHING, _one_of(literal.encode() for literal in literals)))


def _one_of(literals: Iterable[bytes]) -> ir.Node:
    return ir.Literals(tuple(sorted(set(literals))))


def run(banned: Collection[bytes], endings: Collection[bytes] = (), text: ir.Node = TEXT) -> ir.Lexeme:
    """Free text that holds none of `banned` and ends with none of `endings`, as a lexeme. `text`: a regular node for
    what it may be at most."""
    parts: list[ir.Node] = []
    if banned:
        parts.append(ir.Seq((ANYTHING, _one_of(banned), ANYTHING)))
    if endings:
        parts.append(ir.Seq((ANYTHING, _one_of(endings))))
    return ir.Lexeme(without(text, *parts))


def endings_before(stops: Sequence[bytes], banned: Iterable[bytes], work: Work) -> list[frozenset[bytes]]:
    """For each stop, the endings that the run before it must not have: with the stop behind it, a banned string would
    be complete no later than the stop.

    A banned string `p + q` is so if `q` is a beginning of the stop, or all of it. Found with an Aho-Corasick automaton
    of the stops (A. Aho, M. Corasick, CACM 18, 1975)."""
    automaton = _Automaton(stops, work)
    for string in set(banned):
        automaton.read(string, work)
    return [automaton.found_along(stop, work) for stop in stops]


class _Automaton:
    """A trie of strings, whose nodes know the longest proper suffix that is a node, too."""

    def __init__(self, strings: Iterable[bytes], work: Work) -> None:
        self._children: dict[tuple[int, int], int] = {}
        self._depths = [0]
        self._found: dict[int, set[bytes]] = {}
        """Node -> what stands before it in a string that ends with it."""
        parents: list[tuple[int, int]] = [(0, 0)]
        for string in strings:
            work.spend(1 + 2 * len(string))
            node = 0
            for byte in string:
                child = self._children.get((node, byte))
                if child is None:
                    child = self._children[node, byte] = len(parents)
                    parents.append((node, byte))
                    self._depths.append(self._depths[node] + 1)
                node = child
        self._suffix = [0] * len(parents)
        for node in sorted(range(1, len(parents)), key=self._depths.__getitem__):
            parent, byte = parents[node]
            if parent:
                self._suffix[node] = self._step(self._suffix[parent], byte)

    def _step(self, node: int, byte: int) -> int:
        """The node of the longest suffix after one more byte."""
        while node and (node, byte) not in self._children:
            node = self._suffix[node]
        return self._children.get((node, byte), 0)

    def read(self, string: bytes, work: Work) -> None:
        """Notes at each node that is a proper suffix of the string what stands before it."""
        work.spend(1 + 2 * len(string))
        node = 0
        for byte in string:
            node = self._step(node, byte)
        if self._depths[node] == len(string):
            node = self._suffix[node]
        while node:
            before = string[: len(string) - self._depths[node]]
            work.spend(1 + len(before) // 16)
            self._found.setdefault(node, set()).add(before)
            node = self._suffix[node]

    def found_along(self, string: bytes, work: Work) -> frozenset[bytes]:
        """What was noted at the nodes of this string's beginnings. The string is one of the trie's."""
        if not self._found:
            return frozenset()
        found: set[bytes] = set()
        node = 0
        for byte in string:
            node = self._children[node, byte]
            here = self._found.get(node)
            if here:
                work.spend(len(here))
                found |= here
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class Switch:
    """A trigger in free text, and what follows there."""

    trigger: bytes
    node: ir.Node
    """The text from the trigger on, which it begins with."""


def switching(
    switches: Sequence[Switch],
    excluded: Iterable[bytes],
    work: Work,
    *,
    before: bytes = b"",
    stop_after_first: bool = False,
    at_least_one: bool = False,
) -> ir.Node:
    """Free text that switches into the nodes at their triggers, and back after them.

    before: the stop after the whole, if one is known. The last run is then right before it.
    stop_after_first: nothing follows the first node.
    at_least_one: there is a trigger.

    Raises LimitError (`reading_work`).
    """
    banned = {*(switch.trigger for switch in switches), *excluded}
    work.spend(len(banned))
    groups: dict[frozenset[bytes], list[ir.Node]] = {}
    endings = endings_before([switch.trigger for switch in switches], banned, work)
    for switch, before_it in zip(switches, endings, strict=True):
        groups.setdefault(before_it, []).append(switch.node)
    at_end = endings_before([before], banned, work)[0] if before else frozenset()
    last = run(banned, at_end)
    if not at_end and list(groups) == [frozenset()]:  # as mostly: all runs are the same lexeme
        nodes = ir.alt(*groups[at_end])
        if stop_after_first:
            return ir.seq(last, nodes if at_least_one else ir.optional(nodes))
        return ir.seq(last, ir.Repeat(ir.seq(nodes, last), int(at_least_one)))
    some = ir.alt(*[ir.seq(run(banned, before_it), ir.alt(*nodes)) for before_it, nodes in groups.items()])
    if stop_after_first:
        return some if at_least_one else ir.alt(some, last)
    return ir.seq(ir.Repeat(some, int(at_least_one)), last)


def switching_module(
    switches: Mapping[str, tuple[ir.Module, Mapping[str, Any]]],
    excludes: Sequence[str],
    work: Work,
    *,
    stop_after_first: bool,
    at_least_one: bool,
) -> tuple[ir.Module, dict[str, Any]]:
    """Free text that switches into whole grammars: trigger -> (the grammar of what follows it, its report). Returns the
    grammar and its report, whose pointers begin with `/` and the trigger.

    Raises InputError `trigger_invalid`, and LimitError (`reading_work`)."""
    rules: dict[str, ir.Node] = {"root": ir.EMPTY}
    sources: dict[str, str] = {"root": ""}
    places: dict[int, str] = {}
    reports: dict[str, Any] = {}
    nodes: list[Switch] = []
    for number, (trigger, (module, report)) in enumerate(switches.items()):
        at = "/" + trigger.replace("~", "~0").replace("/", "~1")
        inner, start, their_sources = embedded(module, f"{number}/")
        work.spend(len(inner))
        rules.update(inner)
        sources.update(
            {name: at + (source if source.startswith("/") else "") for name, source in their_sources.items()}
        )
        places.update({lexeme: at + place for lexeme, place in module.places.items()})
        reports.update({at + pointer: status for pointer, status in report.items()})
        nodes.append(Switch(_checked(trigger), ir.seq(spelled(trigger), start)))
    rules["root"] = switching(
        nodes, map(_checked, excludes), work, stop_after_first=stop_after_first, at_least_one=at_least_one
    )
    is_marked = all(module.marked for module, _ in switches.values())
    return ir.Module(rules, sources=sources, places=places, marked=is_marked), reports


def _checked(text: str) -> bytes:
    """A trigger or an excluded string in UTF-8."""
    if not isinstance(text, str) or not text:
        raise InputError("a trigger or an excluded string is a str that is not empty", code="trigger_invalid")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{quoted(text)} holds a lone surrogate", code="trigger_invalid") from None
