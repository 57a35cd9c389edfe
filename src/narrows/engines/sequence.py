"""One sequence: its state while it is generated. No model and no threads here.

    row of logits ─► Sampler (mask of the guide, processors) ─► token ─► guide (guide.py): the next mask
                                                                   └──► text, events (reading.py) ─► Output

The engine calls `open` when it first gives the sequence a place, `step` with each row of logits, and `finish` exactly
once (through `step`, or itself for aborts and failures). Before a `step` the engine may have the guide's work done in
another thread. Otherwise `step` does it. A step may add several tokens: one that was drawn, and those that the grammar
forces after it. If a token was drawn before its mask and the guide has to work on it, `step` returns False, and the
engine calls it again with the same row. After a preemption the engine computes `tokens` anew. The guide, the parser,
the sampler and the processors keep their state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from narrows.decoding.drafts import Drafter
from narrows.decoding.draw import Ids
from narrows.decoding.ending import Ending
from narrows.decoding.healing import Healing
from narrows.decoding.jump_forward import Run
from narrows.decoding.processors import Logits, ProcessorChain
from narrows.decoding.repetition import Repetition
from narrows.decoding.sample_first import SampleFirst
from narrows.decoding.sampling import Sampler, TokenLogprob
from narrows.decoding.strategies import StrategyMemory
from narrows.engines.api import FinishReason, Output, Request
from narrows.engines.guide import Guide
from narrows.engines.output_queue import OutputQueue
from narrows.engines.reading import Reading
from narrows.errors import EngineError, NarrowsError, without_frames

if TYPE_CHECKING:
    from narrows.constraint import Constraint
    from narrows.vocabulary.vocabulary import Vocabulary


_REPEATED = "repetition_detected"
"""vLLM's stop reason of a repetition."""


