"""Finds what leads to itself: the strongly connected components of a graph (Tarjan, SIAM J. Comput. 1, 1972).

Cost: linear. The stack is explicit.
"""

from __future__ import annotations

from collections.abc import Sequence


def loops(leads: Sequence[Sequence[int]]) -> list[int]:
    """leads: to which others each one leads. Returns a number for each: those with the same number lead to each other,
    by whatever way."""
    numbers = [-1] * len(leads)
    order = [-1] * len(leads)
    low = [0] * len(leads)
    """The first one in `order` that is known to be reached."""
    path: list[int] = []
    found = 0
    for root in range(len(leads)):
        todo = [(root, 0)] if order[root] < 0 else []
        while todo:
            one, edge = todo.pop()
            if not edge:
                order[one] = low[one] = found
                found += 1
                path.append(one)
            else:
                low[one] = min(low[one], low[leads[one][edge - 1]])
            while edge < len(leads[one]):
                other = leads[one][edge]
                edge += 1
                if order[other] < 0:
                    todo += [(one, edge), (other, 0)]
                    break
                if numbers[other] < 0:
                    low[one] = min(low[one], order[other])
            else:
                if low[one] == order[one]:
                    while True:
                        member = path.pop()
                        numbers[member] = one
                        if member == one:
                            break
    return numbers
