"""Goals that some finite value satisfies: a least fixpoint over "an object needs its required members".

Cost: linear in what the goals need.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Union

from narrows.grammar import ir
from narrows.grammar.json_schema.facts import Facts, Goal, Reason
from narrows.grammar.work import Work


@dataclass(frozen=True, slots=True)
class Enough:
    """So many of these must have a value. `ways`: how many each way counts, and what must all have one."""

    least: int
    ways: tuple[tuple[int, tuple[Need, ...]], ...]

    @staticmethod
    def any_of(goals: Iterable[Goal]) -> Enough:
        return Enough(1, tuple((1, (goal,)) for goal in goals))


Need = Union[Goal, Enough]


@dataclass(slots=True)
class Lowered:
    """The result of lowering a goal. `needs`: per alternative, the goals that must have a value for it to have one. The
    goal is productive if all goals of one list are."""

    goal: Goal
    node: ir.Node
    facts: list[Facts]
    reason: Reason | None
    needs: list[list[Need]]


def possible(
    goals: Iterable[Lowered], nothing: Mapping[int, Reason], lowered: Callable[[Goal], Lowered], work: Work
) -> set[int]:
    """The goals, by the id of their `Lowered`, that some finite value satisfies. `nothing`: by the id of an
    alternative's needs, why it has no value. `lowered`: what became of a goal."""
    waiting: dict[int, list[tuple[list[int], int]]] = {}  # goal or way -> [how much is open, whose], how much it counts
    done: list[int] = []
    todo: list[Enough] = []
    met: dict[int, Enough] = {}

    def wait(need: Need, entry: list[int]) -> None:
        if isinstance(need, Enough):
            if id(need) not in met:
                met[id(need)] = need
                todo.append(need)
            waiting.setdefault(id(need), []).append((entry, 1))
        else:
            waiting.setdefault(id(lowered(need)), []).append((entry, 1))

    def wait_for_all(needs: Iterable[Need], entry: list[int]) -> None:
        if not entry[0]:
            done.append(entry[1])
        for need in needs:
            wait(need, entry)

    for goal in goals:
        work.spend(1 + sum(map(len, goal.needs)) // 2)
        for needs in goal.needs:
            if id(needs) in nothing:
                continue
            if not needs:  # as mostly
                done.append(id(goal))
            else:
                wait_for_all(needs, [len(needs), id(goal)])
    ways = 0
    while todo:
        one = todo.pop()
        enough = [one.least, id(one)]
        for counts, all_of in one.ways:
            ways += 1
            work.spend(1 + len(all_of))
            waiting[-ways] = [(enough, counts)]
            wait_for_all(all_of, [len(all_of), -ways])
    found: set[int] = set()
    while done:
        here = done.pop()
        if here in found:
            continue
        found.add(here)
        for entry, counts in waiting.get(here, ()):
            entry[0] -= counts
            if entry[0] <= 0:
                done.append(entry[1])
    return found


def why_impossible(
    root: Lowered, possible: set[int], nothing: Mapping[int, Reason], lowered: Callable[[Goal], Lowered]
) -> Reason:
    """Why no value satisfies a goal: follows what is needed and has no value down to a reason."""
    seen = {id(root)}
    stack = [root]
    found: Reason | None = None
    while stack:
        here = stack.pop()
        if here.reason is not None and not here.needs:
            return here.reason
        for needs in here.needs:
            found = found or nothing.get(id(needs))
            for goal in _goals(needs):
                below = lowered(goal)
                if id(below) not in possible and id(below) not in seen:
                    seen.add(id(below))
                    stack.append(below)
    if found is not None:
        return found
    return Reason(root.goal[0].pointer if root.goal else "", "every value would have to be nested without end")


def _goals(needs: Iterable[Need]) -> Iterator[Goal]:
    todo = deque(needs)
    met: set[int] = set()
    while todo:
        need = todo.popleft()
        if not isinstance(need, Enough):
            yield need
        elif id(need) not in met:
            met.add(id(need))
            for _, all_of in need.ways:
                todo += all_of
