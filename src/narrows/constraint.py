"""The constraint, which sequences share, and the matcher, which belongs to one sequence.

A mask that any sequence has made before costs a look-up and a copy (about a microsecond for 128,000 tokens). A new mask
costs tens of microseconds. Accepting a token costs well under a microsecond if its bytes were seen before.
docs/engine.md has the numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from narrows._core import Constraint as CoreConstraint
from narrows._core import Matcher as CoreMatcher
from narrows._core import fill_masks as core_fill_masks
from narrows.arguments import FUNCTION, ITERABLE, LIST, of, optional, wants, wrong
from narrows.errors import InputError, UnsupportedError
from narrows.grammar.captures import Capture, Step, captures_of
from narrows.grammar.flatten import TokenFacts
from narrows.limits import DEFAULT_LIMITS, LIMITS, Limits

if TYPE_CHECKING:
    from narrows.grammar.grammar import Grammar
    from narrows.grammar.json_schema.places import SchemaPlace
    from narrows.tokens import CompiledVocabulary


class Constraint:
    """A grammar compiled for a vocabulary. Any number of sequences and threads may share it. Users cannot change it."""

    __slots__ = ("__weakref__", "_core", "grammar", "vocabulary")

    def __init__(self, core: CoreConstraint, vocabulary: CompiledVocabulary, grammar: Grammar | None) -> None:
        wants(of("a compiled core: use vocabulary.compile(grammar)", CoreConstraint), core=core)
        self._core = core
        self.vocabulary = vocabulary
        self.grammar = grammar
        """None if the constraint was made from flattened arrays (`Vocabulary.assemble`)."""

    def matcher(self) -> Matcher:
        """A matcher at the start of the text. Make one per sequence. Cost: about a microsecond."""
        return Matcher(self)

    @property
    def bytes(self) -> int:
        """Bytes of memory of this constraint alone, without its `grammar`: at most about twice
        `Limits.constraint_bytes`. Does not block: the last call that computed new results counted it."""
        return self._core.bytes

    @property
    def is_apart(self) -> bool:
        """Whether the constraint needed so much work that it no longer shares automaton states with other constraints.
        Its masks then make no other constraint wait, but may take some tenths of a second each. Once true, it stays
        true. Does not block."""
        return self._core.is_apart

    def __copy__(self) -> Constraint:
        """Itself: users cannot change it."""
        return self

    def __deepcopy__(self, memo: object) -> Constraint:
        """Itself, as for `__copy__`."""
        return self

    def stats(self) -> dict[str, int]:
        """Counts and bytes of the cached results.

        Of this constraint: `states` of the network, `configurations`, `masks`, `crossings` (lists of tokens that leave
        a terminal), `bytes`, and `epoch` (1 plus the number of times that the cache was emptied). Shared by all
        constraints of the vocabulary: `shared_states`, `shared_masks`, `shared_crossings` (trie nodes), `shared_bytes`.
        For a constraint that is apart the latter are its own, and `bytes` includes them.
        """
        return self._core.stats()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a token is allowed, or at which byte it stops fitting."""

    token: int
    """The id that was asked for."""
    allowed: bool
    """Whether the mask has it."""
    rules: tuple[str, ...]
    """The grammar's rules that are open at `offset`."""
    offset: int
    """Number of the token's bytes that fit."""
    expected: bytes
    """Every byte that is possible at `offset`, in order."""
    end_expected: bool
    """Whether the text may end at `offset`."""
    tokens: tuple[int, ...]
    """Tokens that the grammar names and that are possible at `offset`."""
    place: SchemaPlace | None = None
    """If the grammar is a JSON Schema: where in it, and in the text's value, `offset` is, and which keywords refuse the
    token. None otherwise, and where the text was not accepted as tokens (`accept_bytes`)."""

    def __str__(self) -> str:
        where = ", ".join(self.rules) or "the grammar"
        if self.allowed:
            return f"token {self.token} is allowed by {where}"
        options = [repr(bytes([b]))[2:-1] for b in self.expected[:20]] + (["..."] if len(self.expected) > 20 else [])
        options += [f"token {t}" for t in self.tokens[:5]] + (["the end"] if self.end_expected else [])
        expected = " ".join(options) or "nothing"
        schema = f" ({self.place})" if self.place is not None else ""
        return f"token {self.token} does not fit at its byte {self.offset}: {where} expected {expected}{schema}"


