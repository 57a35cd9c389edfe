"""The constraint that sequences share, and the matcher that belongs to one of them.

A mask that was made before, by any sequence, is a look-up and a copy (about a microsecond for 128,000 tokens); a new
one costs tens of microseconds. Accepting a token costs well under a microsecond once its bytes were seen.
docs/engine.md has the numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from narrows._core import Constraint as CoreConstraint
from narrows._core import Matcher as CoreMatcher
from narrows._core import fill_masks as core_fill_masks
from narrows.arguments import FUNCTION, ITERABLE, LIST, of, optional, wants, wrong
from narrows.errors import InputError

if TYPE_CHECKING:
    from narrows.grammar.grammar import Grammar
    from narrows.tokens import CompiledVocabulary


class Constraint:
    """A grammar compiled for a vocabulary. Immutable to its users, thread-safe, shared by any number of sequences."""

    __slots__ = ("_core", "grammar", "vocabulary")

    def __init__(self, core: CoreConstraint, vocabulary: CompiledVocabulary, grammar: Grammar | None) -> None:
        wants(of("a compiled core: use vocabulary.compile(grammar)", CoreConstraint), core=core)
        self._core = core
        self.vocabulary = vocabulary
        self.grammar = grammar
        """None where only what it was lowered to is known (`Vocabulary.assemble`)."""

    def matcher(self) -> Matcher:
        """A matcher at the start of the text. Make one per sequence; it costs about a microsecond."""
        return Matcher(self)

    @property
    def bytes(self) -> int:
        """Bytes that are held for this constraint alone, beyond its `grammar`: at most about twice
        `Limits.constraint_bytes`. Waits for nothing: it is what was counted at the end of the last call that made
        something new."""
        return self._core.bytes

    @property
    def is_apart(self) -> bool:
        """It has asked for so much work that it does not share its automaton states with other constraints any more:
        its masks make none of theirs wait, but may take up to a tenth of a second each. Once true, it stays so. Waits
        for nothing."""
        return self._core.is_apart

    def stats(self) -> dict[str, int]:
        """Counts and bytes of what is remembered: `states` of the network, `configurations`, `masks`, `crossings`
        (lists of tokens that leave a terminal), `bytes`, `epoch` (one more than how often all was dropped); and of what
        all constraints of the vocabulary share: `shared_states`, `shared_masks`, `shared_crossings` (trie nodes),
        `shared_bytes`. Of a constraint that is apart, the latter are its own, and `bytes` holds them too."""
        return self._core.stats()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a token is allowed here, or where it stops fitting."""

    token: int
    allowed: bool
    rules: tuple[str, ...]
    """The rules that were being read at `offset`."""
    offset: int
    """Bytes of the token that fit."""
    expected: bytes
    """Every byte that could have come at `offset`, in order."""
    end_expected: bool
    """The text could have ended at `offset`."""
    tokens: tuple[int, ...]
    """Tokens that the grammar names and that could have come at `offset`."""

    def __str__(self) -> str:
        where = ", ".join(self.rules) or "the grammar"
        if self.allowed:
            return f"token {self.token} is allowed by {where}"
        options = [repr(bytes([b]))[2:-1] for b in self.expected[:20]] + (["..."] if len(self.expected) > 20 else [])
        options += [f"token {t}" for t in self.tokens[:5]] + (["the end"] if self.end_expected else [])
        expected = " ".join(options) or "nothing"
        return f"token {self.token} does not fit at its byte {self.offset}: {where} expected {expected}"


