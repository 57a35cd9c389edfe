"""Drives an adapter, and looks at each sequence after each step. What breaks the contract raises `ContractBroken`.

At every step, whatever a test does: the output only grows; each new token is one of the vocabulary, and a matcher of
the test's own allows it at its place; nothing follows the end. So each test also tests that the masks are held to.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from narrows.decoding.detokenize import Detokenizer
from narrows.errors import LimitError
from narrows.events import Event
from narrows.stream.parser import join
from narrows.testing.adapter import Adapter, Result, Start
from narrows.tokens import CompiledVocabulary

_LOOKS_AFTER_END = 3
"""Steps after its end in which a sequence is still looked at."""
_MOST_IDLE_STEPS = 20
"""Most steps in a row in which no sequence gets a token."""


class ContractBroken(AssertionError):
    """An engine, or its adapter, does what the contract forbids."""


def hold(holds: bool, says: str) -> None:
    if not holds:
        raise ContractBroken(says)


class Watched:
    """A running sequence, with a matcher of the test's own."""

    def __init__(self, adapter: Adapter, start: Start, handle: Hashable, name: str) -> None:
        self.start = start
        self.handle = handle
        self.name = name
        self.result = Result()
        self._adapter = adapter
        self._vocabulary = adapter.vocabulary if start.constraint is None else start.constraint.vocabulary
        self._matcher = start.constraint.matcher() if start.constraint is not None else None
        self._is_over_limit = False
        self._looks_left = _LOOKS_AFTER_END

    def __len__(self) -> int:
        return len(self.result.tokens)

    @property
    def runs(self) -> bool:
        return self.result.finish_reason is None

    def look(self) -> None:
        """Take what the sequence has given, and check what is new."""
        if not self._looks_left:
            return
        before, now = self.result, self._adapter.result(self.handle)
        if not self.runs:
            self._looks_left -= 1
            hold(now == before, f"{self}: something came after its end")
            return
        self.result = now = Result(
            tokens=list(now.tokens), text=now.text, events=list(now.events), finish_reason=now.finish_reason
        )
        known = len(before.tokens)
        hold(now.tokens[:known] == before.tokens, f"{self}: output that was given has changed")
        hold(now.events[: len(before.events)] == before.events, f"{self}: events that were given have changed")
        for place, token in enumerate(now.tokens[known:], known):
            self._check(token, place, is_last=place == len(now.tokens) - 1)
        most = self.start.sampling.max_tokens
        hold(most is None or len(now.tokens) <= most, f"{self}: it has more than max_tokens ({most})")
        if now.finish_reason is not None:
            self._check_end()

    def _check(self, token: int, place: int, *, is_last: bool) -> None:
        vocabulary = self._vocabulary
        where = f"{self}: token {token} at place {place}"
        hold(0 <= token < vocabulary.size, f"{where} is no token of the vocabulary")
        is_end = token in vocabulary.eos_ids
        hold(not is_end or is_last, f"{where} is an end token, and something follows it")
        if self._matcher is None:
            return
        if self._is_over_limit:
            hold(is_end, f"{where} comes after a limit was reached, so that nothing can have allowed it")
            return
        try:
            fits = self._matcher.accept(token)
        except LimitError:
            self._is_over_limit = True
        else:
            hold(fits, f"{where} is not allowed there")

    def _check_end(self) -> None:
        result, matcher = self.result, self._matcher
        if result.finish_reason == "stop" and matcher is not None and not self._is_over_limit:
            hold(matcher.is_finished or matcher.is_accepting, f"{self}: its text ends where it is not complete")
        if result.text is not None:
            text = text_of(result.tokens, self._vocabulary)
            hold(result.text == text, f"{self}: its text is {result.text!r}, and its tokens say {text!r}")
        if self.start.parser_factory is not None and result.finish_reason != "error":
            self._check_events()

    def _check_events(self) -> None:
        """They are those of a parser that reads all tokens at once."""
        assert self.start.parser_factory is not None
        parser = self.start.parser_factory(self.start.number)
        whole = join([*parser.feed_tokens(self.result.tokens), *parser.finish()])
        given = join(list(self.result.events))
        hold(given == whole, f"{self}: its events are {_short(given)}, and the whole text's are {_short(whole)}")

    def __str__(self) -> str:
        return f"{self.name} (after {len(self.result.tokens)} tokens)"


class Run:
    """All sequences of one test."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.watched: list[Watched] = []
        self._idle = 0

    def start(self, start: Start) -> Watched:
        watched = Watched(self.adapter, start, self.adapter.start(start), f"sequence {start.number}")
        self.watched.append(watched)
        return watched

    def start_all(self, starts: Sequence[Start]) -> list[Watched]:
        return [self.start(start) for start in starts]

    def fork(self, watched: Watched, start: Start) -> Watched:
        """Fork a sequence, to go on as that of `start`."""
        place = len(watched)
        name = f"fork of sequence {watched.start.number} at place {place}"
        fork = Watched(self.adapter, start, self.adapter.fork(watched.handle, start.number), name)
        fork.look()
        hold(fork.result.tokens == watched.result.tokens, f"{fork}: it does not begin with what is before it")
        self.watched.append(fork)
        return fork

    def abort(self, watched: Watched) -> None:
        self.adapter.abort(watched.handle)

    @property
    def running(self) -> list[Watched]:
        return [watched for watched in self.watched if watched.runs]

    def step(self, drafts: Mapping[Hashable, Sequence[int]] | None = None) -> None:
        before = sum(map(len, self.watched)), len(self.running)
        self.adapter.step(drafts or {})
        for watched in self.watched:
            watched.look()
        self._idle = self._idle + 1 if (sum(map(len, self.watched)), len(self.running)) == before else 0
        hold(self._idle < _MOST_IDLE_STEPS, f"{self.running[:1]}: no sequence gets further")

    def to_end(self) -> None:
        while self.running:
            self.step()

    def close(self) -> None:
        """End what a failed test has left."""
        for watched in self.running:
            if self.adapter.can_abort is True:
                self.adapter.abort(watched.handle)
        if self.running:
            self.adapter.step({})


def text_of(tokens: Sequence[int], vocabulary: CompiledVocabulary) -> str:
    """The text of an output. End tokens have none."""
    reader = Detokenizer()
    shown = [reader.feed(vocabulary.token_bytes(token)) for token in tokens if token not in vocabulary.eos_ids]
    return "".join(shown) + reader.finish()


def _short(events: Sequence[Event]) -> str:
    text = repr(list(events))
    return text if len(text) < 400 else f"{text[:200]} ... {text[-200:]}"
