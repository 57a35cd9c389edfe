"""The state of one sequence: whatever is done to it, it goes on as one that was left alone."""

from __future__ import annotations

import random
import zlib
from typing import Any

import numpy as np
import pytest

from narrows import Grammar, InputError, LimitError, TokenError, Vocabulary, formats
from narrows.decoding.params import SamplingParams
from narrows.decoding.sequence_state import SequenceFactory, SequenceState
from narrows.stream.parser import join

VOCABULARY = Vocabulary([bytes([b]) for b in range(256)] + [b"a1", b'": "', b""], {"<end>": 258}, eos=258)
HERMES = formats.get("hermes_json")
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string", "pattern": "^[a-cé]{0,4}$"}},
    "required": ["a"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]
CALLS = VOCABULARY.compile(HERMES.grammar(TOOLS, parallel=False))
PAIRS = VOCABULARY.compile(Grammar.from_regex("(?:[ab][12]){1,6}"))


def parser(index: int) -> Any:
    return HERMES.parser(TOOLS, tool_choice="required", vocab=VOCABULARY, id_factory=lambda call: f"{index}-{call}")


def row(state: SequenceState) -> Any:
    """What a model would say here: a function of the tokens."""
    seed = zlib.crc32(np.array(state.tokens, dtype=np.int32).tobytes())
    return 2 * np.random.default_rng(seed).standard_normal(VOCABULARY.size + 3, dtype=np.float32)


def go_on(state: SequenceState) -> None:
    assert state.accept(state.sample(row(state))[0])


def to_end(state: SequenceState) -> tuple[int, ...]:
    while state.finish_reason is None:
        go_on(state)
    return state.tokens


FACTORIES = {
    "call": {"constraint": CALLS, "parser_factory": parser},
    "free": {},
    "penalties": {
        "constraint": PAIRS,
        "sampling": {"repetition_penalty": 1.3, "frequency_penalty": 0.5},
        "prompt": [97],
    },
    "nucleus": {"constraint": PAIRS, "sampling": {"top_p": 0.8, "top_k": 5}},
    "budget": {"constraint": PAIRS, "budget": True, "sampling": {"max_tokens": 8}},
    "greedy": {"constraint": PAIRS, "sampling": {"temperature": 0.0}},
    "least": {"constraint": PAIRS, "sampling": {"min_tokens": 6}},
}


def factory_of(name: str, **options: Any) -> SequenceFactory:
    given = {**FACTORIES[name], **options}
    sampling = SamplingParams(**{"seed": 4, "max_tokens": 90, **given.pop("sampling", {})})
    return SequenceFactory(VOCABULARY, sampling=sampling, **given)


@pytest.mark.parametrize("name", FACTORIES)
def test_whatever_is_done_to_it_it_says_the_same(name: str) -> None:
    """Random forks, rollbacks, replays and new states, of sequences that draw and whose events are read now and then."""
    factory = factory_of(name)
    for index in range(6):
        alone = factory.new(index)
        said = to_end(alone)
        whole = join([*alone.take_events(), *alone.finish()])
        chance = random.Random(index)
        state, events = factory.new(index), []
        while state.finish_reason is None:
            what = chance.randrange(8)
            if what == 0:
                state = state.fork()
            elif what == 1:
                state.rollback(chance.randint(0, len(state) - state.events_taken))
            elif what == 2:
                state.replay(state.tokens)
            elif what == 3:
                state = factory.new(index, state.tokens, events_taken=state.events_taken)
            elif what == 4:
                events += state.take_events()
            elif what == 5:
                assert state.sample(row(state))[0] == said[len(state)]
            else:
                go_on(state)
        assert state.tokens == said
        assert state.finish_reason == alone.finish_reason
        assert join([*events, *state.take_events(), *state.finish()]) == whole


def test_masks_are_the_matchers() -> None:
    state = factory_of("call").new()
    while state.finish_reason is None:
        expected = np.empty(state.factory.mask_words, dtype=np.int32)
        assert state.matcher is not None
        state.matcher.fill_mask(expected)
        assert (state.mask() == expected).all()
        go_on(state)
    bits = np.unpackbits(factory_of("free").new().mask().view(np.uint8), bitorder="little")
    assert bits.sum() == bits[: VOCABULARY.size].sum() == VOCABULARY.size


