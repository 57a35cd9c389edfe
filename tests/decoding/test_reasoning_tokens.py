"""The number of an answer's tokens that are reasoning, for every format that has some, however the answer is cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transcripts import Case, load

from narrows import Vocabulary
from narrows.decoding.reasoning_tokens import ReasoningTokens
from narrows.events import Content, Event, Reasoning

BYTES = Vocabulary([bytes([byte]) for byte in range(256)])
"""Of a parser that is fed tokens. Markers are no tokens here."""
REASONED = [case for case in load() if case.message.get("reasoning")]


def counted(case: Case, bounds: list[int]) -> int:
    """As an engine counts them: the tokens are the pieces between the bounds."""
    parser, counter, found = case.parser(vocab=BYTES), ReasoningTokens(), 0
    for start, end in itertools.pairwise(bounds):
        before = parser.position
        events = parser.feed_spelled(case.text[start:end])
        counter.token(before, parser.position)
        found += counter.count(events)
    return found + counter.count(parser.finish())


def reasoned(case: Case) -> set[int]:
    """The places of the characters that are reasoning."""
    parser = case.parser(vocab=BYTES)
    events = [*parser.feed_spelled(case.text), *parser.finish()]
    return {at for event in events if isinstance(event, Reasoning) for at in range(*event.span)}


@pytest.mark.parametrize("case", REASONED, ids=str)
@given(st.data())
@settings(max_examples=8, deadline=None)
def test_tokens_that_the_reasoning_has_characters_of(case: Case, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(1, len(case.text)), max_size=40) | st.just(list(range(len(case.text)))))
    bounds = sorted({0, *places, len(case.text)})
    inside = reasoned(case)
    assert counted(case, bounds) == sum(not inside.isdisjoint(range(*pair)) for pair in itertools.pairwise(bounds))


def test_the_tokens_of_a_character_count_once_it_is_whole() -> None:
    counter = ReasoningTokens()
    for _ in range(2):
        counter.token(0, 0)
        assert counter.count([]) == 0
    counter.token(0, 1)
    assert counter.count([Reasoning("é", (0, 1))]) == 3


def test_a_token_of_both_counts_and_counts_once() -> None:
    counter = ReasoningTokens()
    counter.token(0, 9)
    events: list[Event] = [Content("_", (0, 1)), Reasoning("a", (3, 4)), Reasoning("b", (4, 5)), Content("c", (8, 9))]
    assert counter.count(events) == 1
    counter.token(9, 10)
    assert counter.count([Content("d", (9, 10))]) == 0


@pytest.mark.parametrize("at", [1, 2, 8])
def test_one_character_of_reasoning_in_a_token_is_enough(at: int) -> None:
    for begins in (True, False):
        counter = ReasoningTokens()
        counter.token(0, 9)
        first, second = (Reasoning, Content) if begins else (Content, Reasoning)
        events: list[Event] = [first("a" * at, (0, at)), second("b" * (9 - at), (at, 9))]
        assert counter.count(events[:1]) + counter.count(events[1:]) == 1
