"""The contract for engines, as tests: one sequence says the same under any engine, whatever happens around it.

    from narrows.testing.engine_contract import EngineContract

    class TestMyEngine(EngineContract):
        @pytest.fixture(scope="class")
        @classmethod
        def adapter(cls):
            return MyAdapter()          # a narrows.testing.adapter.Adapter

Each test starts up to 16 sequences, disturbs some of them at every step, and compares each with what it says alone
(watch.py checks more, after each step of each test). What the engine cannot do is skipped with the adapter's reason.

Cost: some 130 sequences of 10 to 20 tokens, and 40 of a tool call. On two cores with the small model: 30 s.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from narrows import formats
from narrows.constraint import Constraint
from narrows.decoding.params import SamplingParams
from narrows.events import Event
from narrows.grammar.grammar import Grammar
from narrows.limits import Limits
from narrows.testing.adapter import Adapter, Can, Result, Start
from narrows.testing.watch import Run, Watched, hold
from narrows.vocabulary.vocabulary import Vocabulary

PATTERN = "(?:[a-f][0-4][é€😀]){3,5}"
"""Letters, digits and characters of several bytes in turn: a sequence that stands at a wrong place soon breaks it."""
_SEED = 5
_FORMAT = "hermes_json"
_ARGUMENTS = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "pattern": "^[a-fé€😀]{2,6}$"},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["to", "count"],
    "additionalProperties": False,
}
_TOOLS = [{"type": "function", "function": {"name": "send", "parameters": _ARGUMENTS}}]
_BEFORE_FAILURE = 6
"""Tokens after which a parser fails that is made to fail."""


class Cases:
    """The sequences that the tests start, and what each says alone, which is computed once."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._alone: dict[Start, Result] = {}
        vocabulary = adapter.vocabulary
        self.constraint = vocabulary.compile(Grammar.from_regex(PATTERN))
        self.plain = [self._start(number) for number in range(min(16, adapter.most_sequences))]
        """Sequences on one constraint. Every other one is greedy."""
        fmt = formats.get(_FORMAT)
        call = fmt.grammar(_TOOLS, tool_choice="required", parallel=False, reasoning=None, vocab=vocabulary)
        called = vocabulary.compile(call)
        self.calls = [
            replace(
                self._start(number, called),
                prompt=f"Call the tool, number {number}.\n",
                pattern=None,
                parser_factory=lambda number: fmt.parser(
                    _TOOLS,
                    tool_choice="required",
                    parallel=False,
                    reasoning=None,
                    vocab=vocabulary,
                    id_factory=lambda index: f"call-{number}-{index}",
                ),
            )
            for number in range(min(4, adapter.most_sequences))
        ]
        """Sequences that write a tool call, which a parser reads."""

    def _start(self, number: int, constraint: Constraint | None = None) -> Start:
        drawn = self._adapter.can_draw is True and number % 2 == 1
        return Start(
            number=number,
            prompt=f"Number {number}:",
            sampling=SamplingParams(temperature=1 if drawn else 0, seed=_SEED, max_tokens=160),
            constraint=constraint or self.constraint,
            pattern=PATTERN,
        )

    def alone(self, start: Start) -> Result:
        """What the sequence says where nothing else runs."""
        if start not in self._alone:
            run = Run(self._adapter)
            watched = run.start(start)
            run.to_end()
            self._alone[start] = watched.result
        return self._alone[start]

    def same(self, watched: Watched) -> None:
        """The sequence has said what it says alone."""
        self.same_as(watched, watched.start)

    def same_as(self, watched: Watched, start: Start) -> None:
        if self._adapter.can_be_repeated is not True:
            hold(watched.result.finish_reason in ("stop", "length"), f"{watched}: it ended by {watched.result}")
            return
        alone, now = self.alone(start), watched.result
        hold(now.tokens == alone.tokens, f"{watched}: it gave {now.tokens}, and alone it gives {alone.tokens}")
        hold(now.finish_reason == alone.finish_reason, f"{watched}: it ended by {now.finish_reason}")
        hold(now.text == alone.text, f"{watched}: its text is {now.text!r}, and alone it is {alone.text!r}")


def needs(*abilities: Can) -> None:
    for ability in abilities:
        if ability is not True:
            pytest.skip(ability)