class Matcher(CoreMatcher):
    """One sequence's place in the grammar. Used by one thread at a time; concurrent use raises ConcurrentUseError.

    `len(matcher)` counts the accepted steps. After a call raised, the matcher stands where it stood before.
    """

    def __init__(self, constraint: Constraint, _other: Matcher | None = None) -> None:
        if not isinstance(constraint, Constraint):
            raise wrong("constraint", of("a narrows.Constraint", Constraint), constraint)
        super().__init__(constraint._core if _other is None else _other)
        self.constraint = constraint

    def fork(self) -> Matcher:
        """An independent matcher at the same place. Cost: a copy of 16 bytes per token so far."""
        return Matcher(self.constraint, self)

    def replay(self, tokens: Iterable[int]) -> None:
        """Start over and accept these tokens: the way back after a preemption. Raises InputError at one that does not
        fit."""
        wants(ITERABLE, tokens=tokens)
        self.reset()
        for position, token in enumerate(tokens):
            if not self.accept(token):
                raise InputError(
                    f"token {token} at position {position} does not fit", code="replay_rejected", offset=position
                )

    def forced_tokens(self, encode: Callable[[str], Sequence[int]] | None = None) -> list[int]:
        """Tokens that must come next.

        Without `encode`: one after the other while the mask has a single token, which never changes what the model
        could say. With the tokenizer's `encode`: the tokens of the forced text, as the tokenizer itself would write it;
        those that some longer token could reach across are left to the model. Changes nothing.
        """
        wants(optional(FUNCTION), encode=encode)
        if encode is None:
            return self.single_tokens()
        forced = self.forced_bytes()
        text = forced.decode("utf-8", "ignore")
        if not text:
            return []
        forced = text.encode()
        vocabulary = self.constraint.vocabulary
        before, context = self._recent()
        if context is None:
            return []
        ids = list(encode(context + text))
        if ids[: len(before)] != before:
            return []
        ids = ids[len(before) :]
        pieces = [vocabulary.token_bytes(t) for t in ids]
        if b"".join(pieces) != forced:
            return []
        # Where the rest of the forced text begins a longer token, the tokenizer may not stop here.
        start = 0
        for count, piece in enumerate(pieces):
            if vocabulary._core.extends(forced[start:]):
                return ids[:count]
            start += len(piece)
        return ids

    def _recent(self, count: int = 8) -> tuple[list[int], str | None]:
        """The last accepted tokens and their text; no text where they do not decode by themselves."""
        tokens = [t for t in self.history()[-count:] if t >= 0]
        data = b"".join(self.constraint.vocabulary.token_bytes(t) for t in tokens)
        try:
            return tokens, data.decode()
        except UnicodeDecodeError:
            return tokens, None

    def shortest_end(self) -> list[int]:
        """Tokens that close the text from here, the fewest bytes first; empty where it may end already.

        Without an end token, unless the grammar itself has one on the way. Raises InputError where the vocabulary
        cannot spell the bytes that are needed.
        """
        out: list[int] = []
        for part in self.shortest_parts():
            if isinstance(part, int):
                out.append(part)
                if part in self.constraint.vocabulary.eos_ids:
                    break
                continue
            tokens = self.constraint.vocabulary._core.segment(part)
            if tokens is None:
                raise InputError(f"the vocabulary cannot spell {part!r}", code="not_spellable")
            out.extend(tokens)
        return out

    def tokens_to_end(self) -> int:
        """An achievable upper bound on the tokens that close the text, the end token not counted."""
        return len(self.shortest_end())

    def explain(self, token: int) -> Explanation:
        """Which rules allow the token here, or where it stops fitting and what was expected instead."""
        explained = self.explanation(token)
        return Explanation(
            token,
            explained["allowed"],
            tuple(explained["rules"]),
            explained["offset"],
            bytes(explained["expected"]),
            explained["end_expected"],
            tuple(explained["named_tokens"]),
        )

    def __repr__(self) -> str:
        state = "finished" if self.is_finished else "accepting" if self.is_accepting else "open"
        return f"<narrows.Matcher after {len(self)} tokens, {state}>"


def fill_masks(matchers: Sequence[Matcher], rows: NDArray[np.int32], threads: int | None = None) -> None:
    """The masks of many matchers: row i of `rows` (int32[len(matchers), ceil(V/32)], C-contiguous) gets that of
    matchers[i].

    Runs without the GIL. `threads=None` starts more than one only where there are enough rows to pay for it. Each
    matcher must be there once only. Cost: a copy per row; masks that are not known yet are made one after the other.
    """
    if type(matchers) is not list:
        wants(LIST, matchers=matchers)
    if threads is None:
        threads = min(8, os.cpu_count() or 1) if len(matchers) >= 64 else 1
    core_fill_masks(list(matchers), rows, threads)
