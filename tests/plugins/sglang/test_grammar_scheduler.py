"""The grammar backend in SGLang's own manager, batch masks, traversal of drafts and intake of tokens: what its scheduler does, without the model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import serving
import torch
from serving import Request, allowed, bits, end, ids, marker, request, submit, take_in, text_of
from sglang.srt.constrained.base_grammar_backend import InvalidGrammarObject
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarObject
from sglang.srt.plugins import load_plugins
from sglang.srt.plugins.hook_registry import HookRegistry
from sglang.srt.speculative import spec_utils

from narrows import Grammar
from narrows.errors import LimitError
from narrows.plugins.sglang.masking import grammar as grammar_module
from narrows.plugins.sglang.masking.grammar import Grammar as SequenceGrammar

load_plugins()
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "maximum": 99, "minimum": 0}},
    "required": ["name", "age"],
}
PATTERN = "(ab|cd)*e[0-9]{2,4}"


@pytest.fixture
def plain() -> Iterator[Any]:
    with serving.flags(grammar_backend="narrows"):
        yield serving.manager()


@pytest.fixture
def thinking() -> Iterator[Any]:
    with serving.flags(grammar_backend="narrows", reasoning_parser="qwen3"):
        yield serving.manager([marker("</think>")])


def sample(random: Random, logits: Any) -> int:
    """A token by its logits, which are random. The end is taken where it may come, more often than not."""
    if logits[end()] > float("-inf") and random.random() < 0.6:
        return end()
    return int(logits.argmax())


def generate(requests: list[Request], seed: int, drafts: bool = False, steps: int = 60) -> None:
    """SGLang's order of calls, until all have ended: the mask of the batch, applied; tokens; intake. With drafts, each step has a tree of them."""
    random, generator = Random(seed), torch.Generator().manual_seed(seed)
    for one in requests:
        one.output_ids = []
    for _ in range(steps):
        running = [one for one in requests if not one.finished()]
        if not running:
            return
        logits = torch.randn(len(running), serving.WIDTH, generator=generator)
        serving.mask_of([one.grammar for one in running]).apply(logits)
        for row, one in enumerate(running):
            assert take_in(one, sample(random, logits[row]))
        running = [one for one in running if not one.finished()]
        if drafts and running:
            speculate(running, random)


def speculate(running: list[Request], random: Random) -> None:
    """A tree of drafts for each request, some of which do not fit; a path of those that the masks allow is taken in."""
    trees = []
    for one in running:
        # the root, two children, and a child of each; the second child of the root is random
        good = random.choice(sorted(allowed(one.grammar)))
        deeper = good
        if good != end():
            one.grammar.accept_token(good)
            deeper = random.choice(sorted(allowed(one.grammar)))
            one.grammar.rollback(1)
        other = random.randrange(serving.tokenizer().vocab_size)
        root = one.output_ids[-1]
        trees.append([(root, 1, -1), (good, 3, 2), (other, 4, -1), (deeper, -1, -1), (other, -1, -1)])
    masks = serving.draft_masks(running, trees)
    for at, (one, tree) in enumerate(zip(running, trees, strict=True)):
        rows = [bits(masks[5 * at + node]) for node in range(5)]
        assert rows[0] == allowed(one.grammar)
        assert tree[1][0] in rows[0]
        if tree[1][0] != end():
            assert tree[3][0] in rows[1]
        if tree[2][0] not in rows[0]:
            assert masks[5 * at + 2].eq(-1).all(), "what does not fit is not looked at"
        taken = [tree[1][0], tree[3][0]][: random.randrange(3)]
        if taken:
            kept = take_in(one, taken)
            assert kept == taken[: 1 + (taken[0] != end())]


def is_of(request: Request, grammar: Grammar) -> bool:
    """Whether the request's text is one of the grammar, by the bytes of its tokens."""
    matcher = request.grammar.masked.matcher.constraint.vocabulary.compile(grammar).matcher()
    return matcher.accept_bytes(text_of(request.output_ids).encode()) and matcher.is_accepting


