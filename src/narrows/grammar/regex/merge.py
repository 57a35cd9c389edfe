"""States of a graph that read the same are one.

States are told apart by their exits first, and then by what they read on the way to states that are told apart
(partition refinement, Moore 1956). Only states that read the way to one with a new number are looked at again.

Cost: some microseconds for each edge of a state that is looked at. In a count (`[a-z]{1,63}`) that is each state a few
times; in the worst case, each state as often as there are states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from narrows.grammar.work import Work

State = TypeVar("State", bound=Hashable)
Label = tuple[int, ...]
"""What an edge reads: the classes of characters, as bits, and the ids of plain parts."""


def merged(
    starts: Iterable[State],
    edges: Mapping[State, Mapping[State, Label]],
    ends: Mapping[State, Iterable[Hashable]],
    work: Work,
) -> dict[State, int]:
    """A number for each state from which an exit is reached, and for the starts: the same for states that read the
    same. `ends`: the exits of each state."""
    users: dict[State, list[State]] = {}
    for state, row in edges.items():
        for to in row:
            users.setdefault(to, []).append(state)
    useful = _reaching([state for state in edges if ends[state]], users)
    useful.update(starts)
    inside = [state for state in edges if state in useful]
    by_exits: dict[Hashable, int] = {}
    numbers = {state: by_exits.setdefault(frozenset(ends[state]), len(by_exits)) for state in inside}
    count = len(by_exits)
    again = inside
    while again:
        alike: dict[int, dict[Hashable, list[State]]] = {}
        for state in again:
            work.spend(1 + len(edges[state]))
            alike.setdefault(numbers[state], {}).setdefault(_reads(edges[state], numbers), []).append(state)
        sizes = Counter(numbers.values())
        changed: list[State] = []
        for number, groups in alike.items():
            parts = sorted(groups.values(), key=len)
            if sum(map(len, parts)) == sizes[number]:
                parts.pop()  # the largest keeps the number, unless states that are not looked at do
            for part in parts:
                numbers.update(dict.fromkeys(part, count))
                count += 1
                changed += part
        again = list(dict.fromkeys(user for to in changed for user in users.get(to, ()) if user in numbers))
    final: dict[int, int] = {}
    return {state: final.setdefault(numbers[state], len(final)) for state in inside}


def _reaching(ends: list[State], users: Mapping[State, list[State]]) -> set[State]:
    """The states from which one of these is reached."""
    found, todo = set(ends), ends
    while todo:
        for user in users.get(todo.pop(), ()):
            if user not in found:
                found.add(user)
                todo.append(user)
    return found


def _reads(row: Mapping[State, Label], numbers: Mapping[State, int]) -> Hashable:
    """What a state reads on the way to the states of each number."""
    characters: dict[int, int] = {}
    parts: set[tuple[int, int]] = set()
    for to, label in row.items():
        number = numbers.get(to)
        if number is not None:
            characters[number] = characters.get(number, 0) | label[0]
            if len(label) > 1:
                parts.update([(number, part) for part in label[1:]])
    return frozenset(characters.items()), frozenset(parts)
