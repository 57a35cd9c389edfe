"""The strategies of decoding on a model without weights, with real grammars: sample first and jump forward change no text
and no distribution, and with a budget every text is whole. Random arrivals, places that are lost, aborted steps."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace

import numpy as np
import pytest
from engine_fakes import EOS, TOKENS, row_for
from engine_rig import END_CHANCE, Rig, collect

import narrows
from narrows.decoding.sampling import Sampler
from narrows.decoding.strategies import StrategyMemory
from narrows.engines.api import SamplingParams, Strategies
from narrows.engines.llama_cpp import scheduler
from narrows.errors import InputError

VOCABULARY = narrows.Vocabulary(list(TOKENS), special={"<end>": EOS}, eos=[EOS])
PATTERNS = [
    "(a|b)*",
    "(ab|x)+!?",
    "a{3}b{2}( x|\\.)*",
    "STOP(x|yz){1,40}\\.",
    "[abx]*STOP!",
    "((a|b)x){5,30}",
    "(abab|xyz )+",
]
CONSTRAINTS = {p: VOCABULARY.compile(narrows.Grammar.from_regex(p)) for p in PATTERNS}
PROMPTS = [[1, 2, 3], [7] * 30, [3], [9, 8]]


def encode(text: str) -> list[int]:
    """The longest token at each place: what a tokenizer with this vocabulary would do."""
    data, ids = text.encode(), []
    while data:
        token = max((t for t in range(1, len(TOKENS)) if data.startswith(TOKENS[t])), key=lambda t: len(TOKENS[t]))
        ids.append(token)
        data = data[len(TOKENS[token]) :]
    return ids


def masked(prompt, pattern, index=0, limit=400, **options):
    """What a sequence must give: a mask for each token, and no strategy."""
    params = SamplingParams(**options)
    sampler = Sampler(params, index=index, prompt=prompt)
    matcher = CONSTRAINTS[pattern].matcher()
    tokens = list(prompt)
    row = np.zeros(1, dtype=np.int32)
    while True:
        matcher.fill_mask(row)
        token, _ = sampler.sample(row_for(list(enumerate(tokens)), END_CHANCE), mask=row)
        tokens.append(token)
        assert matcher.accept(token)
        sampler.observe(token)
        if token == EOS or len(tokens) - len(prompt) == params.max_tokens or len(tokens) == limit:
            return tokens[len(prompt) :]


def bytes_of(ids):
    return b"".join(TOKENS[i] for i in ids)


SAMPLING = [{}, {"temperature": 0.0}, {"temperature": 1.7}, {"repetition_penalty": 1.3, "presence_penalty": 0.4}]


@pytest.mark.parametrize("first", ["auto", "always", "never"])
@pytest.mark.parametrize("known", [True, False])
def test_sample_first_changes_no_token(first, known):
    """For every seed, whatever else runs, and whether the states are known or seen for the first time."""
    choose = random.Random(first)
    if not known:
        constraints = {p: VOCABULARY.compile(narrows.Grammar.from_regex(p)) for p in PATTERNS}
    else:
        constraints = CONSTRAINTS
    with Rig(cells=120, max_num_seqs=5, abort_at_random=0.02, kept_tokens=20) as rig:
        jobs = []
        for seed, pattern in itertools.product(range(4), PATTERNS):
            sampling = choose.choice(SAMPLING)
            prompt = choose.choice(PROMPTS)
            stream = rig.generate(
                prompt,
                n=2,
                seed=seed,
                max_tokens=50,
                constraint=constraints[pattern],
                strategies=Strategies(sample_first=first, jump_forward="never"),
                **sampling,
            )
            jobs.append((prompt, pattern, seed, sampling, stream))
        for prompt, pattern, seed, sampling, stream in jobs:
            for output in collect(stream, 2):
                expected = masked(prompt, pattern, output.index, limit=120, seed=seed, max_tokens=50, **sampling)
                assert output.token_ids == expected
        assert rig.scheduler.stats().preemptions_total > 0


def test_jump_forward_gives_forced_text_as_the_tokenizer_cuts_it():
    memory = StrategyMemory(encode)
    with Rig(memory=memory) as rig:
        for _ in range(2):  # the second time, every run is known
            for seed, pattern in itertools.product(range(6), PATTERNS):
                (output,) = collect(rig.generate([1, 2], seed=seed, max_tokens=60, constraint=CONSTRAINTS[pattern]))
                text = bytes_of(output.token_ids).decode()
                assert output.text == text
                matcher = CONSTRAINTS[pattern].matcher()
                assert matcher.accepts(output.token_ids) == len(output.token_ids)
                if output.finish_reason == "stop":
                    assert output.token_ids[-1] == EOS
                assert len(output.token_ids) <= 60


def test_forced_tokens_are_computed_in_one_decode():
    constraint = VOCABULARY.compile(narrows.Grammar.from_regex("(STOPababxyz!){6}"))
    with Rig(memory=StrategyMemory(encode)) as rig:
        for _ in range(2):
            (output,) = collect(rig.generate([1, 2], seed=1, constraint=constraint))
            assert output.text == "STOPababxyz!" * 6
        # The prompt with the first run, and a step for the end. A run has at most 64 tokens, a batch at most 24.
        assert rig.scheduler.stats().steps_total <= 2 * 5


def test_a_run_is_cut_by_max_tokens_and_by_stop_texts():
    with Rig(memory=StrategyMemory(encode)) as rig:
        constraint = VOCABULARY.compile(narrows.Grammar.from_regex("ababxSTOPx!"))
        for most in range(1, 9):
            (output,) = collect(rig.generate([1], seed=1, max_tokens=most, constraint=constraint))
            whole = [3, 3, 10, 9, 10, 15, EOS]
            assert output.token_ids == whole[:most]
            assert output.finish_reason == ("stop" if most >= 7 else "length")
        (output,) = collect(rig.generate([1], seed=1, stop=("STOP",), constraint=constraint))
        assert (output.text, output.finish_reason, output.stop_reason) == ("ababx", "stop", "STOP")
        assert output.token_ids == [3, 3, 10, 9]


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.0}, {"top_p": 0.7}, {"logprobs": 2}])
def test_with_a_budget_every_text_is_whole(sampling):
    with Rig(memory=StrategyMemory(encode), end_chance=0.0) as rig:
        for pattern, most in itertools.product(PATTERNS, (1, 2, 3, 5, 8, 13, 30)):
            constraint = CONSTRAINTS[pattern]
            shortest = constraint.matcher().tokens_to_end()
            stream = rig.generate(
                [1, 2],
                n=3,
                seed=most,
                max_tokens=most,
                constraint=constraint,
                strategies=Strategies(budget=True),
                **sampling,
            )
            for output in collect(stream, 3):
                if shortest > most:
                    assert (output.finish_reason, output.error.code) == ("error", "max_tokens_too_small")
                    assert output.token_ids == []
                    continue
                matcher = constraint.matcher()
                assert matcher.accepts(output.token_ids) == len(output.token_ids)
                matcher.replay(output.token_ids)
                assert matcher.is_accepting, (pattern, most, bytes_of(output.token_ids))
                assert output.finish_reason in ("length", "stop")


def test_a_budget_that_is_wide_changes_no_token():
    with Rig(memory=StrategyMemory(encode), cells=2000) as rig:
        for seed, pattern in itertools.product(range(4), ("(a|b)*", "(ab|x)+!?", "[abx]*STOP!")):
            outputs = [
                collect(
                    rig.generate(
                        [1, 2],
                        seed=seed,
                        max_tokens=300,
                        constraint=CONSTRAINTS[pattern],
                        strategies=Strategies(budget=budget, jump_forward="never"),
                    )
                )[0]
                for budget in (False, True)
            ]
            if outputs[0].finish_reason == "stop" and len(outputs[0].token_ids) < 250:
                assert outputs[0].token_ids == outputs[1].token_ids


@pytest.mark.parametrize(
    ("strategies", "sampling", "pointer"),
    [
        ({"sample_first": "always"}, {"top_p": 0.5}, "/sample_first"),
        ({"sample_first": "always"}, {"logprobs": 1}, "/sample_first"),
        ({"jump_forward": "always"}, {"logprobs": 1}, "/jump_forward"),
    ],
)
def test_what_is_not_exact_is_refused(strategies, sampling, pointer):
    with Rig(memory=StrategyMemory(encode)) as rig:
        constraint = CONSTRAINTS["(a|b)*"]
        (output,) = collect(rig.generate([1], constraint=constraint, strategies=Strategies(**strategies), **sampling))
        assert (output.finish_reason, output.error.code, output.error.pointer) == ("error", "strategy_invalid", pointer)
    with pytest.raises(InputError) as caught:
        Strategies(**dict.fromkeys(strategies, "often"))
    assert caught.value.pointer == pointer


def test_greedy_samples_first_whatever_else_is_set():
    params = SamplingParams(temperature=0, top_p=0.3, top_k=2)
    assert Strategies(sample_first="always").samples_first(params, processors=False)


@pytest.mark.parametrize("draft", ["prompt", "grammar", "auto"])
@pytest.mark.parametrize("jump", ["auto", "never"])
@pytest.mark.parametrize("budget", [False, True])
@pytest.mark.parametrize("seeds", [3, pytest.param(15, marks=pytest.mark.soak)])
def test_drafts_change_no_token(draft, jump, budget, seeds):
    """With and without a grammar, at any temperature, with top-p and log-probabilities, beside a budget, and with places
    that are lost."""
    memory = StrategyMemory(encode)
    choose = random.Random(draft)
    with Rig(cells=150, max_num_seqs=2, abort_at_random=0.02, kept_tokens=20, memory=memory) as rig:
        for seed, pattern in itertools.product(range(seeds), (None, *PATTERNS)):
            prompt = choose.choice([[1, 2, 1, 2, 1, 2], [10, 3, 10, 3, 10, 3, 15], [9, 10, 11, 10, 11, 10, 12]])
            sampling = choose.choice(
                [*SAMPLING, {"temperature": 0.0}, {"temperature": 0.3}, {"top_p": 0.6}, {"logprobs": 1}]
            )
            most = choose.choice([14, 20, 30, 50]) if budget else 50
            options = {"n": choose.choice([1, 2]), "seed": seed, "max_tokens": most, **sampling}
            constraint = CONSTRAINTS[pattern] if pattern else None
            outputs = [
                collect(
                    rig.generate(
                        prompt,
                        constraint=constraint,
                        strategies=Strategies(draft=mode, jump_forward=jump, budget=budget and pattern is not None),
                        **options,
                    ),
                    options["n"],
                )
                for mode in ("never", draft)
            ]
            assert [o.token_ids for o in outputs[0]] == [o.token_ids for o in outputs[1]]
            assert [o.text for o in outputs[0]] == [o.text for o in outputs[1]]
        assert rig.scheduler._totals["accepted_draft_tokens"] > 20


@pytest.mark.parametrize(("each", "least", "most"), [(1.0, 0.8, 1.0), (0.0, 0.05, 0.2)])
def test_what_a_guess_costs_is_learned_from_the_steps(each, least, most, monkeypatch):
    """Of a model whose step takes a second for each token, and of one whose steps all take a second. The clock is ours."""
    now = [0.0]
    monkeypatch.setattr(scheduler, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with Rig(memory=StrategyMemory(encode), end_chance=0.0) as rig:
        decode = rig.model.decode

        def slow(tokens, *more):
            now[0] += 1 + each * (len(tokens) - 1)
            return decode(tokens, *more)

        monkeypatch.setattr(rig.model, "decode", slow)
        strategies = Strategies(jump_forward="never")
        for seed in range(3):
            options = {"seed": seed, "max_tokens": 60, "temperature": 1.5, "strategies": strategies}
            collect(rig.generate([1], constraint=CONSTRAINTS["(abab|xyz )+"], **options))
    assert rig.scheduler._totals["draft_tokens"] > 20
    assert least <= rig.scheduler._draft_cost.of(1) <= most


@pytest.mark.parametrize("pattern", [None, "(ab|x)+!?", "STOP(x|yz){1,40}\\."])
def test_a_sequence_goes_on_where_another_stopped(pattern):
    """At every step, with the same seed: parsers, matchers and samplers take up what was written."""
    constraint = CONSTRAINTS[pattern] if pattern else None
    with Rig(memory=StrategyMemory(encode), end_chance=0.01) as rig:
        options = {"constraint": constraint, "seed": 5, "max_tokens": 24, "repetition_penalty": 1.1, "stop": ("xx!",)}
        (whole,) = collect(rig.generate([1, 2, 3], **options))
        for cut in range(len(whole.token_ids)):
            (output,) = collect(rig.generate([1, 2, 3], output_token_ids=whole.token_ids[:cut], **options))
            assert output.token_ids == whole.token_ids
            assert (output.text, output.finish_reason, output.stop_reason) == (
                whole.text,
                whole.finish_reason,
                whole.stop_reason,
            )


def test_given_tokens_are_scored():
    """Their log-probabilities are the model's, of all tokens; in few steps, also where they are longer than a batch and
    where the cells are lost meanwhile."""
    given = [1, 2, 3, 10, 4, 9, 12, 12, 3, 1] * 4
    with Rig(memory=StrategyMemory(encode), batch_tokens=24, cells=400) as rig:
        prompt = [1, 2, 3, 7]
        before = rig.scheduler.stats().steps_total
        (output,) = collect(
            rig.generate(prompt, output_token_ids=given, score_output=True, max_tokens=len(given), logprobs=2)
        )
        assert rig.scheduler.stats().steps_total - before <= 5
        assert output.token_ids == given
        assert output.finish_reason == "length"
        tokens = list(prompt)
        for token, report in zip(given, output.logprobs, strict=True):
            row = row_for(list(enumerate(tokens)), END_CHANCE).astype(np.float64)
            assert report.token_id == token
            assert report.logprob == pytest.approx(row[token] - np.log(np.exp(row).sum()), abs=1e-4)
            tokens.append(token)
    with Rig(memory=StrategyMemory(encode), cells=60, max_num_seqs=4, abort_at_random=0.05) as rig:
        with rig.held():
            streams = [
                rig.generate(prompt, output_token_ids=given, score_output=True, logprobs=0, max_tokens=45, seed=3)
                for _ in range(4)
            ]
        outputs = [collect(s)[0] for s in streams]
        assert rig.scheduler.stats().preemptions_total > 0
        assert len({tuple(o.token_ids) for o in outputs}) == 1
        assert outputs[0].token_ids[: len(given)] == given
        assert len({tuple(p.logprob for p in o.logprobs) for o in outputs}) == 1


def test_given_tokens_that_the_grammar_refuses_are_an_error():
    with Rig(memory=StrategyMemory(encode)) as rig:
        (output,) = collect(rig.generate([1], output_token_ids=[10, 15, 1], constraint=CONSTRAINTS["(ab|x)+!?"]))
        assert (output.finish_reason, output.error.code) == ("error", "replay_rejected")
