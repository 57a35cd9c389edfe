"""Text that must come next, as tokens that leave the model its usual ones.

The forced bytes are written by the tokenizer, after the last token of the text. Then tokens are cut off at the end as
long as the model might write them otherwise: where a token of the vocabulary goes beyond the forced bytes and fits the
grammar. llguidance documents this in its docs/fast_forward.md.

Cost: where nothing is forced, a microsecond. Otherwise a call of the tokenizer, and a few microseconds for each token
that is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from narrows.compat.llguidance.encoders import Encode, encode_marked
from narrows.compat.llguidance.token_table import SPECIAL, TokenTable, marked
from narrows.constraint import Matcher

_MOST_BYTES = 65_536
_LOOKED_BACK = 4
"""Tokens at the end of the forced text that may be written otherwise."""


def forced_run(matcher: Matcher, table: TokenTable, *, has_tokens: bool) -> tuple[bytes, Matcher | None]:
    """What must come next, with special tokens as marks, and a matcher after it. b"" and None for nothing.

    `has_tokens`: the grammar names tokens, so that one of them may be what must come."""
    run = matcher.forced_bytes(_MOST_BYTES)
    if not run and not has_tokens:
        return b"", None
    after = matcher.fork()
    more = run
    while True:
        if more:
            after.accept_bytes(more)
        if not has_tokens or len(run) >= _MOST_BYTES or after.is_accepting:
            break
        named = after.single_tokens(1)
        if not named or _is_text(table.token(named[0]), after) or not after.accept(named[0]):
            break
        more = after.forced_bytes(_MOST_BYTES)
        run += marked(named[0]) + more
    return run, after if run else None


def _is_text(token: bytes, matcher: Matcher) -> bool:
    """Whether the token is allowed as text, and not by its id."""
    if not token or token[0] == SPECIAL or not matcher.accept_bytes(token):
        return False
    matcher.rollback(1)
    return True


def forced_tokens(
    matcher: Matcher, last: int | None, table: TokenTable, encode: Encode | None, *, has_tokens: bool
) -> list[int]:
    """The tokens that must come next. `last`: the token before them."""
    run, after = forced_run(matcher, table, has_tokens=has_tokens)
    if after is None:
        return []
    before = [] if last is None else [last]
    data = table.raw(before) + run
    ids, fixed = encode_marked(data, encode, table)
    if ids[: len(before)] != before:
        before = []
        ids, fixed = encode_marked(run, encode, table)
    fixed = max(fixed, len(before))
    cut, _ = chopped(table, ids[fixed:], Goes(after, table).beyond)
    return ids[len(before) : len(ids) - cut]


def chopped(table: TokenTable, ids: Sequence[int], goes_beyond: Callable[[bytes], bool]) -> tuple[int, int]:
    """How many of the last tokens a tokenizer might write otherwise, and their bytes. `goes_beyond(end)`: whether some
    token begins with these last bytes and goes on as the text may."""
    data = table.raw(ids[-_LOOKED_BACK:])[-table.longest :] if table.longest else b""
    for place in range(len(data)):
        rest = len(data) - place
        if not goes_beyond(data[place:]):
            continue
        length = 0
        for count, i in enumerate(reversed(ids), 1):
            length += table.raw_length(i)
            if length >= rest:
                return count, length
    return 0, 0


class Goes:
    """Which tokens go beyond a place of the text: `matcher` stands there."""

    def __init__(self, matcher: Matcher, table: TokenTable) -> None:
        self._matcher = matcher
        self._table = table
        self._next: frozenset[int] | None = None

    def beyond(self, end: bytes) -> bool:
        """Whether some token begins with `end` and goes on as the grammar allows."""
        for token in self._table.extensions(end):
            if token[len(end)] in self._next_bytes() and self._fits(token[len(end) :]):
                return True
        return False

    def _next_bytes(self) -> frozenset[int]:
        """The bytes that may come: what is expected instead of a token that has none."""
        if self._next is None:
            self._next = frozenset(self._matcher.explanation(self._table.eos[0])["expected"])
        return self._next

    def _fits(self, data: bytes) -> bool:
        if not self._matcher.accept_bytes(data):
            return False
        self._matcher.rollback(1)
        return True
