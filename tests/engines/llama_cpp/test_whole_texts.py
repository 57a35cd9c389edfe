"""Select and beams against the enumeration of all texts, on the model without weights."""

from __future__ import annotations

import math
from threading import Event

import numpy as np
import pytest
from engine_fakes import EOS, row_for
from engine_rig import END_CHANCE, Rig, RigEngine, collect
from hypothesis import given, settings
from hypothesis import strategies as st
from test_strategies import CONSTRAINTS, VOCABULARY, encode

import narrows
from narrows.decoding.beams import BeamSearch
from narrows.decoding.select import choose, pieces, ways
from narrows.decoding.strategies import StrategyMemory
from narrows.engines.api import Request, SamplingParams
from narrows.engines.beams import beam_search, best_of
from narrows.engines.select import select
from narrows.errors import EngineError, InputError

PROMPT = [1, 2, 3]


@pytest.fixture(scope="module")
def rig():
    with Rig(memory=StrategyMemory(encode), max_num_seqs=4) as rig:
        yield rig


@pytest.fixture(scope="module")
def engine(rig):
    return RigEngine(rig, VOCABULARY, encode)


def logprobs_after(tokens, allowed=None):
    row = row_for(list(enumerate(tokens)), END_CHANCE).astype(np.float64)
    if allowed is not None:
        row[[t for t in range(row.size) if t not in allowed]] = -math.inf
    return row - row.max() - np.log(np.exp(row - row.max()).sum())


def sum_of(tokens):
    text = list(PROMPT)
    total = 0.0
    for token in tokens:
        total += logprobs_after(text)[token]
        text.append(token)
    return total


OPTIONS = ["ab", "abab", "abax", "a", "STOP", "STx", "xyz.", "b b b b b b b b b b"]


def test_scoring_can_be_stopped(rig, engine):
    """At the next option, and nothing goes on after it."""

    class AfterOne(Event):
        asked = 0

        def is_set(self):
            self.asked += 1
            return self.asked > 1

    stopped = AfterOne()
    with pytest.raises(EngineError) as error:
        select(engine, PROMPT, OPTIONS, stopped=stopped)
    assert (error.value.code, stopped.asked) == ("select_stopped", 2)
    assert rig.scheduler.drain(None)
    rig.scheduler._draining = False
    assert select(engine, PROMPT, OPTIONS, stopped=Event()).text in OPTIONS


@pytest.mark.parametrize("by", ["sum", "token", "byte"])
@pytest.mark.parametrize("end", [True, False])
def test_each_option_has_the_probability_that_the_model_gives_it(engine, by, end):
    chosen = select(engine, PROMPT, OPTIONS, by=by, end=end)
    expected = []
    for option in OPTIONS:
        tokens = encode(option) + [EOS] * end
        size = {"sum": 1, "token": len(tokens), "byte": len(option)}[by]
        expected.append(sum_of(tokens) / size)
    assert [s.score for s in chosen.scores] == pytest.approx(expected, abs=1e-4)
    assert [s.text for s in chosen.scores] == OPTIONS
    assert sum(s.probability for s in chosen.scores) == pytest.approx(1)
    assert chosen.index == int(np.argmax(expected))
    assert chosen.text == OPTIONS[chosen.index]


def test_what_options_have_in_common_is_computed_once(rig, engine):
    options = [f"STOPxyz{a}{b}" for a in "ab.x! " for b in "ab.x! "]
    select(engine, PROMPT, ["!"], end=False)
    before = rig.model.computed
    select(engine, PROMPT, options, end=False)
    tokens = sum(len(encode(o)) for o in options)
    found = pieces([encode(o) for o in options])
    assert rig.model.computed - before <= sum(len(p.tokens) for p in found) + 2 * len(found) < tokens


def test_an_option_is_drawn_with_its_probability():
    texts, logprobs = ["a", "b", "c"], [math.log(0.5), math.log(0.3), math.log(0.2)]
    drawn = [choose(texts, [1, 1, 1], logprobs, temperature=1.0, seed=i).index for i in range(3_000)]
    counts = np.bincount(drawn, minlength=3)
    expected = np.array([0.5, 0.3, 0.2]) * 3_000
    assert float(((counts - expected) ** 2 / expected).sum()) < 14  # 2 degrees of freedom: one in 1,000
    assert choose(texts, [1, 1, 1], logprobs).index == 0


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=30, unique_by=tuple))
@settings(max_examples=150, deadline=None)
def test_pieces_are_distinct_and_make_up_the_options(options):
    found = pieces(options)
    assert len({(p.before, p.tokens) for p in found}) == len(found)
    for option, way in zip(options, ways(options, found), strict=True):
        assert [t for i in way for t in found[i].tokens] == option
    beginnings = {tuple(o[: i + 1]) for o in options for i in range(len(o))}
    assert sum(len(p.tokens) for p in found) == len(beginnings), "each beginning once"


