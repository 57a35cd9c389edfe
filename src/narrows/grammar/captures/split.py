"""Cuts a text into a body and an end, where the body is as long as it can be. If that cannot be done, there is no
end."""

from __future__ import annotations

from narrows.grammar.captures.work import Terminals
from narrows.grammar.regular import NEVER
from narrows.grammar.work import Work


def split(text: bytes, body: int, end: int, terminals: Terminals, work: Work) -> int:
    """Where the end begins. `body` and `end` are states of `terminals`.

    Cost: linear in the text, times the states of the end that are open at once. Of two that are equal, the one that
    began later counts."""
    began: dict[int, int] = {}  # state of the end -> the last place at which it began
    for place in range(len(text) + 1):
        if body != NEVER and terminals.ends(body):
            began[end] = place
        if place == len(text):
            break
        byte = text[place]
        work.spend(1 + len(began))
        after: dict[int, int] = {}
        for state, start in began.items():
            following = terminals.after(state, byte)
            if following != NEVER:
                after[following] = max(start, after.get(following, start))
        began = after
        body = terminals.after(body, byte) if body != NEVER else NEVER
    return max([start for state, start in began.items() if terminals.ends(state)], default=len(text))
