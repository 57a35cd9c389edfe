"""A constraint that asks for much work moves apart, into a home of its own: nothing that its sequences see changes, and the others'
masks do not wait for it."""

from __future__ import annotations

import random
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from narrows import Constraint, Grammar, LimitError, Limits, Matcher, Vocabulary

sys.path.insert(0, str(Path(__file__).parents[1] / "vocabulary"))
from real_tokenizers import UnreachableError, folder

RECURSIVE = 'root ::= "a" root "b" root | "ab" | [c-f]{2,9} root? | ""'
# A fifth of it is what a call may take beside others.
SMALL = Limits(step_work=40_000)


def tokens() -> list[bytes]:
    choose = random.Random(3)
    return [bytes([b]) for b in range(256)] + ["".join(choose.choices("abcdef", k=4)).encode() for _ in range(500)]


def vocabulary() -> Vocabulary:
    return Vocabulary([*tokens(), b""], {"</s>": 756}, eos=756)


def mask(matcher: Matcher) -> list[int]:
    row = np.zeros((matcher.constraint.vocabulary.size + 31) // 32, np.int32)
    matcher.fill_mask(row)
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()


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
        assert matcher.accept(choose.choice([t for t in mask(matcher) if t != 756]))
        sizes.append(little.bytes)
    assert little.is_apart
    assert sizes == sorted(sizes)
    assert little.stats()["bytes"] == little.bytes > little.stats()["shared_bytes"] > 10_000
    assert shared.shared_bytes < before + 200_000
    with pytest.raises(LimitError) as caught:
        small = Limits(step_work=40_000, constraint_bytes=60_000)
        matcher = shared.compile(Grammar.from_gbnf(RECURSIVE), limits=small).matcher()
        for _ in range(400):
            assert matcher.accept(choose.choice([t for t in mask(matcher) if t != 756]))
    assert caught.value.limit == "constraint_bytes"


def test_threads_see_the_same_masks_while_it_moves() -> None:
    for seed in range(8):
        plenty, little = apart()
        failures: list[object] = []

        def work(number: int, plenty: Constraint = plenty, little: Constraint = little, seed: int = seed) -> None:
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
    try:
        real = Vocabulary.from_tokenizer_json(folder("llama3_1") / "tokenizer.json")
    except UnreachableError as error:
        pytest.skip(str(error))
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