class Sequence:
    """Sequence `index` of a request. `limit` is the most tokens of prompt and output together."""

    def __init__(
        self,
        request: Request,
        index: int,
        *,
        arrival: int,
        vocabulary: Vocabulary,
        limit: int,
        queue: OutputQueue,
        memory: StrategyMemory | None = None,
        healed: bytes = b"",
    ) -> None:
        self.request = request
        self.index = index
        self.order = (request.priority, arrival)
        """(priority, arrival). The lowest runs first, the highest is preempted first."""
        self.queue = queue
        self.tokens: list[int] = list(request.prompt_token_ids)
        """Prompt and output."""
        self.prompt = np.array(self.tokens, dtype=np.int32)
        self.prompt_length = len(self.tokens)
        self.cached_tokens = 0
        """Prompt tokens that were in the cache when the sequence first got a place."""
        self.finish_reason: FinishReason | None = None
        self._opened = False
        self._vocabulary = vocabulary
        self._memory = memory
        self._healing = Healing(healed, vocabulary)
        self._reading = Reading(request, index, vocabulary, healed)
        room = limit - self.prompt_length
        requested = request.sampling.max_tokens
        self._max_tokens = room if requested is None else min(requested, room)
        self.guide: Guide | None = None
        """From `open` to the end, if the request has a constraint."""
        self._processors = ProcessorChain(())
        self._opened_sampler: Sampler | None = None
        self._given: deque[int] = deque(request.output_token_ids)
        """Tokens with which the output begins and that are not yet in it."""
        self._drafter: Drafter | None = None
        self.jumped_tokens = 0
        """Tokens of the output that the grammar forced and that were not drawn."""
        self.masks = 0
        """Masks that its guide made, once it has ended."""
        sampling = request.sampling
        self._ends = frozenset(vocabulary.eos_ids)
        self._stop_ids = frozenset(sampling.stop_token_ids)
        self._forbidden_always = _ids(self._ends) if sampling.ignore_eos else None
        self._forbidden_early = _ids(self._ends | self._stop_ids)
        detected = request.repetition_detection
        self._repetition = Repetition(detected, vocabulary) if detected is not None else None
        self._winding_down = False
        """A repetition was found, and the guide goes the shortest way to the end of the text."""

    @property
    def output(self) -> SequenceOf[int]:
        return self.tokens[self.prompt_length :]

    @property
    def output_length(self) -> int:
        return len(self.tokens) - self.prompt_length

    @property
    def finished(self) -> bool:
        return self.finish_reason is not None

    def open(self) -> None:
        """Make guide, parser, sampler and processors, once. Raises what a factory raises."""
        if self._opened:
            return
        self._opened = True
        request = self.request
        self._opened_sampler = Sampler(request.sampling, index=self.index, prompt=request.prompt_token_ids)
        strategies = request.strategies
        if self._memory is not None and strategies.draft != "never":
            self._drafter = Drafter(strategies.draft, strategies.draft_tokens, self._memory.choices, request.constraint)
            self._drafter.add_prompt(request.prompt_token_ids)
        if request.constraint is not None:
            self.guide = self._make_guide(request.constraint)
        self._reading.open()
        self._processors = ProcessorChain(request.logits_processors)
        if self._given and not request.score_output:
            given, self._given = list(self._given), deque()
            self._add(given, None)
        self._steer()

    def _make_guide(self, constraint: Constraint) -> Guide:
        request, memory = self.request, self._memory
        strategies, sampling, processors = request.strategies, request.sampling, bool(request.logits_processors)
        first = strategies.samples_first(sampling, processors=processors)
        jumps = strategies.jumps_forward(sampling, processors=processors)
        return Guide(
            constraint,
            (self._vocabulary.size + 31) // 32,
            sample_first=SampleFirst(strategies.sample_first) if first else None,
            jump=memory.jump if memory is not None and jumps else None,
            drafter=self._drafter,
            ending=Ending(memory.ways, self._max_tokens) if memory is not None and strategies.budget else None,
            output=request.output_token_ids,
            healing=self._healing,
        )

    def step(self, logits: Logits) -> bool:
        """Choose the next tokens from a row of logits (float32[V], not changed) and send their output to the reader.

        False if the guide has to work first. Its state is then `due`, and nothing has changed.
        """
        if self._given:
            token = self._given.popleft()
            self._add([token], self._sampler.report(logits, None, token))
            self._steer()
            return True
        guide = self.guide
        if guide is not None and guide.state == "due":
            guide.work()
        logprob = None
        try:
            if guide is not None and guide.error is not None:
                raise guide.error
            if guide is not None and guide.accepted is not None:
                token = guide.take_accepted()
            elif guide is not None and guide.run:
                self._add_run(guide.take_run())
                self._steer()
                return True
            elif guide is not None and guide.ended:
                self._finish_at_end()
                return True
            elif guide is not None and not guide.masked:
                offered = guide.offer(self._candidates(logits))
                if offered is None:
                    return False
                token = offered
            else:
                token, logprob = self._sample(logits)
                if guide is not None:
                    guide.take(token, first=not self._sampler.needed_mask)
        except Exception as error:
            self.fail(error)
            return True
        self._add([token], logprob)
        if guide is not None and guide.state == "ready" and guide.run and not self.finished:
            self._add_run(guide.take_run())
        self._steer()
        return True

    def _finish_at_end(self) -> None:
        """No token may follow."""
        if self._winding_down:
            self.finish("repetition", cause=_REPEATED)
        else:
            self.finish("stop")

    def _steer(self) -> None:
        """Let other tokens come next than the model would draw: the way to the end of a text that runs without end, or
        the end of reasoning that is long enough."""
        guide = self.guide
        if self.finished or self._winding_down or (guide is not None and guide.ended):
            return
        if guide is not None and self._repetition is not None and self._repetition.found and self._has_least:
            self._winding_down = True
            guide.wind_down()
            return
        budget, thinking = self.request.thinking_budget, self._reading.thinking
        if budget is not None and thinking is not None and thinking.used_up and not self._given:
            end = tuple(budget.end)
            if guide is not None:
                guide.force(end)
            elif self._reading.is_whole:
                self._given.extend(end)

    @property
    def _sampler(self) -> Sampler:
        assert self._opened_sampler is not None
        return self._opened_sampler

    def _candidates(self, logits: Logits) -> Iterator[int]:
        forbidden = self._forbidden()
        for token in self._sampler.candidates(logits):
            if forbidden is None or not (forbidden == token).any():
                yield token

    def _forbidden(self) -> Ids | None:
        early = self.output_length < self.request.sampling.min_tokens
        return self._forbidden_early if early else self._forbidden_always

    def _sample(self, logits: Logits) -> tuple[int, TokenLogprob | None]:
        return self._sampler.sample(
            logits,
            mask=self._mask(),
            forbidden=self._forbidden(),
            processors=self._processors,
            output=self.output if self._processors else (),
        )

    def _mask(self) -> NDArray[np.int32] | None:
        if self.guide is not None:
            return self.guide.mask
        return self._healing.mask() if self._healing else None

    def take(self, token: int, logprob: TokenLogprob | None) -> None:
        """Add a token that somebody else has drawn and checked. Where the output runs without end, it ends here."""
        self._add([token], logprob)
        if self._repetition is not None and self._repetition.found and self._has_least:
            self.finish("repetition", cause=_REPEATED)

    def take_run(self) -> None:
        """Add the tokens that the grammar forces, if the guide has found some. No row of logits is needed for them."""
        guide = self.guide
        if (
            guide is not None
            and guide.state == "ready"
            and guide.error is None
            and guide.accepted is None
            and guide.run
        ):
            self._add_run(guide.take_run())
            self._steer()

    @property
    def may_step(self) -> bool:
        """Whether the next row of logits can be used now."""
        return bool(self._given) or self.guide is None or self.guide.state != "queued"

    @property
    def knows_next(self) -> bool:
        """Whether `guess` returns the very tokens that come next."""
        return bool(self._given)

    def guess(self, most: int, cost: float = 0.5) -> list[int]:
        """At most `most` tokens that may come next, to be computed with the last token. They are not added. `cost`:
        what a guessed token costs, as a part of a step."""
        if self._given:
            return list(self._given)[:most]
        most = min(most, self._max_tokens - self.output_length - 1)
        if self._drafter is None or most < 1 or self.finished or not self.output_length or self._healing:
            return []
        if self.guide is None:
            return self._drafter.guess(None, most, cost=cost)
        return self.guide.guess(self._drafter, most, cost) if self.guide.may_draft else []

    def _add_run(self, run: Run) -> None:
        self.jumped_tokens += len(run)
        self._add(run, None)

    def _add(self, tokens: SequenceOf[int], logprob: TokenLogprob | None) -> None:
        """Add tokens to the output, up to the end of the sequence if one of them ends it."""
        output = Output(index=self.index, logprobs=[logprob] if logprob is not None else [])
        for token in tokens:
            self._sampler.observe(token)
            if self._repetition is not None:
                self._repetition.add(token)
            self.tokens.append(token)
            output.token_ids.append(token)
            if self._drafter is not None:
                self._drafter.add(token)
            if self._healing and self.guide is None:
                self._healing.took(token)
            if self.output_length == 1:
                output.cached_tokens = self.cached_tokens
            try:
                self._reading.feed(token, logprob, output, stops=self._stops_count)
            except Exception as error:
                self.fail(error, output)
                return
            reason, cause = self._end_after(token, output)
            if reason is not None:
                self.finish(reason, output=output, cause=cause)
                return
        self.queue.put(output)

    def _is_end(self, token: int) -> bool:
        return token in self._stop_ids or (token in self._ends and not self.request.sampling.ignore_eos)

    def _end_after(self, token: int, output: Output) -> tuple[FinishReason | None, int | str | None]:
        reading = self._reading
        stop_text = reading.stop_text()
        if stop_text is not None:  # before the token, because a parser may give earlier text late
            return "stop", stop_text
        if reading.stop_value is not None and self._has_least:
            output.stop_value = True
            return "stop", reading.stop_value
        if token in self._stop_ids and token not in self._ends:
            return "stop", token
        # An end token that a constraint allows ends the text, even with `ignore_eos`.
        if self._is_end(token) or (self.guide is not None and token in self._ends):
            return "stop", None
        if reading.repeated_call:
            return "stop", None
        if self.guide is None and self._repetition is not None and self._repetition.found and self._has_least:
            return "repetition", _REPEATED
        if self.output_length >= self._max_tokens:
            return "length", None
        return None, None

    @property
    def _stops_count(self) -> bool:
        """Whether stop texts end the answer here."""
        return self.output_length > self.request.sampling.min_tokens

    @property
    def _has_least(self) -> bool:
        return self.output_length >= self.request.sampling.min_tokens

    @property
    def ended_by_itself(self) -> bool:
        """Whether it ended as the model does: at an end token or at the most tokens."""
        return self.finish_reason in ("stop", "length") and (
            self.finish_reason == "length" or self.tokens[-1] in self._ends
        )

    def fail(self, error: Exception, output: Output | None = None) -> None:
        """End this sequence alone with an error."""
        if not isinstance(error, NarrowsError):
            error = EngineError(f"{type(error).__name__}: {error}", code="sequence_failed")
        self.finish("error", output=output, error=without_frames(error))

    def finish(
        self,
        reason: FinishReason,
        *,
        output: Output | None = None,
        cause: int | str | None = None,
        error: NarrowsError | None = None,
    ) -> None:
        """Send the last output, with all text and events that were held back, and release the sequence's objects. Later
        calls have no effect."""
        if self.finished:
            return
        self.finish_reason = reason
        output = output or Output(index=self.index)
        if self._reading.stop_text() is None:
            try:
                self._reading.flush(output, stops=self._stops_count)
            except Exception as failure:
                reason, error = "error", error or EngineError(f"the parser failed: {failure}", code="parser_failed")
            stop_text = self._reading.stop_text()
            # The last characters that were held back may have completed a stop text.
            if stop_text is not None and reason in ("stop", "length", "repetition"):
                reason, cause, output.stop_value = "stop", stop_text, False
        if reason in ("stop", "repetition"):
            self._reading.finish_values(output)
        output.finish_reason = self.finish_reason = reason
        output.stop_reason = cause
        output.error = error
        self.release()
        self.queue.put(output)

    def release(self) -> None:
        """Drop guide, parser and processors. The processors are closed."""
        self._processors.close()
        if self.guide is not None:
            self.masks = self.guide.masks
            self.guide.close()
        self.guide = None
        self._reading.close()


def _ids(tokens: frozenset[int]) -> Ids:
    return np.array(sorted(tokens), dtype=np.int64)
