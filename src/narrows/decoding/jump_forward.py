"""Jump forward: tokens that the grammar forces go to the model without a draw, several in one decode.

A run is what must come next: forced text, cut as the tokenizer would cut it (`Matcher.forced_tokens`), and control
tokens that alone are allowed, such as the marker that opens a tool call. Text at the end of a run that a longer token
could cover is left to the model. If the tokenizer would cut the tokens before the run in another way, there is no run.

A run depends only on the matcher's state and on the last tokens. So it is found once, and remembered for all sequences
of the constraint. Where nothing is forced, as inside a string, the state alone tells it. A known run costs a few
microseconds. To find one costs some hundred, most of it the tokenizer.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narrows.constraint import Constraint, Matcher

_MOST_TOKENS = 64
"""Most tokens of a run. What is forced after it is the next run."""
_MOST_KNOWN = 4_096
"""Most runs, and most states without one, that are remembered for a constraint. Then all are forgotten."""
_CONTEXT = 8
"""Last tokens that decide how the tokenizer cuts the text after them."""

Run = tuple[int, ...]
_Key = tuple[int, ...]


class JumpForward:
    """The runs of all constraints of one tokenizer. `encode`: the tokenizer's own, without special tokens. It may be
    called from any thread."""

    def __init__(self, encode: Callable[[str], Sequence[int]]) -> None:
        self._encode = encode
        self._known: weakref.WeakKeyDictionary[Constraint, dict[_Key, Run]] = weakref.WeakKeyDictionary()
        self._free: weakref.WeakKeyDictionary[Constraint, set[int]] = weakref.WeakKeyDictionary()
        """States that force nothing, whatever the last tokens are."""

    def known(self, matcher: Matcher) -> Run | None:
        """The run at the matcher's place if it was found before. Never waits."""
        if matcher.state_key in self._free.get(matcher.constraint, ()):
            return ()
        runs = self._known.get(matcher.constraint)
        return None if runs is None else runs.get(_key(matcher))

    def follow(self, matcher: Matcher) -> Run:
        """Find the run at the matcher's place, remember it, and accept its tokens."""
        if self.known(matcher) == ():
            return ()
        if not matcher.forced_bytes() and not _only_control_token(matcher):
            free = self._free.setdefault(matcher.constraint, set())
            if len(free) >= _MOST_KNOWN:
                free.clear()
            free.add(matcher.state_key)
            return ()
        key = _key(matcher)
        run: list[int] = []
        while len(run) < _MOST_TOKENS and not matcher.is_finished:
            forced = matcher.forced_tokens(self._encode) or _only_control_token(matcher)
            if not forced:
                break
            for token in forced[: _MOST_TOKENS - len(run)]:
                if not matcher.accept(token):  # it is forced, so this does not happen
                    break
                run.append(token)
        runs = self._known.setdefault(matcher.constraint, {})
        if len(runs) >= _MOST_KNOWN:
            runs.clear()
        runs[key] = tuple(run)
        return tuple(run)

    def look_ahead(self, matcher: Matcher, tokens: Sequence[int]) -> None:
        """Find the runs after each of these tokens, and remember them. The matcher does not move."""
        accepted = 0
        for token in tokens:
            if not matcher.accept(token):
                break
            accepted += 1
            if self.known(matcher) is None:
                matcher.rollback(len(self.follow(matcher)))
        matcher.rollback(accepted)


def _key(matcher: Matcher) -> _Key:
    return (matcher.state_key, *matcher.history(_CONTEXT))


def _only_control_token(matcher: Matcher) -> list[int]:
    """The token that alone is allowed, if it is a control token and does not end the text."""
    token = matcher.only_token()
    return [] if token is None or token in matcher.constraint.vocabulary.eos_ids else [token]