@pytest.mark.parametrize("drafts", [False, True])
def test_sixteen_sequences_of_one_grammar_and_others_beside_them(plain: Any, drafts: bool) -> None:
    wanted = (
        [{"regex": PATTERN}] * 16
        + [{"json_schema": json.dumps(SCHEMA)}] * 4
        + [{"ebnf": 'root ::= "x" | "(" root ")"'}]
    )
    requests = [request(str(at), **fields) for at, fields in enumerate(wanted)]
    submit(plain, requests)
    assert len({id(request.grammar) for request in requests}) == len(requests)
    assert len({id(request.grammar.matcher.constraint) for request in requests[:16]}) == 1
    generate(requests, seed=1, drafts=drafts)
    assert all(request.error is None and request.to_finish is None for request in requests)
    done = [request for request in requests if request.grammar.is_terminated()]
    assert len(done) >= 16
    grammars = [Grammar.from_regex(PATTERN)] * 16 + [Grammar.from_json_schema(SCHEMA)] * 4
    assert all(is_of(request, grammar) for request, grammar in zip(requests, grammars, strict=False) if request in done)
    assert len({text_of(request.output_ids) for request in requests[:16]}) > 4


def test_a_cached_grammar_is_at_the_start(plain: Any) -> None:
    first, second = request("1", regex=PATTERN), request("2", regex=PATTERN)
    submit(plain, [first])
    assert first.grammar.grammar_stats.is_cache_hit is False
    assert first.grammar.grammar_stats.dispatch_type == "regex"
    assert first.grammar.grammar_stats.compilation_time > 0
    take_in(first, ids("abe"))
    submit(plain, [second])
    assert second.grammar_key is None, "there was nothing to wait for"
    assert second.grammar.grammar_stats.is_cache_hit
    assert second.grammar.matcher.constraint is first.grammar.matcher.constraint
    assert allowed(second.grammar) == allowed(first.grammar.copy()) != allowed(first.grammar)


def test_a_grammar_that_is_wrong_ends_its_request_with_narrows_message(plain: Any) -> None:
    for _ in range(2):  # compiled, and kept
        wrong = [
            request("1", json_schema='{"type": "strin"}'),
            request("2", regex="(a"),
            request("3", ebnf="root ::= missing"),
            request("4", structural_tag='{"type": "structural_tag", "format": {"type": "nothing"}}'),
            request("5", json_schema="{"),
        ]
        right = request("6", regex="a")
        submit(plain, [*wrong, right])
        assert isinstance(right.grammar, SequenceGrammar)
        assert all(isinstance(request.grammar, InvalidGrammarObject) for request in wrong)
        errors = [str(request.error) for request in wrong]
        assert errors[0].startswith("Failed to compile json grammar: ")
        assert "/type" in errors[0]
        assert "regex" in errors[1]
        assert "line 1:" in errors[2]
        assert "/format/type" in errors[3]
        assert "JSON" in errors[4]


def test_a_batch_with_free_and_ended_rows(plain: Any) -> None:
    requests = [request(str(at), regex="ab?c") for at in range(3)]
    submit(plain, requests)
    take_in(requests[1], ids("a"))
    for token in (*ids("a"), *ids("c"), end()):
        take_in(requests[2], token)
    rows = [None, requests[0].grammar, None, requests[1].grammar, requests[2].grammar]
    mask = serving.mask_of(rows).vocab_mask
    assert [bool(mask[row].eq(-1).all()) for row in range(5)] == [True, False, True, False, True]
    assert bits(mask[1]) == allowed(requests[0].grammar)
    assert bits(mask[3]) == allowed(requests[1].grammar)
    logits = torch.zeros(5, serving.WIDTH)
    serving.mask_of(rows).apply(logits)
    assert set((logits[3] == 0).nonzero().flatten().tolist()) == allowed(requests[1].grammar)
    assert bool((logits[0] == 0).all())


