"""The logits processor on a stand-in: every text is one of the grammar, and the one that masking by hand gives, whatever
was generated before, what was cached and what was drafted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_llama import Draft, FakeLlama

from narrows import Constraint, EngineError, Grammar, InputError, Vocabulary
from narrows.plugins.llama_cpp_python import LogitsProcessor
from narrows.plugins.llama_cpp_python.position import Position

TOKENS = [b"a", b"b", b"ab", b"(", b")", b",", b"", b""]
END, OTHER = 6, 7
VOCABULARY = Vocabulary(TOKENS, special={"<end>": END, "<other>": OTHER}, eos=[END])
NESTED = VOCABULARY.compile(Grammar.from_gbnf('root ::= "(" (root ("," root)*)? ")" | "a" | "ab" "b"*'))
WORDS = VOCABULARY.compile(Grammar.from_regex("(ab|b){3,9}a?"))
MOST = 30


@pytest.fixture(autouse=True)
def llama_cpp(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that the processor asks the real package."""
    monkeypatch.setitem(
        sys.modules, "llama_cpp", SimpleNamespace(llama_vocab_is_eog=lambda vocab, token: token in vocab)
    )


def text_of(llm: FakeLlama, prompt: list[int], processors: Any, reset: bool = True) -> list[int]:
    """The generated tokens, with the end token."""
    made = []
    for token in llm.generate(prompt, processors, reset):
        made.append(token)
        if token == END or len(made) == MOST:
            break
    return made


def by_hand(llm: FakeLlama, prompt: list[int], constraint: Constraint) -> list[int]:
    matcher, made = constraint.matcher(), []
    row = np.zeros(1, np.int32)
    while len(made) < MOST and not matcher.is_finished:
        matcher.fill_mask(row)
        logits = llm.logits_after([*prompt, *made])
        allowed = [token for token in range(len(TOKENS)) if row[0] >> token & 1]
        made.append(max(allowed, key=lambda token: logits[token]))
        assert matcher.accept(made[-1])
    return made


def drafts(seed: int) -> Draft:
    """Random tokens, and often some that the text has had."""

    def draft(ids: list[int]) -> list[int]:
        choose = Random(repr((seed, ids)))
        start = choose.randrange(len(ids))
        old = ids[start : start + choose.randrange(5)]
        return old if choose.random() < 0.7 else [choose.randrange(len(TOKENS)) for _ in range(3)]

    return draft


