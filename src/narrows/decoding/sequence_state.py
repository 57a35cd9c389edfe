"""All that one sequence needs beside a model, for an engine of your own: matcher, sampler, budget and parser in one.

    factory = SequenceFactory(vocabulary, constraint=constraint, prompt=ids, sampling=params, parser_factory=make)
    state = factory.new()                       # one for each sequence
    token, _ = state.sample(logits)             # from what the constraint allows
    state.accept(token)                         # matcher, sampler, budget and parser go on together
    events = state.take_events()

A state is a function of three things: the factory, the index of the sequence, and the tokens of its output. So it may
be forked (`fork`), taken back by some tokens (`rollback`), or dropped and made again from the tokens (`factory.new`,
`replay`), and it goes on as if nothing had happened. Two states share nothing that changes.

Cost: `accept`, `rollback` and the masks are the matcher's (under a microsecond each where the place is known). The
sampler and the parser are made when they are first needed, and read the output so far then: some 2 us a token for the
sampler and 5 us for the parser. That happens once after each `fork` and `replay`, and again after a `rollback` of
tokens that they have read. docs/own_engine.md has an engine that uses this.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from narrows.arguments import FLAG, FUNCTION, INTEGER, ITERABLE, LIST, of, optional, wants
from narrows.constraint import Constraint, Matcher
from narrows.decoding.draw import Ids
from narrows.decoding.ending import Ending, WaysOut
from narrows.decoding.params import SamplingParams
from narrows.decoding.processors import Logits
from narrows.decoding.sampling import Sampler, TokenLogprob
from narrows.errors import InputError, TokenError
from narrows.events import Event
from narrows.vocabulary.vocabulary import Vocabulary

__all__ = ["SequenceFactory", "SequenceState", "TokenReader"]


class TokenReader(Protocol):
    """The methods of a stream parser (`fmt.parser(..., vocab=vocabulary)`) that a state calls."""

    def feed_tokens(self, ids: Sequence[int]) -> list[Event]:
        """The new events after these tokens."""

    def finish(self) -> list[Event]:
        """The events that were held back. The text has ended."""


class SequenceFactory:
    """Makes the states of the sequences over one prompt. Immutable, and may be shared by threads.

    vocabulary: of the model. The constraint is compiled for it.
    constraint: shared by all sequences. None: every token of the vocabulary is allowed.
    prompt: its tokens, which `repetition_penalty` looks at.
    sampling: how tokens are chosen. Without a seed, one is drawn here, so that a state that is made again draws the
      same tokens. `stop` is refused: stop texts belong to who shows the text (`narrows.decoding.detokenize.StopTexts`).
    parser_factory: called with the index of a sequence, whenever a parser is needed. For one index it must make equal
      parsers: with `id_factory=`, so that the ids of calls are the same each time. None: there are no events.
    budget: allow only tokens that leave room to end the text within `sampling.max_tokens`.

    Raises InputError code `sampling_params_invalid`.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        constraint: Constraint | None = None,
        prompt: Sequence[int] = (),
        sampling: SamplingParams | None = None,
        parser_factory: Callable[[int], TokenReader] | None = None,
        budget: bool = False,
    ) -> None:
        wants(of("a Vocabulary", Vocabulary), vocabulary=vocabulary)
        wants(optional(of("a Constraint", Constraint)), constraint=constraint)
        wants(LIST, prompt=prompt)
        wants(optional(of("a SamplingParams", SamplingParams)), sampling=sampling)
        wants(optional(FUNCTION), parser_factory=parser_factory)
        wants(FLAG, budget=budget)
        sampling = sampling or SamplingParams()
        if sampling.stop:
            raise InputError(
                "a state does not look for stop texts",
                code="sampling_params_invalid",
                pointer="/stop",
                hint="Cut the text that you show with narrows.decoding.detokenize.StopTexts",
            )
        if budget and (constraint is None or sampling.max_tokens is None):
            raise InputError(
                "a budget needs a constraint and max_tokens", code="sampling_params_invalid", pointer="/max_tokens"
            )
        if sampling.seed is None:
            sampling = replace(sampling, seed=int.from_bytes(os.urandom(7), "little"))
        self.vocabulary = vocabulary
        self.constraint = constraint
        self.prompt = tuple(prompt)
        self.sampling = sampling
        self.parser_factory = parser_factory
        self.budget = bool(budget)
        self.mask_words = (vocabulary.size + 31) // 32
        """int32 words of a mask."""
        self._ways = WaysOut()
        ends = frozenset(vocabulary.eos_ids)
        self._ends = ends if constraint is not None or not sampling.ignore_eos else frozenset[int]()
        self._stops = frozenset(sampling.stop_token_ids)
        self._early = np.array(sorted(ends | self._stops), dtype=np.int64)
        self._always = np.array(sorted(ends), dtype=np.int64) if sampling.ignore_eos else None

    def new(self, index: int = 0, output: Sequence[int] = (), *, events_taken: int = 0) -> SequenceState:
        """The state of sequence `index`, after the tokens of `output`: what it has written before it was preempted, or
        what another engine wrote.

        events_taken: for so many of these tokens the events were taken already, and do not come again. After a
        preemption, that is the old state's `events_taken`.

        Raises what `SequenceState.replay` raises. Cost: a microsecond, and 0.1 us for each token.
        """
        wants(INTEGER, index=index, events_taken=events_taken)
        state = SequenceState(self, index)
        state.replay(output)
        if not 0 <= events_taken <= len(output):
            raise InputError(
                f"events_taken is {events_taken}, and there are {len(output)} tokens", code="events_taken_invalid"
            )
        state._events_taken = events_taken
        return state

    def _forbidden(self, length: int) -> Ids | None:
        return self._early if length < self.sampling.min_tokens else self._always


