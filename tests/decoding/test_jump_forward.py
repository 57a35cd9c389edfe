"""The runs that are remembered: found once, for a state alone only where the last tokens cannot matter."""

from __future__ import annotations

import pytest

import narrows
from narrows.decoding.jump_forward import JumpForward

TOKENS = [b"a", b"b", b"ab", b"x", b"yes", b"no", b"bx", b"!", b"<end>"]
END = 8
VOCABULARY = narrows.Vocabulary(TOKENS, special={"<end>": END}, eos=[END])


def encode(text):
    data, ids = text.encode(), []
    while data:
        token = max((t for t in range(END) if data.startswith(TOKENS[t])), key=lambda t: len(TOKENS[t]))
        ids.append(token)
        data = data[len(TOKENS[token]) :]
    return ids


def at(constraint, *tokens):
    matcher = constraint.matcher()
    for token in tokens:
        assert matcher.accept(token)
    return matcher


def test_where_nothing_is_forced_the_state_alone_is_remembered():
    constraint = VOCABULARY.compile(narrows.Grammar.from_regex("(a|b)*x"))
    jump = JumpForward(encode)
    matcher = at(constraint, 0)
    assert jump.known(matcher) is None
    assert jump.follow(matcher) == ()
    for tokens in ([1], [0, 1], [2, 2, 0]):
        assert jump.known(at(constraint, *tokens)) == ()


def test_where_only_the_last_tokens_prevent_a_run_they_are_remembered_too():
    """After the token "a" the tokenizer would have written "ab". After "b" nothing of that kind stands in the way. Both
    are the same state."""
    constraint = VOCABULARY.compile(narrows.Grammar.from_regex("(a|b)bx!"))
    jump = JumpForward(encode)
    assert jump.follow(at(constraint, 0)) == ()
    assert jump.known(at(constraint, 1)) is None
    assert jump.follow(at(constraint, 1)) == (6, 7)
    assert jump.known(at(constraint, 0)) == ()
    assert jump.known(at(constraint, 1)) == (6, 7)


@pytest.mark.parametrize("pattern", ["(a|b)*x", "(yes|no)!(yes|no)x!", "(a|b)bx!yes(no|a)"])
def test_runs_are_found_ahead(pattern):
    """After `look_ahead` each place of the tokens is known, as `follow` finds it, and the matcher has not moved."""
    constraint = VOCABULARY.compile(narrows.Grammar.from_regex(pattern))
    for text in ("abbax", "yes!nox!", "abx!yesno", "bbx!yesa"):
        tokens = encode(text)
        matcher, jump = constraint.matcher(), JumpForward(encode)
        allowed = matcher.try_accepts(tokens)
        allowed = allowed if allowed is not None else constraint.matcher().accepts(tokens)
        before = matcher.state_key, len(matcher)
        jump.look_ahead(matcher, tokens)
        assert (matcher.state_key, len(matcher)) == before
        for count in range(1, allowed + 1):
            here = at(constraint, *tokens[:count])
            assert jump.known(here) == JumpForward(encode).follow(here)
