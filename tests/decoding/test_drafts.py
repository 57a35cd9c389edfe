"""Drafts by themselves: what is guessed, how long, and what the tokens teach. That drafts change no token is shown where
they are used (`engines/llama_cpp/test_strategies.py`)."""

from __future__ import annotations

import random

import pytest

import narrows
from narrows.decoding.drafts import Drafter, PromptLookup, StateChoices

LETTERS = narrows.Vocabulary([*(bytes([b]) for b in b'abcdefgh{}":,'), b"<end>"], special={"<end>": 13}, eos=[13])


def drafter(mode="prompt", most=8, prompt=()):
    made = Drafter(mode, most, StateChoices())
    made.add(prompt, prompt=True)
    return made


def test_a_copy_is_followed_to_its_end():
    """Once a few tokens have come true, the whole guess is as long as it may be."""
    text = list(range(100, 160))
    made = drafter(prompt=text)
    lengths = []
    for token in text[:-1]:
        made.add([token])
        guess = made.guess(None, 8)
        at = token - 99
        assert guess == (text + text)[at : at + len(guess)]  # the copy itself follows the prompt
        lengths.append(len(guess))
    assert lengths[8:] == [8] * 51


def test_what_had_different_tokens_after_it_is_no_guess():
    colon, quote = 1, 2
    lookup = PromptLookup()
    for value in (60, 70):
        lookup.add([value - 1, colon, quote, value, value + 1])
    lookup.add([90, colon, quote])
    assert lookup.guess(8, 0.01) == []
    lookup.add([70])
    assert lookup.guess(8, 0.01)[:1] == [71]


def test_tokens_teach_without_a_guess():
    """Where nothing is copied, nothing is guessed after a while. Where copying begins again, guesses come back."""
    choose = random.Random(1)
    prompt = [choose.randrange(30) for _ in range(400)]
    made = drafter(prompt=prompt)
    for _ in range(200):
        made.add([choose.randrange(30)])
    guessed = 0
    for _ in range(200):
        made.add([choose.randrange(30)])
        guessed += len(made.guess(None, 8))
    assert guessed < 20
    copied = 0
    for token in prompt[100:160]:
        made.add([token])
        copied += bool(made.guess(None, 8))
    assert copied > 40


@pytest.mark.parametrize("running", [1, 2, 4, 8])
def test_a_guess_is_shorter_beside_more_sequences(running):
    text = list(range(100, 140))
    lengths = []
    for count in range(1, 9):
        made = drafter(prompt=text)
        made.add(text[:6])
        lengths.append(len(made.guess(None, 8, running=count)))
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[7]


@pytest.mark.parametrize("most", [0, 1, 3, 100])
def test_a_guess_has_at_most_the_tokens_that_were_asked_for(most):
    text = list(range(100, 160))
    made = drafter(prompt=text, most=5)
    for token in text[:40]:
        made.add([token])
        assert len(made.guess(None, most)) <= min(5, most)


def test_the_prompt_is_no_evidence():
    """A prompt that repeats itself says nothing of what the model will copy."""
    twice = PromptLookup()
    once = PromptLookup()
    text = list(range(100, 150))
    twice.add([*text, *text, 1], learn=False)
    once.add([*text, 1], learn=False)
    for made in (twice, once):
        made.add(text[:2])
    assert twice.guess(8, 0.3) == once.guess(8, 0.3) == [102, 103]


def test_a_place_that_had_one_token_is_guessed_and_others_are_not():
    constraint = LETTERS.compile(narrows.Grammar.from_regex('\\{"(a|b)[c-h]*":[a-h]+\\}'))
    choices = StateChoices()
    for text in ('{"ac":b}', '{"ad":c}', '{"ae":d}'):
        made = Drafter("grammar", 8, choices)
        matcher = constraint.matcher()
        for byte in text.encode():
            token = LETTERS.spell(bytes([byte]))[0]
            made.chose(constraint, matcher.state_key, token)
            assert matcher.accept(token)
    made, matcher = Drafter("grammar", 8, choices), constraint.matcher()
    assert made.guess(matcher, 8) == LETTERS.spell(b'{"a')
    assert len(matcher) == 0
    matcher.accept_bytes(b'{"b')
    assert made.guess(matcher, 8) == []


def test_places_that_disappoint_are_guessed_less():
    """Each text goes another way than the two before it, so what was sure is wrong."""
    constraint = LETTERS.compile(narrows.Grammar.from_regex("[a-h]{20}"))
    odds = Drafter("grammar", 8, StateChoices())._odds
    guessed = []
    for _ in range(5):
        choices = StateChoices()
        for token in (0, 0, 1):
            made, matcher = Drafter("grammar", 8, choices), constraint.matcher()
            if token == 1:
                made._odds = odds
            for _ in range(20):
                if token == 1:
                    guessed.append(len(made.guess(matcher, 8)))
                made.chose(constraint, matcher.state_key, token)
                assert matcher.accept(token)
    assert guessed[0] > 0
    assert sum(guessed[20:]) == 0
