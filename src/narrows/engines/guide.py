"""The guide of one sequence holds it to its constraint. It has the matcher and the mask of the next token.

    take(token) ─► work(), in another thread ─► mask, or `ended`, or `error`
    offer(candidates) ─► the first that is allowed; or work(), which checks them and makes the mask if none is

A call of a matcher may take tenths of a second, and may wait for a lock that other threads hold. So the thread that
runs the model calls only what never waits: `Matcher.try_accept`, and what `decoding/jump_forward.py` and
`decoding/ending.py` remember. All else is work, which is done in another thread: make the matcher, accept a token for
the first time, follow what the grammar forces, fill the mask. A guide is in one of three states. In `due` and `ready`
it belongs to the engine's thread, in `queued` to the thread that works. So only one thread at a time uses the matcher.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from narrows.decoding.drafts import Drafter
from narrows.decoding.ending import Ending
from narrows.decoding.healing import Healing
from narrows.decoding.jump_forward import JumpForward, Run
from narrows.decoding.sample_first import SampleFirst
from narrows.errors import EngineError, NarrowsError, without_frames

if TYPE_CHECKING:
    from narrows.constraint import Constraint, Matcher

_MOST_ALLOWANCE = 0.02
"""Most seconds of work that a sequence may save up. The first mask inside a string needs some of them, once."""
_ALLOWANCE_PER_STEP = 0.005
"""Seconds of work that each step allows: a hundred times what most masks take."""


class Guide:
    """Matcher and mask of one sequence. `mask_words`: number of int32 words of a mask.

    sample_first: decides whether tokens are offered before there is a mask. None: a mask is made for each token.
    jump: follows what the grammar forces. None: every token is drawn.
    ending: lets only tokens pass that leave room to end the text. None: the grammar alone decides.
    drafter: learns which tokens came at which place. None: nobody guesses by place.
    output: tokens of the text so far.
    healing: text of the prompt that is spelled again before the constraint begins.
    """

    def __init__(
        self,
        constraint: Constraint,
        mask_words: int,
        *,
        sample_first: SampleFirst | None = None,
        jump: JumpForward | None = None,
        ending: Ending | None = None,
        drafter: Drafter | None = None,
        output: Sequence[int] = (),
        healing: Healing | None = None,
    ) -> None:
        self._constraint = constraint
        self._sample_first = sample_first
        self._jump = jump
        self._ending = ending
        self._drafter = drafter
        self._output = output
        self._healing = healing
        self._draft: list[int] = []
        """Guessed tokens from this place on."""
        self._draft_masks: list[NDArray[np.int32]] = []
        """The mask of this place, and those after each of the guessed tokens, once they are made."""
        self._matcher: Matcher | None = None
        self._taken: int | None = None
        self._offered: list[int] = []
        self._refused = False
        """Whether the candidates of this place were refused, so that it needs a mask."""
        self._closed = False
        self._forced: Run = ()
        """Tokens that somebody else than the grammar wants next."""
        self._winding_down = False
        self._allowance = 0.0
        self.state: Literal["due", "queued", "ready"] = "due"
        self.mask: NDArray[np.int32] = np.zeros(mask_words, dtype=np.int32)
        """The mask of the next token, int32[mask_words]. Valid while `ready` and `masked`."""
        self.masked = False
        """Whether there is a mask. Otherwise candidates are offered."""
        self.accepted: int | None = None
        """The offered candidate that the work has accepted. It is the next token. Valid while `ready`."""
        self.run: Run = ()
        """Tokens that the grammar forces next. They are accepted already. Valid while `ready`."""
        self.ended = False
        """Whether the text is complete and no token may follow. Valid while `ready`."""
        self.error: Exception | None = None
        """The exception of the work, after which the sequence cannot go on. Valid while `ready`."""
        self.masks = 0
        """Masks that were made."""
        self.seconds = 0.0
        """Thread time of the last work."""
        self.used_lately = 0.0
        self.queued_at = 0.0
        """`used_lately` and `queued_at` are set by the lane that the work waits in (`llama_cpp/lanes.py`)."""

    @property
    def is_new(self) -> bool:
        """Whether no work was done yet, so that its cost is unknown."""
        return self._matcher is None

    @property
    def is_heavy(self) -> bool:
        """Whether its work took more than its steps allow: 5 ms each, up to 20 ms saved. Thread time is measured, so
        that waiting does not count."""
        return self._allowance < 0

    @property
    def is_apart(self) -> bool:
        """Whether its constraint shares no lock with others, because it needed much work before."""
        return self._constraint.is_apart

    # The engine's thread.

    def take(self, token: int, *, first: bool = True) -> None:
        """Record the next token of the sequence, which the mask allows. The rest is work, which becomes due.

        first: whether one of the sampler's candidates was allowed.
        """
        self._saw_first(first)
        self._taken = token
        self._move(token)
        self.state = "due"
        if self._accept_known(token):
            self._taken = None
            self._go_on()

    def offer(self, candidates: Iterable[int]) -> int | None:
        """The first of the candidates that is allowed, which is the next token. None if that needs work, which is then
        due. Afterwards the guide has accepted one of them, or it has a mask."""
        rest = iter(candidates)
        for token in rest:
            allowed = self._accept_known(token)
            if allowed:
                self._saw_first(True)
                self._move(token)
                self.state = "due"
                self._go_on()
                return token
            if allowed is None:
                self._offered = [token, *rest]
                break
        else:
            self._refused = True
        self.state = "due"
        return None

    def take_accepted(self) -> int:
        """The offered candidate that the work has accepted: the next token."""
        assert self.accepted is not None
        token, self.accepted = self.accepted, None
        return token

    def take_run(self) -> Run:
        """The tokens that the grammar forces, which are the next tokens."""
        run, self.run = self.run, ()
        return run

    def force(self, tokens: Run) -> None:
        """Let these tokens come next, if the constraint allows them. They come as a `run`, which becomes due."""
        self._forced = tokens
        self._leave_for_work()

    def wind_down(self) -> None:
        """Let the shortest way to the end of the text come next, as a `run`, and then nothing. It becomes due."""
        self._winding_down = True
        self._leave_for_work()

    def _leave_for_work(self) -> None:
        self.masked = self._refused = False
        self._draft, self._draft_masks = [], []
        self.state = "due"

    def _accept_known(self, token: int) -> bool | None:
        """Whether the token is allowed, if that is known. If it is allowed, it was accepted."""
        matcher = self._matcher
        if matcher is None or self._healing:
            return None
        place = matcher.state_key if self._drafter is not None else 0
        allowed = matcher.try_accept(token)
        if allowed and self._drafter is not None:
            self._drafter.chose(self._constraint, place, token)
        if not allowed or self._ending is None:
            return allowed
        fits = self._ending.fits(matcher, token, find=False)
        if not fits:
            matcher.rollback(1)
        return fits

    def _go_on(self) -> None:
        """After a token that was accepted at once: take the known run, and be ready if no work is left."""
        if self._jump is not None:
            assert self._matcher is not None
            run = self._jump.known(self._matcher)
            if run is None or (run and not self._accept_run(run)):
                return
        if self._draft_masks:
            self.mask, self.masked = self._draft_masks[0], True
        if self.masked or self._offers():
            self.state = "ready"

    def _accept_run(self, run: Run) -> bool:
        """Accept a known run. False, and nothing changes, if some of it is not known or does not fit."""
        assert self._matcher is not None
        before = self._ending.state() if self._ending is not None else None
        for count, token in enumerate(run):
            if not self._accept_known(token):
                self._matcher.rollback(count)
                if self._ending is not None and before is not None:
                    self._ending.restore(before)
                return False
        self.run = run
        for token in run:
            self._follow_draft(token)
        return True

    def _move(self, token: int) -> None:
        """Leave the place, with its mask."""
        self.masked = self._refused = False
        self._offered = []
        self._follow_draft(token)

    def _follow_draft(self, token: int) -> None:
        """Go on in the draft if the token is the one that was guessed. Otherwise drop it."""
        if self._draft[:1] == [token]:
            del self._draft[0], self._draft_masks[:1]
        else:
            self._draft, self._draft_masks = [], []

    @property
    def may_draft(self) -> bool:
        """Whether it stands at the place of the next token, so that tokens from there on may be guessed."""
        settled = self._matcher is not None and self._taken is None and not self._offered and self.accepted is None
        return settled and self.state != "queued" and not self.run and not self.ended

    def guess(self, drafter: Drafter, most: int, cost: float) -> list[int]:
        """Tokens that may come next. Their masks become due. Only if `may_draft`."""
        draft = drafter.guess(self._matcher, most, cost=cost)
        if draft:
            self._draft, self._draft_masks = list(draft), []
            self.state = "due"
        return draft

    # The working thread.

    def work(self) -> None:
        """Do the due work, and make the guide ready. Errors go to `error`. A closed guide does nothing."""
        if self._closed:
            return
        start = time.thread_time()
        try:
            self._work()
        except Exception as error:
            self.error = without_frames(error)
        self.seconds = time.thread_time() - start
        self._allowance = min(self._allowance + _ALLOWANCE_PER_STEP, _MOST_ALLOWANCE) - self.seconds
        self.state = "ready"  # last: from here on the engine's thread may use the guide

    def _work(self) -> None:
        matcher = self._matcher
        if matcher is None:
            matcher = self._matcher = self._constraint.matcher()
            if self._output:
                matcher.replay(self._output)
            if self._ending is not None:
                self._ending.left -= len(self._output)
                self._ending.begin(matcher)
            self._go_from(matcher)
        elif self._taken is not None:
            if not self._accept(matcher, self._taken):
                raise EngineError(
                    f"the constraint refuses token {self._taken}, which its own mask allows", code="mask_disagrees"
                )
            self._taken = None
            self._go_from(matcher)
        elif self._offered:
            self._check(matcher)
        elif not self._refused and not self.run:
            self._go_from(matcher)
        if matcher.is_finished or self._winding_down:
            self.ended = True
        elif self._draft or not self._offers():
            self._fill_mask(matcher)

    def _check(self, matcher: Matcher) -> None:
        """Accept the first of the offered candidates that is allowed."""
        offered, self._offered = self._offered, []
        for token in offered:
            if self._accept(matcher, token):
                self.accepted = token
                self._follow_draft(token)
                self._saw_first(True)
                self._follow(matcher)
                return
        self._refused = True

    def _accept(self, matcher: Matcher, token: int) -> bool:
        if self._healing:
            beyond = self._healing.took(token)
            return not beyond or matcher.accept_bytes(beyond)
        place = matcher.state_key if self._drafter is not None else 0
        if not matcher.accept(token):
            return False
        if self._drafter is not None:
            self._drafter.chose(self._constraint, place, token)
        if self._ending is None or self._ending.fits(matcher, token, find=True):
            return True
        matcher.rollback(1)
        return False

    def _go_from(self, matcher: Matcher) -> None:
        """Take what must come next at this place."""
        if self._winding_down:
            self._wind_down(matcher)
        elif not self._take_forced(matcher):
            self._follow(matcher)

    def _wind_down(self, matcher: Matcher) -> None:
        try:
            way = matcher.shortest_end() if self._ending is None else self._ending.way
        except NarrowsError:  # no tokens spell it, or it is too much work: the text stays as it is
            return
        self._accept_all(matcher, tuple(way))

    def _take_forced(self, matcher: Matcher) -> bool:
        forced, self._forced = self._forced, ()
        return bool(forced) and self._accept_all(matcher, forced)

    def _accept_all(self, matcher: Matcher, run: Run) -> bool:
        """Make these tokens the run. False, and nothing changes, if some of them is not allowed or does not fit."""
        before = self._ending.state() if self._ending is not None else None
        for count, token in enumerate(run):
            if not self._accept(matcher, token):
                matcher.rollback(count)
                if self._ending is not None and before is not None:
                    self._ending.restore(before)
                return False
        self.run = run
        for token in run:
            self._follow_draft(token)
        return True

    def _follow(self, matcher: Matcher) -> None:
        """Follow what the grammar forces here."""
        if self._jump is None or self._healing or matcher.is_finished:
            return
        run = self._jump.follow(matcher)
        if self._ending is not None:
            matcher.rollback(len(run))
            self._accept_all(matcher, run)  # or not, if the tokenizer needs more tokens than are left
            return
        self.run = run
        for token in run:
            self._follow_draft(token)

    def _offers(self) -> bool:
        """Whether candidates are offered at this place, and no mask is made."""
        if self._sample_first is None or self._refused or self._healing:
            return False
        if self._ending is not None:
            return not self._ending.is_near
        return self._sample_first.wanted

    def _saw_first(self, enough: bool) -> None:
        if self._sample_first is not None:
            self._sample_first.saw(enough)

    def _fill_mask(self, matcher: Matcher) -> None:
        if self._refused:
            self._saw_first(False)
        if self._healing:
            matcher.fill_healing_mask(self._healing.rest, self.mask)
        elif self._draft:
            rows = np.zeros((len(self._draft) + 1, self.mask.size), dtype=np.int32)
            if self._ending is None:
                matcher.fill_draft_masks(self._draft, rows)
            else:
                self._ending.fill_draft_masks(matcher, self._draft, rows)
            self._draft_masks = list(rows)
            self.mask = rows[0]
            if self._jump is not None:
                self._jump.look_ahead(matcher, self._draft)
        elif self._ending is not None:
            self._ending.fill_mask(matcher, self.mask)
        else:
            matcher.fill_mask(self.mask)
        self.masked = True
        self.masks += 1
        # No token is allowed: the vocabulary has no end tokens, or the text is complete. So the sequence ends.
        self.ended = not self.mask.any() and matcher.is_accepting and not self._healing

    def close(self) -> None:
        """The sequence has ended. Queued work is skipped. The result of running work is not read."""
        self._closed = True
