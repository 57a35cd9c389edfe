"""What is remembered has room, and who needs little is not made to pay for who needs much."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from real_vocabulary import llama3

from narrows import Constraint, Grammar, LimitError, Limits, Matcher, Vocabulary

NESTED = 'root ::= "a" root "a" | "a"'


def vocabulary(**limits: int) -> Vocabulary:
    return Vocabulary([bytes([b]) for b in range(256)] + [b""], {"</s>": 256}, eos=256, limits=Limits(**limits))


def needed(text: bytes) -> int:
    """Bytes that one sequence needs for a text of the nested grammar."""
    matcher = vocabulary().compile(Grammar.from_gbnf(NESTED)).matcher()
    assert matcher.accept_bytes(text)
    return matcher.constraint.bytes


def epochs(constraint: Constraint) -> int:
    return int(constraint.stats()["epoch"])


def test_two_sequences_that_fit_alone_do_not_drop_each_others_work() -> None:
    text = b"a" * 400
    limits = Limits(constraint_bytes=needed(text) * 3 // 2)
    grammar = Grammar.from_gbnf('root ::= ["] one | [\'] two\none ::= "a" one "a" | "a"\ntwo ::= "a" two "a" | "a"')
    constraint = vocabulary().compile(grammar, limits=limits)
    one, two = constraint.matcher(), constraint.matcher()
    assert one.accept_bytes(b'"' + text)
    assert two.accept_bytes(b"'" + text)
    before = epochs(constraint)
    for _ in range(20):
        for matcher in (one, two):
            assert matcher.accept(ord("a"))
            matcher.rollback(1)
            assert matcher.accept_bytes(b"a")
    assert epochs(constraint) - before <= 2


def test_who_meets_a_full_room_is_not_refused_for_it() -> None:
    """What one call may take is counted from an empty room: others have filled it, up to twice the limit."""
    text = b"a" * 300
    limits = Limits(constraint_bytes=needed(text) + 20_000)
    letters = "bcdefghijk"
    rules = "".join(f'\n{c} ::= "a" {c} "a" | "a"' for c in letters)
    grammar = Grammar.from_gbnf("root ::= " + " | ".join(f'"{c}" {c}' for c in letters) + rules)
    constraint = vocabulary().compile(grammar, limits=limits)
    matchers = {c: constraint.matcher() for c in letters}
    for c, matcher in matchers.items():
        assert matcher.accept_bytes(c.encode() + text)
    for matcher in matchers.values():
        assert matcher.accept_bytes(b"a")
    assert constraint.bytes < 3 * limits.constraint_bytes


def test_a_long_text_is_one_step() -> None:
    constraint = vocabulary().compile(Grammar.from_regex("[ab]*c?"))
    matcher = constraint.matcher()
    text = b"ab" * 150_000
    assert not matcher.accept_bytes(text + b"d")
    assert (len(matcher), matcher.is_accepting) == (0, True)
    assert matcher.accept_bytes(text)
    assert len(matcher) == 1
    assert matcher.accept(ord("c"))
    assert not matcher.accept(ord("a"))
    matcher.rollback(1)
    assert matcher.accept(ord("a"))
    matcher.rollback(2)
    assert len(matcher) == 0
    assert matcher.accept_bytes(b"")
    assert len(matcher) == 1


def test_a_long_text_that_meets_a_limit_leaves_the_matcher_where_it_was() -> None:
    constraint = vocabulary().compile(
        Grammar.from_gbnf('root ::= [b]* n\nn ::= "a" n "a" | "a"'), limits=Limits(sequence_work=200_000)
    )
    matcher = constraint.matcher()
    with pytest.raises(LimitError):
        matcher.accept_bytes(b"b" * 250_000 + b"a" * 10_000)
    assert len(matcher) == 0
    assert constraint.matcher().accept_bytes(b"bba")


def test_equal_futures_have_equal_keys() -> None:
    constraint = vocabulary().compile(Grammar.from_regex("[ab]+c"))
    one, two = constraint.matcher(), constraint.matcher()
    start = one.state_key
    assert one.accept_bytes(b"a")
    assert two.accept_bytes(b"bab")
    assert one.state_key == two.state_key != start


GREEDY = {
    "one set of tokens at thousands of places": "root ::= " + "!<[1]> " * 9_000,
    "rules that call each other first, with many ways on": (
        "root ::= r0"
        + "".join(
            f"\nr{i} ::= r{(i + 1) % 374} | " + " | ".join(f"s{(150 * i + j) % 3_000}" for j in range(150))
            for i in range(374)
        )
        + "".join(f'\ns{j} ::= "({j}" s{j} ")" | "x"' for j in range(3_000))
    ),
    "counted blanks before one word": (
        "root ::= ("
        + " | ".join(f"r{i}" for i in range(2_000))
        + ') w\nw ::= "(" w ")" | [^()]+'
        + "".join(f"\nr{i} ::= [ ]{{1,{i + 300}}}" for i in range(2_000))
    ),
}


def grown(call: Callable[[], object]) -> int:
    """Bytes by which the process was larger than before, at most, while this ran."""

    def highest() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1_024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    try:
        Path("/proc/self/clear_refs").write_text("5")
        before = highest()
    except (OSError, StopIteration):
        pytest.skip("this system does not say how large the process was")
    call()
    return highest() - before


@pytest.mark.parametrize("name", GREEDY)
def test_what_is_made_in_between_is_bounded(name: str) -> None:
    real = llama3()
    grammar = Grammar.from_gbnf(GREEDY[name])
    row = np.zeros((real.size + 31) // 32, np.int32)

    def mask() -> None:
        try:
            matcher: Matcher = real.compile(grammar).matcher()
            matcher.fill_mask(row)
        except LimitError:
            pass

    assert grown(mask) < 200_000_000
