"""What ends an output that would go on, on a model without weights: repetitions, and reasoning that is long enough."""

from __future__ import annotations

import pytest
from engine_fakes import EOS, TOKENS
from engine_rig import Rig, collect

import narrows
from narrows.decoding.strategies import StrategyMemory
from narrows.engines.api import RepetitionDetection, Strategies, ThinkingBudget
from narrows.events import Content, Reasoning

VOCABULARY = narrows.Vocabulary(list(TOKENS), special={"<end>": EOS}, eos=[EOS])
A, B, SPACE, STOP, X = (TOKENS.index(text) for text in (b"a", b"b", b" ", b"STOP", b"x"))
ALWAYS_A = {A: 100.0, EOS: -100.0}
"""The bias of a model that writes `a` again and again."""
THREE = RepetitionDetection(max_pattern_size=2, min_count=3)


def compiled(pattern: str) -> narrows.Constraint:
    return VOCABULARY.compile(narrows.Grammar.from_regex(pattern))


def encode(text: str) -> list[int]:
    return [next(t for t in range(1, len(TOKENS)) if TOKENS[t] == character.encode()) for character in text]


def generate(rig: Rig, **options):
    options.setdefault("logit_bias", ALWAYS_A)
    return collect(rig.generate([1, 2], seed=1, max_tokens=100, **options))[0]


def test_without_a_constraint_it_ends_at_once():
    with Rig(cells=600, end_chance=0.0) as rig:
        output = generate(rig, repetition_detection=THREE)
        assert (output.token_ids, output.finish_reason, output.stop_reason) == (
            [A] * 3,
            "repetition",
            "repetition_detected",
        )
        assert generate(rig, repetition_detection=THREE, min_tokens=7).token_ids == [A] * 7
        assert generate(rig).finish_reason == "length"


@pytest.mark.parametrize("first", ["always", "never"])
@pytest.mark.parametrize("jump", ["auto", "never"])
@pytest.mark.parametrize("draft", ["auto", "never"])
@pytest.mark.parametrize("budget", [True, False])
def test_a_text_under_a_constraint_is_brought_to_its_end(first, jump, draft, budget):
    """Also where the grammar forces tokens, and where tokens are guessed."""
    strategies = Strategies(sample_first=first, jump_forward=jump, draft=draft, budget=budget)
    with Rig(cells=600, memory=StrategyMemory(encode), end_chance=0.0) as rig:
        for _ in range(2):  # the second time, all that is remembered is known
            for pattern, text in [
                ("(a|b)*xb!", "aaaxb!"),
                ("x(ab)*!", "xababab!"),
                ("(a|b)*", "aaa"),
                ("(a+ )*(a+!)?", "aaa "),
                ("a{7,}x", "aaaaaaax"),
            ]:
                output = generate(rig, constraint=compiled(pattern), repetition_detection=THREE, strategies=strategies)
                assert (output.text, output.finish_reason, output.stop_reason) == (
                    text,
                    "repetition",
                    "repetition_detected",
                )


def test_the_way_to_the_end_is_cut_by_max_tokens():
    with Rig(cells=600, memory=StrategyMemory(encode), end_chance=0.0) as rig:
        output = collect(
            rig.generate(
                [1], max_tokens=4, logit_bias=ALWAYS_A, constraint=compiled("a*xb!"), repetition_detection=THREE
            )
        )[0]
        assert (output.text, output.finish_reason) == ("aaax", "length")


class ThinkingParser:
    """Reasoning until STOP, as tokens; then content."""

    def __init__(self, place="reasoning"):
        self.place, self.position = place, 0

    def feed_tokens(self, ids):
        events = []
        for token in ids:
            text = TOKENS[token].decode("latin-1")
            start, self.position = self.position, self.position + len(text)
            if self.place == "reasoning" and token == STOP:
                self.place = "content"
            elif self.place == "content" and token == B:
                self.place = "reasoning"
            elif text:
                kind = Reasoning if self.place == "reasoning" else Content
                events.append(kind(text, (start, self.position)))
        return events

    def finish(self):
        return []


def thoughts(output) -> str:
    return "".join(event.text for event in output.events if isinstance(event, Reasoning))