def test_forks_go_their_own_ways() -> None:
    factory = factory_of("call")
    state = factory.new()
    for _ in range(30):
        go_on(state)
    forks = [state.fork(index) for index in (0, 1, 2)]
    texts = [to_end(fork) for fork in forks]
    assert len(set(texts)) == 3
    assert {text[:30] for text in texts} == {state.tokens}
    assert texts[0] == to_end(state)


def test_a_seed_is_kept_where_none_was_given() -> None:
    factory = factory_of("call", sampling={"seed": None})
    assert to_end(factory.new(1)) == to_end(factory.new(1))
    assert factory_of("call", sampling={"seed": None}).sampling.seed != factory.sampling.seed


def test_what_is_not_allowed_changes_nothing() -> None:
    state = factory_of("budget").new()
    go_on(state)
    before = state.tokens
    assert not state.accept(0)
    assert not state.accept(VOCABULARY.eos_ids[0])
    for outside in (-1, VOCABULARY.size):
        with pytest.raises(TokenError):
            state.accept(outside)
    with pytest.raises(InputError, match="does not fit") as caught:
        state.replay([*before, 0])
    assert caught.value.code == "replay_rejected"
    assert caught.value.offset == 1
    assert state.tokens == before
    assert to_end(state) == to_end(factory_of("budget").new())


def test_nothing_is_accepted_after_the_end() -> None:
    state = factory_of("free", sampling={"max_tokens": 2}).new()
    assert to_end(state)
    assert state.finish_reason == "length"
    assert not state.accept(97)
    stopped = factory_of("free", sampling={"stop_token_ids": (97,)}).new(output=[98, 97])
    assert stopped.finish_reason == "stop"
    assert not stopped.accept(98)


def test_without_end_tokens_it_ends_where_nothing_can_follow() -> None:
    vocabulary = Vocabulary([b"a", b"b"])
    state = SequenceFactory(vocabulary, constraint=vocabulary.compile(Grammar.from_regex("ab?"))).new()
    assert state.accept(0)
    assert state.finish_reason is None
    assert state.accept(1)
    assert state.finish_reason == "stop"


def test_events_that_were_taken_are_never_taken_back() -> None:
    state = factory_of("call").new()
    for _ in range(45):
        go_on(state)
    state.take_events()
    go_on(state)
    state.rollback(1)
    for wrong in (lambda: state.rollback(1), lambda: state.replay(state.tokens[:-1]), lambda: state.rollback(-1)):
        with pytest.raises(InputError):
            wrong()
    assert state.finish()
    assert state.finish() == []
    assert not state.accept(97)
    for wrong in (lambda: state.rollback(0), lambda: state.replay(state.tokens)):
        with pytest.raises(InputError) as caught:
            wrong()
        assert caught.value.code == "sequence_finished"


def test_a_parser_that_fails_once_is_made_anew() -> None:
    class Once:
        failed = False

        def __init__(self) -> None:
            self.read: list[int] = []

        def feed_tokens(self, ids: Any) -> list[Any]:
            if len(self.read) > 1 and not Once.failed:
                Once.failed = True
                raise ValueError("once")
            self.read += ids
            return list(ids)

        def finish(self) -> list[Any]:
            return [self.read]

    state = factory_of("free", parser_factory=lambda index: Once()).new(output=[97, 98])
    assert state.take_events() == [97, 98]
    assert state.accept(99)
    with pytest.raises(ValueError, match="once"):
        state.take_events()
    assert state.finish() == [99, [97, 98, 99]]


def test_what_is_refused_at_the_start() -> None:
    for options in (
        {"sampling": {"stop": ("x",)}},
        {"budget": True},
        {"constraint": PAIRS, "budget": True, "sampling": {"max_tokens": None}},
    ):
        with pytest.raises(InputError) as caught:
            factory_of("free", **options)
        assert caught.value.code == "sampling_params_invalid"
    with pytest.raises(LimitError) as too_small:
        factory_of("call", budget=True, sampling={"max_tokens": 9}).new()
    assert too_small.value.code == "max_tokens_too_small"
    with pytest.raises(InputError) as taken:
        factory_of("free").new(output=[97], events_taken=2)
    assert taken.value.code == "events_taken_invalid"
