"""What the tests of `engine_contract` need of an engine: an `Adapter`, which its author writes.

An adapter starts sequences, computes one step of all that run, and interferes with one of them: preempt, fork, give
drafts, abort. It is asked between steps, by one thread. A handle is whatever stands for a sequence and can be the key
of a dict.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Union

from narrows.constraint import Constraint
from narrows.decoding.params import SamplingParams
from narrows.decoding.sequence_state import TokenReader
from narrows.engines.api import FinishReason
from narrows.events import Event
from narrows.vocabulary.vocabulary import Vocabulary

__all__ = ["Adapter", "Can", "Result", "Start"]

Can = Union[Literal[True], str]
"""True, or the reason why not. Tests that need what an engine cannot do are skipped with that reason."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Start:
    """What a sequence begins with. Two that are given different numbers are different sequences."""

    number: int
    """Tells sequences apart. With one seed, sequences of different numbers draw different random numbers."""
    prompt: str
    sampling: SamplingParams
    """`temperature` (0 or 1), `seed` and `max_tokens` are set, and nothing else."""
    constraint: Constraint | None = None
    """None: the sequence is free."""
    pattern: str | None = None
    """The regular expression that the constraint was compiled from, for an engine that compiles it itself. None if it
    was compiled from another definition, or the sequence is free."""
    parser_factory: Callable[[int], TokenReader] | None = None
    """Called with `number`. None: there are no events."""
    budget: bool = False
    """Whether the text has to be whole within `max_tokens`."""


@dataclass(kw_only=True)
class Result:
    """What a sequence has given so far, from its beginning: for a fork, also what came before the fork."""

    tokens: list[int] = field(default_factory=list)
    """The output, with the end token."""
    text: str | None = None
    """Its text, with all markup, when the sequence has ended; without end tokens. None: the adapter does not say."""
    events: list[Event] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    """None while it runs. `stop`: an end token, or the end of what the constraint allows."""


class Adapter(ABC):
    """Between an engine and the tests. What cannot be done is said in an attribute, as the reason."""

    most_sequences: int = 16
    """Most sequences that run at once. The tests use up to 16."""
    most_drafted: int = 4
    """Most sequences that are given drafts at once."""
    can_be_repeated: Can = True
    """A sequence gives the same tokens each time, whatever else runs. Otherwise only what every text must keep is
    compared."""
    can_draw: Can = True
    """Tokens can be drawn with a seed. Otherwise all sequences are greedy."""
    can_start_late: Can = True
    """A sequence can start while others run."""
    can_abort: Can = True
    can_preempt: Can = True
    can_fork: Can = True
    can_draft: Can = True
    can_read_events: Can = True
    can_keep_budgets: Can = True
    can_fail_alone: Can = True
    """A limit that a constraint reaches ends its sequence, and no other."""
    can_take_constraints: Can = True
    """The engine takes a `Constraint` itself, with its limits and its vocabulary. Otherwise it compiles
    `Start.pattern`."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """Of the engine's model. Constraints are compiled for it."""

    @abstractmethod
    def start(self, start: Start) -> Hashable:
        """Start a sequence. Returns its handle."""

    @abstractmethod
    def step(self, drafts: Mapping[Hashable, Sequence[int]]) -> None:
        """Compute one step of all that run: each gets one token more, or several, or ends.

        drafts: tokens that somebody guessed to come next, for some of the handles. They are computed with the last
        token, and kept as far as they turn out to be what the sequence gives.
        """

    @abstractmethod
    def result(self, handle: Hashable) -> Result:
        """What the sequence has given so far. Also after its end."""

    def abort(self, handle: Hashable) -> None:
        """End the sequence at once, with `abort`."""
        raise NotImplementedError

    def preempt(self, handle: Hashable) -> None:
        """Take the sequence's memory away, so that its prompt and its output are computed anew at the next step."""
        raise NotImplementedError

    def fork(self, handle: Hashable, number: int) -> Hashable:
        """A second sequence at the place of this one. Returns its handle.

        number: that of the sequence to go on as. With the own number of this one, the fork goes on as this one does.
        """
        raise NotImplementedError