@pytest.mark.parametrize("constraint", [None, "[abx ]*(STOP[abx ]*)*"])
@pytest.mark.parametrize("tokens", [0, 1, 5])
@pytest.mark.parametrize("first", ["always", "never"])
def test_reasoning_ends_when_its_budget_is_used_up(tokens, constraint, first):
    with Rig(cells=600, memory=StrategyMemory(encode), end_chance=0.0) as rig:
        (output,) = collect(
            rig.generate(
                [1, 2],
                max_tokens=20,
                logit_bias=ALWAYS_A,
                constraint=None if constraint is None else compiled(constraint),
                strategies=Strategies(sample_first=first),
                parser_factory=lambda _: ThinkingParser(),
                thinking_budget=ThinkingBudget(tokens=tokens, end=[STOP]),
            )
        )
        assert output.token_ids == [A] * tokens + [STOP] + [A] * (19 - tokens)
        assert thoughts(output) == "a" * tokens


def test_reasoning_that_ends_by_itself_is_left_alone():
    with Rig(cells=600, end_chance=0.0) as rig:
        options = {"max_tokens": 60, "seed": 3}
        free = collect(rig.generate([1, 2], parser_factory=lambda _: ThinkingParser(), **options))[0]
        budget = ThinkingBudget(tokens=60, end=[STOP])
        same = collect(
            rig.generate([1, 2], parser_factory=lambda _: ThinkingParser(), thinking_budget=budget, **options)
        )[0]
        assert STOP in free.token_ids
        assert same.token_ids == free.token_ids


def test_all_parts_of_the_reasoning_share_the_budget():
    """B opens reasoning again; what the model then thinks counts on."""
    with Rig(cells=600, end_chance=0.0) as rig:
        bias = {X: 100.0, EOS: -100.0}
        (output,) = collect(
            rig.generate(
                [1],
                output_token_ids=[X, X, STOP, B],
                max_tokens=12,
                logit_bias=bias,
                parser_factory=lambda _: ThinkingParser(),
                thinking_budget=ThinkingBudget(tokens=5, end=[STOP]),
            )
        )
        assert output.token_ids == [X, X, STOP, B, X, X, STOP, X, X, X, X, X]


@pytest.mark.parametrize("constraint", [None, "(\\w|😀)*(STOP\\w*)*"])
def test_nothing_is_forced_in_the_middle_of_a_character(constraint):
    half, rest = TOKENS.index(b"\xf0\x9f"), TOKENS.index(b"\x98\x80")
    with Rig(cells=600, end_chance=0.0) as rig:
        (output,) = collect(
            rig.generate(
                [1],
                output_token_ids=[half],
                max_tokens=4,
                logit_bias={rest: 100.0, EOS: -100.0},
                constraint=None if constraint is None else compiled(constraint),
                parser_factory=lambda _: ThinkingParser(),
                thinking_budget=ThinkingBudget(tokens=1, end=[STOP]),
            )
        )
        assert output.token_ids[:3] == [half, rest, STOP]


def test_preempted_sequences_end_alike():
    """A small cache, so that sequences lose their places all the time."""
    budget = ThinkingBudget(tokens=9, end=[STOP])
    options = {"max_tokens": 60, "repetition_detection": RepetitionDetection(max_pattern_size=3, min_count=4)}
    seen = []
    for cells in (2_000, 90):
        with Rig(cells=cells, max_num_seqs=5, end_chance=0.0, memory=StrategyMemory(encode)) as rig:
            streams = [
                rig.generate(
                    [1, 2, seed],
                    seed=seed,
                    constraint=compiled("([abx ]|STOP)*!") if seed % 2 else None,
                    logit_bias={A: 3.0},
                    parser_factory=lambda _: ThinkingParser(),
                    thinking_budget=budget,
                    **options,
                )
                for seed in range(10)
            ]
            outputs = [collect(stream)[0] for stream in streams]
            seen.append([(o.token_ids, o.finish_reason) for o in outputs])
            preempted = rig.scheduler.stats().preemptions_total
    assert preempted
    assert seen[0] == seen[1]
    assert {reason for _, reason in seen[0]} >= {"repetition"}
    assert any(STOP in ids for ids, _ in seen[0])
