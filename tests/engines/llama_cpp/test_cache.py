"""The accounting of cells against a model that places new tokens as llama.cpp does."""

from __future__ import annotations

import random

import numpy as np
import pytest
from engine_fakes import FakeModel

from narrows.engines.llama_cpp.cache import CellCache, slack
from narrows.engines.llama_cpp.radix import common_prefix

CELLS = 60
BATCH = 8


def make(**options):
    options = {"cells": CELLS, "slots": 8, "kept_bytes": 40 * 8, "batch_tokens": BATCH, "piece": 5} | options
    model = FakeModel(options["cells"] + slack(options["cells"], options["batch_tokens"]))
    return model, CellCache(model, **options)


def compute(model, cache, slot, tokens):
    """What the scheduler does: tidy, take cells, decode."""
    for start in range(0, len(tokens), BATCH):
        piece = tokens[start : start + BATCH]
        cache.tidy()
        at = cache.length(slot)
        if not cache.extend(slot, piece):
            return False
        model.decode(piece, range(at, at + len(piece)), [slot] * len(piece), [False] * len(piece))
    return True


def begin(model, cache, tokens):
    prompt = np.array(tokens[:-1], dtype=np.int32)
    slot = cache.open(*cache.longest_prefix(prompt))
    shared = cache.recall(slot, prompt)
    assert shared == max(cache.longest_prefix(prompt)[1], cache.kept_prefix(prompt))
    assert compute(model, cache, slot, tokens[shared:])
    return slot, shared


def test_a_prefix_is_computed_once_and_outlives_its_sequence():
    model, cache = make()
    first, shared = begin(model, cache, [1, 2, 3, 4, 5, 6])
    assert shared == 0
    second, shared = begin(model, cache, [1, 2, 3, 9])
    assert shared == 3
    assert model.computed == 7
    assert cache.used == 7
    cache.close(first, keep=True)
    cache.close(second, keep=True)
    assert (cache.used, cache.kept) == (0, 7), "the common part is kept once"
    third, shared = begin(model, cache, [1, 2, 3, 4, 5, 6])
    assert shared == 5, "the last token is always computed, for its logits"
    assert model.text_of(third) == [1, 2, 3, 4, 5, 6]


def test_kept_prefixes_go_the_least_recently_used_first_and_keep_to_their_budget():
    model, cache = make(kept_bytes=20 * 8)
    for first in (1, 2, 3):
        cache.close(begin(model, cache, [first] * 8)[0], keep=True)
    assert (cache.used, cache.kept, cache.kept_bytes) == (0, 16, 128), "three of eight exceed the budget of twenty"
    slot, shared = begin(model, cache, [2] * 8)
    assert shared == 7
    cache.close(slot, keep=False)  # it used the older of the two, which is the younger now
    cache.close(begin(model, cache, [5] * 8)[0], keep=True)
    assert [cache.kept_prefix(np.array([first] * 8, dtype=np.int32)) for first in (1, 2, 3, 5)] == [0, 8, 0, 8]
    slot, _ = begin(model, cache, [4] * 30)
    cache.close(slot, keep=True)
    assert cache.kept == 20, "one that is too long is cut"
    assert begin(model, cache, [4] * 30)[1] == 20


def test_what_is_kept_takes_no_cells():
    model, cache = make()
    cache.close(begin(model, cache, [5] * 20)[0], keep=True)
    assert (cache.used, cache.kept) == (0, 20)
    slot, _ = begin(model, cache, [1] * 40)
    assert cache.room_for(20, None, 0, beside=cache._active)
    assert not cache.room_for(21, None, 0, beside=cache._active)
    assert cache.extend(slot, [1] * 20)
    assert not cache.extend(slot, [1])
    cache.truncate(slot, 40)
    assert cache.extend(slot, [1] * 20)


def test_a_prefix_of_which_another_runs_is_shared_as_far_as_that_goes_and_recalled_from_there():
    model, cache = make()
    cache.close(begin(model, cache, [1, 2, 3, 4, 5, 6, 7, 8, 9])[0], keep=True)
    first, _ = begin(model, cache, [1, 2, 3, 11])
    assert cache.used == 4
    second, shared = begin(model, cache, [1, 2, 3, 4, 5, 6, 7, 12])
    assert shared == 7
    assert cache.used == 4 + 5, "three cells are those of the first"
    assert (model.text_of(first), model.text_of(second)) == ([1, 2, 3, 11], [1, 2, 3, 4, 5, 6, 7, 12])
    assert model.computed == 9 + 1 + 1


def test_a_prefix_is_recalled_as_far_as_there_are_cells():
    model, cache = make(cells=12)
    cache.close(begin(model, cache, [1, 2, 3, 4, 5, 6, 7, 8])[0], keep=True)
    begin(model, cache, [9] * 6)
    slot = cache.open(None, 0)
    assert cache.recall(slot, np.array([1, 2, 3, 4, 5, 6, 7, 8], dtype=np.int32)) == 5


@pytest.mark.parametrize("seed", range(30))
def test_random_lives_keep_every_sequence_whole_and_in_order(seed):
    """Cells are counted rightly, and lie in the order of their tokens, whatever ends, goes back, or is shared."""
    choose = random.Random(seed)
    model, cache = make()
    live: dict[int, list[int]] = {}
    prompts = [[choose.randrange(1, 15) for _ in range(choose.randrange(2, 12))] for _ in range(5)]
    tidied = 0
    for _ in range(120):
        action = choose.random()
        if action < 0.25 and len(live) < 5:
            tokens = choose.choice(prompts) + [choose.randrange(1, 15) for _ in range(choose.randrange(3))]
            prompt = np.array(tokens[:-1], dtype=np.int32)
            donor, shared = cache.longest_prefix(prompt)
            if cache.room_for(len(tokens), donor, shared, beside=cache._active):
                slot = cache.open(donor, shared)
                shared = cache.recall(slot, prompt)
                assert compute(model, cache, slot, tokens[shared:])
                live[slot] = tokens
        elif action < 0.75 and live:
            slot = choose.choice(list(live))
            token = choose.randrange(1, 15)
            tidied += cache.tidy()
            if compute(model, cache, slot, [token]):
                live[slot].append(token)
        elif action < 0.85 and live:
            slot = choose.choice(list(live))
            length = choose.randrange(len(live[slot]) + 1)
            cache.truncate(slot, length)
            del live[slot][length:]
        elif live:
            slot = choose.choice(list(live))
            cache.close(slot, keep=choose.random() < 0.7)
            del live[slot]
        for slot, tokens in live.items():
            assert model.text_of(slot) == tokens
        distinct = {tuple(t[: i + 1]) for t in live.values() for i in range(len(t))}
        assert len(distinct) <= cache.used <= sum(map(len, live.values()))
        assert cache.used <= CELLS
        assert cache.kept_bytes <= 40 * 8
    for slot in list(live):
        cache.close(slot, keep=False)
    assert cache.used == 0


def test_dead_cells_are_cleared_before_they_cost_much():
    model, cache = make()
    occupied = []
    for i in range(200):
        slot, _ = begin(model, cache, [1 + i % 7] * 10)
        cache.close(slot, keep=i % 3 == 0)
        occupied.append(sum(c is not None for c in model._cells))
    assert max(occupied) <= 256 + 2 * CELLS


def test_common_prefix():
    a = np.array([1, 2, 3], dtype=np.int32)
    assert common_prefix(a, a) == 3
    assert common_prefix(a, a[:2]) == 2
    assert common_prefix(a, np.array([1, 3], dtype=np.int32)) == 1
    assert common_prefix(a[:0], a) == 0
