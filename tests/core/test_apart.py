"""A constraint that asks for much work moves apart, into a home of its own: nothing that its sequences see changes, and the others'
masks do not wait for it."""

from __future__ import annotations

import ctypes
import gc
import random
import threading

import numpy as np
import pytest
from real_vocabulary import llama3

from narrows import Constraint, Grammar, LimitError, Limits, Matcher, Vocabulary

RECURSIVE = 'root ::= "a" root "b" root | "ab" | [c-f]{2,9} root? | ""'
# A fifth of it is what a call may take beside others.
SMALL = Limits(step_work=60_000)


def tokens() -> list[bytes]:
    choose = random.Random(3)
    return [bytes([b]) for b in range(256)] + ["".join(choose.choices("abcdef", k=4)).encode() for _ in range(500)]


def vocabulary() -> Vocabulary:
    return Vocabulary([*tokens(), b""], {"</s>": 756}, eos=756)


def mask(matcher: Matcher) -> list[int]:
    row = np.zeros((matcher.constraint.vocabulary.size + 31) // 32, np.int32)
    matcher.fill_mask(row)
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()


def write(matcher: Matcher, steps: int, choose: random.Random) -> None:
    """Any tokens that fit."""
    for _ in range(steps):
        assert matcher.accept(choose.choice([t for t in mask(matcher) if t != 756]))


def read(matcher: Matcher, pieces: int, piece: bytes, held: list[int]) -> None:
    """Notes the bytes that the constraint holds after each piece."""
    for _ in range(pieces):
        assert matcher.accept_bytes(piece)
        held.append(matcher.constraint.bytes)


def apart() -> tuple[Constraint, Constraint]:
    """The same grammar, with room and with so little that it moves apart while a text is read."""
    shared = vocabulary()
    grammar = Grammar.from_gbnf(RECURSIVE)
    return shared.compile(grammar), shared.compile(grammar, limits=SMALL)


def test_nothing_changes_when_a_constraint_moves_apart() -> None:
    plenty, little = apart()
    judge, matcher = plenty.matcher(), little.matcher()
    choose = random.Random(7)
    moved_at, waiting = None, []
    for step in range(120):
        if not little.is_apart:
            waiting.append((matcher.fork(), judge.fork()))
        allowed = mask(judge)
        assert mask(matcher) == allowed
        assert matcher.is_accepting == judge.is_accepting
        assert matcher.shortest_end() == judge.shortest_end()
        assert matcher.forced_bytes() == judge.forced_bytes()
        if step % 9 == 8:
            matcher.rollback(4)
            judge.rollback(4)
            assert mask(matcher) == mask(judge)
            continue
        token = choose.choice([t for t in allowed if t != 756])
        assert matcher.explain(token) == judge.explain(token)
        assert matcher.accept(token)
        assert judge.accept(token)
        if little.is_apart and moved_at is None:
            moved_at = step
    assert moved_at is not None
    assert 0 < moved_at < 100
    assert not plenty.is_apart
    for old, right in waiting:  # they were made before the move, and have not been used since
        assert mask(old) == mask(right)
    rows = np.zeros((6, (plenty.vocabulary.size + 31) // 32), np.int32)
    right_rows = rows.copy()
    draft = [ord("a"), ord("b"), ord("a"), ord("c"), ord("x")]
    waiting[0][0].fill_draft_masks(draft, rows)
    waiting[0][1].fill_draft_masks(draft, right_rows)
    assert np.array_equal(rows, right_rows)


def test_a_compilation_may_begin_apart() -> None:
    rules = "".join(f'\nr{i} ::= "(" root ")" | [a-z]{{3,{i + 4}}}' for i in range(300))
    grammar = Grammar.from_gbnf("root ::= r0" + "".join(f" | r{i}" for i in range(300)) + rules)
    heavy, light = (vocabulary().compile(grammar, limits=Limits(step_work=n)) for n in (400_000, 20_000_000))
    assert (heavy.is_apart, light.is_apart) == (True, False)
    assert mask(heavy.matcher()) == mask(light.matcher())


def test_what_is_held_apart_counts() -> None:
    _, little = apart()
    shared = little.vocabulary
    before = shared.shared_bytes
    matcher = little.matcher()
    choose = random.Random(7)
    sizes = []
    for _ in range(60):
        write(matcher, 1, choose)
        if little.is_apart:
            sizes.append(little.bytes)
    assert len(sizes) > 20
    assert sizes == sorted(sizes)
    assert little.stats()["bytes"] == little.bytes > little.stats()["shared_bytes"] > 10_000
    assert shared.shared_bytes < before + 200_000
    small = Limits(step_work=60_000, constraint_bytes=60_000)
    matcher = shared.compile(Grammar.from_gbnf(RECURSIVE), limits=small).matcher()
    with pytest.raises(LimitError) as caught:
        write(matcher, 400, choose)
    assert caught.value.limit == "constraint_bytes"


@pytest.mark.parametrize("seed", range(8))
def test_threads_see_the_same_masks_while_it_moves(seed: int) -> None:
    plenty, little = apart()
    failures: list[object] = []

    def work(number: int) -> None:
        judge, matcher = plenty.matcher(), little.matcher()
        choose = random.Random(seed * 10 + number % 2)
        try:
            for _ in range(40):
                allowed = mask(judge)
                assert mask(matcher) == allowed
                token = choose.choice([t for t in allowed if t != 756])
                assert judge.accept(token)
                assert matcher.accept(token)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert little.is_apart


def test_hostile_grammars_leave_the_shared_home() -> None:
    real = llama3()
    words = "root ::= " + " | ".join(f"r{i}" for i in range(60))
    words += "".join(f'\nr{i} ::= [a-z]* [a-m]{{{i % 7 + 1},{i % 9 + 20}}} "x{i}" root?' for i in range(60))
    hostile = real.compile(Grammar.from_gbnf(words))
    assert not hostile.is_apart
    assert len(mask(hostile.matcher())) > 10
    assert hostile.is_apart
    ordinary = real.compile(Grammar.from_json_schema({"type": "object", "properties": {"name": {"type": "string"}}}))
    matcher = ordinary.matcher()
    for _ in range(3):
        matcher.accept(random.Random(1).choice(mask(matcher)))
    assert not ordinary.is_apart


NESTED = 'root ::= "a" root "a" | "a"'


def test_a_sequence_has_a_budget() -> None:
    shared = vocabulary()
    constraint = shared.compile(Grammar.from_gbnf(NESTED), limits=Limits(sequence_work=100_000))
    matcher = constraint.matcher()
    with pytest.raises(LimitError) as caught:
        read(matcher, 5_000, b"a", [])
    assert caught.value.limit == "sequence_work"
    length = len(matcher)
    fork = matcher.fork()
    matcher.rollback(1)
    assert matcher.accept(ord("a")), "a step that is known costs nothing"
    for spent in (matcher, fork):
        with pytest.raises(LimitError):
            spent.accept(ord("a"))
        assert len(spent) == length
    fresh = constraint.matcher()
    assert fresh.accept_bytes(b"a" * length)
    assert fresh.accept(ord("a"))


def test_an_ordinary_sequence_never_meets_its_budget() -> None:
    schema = {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}
    limits = Limits(sequence_work=Limits().sequence_work // 100)
    matcher = vocabulary().compile(Grammar.from_json_schema(schema), limits=limits).matcher()
    for number in range(2_000):
        for byte in (b"[" if number == 0 else b",") + b'{"name": "abc%d", "k%d": [%d]}' % (number, number, number):
            assert matcher.accept(byte)
        mask(matcher)


def test_memory_stays_near_its_limit() -> None:
    small = Limits(constraint_bytes=1_000_000)
    matcher = vocabulary().compile(Grammar.from_gbnf(NESTED), limits=small).matcher()
    sizes: list[int] = []
    with pytest.raises(LimitError):
        read(matcher, 200, b"a" * 64, sizes)
    assert 900_000 < max(sizes) < 2_300_000


def heap() -> int:
    """Bytes that the allocator has given out."""

    class Info(ctypes.Structure):
        _fields_ = [
            (name, ctypes.c_size_t)
            for name in ("arena", "free", "small", "blocks", "mapped", "x", "y", "used", "unused", "top")
        ]

    try:
        info = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        pytest.skip("the C library does not say what it has given out")
    info.restype = Info
    gc.collect()
    said = info()
    return said.used + said.mapped


@pytest.mark.parametrize("text", [b"a" * 2_000, b"a" * 3_000])
def test_the_bytes_are_those_that_the_heap_holds(text: bytes) -> None:
    shared = vocabulary()
    grammar = Grammar.from_gbnf(NESTED)
    before, shared_before = heap(), shared.shared_bytes
    matcher = shared.compile(grammar).matcher()
    assert matcher.accept_bytes(text)
    held = matcher.constraint.bytes + shared.shared_bytes - shared_before
    assert 0.95 < held / (heap() - before) < 1.05