@pytest.mark.parametrize(
    ("options", "by"), [([], "sum"), (["a", "a"], "sum"), (["a", ""], "sum"), (["a", 3], "sum"), (["a"], "word")]
)
def test_wrong_options_are_refused(engine, options, by):
    with pytest.raises(InputError) as caught:
        select(engine, PROMPT, options, by=by)
    assert caught.value.code == "options_invalid"


def all_texts(constraint, most):
    """(tokens, log-probability under the mask, ended) of every text."""
    results, live = [], [((), 0.0)]
    row = np.zeros(1, dtype=np.int32)
    while live:
        tokens, total = live.pop()
        matcher = constraint.matcher()
        matcher.replay(tokens)
        if tokens[-1:] == (EOS,) or len(tokens) == most:
            results.append((tokens, total, tokens[-1:] == (EOS,)))
            continue
        matcher.fill_mask(row)
        allowed = [t for t in range(16) if row[0] >> t & 1]
        after = logprobs_after([*PROMPT, *tokens], allowed)
        live += [((*tokens, t), total + after[t]) for t in allowed]
    return results


@pytest.mark.parametrize("pattern", ["(a|b)x(a|b)", "(a|b|x){1,2}!", "ab(ab)?"])
@pytest.mark.parametrize("penalty", [0.0, 1.0, 0.6])
@pytest.mark.parametrize("most", [2, 3, 9])
def test_wide_beams_find_the_best_of_all_texts(engine, pattern, penalty, most):
    constraint = VOCABULARY.compile(narrows.Grammar.from_regex(pattern))
    every = [
        (total / len(tokens) ** penalty, tokens, total, ended) for tokens, total, ended in all_texts(constraint, most)
    ]
    every.sort(key=lambda text: (-text[0], text[1]))
    width = 10
    beams = beam_search(engine, PROMPT, width, max_tokens=most, constraint=constraint, length_penalty=penalty)
    best = every[: min(3, len(every))]
    assert [b.token_ids for b in beams[: len(best)]] == [text[1] for text in best]
    for beam, text in zip(beams, best, strict=False):
        assert beam.score == pytest.approx(text[0], abs=1e-3)
        assert beam.logprob == pytest.approx(text[2], abs=1e-3)
        assert beam.finished == text[3]


def test_a_beam_of_one_is_the_greedy_text(rig, engine):
    constraint = CONSTRAINTS["(ab|x)+!?"]
    (beam,) = beam_search(engine, PROMPT, 1, max_tokens=12, constraint=constraint, length_penalty=0)
    (output,) = collect(rig.generate(PROMPT, temperature=0, max_tokens=12, constraint=constraint, logprobs=0))
    assert list(beam.token_ids) == output.token_ids
    (free,) = beam_search(engine, PROMPT, 1, max_tokens=6, length_penalty=0)
    assert len(free.token_ids) <= 6


def test_the_best_of_several(engine):
    request = Request(
        request_id="best",
        prompt_token_ids=PROMPT,
        n=2,
        sampling=SamplingParams(seed=3, max_tokens=10),
        constraint=CONSTRAINTS["(ab|x)+!?"],
    )
    best = best_of(engine, request, 6)
    sums = [sum(each.logprob for each in output.logprobs) for output in best]
    assert len(best) == 2
    assert sums == sorted(sums, reverse=True)


def test_errors_of_a_search_reach_its_caller(engine):
    with pytest.raises(InputError):
        BeamSearch(11, max_tokens=3, ends=())
    impossible = VOCABULARY.compile(narrows.Grammar.from_regex("a"))
    request = Request(
        request_id="bad", prompt_token_ids=PROMPT, constraint=impossible, logits_processors=[lambda ids, x: x * np.nan]
    )
    with pytest.raises(EngineError):
        best_of(engine, request, 2)