class SequenceState:
    """One sequence. For one thread at a time. A call that raises changes nothing. Made by `SequenceFactory.new`."""

    __slots__ = (
        "_ending",
        "_endings",
        "_events_taken",
        "_finished",
        "_matcher",
        "_parser",
        "_parser_read",
        "_sampled_at",
        "_sampler",
        "_sampler_read",
        "_tokens",
        "factory",
        "index",
    )

    def __init__(self, factory: SequenceFactory, index: int) -> None:
        self.factory = factory
        self.index = index
        self._tokens: list[int] = []
        self._events_taken = 0
        self._finished = False
        self._sampler: Sampler | None = None
        self._sampler_read = 0
        """So many tokens the sampler has counted."""
        self._sampled_at = -1
        """The place whose random numbers it has used."""
        self._parser: TokenReader | None = None
        self._parser_read = 0
        self._matcher: Matcher | None = None
        self._ending: Ending | None = None
        self._endings: list[tuple[int, tuple[int, ...]]] = []
        """What the budget was before each of the tokens."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """The output so far, end token included."""
        return tuple(self._tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def matcher(self) -> Matcher | None:
        """To look at, or to make the masks of many sequences in one call (`narrows.fill_masks`). A budget's masks are
        not the matcher's."""
        return self._matcher

    @property
    def events_taken(self) -> int:
        """For so many tokens of the output the events were taken."""
        return self._events_taken

    @property
    def finish_reason(self) -> Literal["stop", "length"] | None:
        """`stop`: after an end token or one of `stop_token_ids`, or no token may follow a text that is complete.
        `length`: after `max_tokens`. None: the sequence goes on."""
        factory, tokens = self.factory, self._tokens
        if tokens and (tokens[-1] in factory._ends or tokens[-1] in factory._stops):
            return "stop"
        if factory.sampling.max_tokens is not None and len(tokens) >= factory.sampling.max_tokens:
            return "length"
        matcher = self._matcher
        if matcher is not None and matcher.is_accepting and not factory.vocabulary.eos_ids and not self.mask().any():
            return "stop"
        return None

    def fill_mask(self, row: NDArray[np.int32]) -> None:
        """Write the mask of the next token: int32[ceil(V/32)], as `Matcher.fill_mask` does. All bits are written."""
        if self._ending is not None and self._matcher is not None:
            self._ending.fill_mask(self._matcher, row)
        elif self._matcher is not None:
            self._matcher.fill_mask(row)
        else:
            row[:] = -1
            if rest := self.factory.vocabulary.size % 32:
                row[-1] = (1 << rest) - 1

    def mask(self) -> NDArray[np.int32]:
        """The mask of the next token, in an array of its own."""
        row = np.empty(self.factory.mask_words, dtype=np.int32)
        self.fill_mask(row)
        return row

    def sample(self, logits: Logits, mask: NDArray[np.int32] | None = None) -> tuple[int, TokenLogprob | None]:
        """The next token, and its log-probabilities if `sampling.logprobs` asks for them. It is not accepted yet. The
        same row at the same place gives the same token, however often it is asked for.

        logits: float32[V or more]; what lies beyond the vocabulary is no token. mask: that of this place, if it is
        known; otherwise it is made. Raises `EngineError` code `no_token_allowed`.
        """
        factory = self.factory
        place = len(self._tokens)
        if self._sampler is None or self._sampled_at == place:
            self._sampler = Sampler(factory.sampling, index=self.index, prompt=factory.prompt)
            self._sampler_read = 0
        for token in self._tokens[self._sampler_read :]:
            self._sampler.observe(token)
        self._sampler_read = self._sampled_at = place
        return self._sampler.sample(
            logits[: factory.vocabulary.size],
            mask=self.mask() if mask is None else mask,
            forbidden=factory._forbidden(place),
        )

    def accept(self, token: int) -> bool:
        """Add a token to the output. False, and nothing changes, if it is not allowed, or the sequence has ended.
        Raises TokenError for an id outside the vocabulary, and what the matcher raises."""
        size = self.factory.vocabulary.size
        if not 0 <= token < size:
            raise TokenError(f"token {token} is outside 0..{size - 1}")
        if self._finished or self.finish_reason is not None:
            return False
        matcher = self._matcher
        if matcher is not None and not matcher.accept(token):
            return False
        if self._ending is not None and matcher is not None:
            before, fits = self._ending.state(), False
            try:
                fits = bool(self._ending.fits(matcher, token, find=True))
            finally:
                if not fits:
                    matcher.rollback(1)
            if not fits:
                return False
            self._endings.append(before)
        self._tokens.append(token)
        return True

    def take_events(self) -> list[Event]:
        """The parser's events for the tokens since the last call. Take them for tokens that stay: what was taken cannot
        be rolled back. Without a parser, none."""
        if self.factory.parser_factory is None:
            self._events_taken = len(self._tokens)
            return []
        parser, self._parser = self._parser, None  # if it raises, it is made anew
        if parser is None:
            parser, self._parser_read = self.factory.parser_factory(self.index), 0
        if self._parser_read < self._events_taken:
            parser.feed_tokens(self._tokens[self._parser_read : self._events_taken])
            self._parser_read = self._events_taken
        events = parser.feed_tokens(self._tokens[self._parser_read :])
        self._parser = parser
        self._parser_read = self._events_taken = len(self._tokens)
        return events

    def finish(self) -> list[Event]:
        """The sequence has ended, whatever the reason: the events that are left, with all that the parser held back.
        Afterwards nothing changes any more. A second call returns nothing."""
        if self._finished:
            return []
        events = self.take_events()
        if self._parser is not None:
            events = [*events, *self._parser.finish()]
        self._finished = True
        return events

    def fork(self, index: int | None = None) -> SequenceState:
        """An independent state at the same place. Events that were taken here do not come there.

        index: of the new sequence, which then draws its own random numbers from here on, and makes its parser with this
        index. None: the same, so that it goes on as this one would.
        """
        wants(optional(INTEGER), index=index)
        other = SequenceState(self.factory, self.index if index is None else index)
        other._tokens = list(self._tokens)
        other._events_taken, other._finished = self._events_taken, self._finished
        if self._matcher is not None:
            other._matcher = self._matcher.fork()
        if self._ending is not None:
            other._ending = Ending(self.factory._ways, 0)
            other._ending.restore(self._ending.state())
            other._endings = list(self._endings)
        return other

    def rollback(self, count: int) -> None:
        """Take back the last `count` tokens, such as drafts that were rejected. Raises InputError code
        `rollback_too_far` if there are fewer, or if their events were taken, and `sequence_finished`."""
        wants(INTEGER, count=count)
        kept = len(self._tokens) - count
        self._check_open()
        if count < 0 or kept < self._events_taken:
            raise InputError(
                f"{count} of {len(self._tokens)} tokens cannot be taken back: the events of {self._events_taken} were "
                "taken",
                code="rollback_too_far",
                hint="Take events after the drafts are verified",
            )
        if not count:
            return
        if self._matcher is not None:
            self._matcher.rollback(count)
        if self._ending is not None:
            self._ending.restore(self._endings[kept])
            del self._endings[kept:]
        del self._tokens[kept:]
        if self._sampler_read > kept:
            self._sampler = None
        if self._parser_read > kept:
            self._parser = None

    def replay(self, tokens: Iterable[int]) -> None:
        """Go back to the start and accept these tokens, as after a preemption. Events that were taken do not come
        again, so the tokens must begin with those whose events were taken.

        Raises InputError code `replay_rejected` for a token that does not fit, with its position, `events_taken` and
        `sequence_finished`.
        """
        wants(ITERABLE, tokens=tokens)
        given = list(tokens)
        taken = self._tokens[: self._events_taken]
        self._check_open()
        if given[: len(taken)] != taken:
            raise InputError(
                f"the events of {len(taken)} tokens were taken, and these tokens begin otherwise", code="events_taken"
            )
        anew = SequenceState(self.factory, self.index)
        anew._begin()
        for position, token in enumerate(given):
            if not anew.accept(token):
                raise InputError(
                    f"token {token} at position {position} does not fit", code="replay_rejected", offset=position
                )
        self._tokens, self._matcher = anew._tokens, anew._matcher
        self._ending, self._endings = anew._ending, anew._endings
        self._sampler, self._parser = None, None

    def _begin(self) -> None:
        factory = self.factory
        if factory.constraint is None:
            return
        self._matcher = factory.constraint.matcher()
        if factory.budget and factory.sampling.max_tokens is not None:
            self._ending = Ending(factory._ways, factory.sampling.max_tokens)
            self._ending.begin(self._matcher)

    def _check_open(self) -> None:
        if self._finished:
            raise InputError("the sequence has been finished", code="sequence_finished")

    def __repr__(self) -> str:
        return f"<narrows.SequenceState {self.index} after {len(self._tokens)} tokens>"