class Matcher(CoreMatcher):
    """The position of one sequence in the grammar. For one thread at a time; otherwise `ConcurrentUseError`.

    `len(matcher)` is the number of accepted steps. A call that raises does not change the position.
    """

    def __init__(self, constraint: Constraint, _other: Matcher | None = None) -> None:
        if not isinstance(constraint, Constraint):
            raise wrong("constraint", of("a narrows.Constraint", Constraint), constraint)
        super().__init__(constraint._core if _other is None else _other)
        self.constraint = constraint

    def fork(self) -> Matcher:
        """An independent matcher at the same position. Cost: a copy of 16 bytes per token so far."""
        return Matcher(self.constraint, self)

    def __copy__(self) -> Matcher:
        """As `fork`."""
        return self.fork()

    def __deepcopy__(self, memo: object) -> Matcher:
        """As `fork`."""
        return self.fork()

    def replay(self, tokens: Iterable[int]) -> None:
        """Go back to the start and accept these tokens, for example after a preemption. Raises `InputError` code
        `replay_rejected` for a token that does not fit."""
        wants(ITERABLE, tokens=tokens)
        before = self.steps()
        self.reset()
        try:
            for position, token in enumerate(tokens):
                if not self.accept(token):
                    raise InputError(
                        f"token {token} at position {position} does not fit", code="replay_rejected", offset=position
                    )
        except BaseException:
            self.reset()
            for step in before:
                self.accept_bytes(step) if isinstance(step, bytes) else self.accept(step)
            raise

    def forced_tokens(self, encode: Callable[[str], Sequence[int]] | None = None) -> list[int]:
        """Tokens that must come next.

        Without `encode`: tokens as long as the mask has a single one. This never changes what the model can write.
        With the tokenizer's `encode`: the tokens of the forced text, as the tokenizer would write it. Tokens at the end
        that a longer token could cover are left to the model. Special tokens that it adds, such as one that begins a
        text, are left out. Does not change the position.
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
        ids = _with_bytes(encode(context + text), vocabulary)
        if ids[: len(before)] != before:
            return []
        ids = ids[len(before) :]
        pieces = [vocabulary.token_bytes(t) for t in ids]
        if b"".join(pieces) != forced:
            return []
        # If the rest of the forced text begins a longer token, the tokenizer may not end a token here.
        start = 0
        for count, piece in enumerate(pieces):
            if vocabulary._core.extends(forced[start:]):
                return ids[:count]
            start += len(piece)
        return ids

    def _recent(self, count: int = 8) -> tuple[list[int], str | None]:
        """The last accepted tokens and their text, after the last special token or step of bytes. None for the text if
        they do not decode on their own."""
        tokens: list[int] = []
        for token in self.history(count):
            has_bytes = token >= 0 and self.constraint.vocabulary.token_bytes(token)
            tokens = [*tokens, token] if has_bytes else []
        data = b"".join(self.constraint.vocabulary.token_bytes(t) for t in tokens)
        try:
            return tokens, data.decode()
        except UnicodeDecodeError:
            return tokens, None

    def shortest_end(self) -> list[int]:
        """Tokens that end the text from here with the fewest bytes. Empty if it may end already.

        Without an end token, unless the grammar itself requires one. Raises `InputError` code `not_spellable` if the
        vocabulary has no tokens for the bytes.
        """
        tokens: list[int] = []
        for part in self.shortest_parts():
            if isinstance(part, int):
                tokens.append(part)
                if part in self.constraint.vocabulary.eos_ids:
                    break
                continue
            segment = self.constraint.vocabulary._core.segment(part)
            if segment is None:
                raise InputError(f"the vocabulary cannot spell {part!r}", code="not_spellable")
            tokens.extend(segment)
        return tokens

    def tokens_to_end(self) -> int:
        """An upper bound, which can be reached, on the tokens that end the text. Does not count the end token."""
        return len(self.shortest_end())

    def captures(self, *, limits: Limits = DEFAULT_LIMITS) -> list[Capture]:
        """What the grammar captures in the text so far, as `Grammar.captures` says. A special token counts as its name.

        If the text is not complete, only what is captured in complete rules is reported, in one of the readings that
        may still go on: a rule that could read more is not complete. Does not change the position.

        Cost: the text is read again, so ask when it is written, and not after each token. Raises UnsupportedError
        `captures_unsupported` if the constraint has no grammar, and LimitError `capture_work`.
        """
        wants(LIMITS, limits=limits)
        grammar = self.constraint.grammar
        if grammar is None:
            raise UnsupportedError(
                "the constraint was assembled from arrays, without its grammar",
                code="captures_unsupported",
                hint="Compile the grammar with vocabulary.compile, or ask grammar.captures(text)",
            )
        vocabulary = self.constraint.vocabulary
        facts = TokenFacts(vocabulary.special, vocabulary.eos_ids, {})
        is_whole = self.is_finished or self.is_accepting
        return captures_of(grammar.module, self._text_steps(), limits, facts, is_whole=is_whole)

    def _text_steps(self) -> list[Step]:
        vocabulary = self.constraint.vocabulary
        names = {token: name.encode() for name, token in vocabulary.special.items()}
        steps: list[Step] = []
        for step in self.steps():
            if isinstance(step, bytes):
                steps.append(Step(step))
            elif data := vocabulary.token_bytes(step):
                steps.append(Step(data, step))
            else:
                name = names.get(step, b"<[%d]>" % step)
                steps.append(Step(name, step, is_text=False, may_end=step in vocabulary.eos_ids))
        return steps

    def explain(self, token: int) -> Explanation:
        """Which rules allow the token here, or at which byte it stops fitting and what was expected there.

        Cost: some microseconds. With a JSON Schema, `place` takes about as long as reading the schema does and, if the
        token is refused, as long as reading it again for each keyword that may be to blame (explaining.py)."""
        explained = self.explanation(token)
        return Explanation(
            token,
            explained["allowed"],
            tuple(explained["rules"]),
            explained["offset"],
            bytes(explained["expected"]),
            explained["end_expected"],
            tuple(explained["named_tokens"]),
            self._place(token, explained["offset"], explained["allowed"]),
        )

    def _place(self, token: int, offset: int, is_allowed: bool) -> SchemaPlace | None:
        """The place in the schema that the grammar was made from, if it was."""
        grammar, vocabulary = self.constraint.grammar, self.constraint.vocabulary
        read_from = grammar.schema if grammar is not None else None
        tokens = self.history()
        if read_from is None or -1 in tokens:
            return None
        from narrows.explaining import Tried, schema_place

        text = b"".join(map(vocabulary.token_bytes, tokens))
        data = vocabulary.token_bytes(token)
        refused = data[offset : offset + 1] if data or token in vocabulary.eos_ids else None
        tried = Tried(text, None) if is_allowed else Tried(text + data[:offset], refused)
        return schema_place(*read_from, tried, vocabulary)

    def __repr__(self) -> str:
        state = "finished" if self.is_finished else "accepting" if self.is_accepting else "open"
        return f"<narrows.Matcher after {len(self)} tokens, {state}>"


def _with_bytes(ids: object, vocabulary: CompiledVocabulary) -> list[int]:
    """The tokens that a tokenizer has written, but for those without bytes."""
    if not LIST.fits(ids):
        raise InputError(
            f"encode must return a list of token ids, not {type(ids).__name__}",
            code="wrong_type",
            pointer="/encode",
            hint="Of a tokenizers.Tokenizer: lambda text: tokenizer.encode(text, add_special_tokens=False).ids",
        )
    return [token for token in cast("Sequence[int]", ids) if vocabulary.token_bytes(token)]


def fill_masks(matchers: Sequence[Matcher], rows: NDArray[np.int32], threads: int | None = None) -> None:
    """Write the masks of many matchers: row i of `rows` (int32[len(matchers), ceil(V/32)], C-contiguous) is the mask of
    matchers[i].

    Runs without the GIL, except where at most 64 masks are asked for and known. `threads=None` uses several threads
    only if there are enough rows. Each matcher may occur only once. Cost: a copy per row, and the work for masks that
    are not cached, one after the other.
    """
    if type(matchers) is not list:
        wants(LIST, matchers=matchers)
    if threads is None:
        threads = min(8, os.cpu_count() or 1) if len(matchers) >= 64 else 1
    core_fill_masks(list(matchers), rows, threads)
