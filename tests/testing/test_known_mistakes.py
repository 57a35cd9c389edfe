"""Mistakes that engines make, put into the engine of docs/own_engine.md one by one: the contract's tests fail for each."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from test_own_engine_page import names_of_the_page

from narrows.decoding.sampling import Sampler
from narrows.testing.engine_contract import Cases, EngineContract
from narrows.testing.watch import Run

PAGE = names_of_the_page()
TinyEngine, TinyAdapter, TinySequence = PAGE["TinyEngine"], PAGE["TinyAdapter"], PAGE["TinySequence"]
TESTS = [name for name in vars(EngineContract) if name.startswith("test_")]


def failing(engine: type, tests: list[str] = TESTS, **attributes: Any) -> dict[str, str]:
    """The tests that fail for this engine, with what they say. `attributes`: of the adapter."""
    adapter = TinyAdapter(engine)
    vars(adapter).update(attributes)
    cases = Cases(adapter)
    found = {}
    for name in tests:
        adapter.engine.running.clear()
        test = getattr(EngineContract(), name)
        given = {"adapter": adapter, "cases": cases, "run": Run(adapter)}
        try:
            test(**{each: given[each] for each in inspect.signature(test).parameters})
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


def test_the_engine_without_a_mistake_fails_none() -> None:
    assert failing(TinyEngine) == {}


class SharedMatcher(TinyEngine):
    """One matcher for all sequences on a constraint."""

    def start(self, prompt: Any, index: int, **options: Any) -> Any:
        sequence = super().start(prompt, index, **options)
        if not hasattr(self, "matchers"):
            self.matchers = {}
        state = sequence.state
        state._matcher = self.matchers.setdefault(options["constraint"], state._matcher)
        return sequence


class SharedRandomNumbers(TinyEngine):
    """One source of random numbers for all sequences."""

    def advance(self, sequence: Any, draft: list[int]) -> None:
        state, sampling = sequence.state, sequence.factory.sampling
        if not hasattr(self, "samplers"):
            self.samplers = {}
        shared = Sampler(sampling, index=0, prompt=())
        state._sampler = self.samplers.setdefault(sampling.temperature, shared)
        state._sampler_read, state._sampled_at = len(state), -1
        super().advance(sequence, draft)


class MatcherForgets(TinyEngine):
    """After a preemption the matcher is new, and the output is not replayed."""

    def preempt(self, sequence: Any) -> None:
        super().preempt(sequence)
        sequence.state._matcher = sequence.factory.constraint.matcher()


class ParserForgets(TinyEngine):
    """After a preemption the parser is new, and reads what comes from there on."""

    def preempt(self, sequence: Any) -> None:
        super().preempt(sequence)
        state = sequence.state
        if sequence.factory.parser_factory is not None:
            state._parser, state._parser_read = sequence.factory.parser_factory(state.index), len(state)


class SamplerForgets(TinyEngine):
    """After a preemption the random numbers begin again."""

    def preempt(self, sequence: Any) -> None:
        super().preempt(sequence)
        state, factory = sequence.state, sequence.factory
        state._sampler = Sampler(factory.sampling, index=state.index, prompt=factory.prompt)
        state._sampler_read = len(state)


class BudgetForgets(TinyEngine):
    """After a preemption all of max_tokens seems to be left."""

    def preempt(self, sequence: Any) -> None:
        ending = sequence.state._ending
        if ending is not None:
            ending.left = sequence.factory.sampling.max_tokens


class EventsTwice(TinyEngine):
    """After a preemption the events come from the start again."""

    def preempt(self, sequence: Any) -> None:
        state = sequence.state
        sequence.state = sequence.factory.new(state.index, output=state.tokens)


class SharedParserOfForks(TinyEngine):
    """The parser is not forked."""

    def fork(self, sequence: Any, index: int) -> Any:
        fork = super().fork(sequence, index)
        fork.state._parser, fork.state._parser_read = sequence.state._parser, len(sequence.state)
        return fork


class SharedMatcherOfForks(TinyEngine):
    """The matcher is not forked."""

    def fork(self, sequence: Any, index: int) -> Any:
        fork = super().fork(sequence, index)
        fork.state._matcher = sequence.state._matcher
        return fork


class ForksWithoutParser(TinyEngine):
    """The parser of a fork begins at the fork."""

    def fork(self, sequence: Any, index: int) -> Any:
        fork = super().fork(sequence, index)
        if sequence.factory.parser_factory is not None:
            fork.state._parser, fork.state._parser_read = sequence.factory.parser_factory(index), len(fork.state)
        return fork


class AbortFreesAnother(TinyEngine):
    """The matcher is freed by a place in the batch, which the next sequence has by then."""

    def end(self, sequence: Any, reason: str) -> None:
        place = self.running.index(sequence)
        super().end(sequence, reason)
        if reason == "abort" and place < len(self.running):
            self.running[place].state._matcher = None


class AbortRunsOn(TinyEngine):
    """An aborted sequence gets one more token."""

    def end(self, sequence: Any, reason: str) -> None:
        super().end(sequence, reason)
        if reason == "abort":
            state = sequence.state
            state._tokens.append(state._tokens[-1] if state._tokens else 0)


class MaskKept(TinyEngine):
    """A row of masks that is used again keeps what it held."""

    def masks(self, state: Any, draft: list[int]) -> list[Any]:
        if not hasattr(self, "rows"):
            self.rows = {}
        masks = super().masks(state, draft)
        for mask in masks:
            mask |= self.rows.get(state, np.zeros_like(mask))
            self.rows[state] = mask.copy()
        return masks


class MaskOfTheWrongRow(TinyEngine):
    """Where several sequences run, each has the mask of the one before."""

    def masks(self, state: Any, draft: list[int]) -> list[Any]:
        states = [sequence.state for sequence in self.running]
        return super().masks(states[states.index(state) - 1], draft)


class OneMaskForADraft(TinyEngine):
    """All tokens of a step are drawn under its first mask, and the output is kept elsewhere."""

    def masks(self, state: Any, draft: list[int]) -> list[Any]:
        masks = super().masks(state, draft)
        return [masks[0]] * len(masks)

    def advance(self, sequence: Any, draft: list[int]) -> None:
        try:
            super().advance(sequence, draft)
        except RuntimeError:
            sequence.state._tokens.append(97)


class RollbackOneTooFew(TinyEngine):
    """After drafts, one token too few is taken back."""

    def masks(self, state: Any, draft: list[int]) -> list[Any]:
        before, masks = len(state), [state.mask()]
        for token in draft:
            if not state.accept(token) or state.finish_reason:
                break
            masks.append(state.mask())
        state.rollback(max(0, len(state) - before - 1))
        return masks


class RollbackOfTheMatcherOneTooFew(TinyEngine):
    """The same, where the output is kept elsewhere, and is right."""

    def masks(self, state: Any, draft: list[int]) -> list[Any]:
        masks = super().masks(state, draft)
        if len(masks) > 1:
            state._matcher.accept(draft[0])
        return masks


class EventsOfRejectedDrafts(TinyEngine):
    """The parser reads drafts before they are verified."""

    def masks(self, state: Any, draft: list[int]) -> list[Any]:
        if state._parser is not None and draft:
            state._parser.feed_tokens(draft[:1])
        return super().masks(state, draft)


class IdsOutside(TinyEngine):
    """What lies beyond the vocabulary in a wide row is not masked."""

    def advance(self, sequence: Any, draft: list[int]) -> None:
        state = sequence.state
        size, row = self.vocabulary.size, self.logits([*sequence.factory.prompt, *state.tokens])
        if row[size:].max() > row[:size].max() - 2:
            state._tokens.append(size + int(row[size:].argmax()))
            return
        super().advance(sequence, draft)


class UnknownIdsAllowed(TinyEngine):
    """Ids without a text are not masked."""

    def masks(self, state: Any, draft: list[int]) -> list[Any]:
        masks = super().masks(state, draft)
        constraint = state.factory.constraint
        for token in b"abc":
            if constraint is not None and not constraint.vocabulary.token_bytes(token):
                for mask in masks:
                    mask[token >> 5] |= np.uint32(1 << (token & 31)).astype(np.int32)
        return masks


class FailureEndsAll(TinyEngine):
    """An exception of one sequence ends all."""

    def step(self, drafts: Any) -> None:
        try:
            for sequence in list(self.running):
                self.advance(sequence, list(drafts.get(sequence, ())))
        except Exception:
            for sequence in list(self.running):
                self.end(sequence, "error")


class FailureUnmasks(TinyEngine):
    """Where a mask cannot be made, there is none."""

    def advance(self, sequence: Any, draft: list[int]) -> None:
        try:
            super().advance(sequence, draft)
        except Exception:
            sequence.state._tokens.append(97)
            if len(sequence.state) > 20:
                self.end(sequence, "stop")


class NoFinish(TinyEngine):
    """What the parser holds back at the end is lost."""

    def end(self, sequence: Any, reason: str) -> None:
        sequence.reason = reason
        self.running.remove(sequence)


class LengthIsStop(TinyEngine):
    """A text that was cut passes for a whole one."""

    def end(self, sequence: Any, reason: str) -> None:
        super().end(sequence, "stop" if reason == "length" else reason)


class OneTokenMore(TinyEngine):
    """max_tokens is noticed one token late."""

    def advance(self, sequence: Any, draft: list[int]) -> None:
        super().advance(sequence, draft)
        if sequence.reason == "length":
            sequence.state._tokens.append(97)


class EndTokenLeftOut(TinyEngine):
    """A sequence stops one token before it may."""

    def advance(self, sequence: Any, draft: list[int]) -> None:
        super().advance(sequence, draft)
        if sequence.reason is None and len(sequence.state) == 7:
            self.end(sequence, "stop")


class NothingMasked(TinyEngine):
    """There are no masks."""

    def start(self, prompt: Any, index: int, **options: Any) -> Any:
        return super().start(prompt, index, **{**options, "constraint": None, "budget": False})


class AllMasked(TinyEngine):
    """A sequence without a constraint has that of another."""

    def start(self, prompt: Any, index: int, **options: Any) -> Any:
        self.last = options["constraint"] or self.last
        return super().start(prompt, index, **{**options, "constraint": self.last})


MISTAKES: dict[type, str] = {
    SharedMatcher: "test_sequences_on_one_constraint_do_not_disturb_each_other",
    SharedRandomNumbers: "test_sequences_on_one_constraint_do_not_disturb_each_other",
    MatcherForgets: "test_preemption_at_every_step_changes_nothing",
    ParserForgets: "test_replay_continues_matcher_and_parser",
    SamplerForgets: "test_preemption_at_every_step_changes_nothing",
    BudgetForgets: "test_a_budget_keeps_room_for_the_end",
    EventsTwice: "test_replay_continues_matcher_and_parser",
    SharedParserOfForks: "test_forks_have_parsers_of_their_own",
    SharedMatcherOfForks: "test_forks_at_every_step_say_what_the_unforked_says",
    ForksWithoutParser: "test_forks_have_parsers_of_their_own",
    AbortFreesAnother: "test_cancellation_at_every_step_leaves_the_others",
    AbortRunsOn: "test_cancellation_at_every_step_leaves_the_others",
    MaskKept: "test_masks_are_held_to_at_every_step",
    MaskOfTheWrongRow: "test_sequences_on_one_constraint_do_not_disturb_each_other",
    OneMaskForADraft: "test_drafts_that_come_true_change_nothing",
    RollbackOneTooFew: "test_rejected_drafts_at_every_step_change_nothing",
    RollbackOfTheMatcherOneTooFew: "test_rejected_drafts_at_every_step_change_nothing",
    EventsOfRejectedDrafts: "test_drafts_that_come_true_change_nothing",
    IdsOutside: "test_masks_are_held_to_at_every_step",
    UnknownIdsAllowed: "test_ids_that_are_no_tokens_are_never_given",
    FailureEndsAll: "test_a_failing_parser_ends_one_sequence_alone",
    FailureUnmasks: "test_a_limit_ends_one_sequence_alone",
    NoFinish: "test_events_are_those_of_the_whole_text",
    LengthIsStop: "test_max_tokens_cuts_where_it_says",
    OneTokenMore: "test_max_tokens_cuts_where_it_says",
    EndTokenLeftOut: "test_nothing_follows_the_end",
    NothingMasked: "test_masks_are_held_to_at_every_step",
    AllMasked: "test_masks_are_held_to_at_every_step",
}
"""The test that finds each. Others may find it, too."""


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_known_mistake_is_found(mistake: type) -> None:
    found = failing(mistake, [MISTAKES[mistake]])
    assert "ContractBroken" in found.get(MISTAKES[mistake], "nothing"), found


@pytest.mark.parametrize(
    "mistake",
    [SharedMatcher, MatcherForgets, SharedMatcherOfForks, AbortFreesAnother, MaskKept, RollbackOfTheMatcherOneTooFew],
    ids=lambda mistake: mistake.__name__,
)
def test_a_lost_state_is_found_where_tokens_differ_each_time(mistake: type) -> None:
    found = failing(mistake, [MISTAKES[mistake]], can_be_repeated="the arithmetic depends on the batch")
    assert "ContractBroken" in found.get(MISTAKES[mistake], "nothing"), found