class EngineContract:
    """Subclass it as `Test...`, with a fixture `adapter`."""

    @pytest.fixture(scope="class")
    @classmethod
    def adapter(cls) -> Adapter:
        raise NotImplementedError("a subclass of EngineContract has a fixture `adapter`, of scope class")

    @pytest.fixture(scope="class")
    @classmethod
    def cases(cls, adapter: Adapter) -> Cases:
        return Cases(adapter)

    @pytest.fixture
    def run(self, adapter: Adapter) -> Iterator[Run]:
        run = Run(adapter)
        yield run
        run.close()

    # Masks, and sequences beside each other.

    def test_masks_are_held_to_at_every_step(self, cases: Cases, run: Run) -> None:
        """And the model does not keep to the constraint by itself, so that this can fail."""
        started = run.start_all(cases.plain[:-1])
        free = replace(cases.plain[-1], constraint=None, pattern=None)
        unmasked = run.start(replace(free, sampling=replace(free.sampling, max_tokens=12)))
        run.to_end()
        for watched in started:
            hold(watched.result.finish_reason == "stop", f"{watched}: it ended by {watched.result.finish_reason}")
        matcher = cases.constraint.matcher()
        obeys = matcher.accepts(unmasked.result.tokens) == len(unmasked)
        hold(not obeys, f"{unmasked}: a sequence without a constraint is held to one")

    def test_sequences_on_one_constraint_do_not_disturb_each_other(self, cases: Cases, run: Run) -> None:
        started = run.start_all(cases.plain)
        run.to_end()
        for watched in started:
            cases.same(watched)
        hold(len({tuple(w.result.tokens) for w in started}) > 1, "all sequences said the same")

    def test_one_that_starts_late_disturbs_none(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        needs(adapter.can_start_late)
        waiting = list(cases.plain[:8])
        while waiting or run.running:
            if waiting:
                run.start(waiting.pop())
            run.step()
        for watched in run.watched:
            cases.same(watched)

    def test_ids_that_are_no_tokens_are_never_given(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        """Here the model's most likely letters have no text, like ids beyond a tokenizer."""
        needs(adapter.can_take_constraints)
        narrow = _without(adapter.vocabulary, (b"a", b"b", b"c"))
        constraint = narrow.compile(Grammar.from_regex(PATTERN))
        for start in cases.plain[:8]:
            run.start(replace(start, constraint=constraint, pattern=None))
        run.to_end()
        for watched in run.watched:
            hold(watched.result.finish_reason == "stop", f"{watched}: it ended by {watched.result.finish_reason}")

    # Preemption.

    def test_preemption_at_every_step_changes_nothing(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        """The first sequence is preempted after each step, the others in turn."""
        needs(adapter.can_preempt)
        first, *others = run.start_all(cases.plain[:8])
        for turn in itertools.count():
            run.step()
            if not run.running:
                break
            for place, watched in enumerate(others):
                if watched.runs and (turn + place) % 4 == 0:
                    adapter.preempt(watched.handle)
            if first.runs:
                adapter.preempt(first.handle)
        for watched in run.watched:
            cases.same(watched)

    def test_all_may_be_preempted_at_once(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        needs(adapter.can_preempt)
        run.start_all(cases.plain[:8])
        for turn in itertools.count():
            run.step()
            if not run.running:
                break
            if turn in (2, 5):
                for watched in run.running:
                    adapter.preempt(watched.handle)
        for watched in run.watched:
            cases.same(watched)

    def test_replay_continues_matcher_and_parser(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        """After each step one sequence is preempted."""
        needs(adapter.can_preempt, adapter.can_read_events)
        run.start_all(cases.calls[:2])
        for turn in itertools.count():
            run.step()
            if not run.running:
                break
            adapter.preempt(run.running[turn % len(run.running)].handle)
        for watched in run.watched:
            cases.same(watched)

    # Forks.

    def test_forks_at_every_step_say_what_the_unforked_says(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        needs(adapter.can_fork)
        for start in cases.plain[:2]:
            self._fork_at_every_step(adapter, run, start)
        for watched in run.watched:
            cases.same(watched)

    def test_forks_have_parsers_of_their_own(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        needs(adapter.can_fork, adapter.can_read_events)
        for start in cases.calls[1:2]:
            self._fork_at_every_step(adapter, run, start)
        for watched in run.watched:
            cases.same(watched)

    def test_forks_go_different_ways(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        """As sequences of other numbers. What they said before the fork stays as it is."""
        needs(adapter.can_fork, adapter.can_draw)
        start = cases.plain[1]
        forks = self._fork_at_every_step(adapter, run, start, other=True)
        for watched in run.watched:
            if watched not in forks:
                cases.same(watched)
        hold(len({tuple(w.result.tokens) for w in run.watched}) > 1, "all forks said the same")

    def _fork_at_every_step(self, adapter: Adapter, run: Run, start: Start, *, other: bool = False) -> list[Watched]:
        """Fork at each place of a sequence. Where too many would run at once, the sequence starts again."""
        forks: list[Watched] = []
        forked_at = 0
        while True:
            watched = run.start(start)
            begun = len(forks)
            while watched.runs:
                run.step()
                room = len(run.running) < adapter.most_sequences
                if watched.runs and len(watched) > forked_at and room:
                    number = start.number + 100 + len(forks) if other else start.number
                    forks.append(run.fork(watched, replace(start, number=number) if other else start))
                    forked_at = len(watched)
            run.to_end()
            if len(forks) - begun < adapter.most_sequences - 1:
                return forks

    # Drafts.

    def test_rejected_drafts_at_every_step_change_nothing(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        """Drafts of which none, one or two tokens are right."""
        needs(adapter.can_draft)
        starts = cases.plain[: adapter.most_drafted]
        known = {start: cases.alone(start).tokens for start in starts}
        run.start_all(starts)
        for turn in itertools.count():
            drafts = {}
            for place, watched in enumerate(run.running):
                drafts[watched.handle] = _wrong_draft(watched, known[watched.start], (turn + place) % 3)
            run.step(drafts)
            if not run.running:
                break
        for watched in run.watched:
            cases.same(watched)

    def test_drafts_that_come_true_change_nothing(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        needs(adapter.can_draft)
        starts = [*cases.plain[: adapter.most_drafted]]
        if adapter.can_read_events is True and adapter.most_drafted > 1:
            starts[-1] = cases.calls[1]
        known = {start: cases.alone(start).tokens for start in starts}
        run.start_all(starts)
        while run.running:
            run.step({w.handle: known[w.start][len(w) : len(w) + 4] for w in run.running})
        for watched in run.watched:
            cases.same(watched)

    # What ends one sequence ends it alone.

    def test_cancellation_at_every_step_leaves_the_others(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        """Sequence i is aborted after step i, the last four are not. Then others start where they were."""
        needs(adapter.can_abort)
        started = run.start_all(cases.plain)
        doomed, aborted = started[:-4], []
        for watched in doomed:
            run.step()
            if watched.runs:
                run.abort(watched)
                aborted.append(watched)
        run.to_end()
        hold(bool(aborted), "no sequence ran long enough to be aborted")
        for watched in started:
            if watched not in aborted:
                cases.same(watched)
                continue
            hold(watched.result.finish_reason == "abort", f"{watched}: it ended by {watched.result.finish_reason}")
            if adapter.can_be_repeated is True:
                alone = cases.alone(watched.start).tokens[: len(watched)]
                hold(watched.result.tokens == alone, f"{watched}: it gave {watched.result.tokens}, alone {alone}")
        for watched in run.start_all(cases.plain[:4]):
            run.to_end()
            cases.same(watched)

    def test_a_limit_ends_one_sequence_alone(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        needs(adapter.can_take_constraints, adapter.can_fail_alone)
        # Each letter makes more readings of the text. After five there are too many, and the text may end after twelve.
        grammar = Grammar.from_gbnf("root ::= x{12}\nx ::= x x | [a-f]")
        constraint = adapter.vocabulary.compile(grammar, limits=Limits(live_items=12))
        started = run.start_all(cases.plain[:3])
        failing = [replace(start, constraint=constraint, pattern=None) for start in cases.plain[3:5]]
        failed = run.start_all([replace(start, number=start.number + 100) for start in failing])
        run.to_end()
        for watched in failed:
            hold(watched.result.finish_reason == "error", f"{watched}: it ended by {watched.result.finish_reason}")
        for watched in started:
            cases.same(watched)

    def test_a_failing_parser_ends_one_sequence_alone(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        needs(adapter.can_read_events)
        many = min(4, adapter.most_sequences)
        started = run.start_all(cases.calls[: many - 1])
        failing = run.start(replace(cases.calls[-1], number=100, parser_factory=lambda number: _Failing()))
        run.to_end()
        hold(failing.result.finish_reason == "error", f"{failing}: it ended by {failing.result.finish_reason}")
        for watched in started:
            cases.same(watched)

    # The end, and events.

    def test_nothing_follows_the_end(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        """Sequences of different lengths end one by one. Each has at most one end token, its last."""
        started = run.start_all(cases.plain[:8])
        run.to_end()
        for watched in started:
            hold(watched.result.finish_reason == "stop", f"{watched}: it ended by {watched.result.finish_reason}")
        for _ in range(2):
            run.step()

    def test_max_tokens_cuts_where_it_says(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        for start in cases.plain[:6]:
            most = 1 + start.number
            run.start(replace(start, sampling=replace(start.sampling, max_tokens=most)))
        run.to_end()
        for watched, start in zip(run.watched, cases.plain, strict=False):
            most = 1 + start.number
            hold(watched.result.finish_reason == "length", f"{watched}: it ended by {watched.result.finish_reason}")
            hold(len(watched) == most, f"{watched}: max_tokens is {most}")
            if adapter.can_be_repeated is True:
                alone = cases.alone(start).tokens[:most]
                hold(watched.result.tokens == alone, f"{watched}: it gave {watched.result.tokens}, uncut {alone}")

    def test_a_budget_keeps_room_for_the_end(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        """Each text is whole within its max_tokens, with and without preemptions."""
        needs(adapter.can_keep_budgets)
        shortest = cases.constraint.matcher().tokens_to_end()
        starts = [
            replace(start, budget=True, sampling=replace(start.sampling, max_tokens=shortest + 2 * start.number))
            for start in cases.plain[:4]
        ]
        run.start_all(starts)
        for turn in itertools.count():
            run.step()
            if not run.running:
                break
            if adapter.can_preempt is True:
                adapter.preempt(run.running[turn % len(run.running)].handle)
        for watched in run.watched:
            matcher = cases.constraint.matcher()
            matcher.replay(watched.result.tokens)
            hold(matcher.is_accepting or matcher.is_finished, f"{watched}: its text is not whole")
            cases.same(watched)

    def test_events_are_those_of_the_whole_text(self, adapter: Adapter, cases: Cases, run: Run) -> None:
        """watch.py compares them. Some texts are cut in the middle of the call."""
        needs(adapter.can_read_events)
        starts = list(cases.calls)
        for start in cases.calls[1:]:
            cut = len(cases.alone(start).tokens) * start.number // 4
            starts[start.number] = replace(start, sampling=replace(start.sampling, max_tokens=cut))
        started = run.start_all(starts[: adapter.most_sequences])
        run.to_end()
        hold(bool(started[0].result.events), f"{started[0]}: it has no events")


def _wrong_draft(watched: Watched, known: Sequence[int], right: int) -> list[int]:
    """A draft of which `right` tokens come true. Then comes one that is allowed and wrong, if there is one, and two
    more."""
    assert watched.start.constraint is not None
    place = len(watched) + right
    vocabulary = watched.start.constraint.vocabulary
    others = [vocabulary.size - 1, *known[:1]]
    if place < len(known):
        matcher = watched.start.constraint.matcher()
        matcher.replay(known[:place])
        row = np.empty((vocabulary.size + 31) // 32, dtype=np.int32)
        matcher.fill_mask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
        others = [token for token in allowed if token != known[place] and token not in vocabulary.eos_ids][:1] + others
    return [*known[len(watched) : place], *others]


def _without(vocabulary: Vocabulary, texts: Sequence[bytes]) -> Vocabulary:
    """The vocabulary, in which the tokens of these texts are none."""
    named = set(vocabulary.special.values())
    tokens = [vocabulary.token_bytes(token) for token in range(vocabulary.size)]
    known = [None if token not in named and (not data or data in texts) else data for token, data in enumerate(tokens)]
    return Vocabulary(known, dict(vocabulary.special), eos=list(vocabulary.eos_ids), size=vocabulary.size)


class _Failing:
    """A parser that fails."""

    place = "content"
    position = 0

    def __init__(self) -> None:
        self._read = 0

    def feed_tokens(self, ids: Sequence[int]) -> list[Event]:
        self._read += len(ids)
        if self._read > _BEFORE_FAILURE:
            raise ValueError("this parser is made to fail")
        return []

    def finish(self) -> list[Event]:
        return []
