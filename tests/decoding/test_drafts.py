"""Drafts by themselves: what is guessed, how long, and what the tokens teach. That drafts change no token is shown where
they are used (`engines/llama_cpp/test_strategies.py`)."""

from __future__ import annotations

import random

import pytest

import narrows
from narrows.decoding.drafts import Drafter, Odds, PromptLookup, StateChoices

LETTERS = narrows.Vocabulary([*(bytes([b]) for b in b'abcdefgh{}":,'), b"<end>"], special={"<end>": 13}, eos=[13])


def drafter(mode="prompt", most=8, prompt=(), choices=None, constraint=None):
    made = Drafter(mode, most, choices or StateChoices(), constraint)
    made.add_prompt(prompt)
    return made


def write(made, *tokens):
    for token in tokens:
        made.add(token)


def test_a_copy_is_followed_to_its_end():
    """Once a few tokens have come true, the whole guess is as long as it may be."""
    text = list(range(100, 160))
    made = drafter(prompt=text)
    lengths = []
    for token in text[:-1]:
        made.add(token)
        guess = made.guess(None, 8)
        at = token - 99
        assert guess == (text + text)[at : at + len(guess)]  # the copy itself follows the prompt
        lengths.append(len(guess))
    assert lengths[8:] == [8] * 51


def test_what_had_different_tokens_after_it_is_no_guess():
    colon, quote = 1, 2
    lookup = PromptLookup(Odds())
    for value in (60, 70):
        write(lookup, value - 1, colon, quote, value, value + 1)
    write(lookup, 90, colon, quote)
    assert lookup.guess(8, 0.01) == []
    lookup.add(70)
    assert lookup.guess(8, 0.01)[:1] == [71]


def test_tokens_teach_without_a_guess():
    """Where nothing is copied, nothing is guessed after a while. Where copying begins again, guesses come back."""
    choose = random.Random(1)
    prompt = [choose.randrange(30) for _ in range(400)]
    made = drafter(prompt=prompt)
    for _ in range(200):
        made.add(choose.randrange(30))
    guessed = 0
    for _ in range(200):
        made.add(choose.randrange(30))
        guessed += len(made.guess(None, 8))
    assert guessed < 20
    copied = 0
    for token in prompt[100:160]:
        made.add(token)
        copied += bool(made.guess(None, 8))
    assert copied > 40


def test_a_guess_is_shorter_where_its_tokens_cost_more():
    text = list(range(100, 140))
    lengths = []
    for cost in (0.05, 0.2, 0.5, 0.8, 0.9, 1.0):
        made = drafter(prompt=text)
        write(made, *text[:6])
        lengths.append(len(made.guess(None, 8, cost=cost)))
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == 8
    assert lengths[-1] == 0


@pytest.mark.parametrize("most", [0, 1, 3, 100])
def test_a_guess_has_at_most_the_tokens_that_were_asked_for(most):
    text = list(range(100, 160))
    made = drafter(prompt=text, most=5)
    for token in text[:40]:
        made.add(token)
        assert len(made.guess(None, most)) <= min(5, most)


def test_the_prompt_is_no_evidence():
    """A prompt that repeats itself says nothing of what the model will copy."""
    twice = PromptLookup(Odds())
    once = PromptLookup(Odds())
    text = list(range(100, 150))
    twice.add_prompt([*text, *text, 1])
    once.add_prompt([*text, 1])
    for made in (twice, once):
        write(made, *text[:2])
    assert twice.guess(8, 0.2) == once.guess(8, 0.2) == [102, 103]


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
    odds = Odds()
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


def test_texts_of_a_constraint_learn_from_each_other():
    """After some texts that copied, the next is guessed at once. A text of another constraint is not, nor one without."""
    copying, other = (LETTERS.compile(narrows.Grammar.from_regex(pattern)) for pattern in ("[a-h]*", "[a-g]*"))
    choices = StateChoices()
    text = list(range(100, 160))
    for _ in range(3):
        write(drafter(prompt=text, choices=choices, constraint=copying), *text)

    def begun(constraint):
        made = drafter(prompt=text, choices=choices, constraint=constraint)
        write(made, text[0])
        return made.guess(None, 8)

    assert begun(copying) == text[1 : 1 + len(begun(copying))] != []
    assert begun(other) == begun(None) == []


def test_a_text_that_does_not_copy_is_soon_judged_by_itself():
    copying = LETTERS.compile(narrows.Grammar.from_regex("[a-h]*"))
    choices = StateChoices()
    text = list(range(100, 160))
    for _ in range(5):
        write(drafter(prompt=text, choices=choices, constraint=copying), *text)
    made = drafter(prompt=text, choices=choices, constraint=copying)
    guessed = []
    for token in range(100, 160, 3):  # each third token of the prompt, so no guess comes true
        made.add(token)
        guessed.append(len(made.guess(None, 8)))
    assert guessed[0] > 0
    assert sum(guessed[8:]) == 0


def test_what_the_grammar_refuses_teaches_nothing():
    """A value is copied, and its end is not, because the grammar wants another end: copying is not doubted for that."""
    constraint = LETTERS.compile(narrows.Grammar.from_regex('("[a-h]*",)*'))
    a, quote, comma = 0, *LETTERS.spell(b'",')
    values = [[a + (i * k) % 8 for i in range(9)] for k in (1, 3, 5, 7)]
    lengths = []
    for matched in (True, False):
        made = drafter()
        for value in values:
            made.add_prompt([comma, comma, *value, 12])
        matcher = constraint.matcher()
        for value in values:
            for token in [quote, *value, quote, comma]:
                assert matcher.accept(token)
                made.add(token)
                for other in range(13):  # what the grammar refuses is known
                    matcher.accept(other) and matcher.rollback(1)
                guess = made.guess(matcher if matched else None, 8)
                if matched:
                    assert matcher.try_accepts(guess) in (None, len(guess))
        lengths.append(made._odds.by_match[5].value)
    assert lengths[0] > 0.9 > lengths[1]