@pytest.mark.parametrize("width", [len(TOKENS), len(TOKENS) + 5, 64])
@pytest.mark.parametrize("drafting", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_one_processor_for_many_generations(seed: int, drafting: bool, width: int) -> None:
    choose = Random(seed)
    llm = FakeLlama(width, [END], drafts(seed) if drafting else None)
    processors = [LogitsProcessor(llm, NESTED), LogitsProcessor(llm, WORDS)]
    prompt = [choose.randrange(len(TOKENS)) for _ in range(choose.randint(1, 4))]
    for _ in range(6):
        which = choose.randrange(2)
        made = text_of(llm, prompt, processors[which])
        assert made == by_hand(llm, prompt, (NESTED, WORDS)[which])
        # The next prompt: the same, what was written, also with one token more, or another one.
        kept = made[: choose.choice((0, 0, 1, len(made) - 1, len(made)))]
        prompt = [*prompt, *kept] if choose.random() < 0.8 else [choose.randrange(len(TOKENS)), *prompt]
    assert llm.places_kept


def test_a_prompt_that_goes_on_where_the_last_text_was_cut() -> None:
    """The tokens alone do not show that this is another generation."""
    llm = FakeLlama(len(TOKENS), [END])
    processor = LogitsProcessor(llm, WORDS)
    first = []
    for token in llm.generate([0, 1], processor):
        first.append(token)
        if len(first) == 2:
            break
    assert text_of(llm, [0, 1, *first], processor) == by_hand(llm, [0, 1, *first], WORDS)


def test_without_a_reset_the_prompt_comes_after_what_is_there() -> None:
    llm = FakeLlama(len(TOKENS), [END])
    processor = LogitsProcessor(llm, NESTED)
    first = text_of(llm, [0], processor)
    evaluated = [0, *first[:-1]]
    assert text_of(llm, [3, 3], processor, reset=False) == by_hand(llm, [*evaluated, 3, 3], NESTED)


def test_after_the_end_only_the_end_is_allowed() -> None:
    llm = FakeLlama(len(TOKENS), [END, OTHER])
    tokens = llm.generate([2], LogitsProcessor(llm, VOCABULARY.compile(Grammar.choice(["a"]))))
    assert [next(tokens) for _ in range(5)] == [0, END, END, END, END]


def test_with_the_processors_of_logit_bias() -> None:
    llm = FakeLlama(len(TOKENS), [END])
    processor = LogitsProcessor(llm, WORDS)

    def prefer_other(ids: Any, logits: Any) -> Any:
        logits[OTHER] += 100
        return logits

    assert OTHER not in text_of(llm, [0], processor.extend([prefer_other]))
    assert list(processor) == [processor]


def ending(llm: FakeLlama, processors: Any) -> Iterator[tuple[int, Exception | None]]:
    """The tokens, and what a processor raised at each. ctypes prints it, and llama.cpp goes on."""
    caught: list[Exception] = []

    def guarded(processor: Any) -> Any:
        def call(ids: Any, logits: Any) -> Any:
            try:
                return processor(ids, logits)
            except Exception as error:
                caught.append(error)
                return logits

        return call

    for token in llm.generate([0], [guarded(processor) for processor in processors]):
        yield token, caught.pop() if caught else None


def test_a_token_that_was_not_allowed_ends_the_text() -> None:
    llm = FakeLlama(len(TOKENS), [END])
    processor = LogitsProcessor(llm, WORDS)

    def spoil(ids: Any, logits: Any) -> Any:
        logits[:] = -np.inf
        logits[OTHER] = 0
        return logits

    tokens = ending(llm, [processor, spoil])
    assert next(tokens) == (OTHER, None)
    tokens.close()
    llm = FakeLlama(len(TOKENS), [END])
    processor = LogitsProcessor(llm, WORDS)
    spoils = [True]
    tokens = ending(llm, [processor, lambda ids, logits: spoil(ids, logits) if spoils.pop(0) else logits])
    spoils += [False] * 9
    assert next(tokens) == (OTHER, None)
    token, error = next(tokens)
    assert token == END
    assert isinstance(error, EngineError)
    assert error.code == "tokens_disagree"
    assert next(tokens) == (END, None)
    with pytest.raises(EngineError):
        processor.check(np.array([0], np.intc), np.zeros(8, np.single))
    assert text_of(llm, [1], processor) == by_hand(llm, [1], WORDS)
    assert processor.error is None
    assert not processor.check(np.array([0], np.intc), np.zeros(8, np.single))


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), ValueError("?")])
def test_whatever_fails_ends_the_text(failure: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    llm = FakeLlama(len(TOKENS), [END])
    processor = LogitsProcessor(llm, WORDS)
    tokens = llm.generate([0], [processor.apply])
    next(tokens)

    def fail(self: Position, ids: Any) -> None:
        raise failure

    monkeypatch.setattr(Position, "go_on", fail)
    assert [next(tokens), next(tokens)] == [END, END]
    assert processor.error is failure


def test_where_another_processor_leaves_nothing_the_text_ends() -> None:
    """Without this a sampler takes the first token of all, which may be one that ends the text."""
    llm = FakeLlama(len(TOKENS), [END])
    processor = LogitsProcessor(llm, WORDS)

    def only_other(ids: Any, logits: Any) -> Any:
        logits[:OTHER] = -np.inf
        return logits

    assert next(llm.generate([0], [only_other, processor.apply])) == END
    assert getattr(processor.error, "code", "") == "tokens_disagree"


def test_two_generators_of_one_llama_disturb_each_other_and_this_is_seen() -> None:
    llm = FakeLlama(len(TOKENS), [END])
    first = LogitsProcessor(llm, VOCABULARY.compile(Grammar.from_regex("a{9}")))
    second = LogitsProcessor(llm, VOCABULARY.compile(Grammar.from_regex("b{9}")))
    one = llm.generate([0], [first.apply])
    two = llm.generate([3], [second.apply])
    for _ in range(3):
        next(one)
        next(two)
    assert {getattr(processor.error, "code", None) for processor in (first, second)} - {None} == {"tokens_disagree"}


def test_what_cannot_be() -> None:
    llm = FakeLlama(len(TOKENS), [END])
    small = FakeLlama(len(TOKENS) - 1, [5])
    endless = FakeLlama(len(TOKENS), [OTHER])
    for model, constraint, code in (
        (small, NESTED, "vocabulary_mismatch"),
        (endless, NESTED, "vocabulary_mismatch"),
        (object(), NESTED, "llama_cpp_python_unsupported"),
        (llm, "a+", "invalid_input"),
    ):
        with pytest.raises(InputError) as caught:
            LogitsProcessor(model, constraint)  # type: ignore[arg-type]
        assert caught.value.code == code


def test_tokens_that_are_gone_are_an_error() -> None:
    position = Position(NESTED)
    position.begin(np.array([1, 2], np.intc))
    with pytest.raises(EngineError) as caught:
        position.go_on(np.array([1, 2], np.intc))
    assert caught.value.code == "tokens_disagree"