def test_tokens_that_do_not_fit_end_one_request(plain: Any) -> None:
    first, second = request("1", regex="ab?c"), request("2", regex="ab?c")
    submit(plain, [first, second])
    assert take_in(first, ids("zz")) == []
    assert "expected a" in first.to_finish.message
    assert take_in(second, ids("a")) == ids("a")


class Failing:
    """A matcher that reaches a limit where its text has a `b`."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def __getattr__(self, name: str) -> Any:
        return getattr(self._matcher, name)

    def fill_mask(self, row: Any) -> None:
        if ids("b")[0] in self._matcher.history():
            raise LimitError("too much", limit="step_work")
        self._matcher.fill_mask(row)


@pytest.fixture
def failing(plain: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Request, Request]:
    def fill_all(matchers: list[Any], rows: Any) -> None:
        for matcher, row in zip(matchers, rows, strict=True):
            matcher.fill_mask(row)

    monkeypatch.setattr(grammar_module, "fill_masks", fill_all)
    bad, good = request("1", regex="(a|b)*"), request("2", regex="(a|b)*")
    submit(plain, [bad, good])
    bad.grammar.matcher = Failing(bad.grammar.matcher)
    for request_ in (bad, good):
        take_in(request_, [*ids("a"), *ids("b")] if request_ is good else ids("a"))
    return bad, good


def test_a_limit_in_a_mask_ends_one_request_at_its_next_token(failing: tuple[Request, Request]) -> None:
    bad, good = failing
    take_in(bad, ids("b"))
    for _ in range(2):
        mask = serving.mask_of([bad.grammar, good.grammar]).vocab_mask
        assert bits(mask[0]) == {end()}
        assert bits(mask[1]) == allowed(good.grammar)
    assert take_in(bad, end()) == []
    assert "step_work" in bad.to_finish.message
    assert take_in(good, end()) == [end()]


def test_a_limit_among_drafts_ends_nothing(failing: tuple[Request, Request]) -> None:
    """The third draft is the end token, which is all that a mask allows after a failure. An exception there would end the server."""
    assert "sglang.srt.speculative.spec_utils.traverse_tree" in HookRegistry._patched
    bad, good = failing
    (a,), (b,) = ids("a"), ids("b")
    before = allowed(bad.grammar)
    masks = serving.draft_masks(
        [bad, good], [[(a, 1, -1), (b, 2, -1), (end(), -1, -1)], [(b, 1, -1), (b, 2, -1), (a, -1, -1)]]
    )
    assert bits(masks[0]) == before
    assert bits(masks[1]) == {end()}
    assert masks[2].eq(-1).all()
    assert bits(masks[5]) == allowed(good.grammar)
    assert allowed(bad.grammar) == before
    assert take_in(bad, [a]) == [a]


def test_other_grammars_are_traversed_as_before() -> None:
    class Other:
        def is_terminated(self) -> bool:
            return True

    none = torch.tensor([-1])
    spec_utils.traverse_tree(none, none, torch.tensor([3]), Other(), torch.zeros(1, 1), vocab_size=8)


# Reasoning.


def test_the_grammar_begins_after_the_reasoning(thinking: Any) -> None:
    thinks, answers = request("1", require_reasoning=True, regex="ab?c"), request("2", regex="ab?c")
    again = request("3", require_reasoning=True, regex="ab?c")
    submit(thinking, [thinks, answers])
    submit(thinking, [again])
    assert all(isinstance(one.grammar, ReasonerGrammarObject) for one in (thinks, answers, again))
    free = serving.mask_of([thinks.grammar, answers.grammar]).vocab_mask
    assert free[0].eq(-1).all()
    assert bits(free[1]) == allowed(answers.grammar)
    hmm = [*ids("Hmm, c"), marker("</think>")]
    assert take_in(thinks, hmm) == hmm
    assert allowed(thinks.grammar) == allowed(answers.grammar)
    assert take_in(thinks, ids("a")) == ids("a")
    batch = serving.mask_of([thinks.grammar, answers.grammar, again.grammar]).vocab_mask
    assert bits(batch[0]) == allowed(thinks.grammar) != bits(batch[1])
    assert bits(batch[1]) == allowed(answers.grammar)
    assert batch[2].eq(-1).all()
    thinks.grammar.rollback(2)
    assert serving.mask_of([thinks.grammar]).vocab_mask.eq(-1).all()
    for token in (marker("</think>"), *ids("a"), *ids("c"), end()):
        take_in(thinks, token)
    assert thinks.grammar.is_terminated()


def test_rows_behind_the_reasoning_are_filled_in_one_call(thinking: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [request(str(at), require_reasoning=at % 2 == 0, regex=PATTERN) for at in range(6)]
    submit(thinking, requests[:2])
    submit(thinking, requests[2:])  # from the cache
    calls: list[int] = []
    fill = grammar_module.fill_masks

    def counted(matchers: list[Any], rows: Any) -> None:
        calls.append(len(matchers))
        fill(matchers, rows)

    monkeypatch.setattr(grammar_module, "fill_masks", counted)
    mask = serving.mask_of([one.grammar for one in requests]).vocab_mask
    assert calls == [3]
    assert [bool(row.eq(-1).all()) for row in mask] == [True, False] * 3


def test_drafts_over_the_end_of_the_reasoning(thinking: Any) -> None:
    one = request("1", require_reasoning=True, regex="ab?c")
    submit(thinking, [one])
    root, close, a = ids("Hmm")[0], marker("</think>"), ids("a")[0]
    take_in(one, root)
    masks = serving.draft_masks([one], [[(root, 1, -1), (close, 2, -1), (a, -1, -1)]])
    assert masks[0].eq(-1).all()
    assert a in bits(masks[1])
    assert end() not in bits(masks[1])
    assert bits(masks[2]) == {*ids("b"), *ids("c"), *ids("bc")}
    assert serving.mask_of([one.grammar]).vocab_mask.eq(-1).all()


def test_thinking_budgets_and_strict_thinking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_MAX_THINK_TOKENS", "3")
    with serving.flags(grammar_backend="narrows", reasoning_parser="qwen3", enable_strict_thinking=True):
        manager = serving.manager([marker("</think>")])
        assert manager.grammar_backend.enable_strict_thinking
        one = request("1", require_reasoning=True, regex="ab?c", custom_params={"thinking_budget": 2})
        free = request("2", require_reasoning=True, custom_params={"thinking_budget": 1})
        submit(manager, [one, free])
        server = request("3", require_reasoning=True, regex="ab?c")
        submit(manager, [server])
        for left in range(3):
            assert (allowed(server.grammar) == {marker("</think>")}) is False, left
            take_in(server, ids("Hmm")[:1])
        assert allowed(server.grammar) == {marker("</think>")}
        take_in(one, ids("Hmm")[:1])
        take_in(free, ids("Hmm")[:1])
        assert allowed(one.grammar) != {marker("</think>")}
        take_in(one, ids("Hmm")[:1])
        assert allowed(one.grammar) == allowed(free.grammar) == {marker("</think>")}
        take_in(one, marker("</think>"))
        take_in(free, marker("</think>"))
        assert ids("a")[0] in allowed(one.grammar)
        assert len(allowed(free.grammar)) == (serving.WIDTH + 31) // 32 * 32


def test_narrows_own_reasoning_parsers() -> None:
    with serving.flags(grammar_backend="narrows", reasoning_parser="narrows_hermes_json"):
        manager = serving.manager([marker("</think>")])
        one = request("1", require_reasoning=True, regex="ab?c")
        submit(manager, [one])
        take_in(one, [*ids("Hmm"), marker("</think>"), *ids("a")])
        assert allowed(one.grammar) == {*ids("b"), *ids("c"), *ids("bc")}
