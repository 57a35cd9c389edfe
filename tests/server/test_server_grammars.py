"""The cache of compiled grammars: shared, bounded, honest about failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from scripted import byte_vocabulary

from narrows import Constraint, Grammar, Limits
from narrows.errors import GrammarError, LimitError
from narrows.server.grammars import GrammarCache

VOCABULARY = byte_vocabulary()


def build(text: str, calls: list[str] | None = None) -> Callable[[Limits], Grammar]:
    def make(limits: Limits) -> Grammar:
        if calls is not None:
            calls.append(text)
        return Grammar.from_regex(text, limits=limits)

    return make


def test_one_definition_is_compiled_once_whoever_asks() -> None:
    async def run() -> None:
        calls: list[str] = []
        cache = GrammarCache(VOCABULARY)
        found = await asyncio.gather(*(cache.get(["r", "a+"], build("a+", calls)) for _ in range(10)))
        assert all(constraint is found[0] for constraint in found)
        assert await cache.get(["r", "a+"], build("a+", calls)) is found[0]
        assert calls == ["a+"]
        assert (len(cache), cache.hits, cache.misses) == (1, 1, 1)
        assert await cache.get(["r", "b+"], build("b+", calls)) is not found[0]
        cache.close()

    asyncio.run(run())


def test_the_least_recently_used_goes_first_and_both_bounds_hold() -> None:
    async def run() -> None:
        calls: list[str] = []
        cache = GrammarCache(VOCABULARY, Limits(grammar_cache_entries=2))
        for text in ("a", "b", "a", "c", "a", "b"):
            await cache.get([text], build(text, calls))
        assert calls == ["a", "b", "c", "b"]
        assert len(cache) == 2
        cache.close()
        small = GrammarCache(VOCABULARY, Limits(grammar_cache_bytes=100))
        for i in range(50):
            await small.get(["x" * 20, i], build("a"))
            assert small.bytes <= 100
        await small.get(["x" * 1000], build("a"))
        assert len(small) == 3  # too large to be kept at all, and nothing else had to go for it
        small.close()

    asyncio.run(run())


def test_failures_are_not_kept_and_reach_everyone_who_waits() -> None:
    async def run() -> None:
        cache = GrammarCache(VOCABULARY)
        found = await asyncio.gather(*(cache.get(["bad"], build("(")) for _ in range(3)), return_exceptions=True)
        assert all(isinstance(error, GrammarError) for error in found)
        assert len(cache) == 0
        assert isinstance((await cache.get(["bad"], build("a"))).constraint, Constraint)
        cache.close()

    asyncio.run(run())


def test_what_waits_is_bounded_and_who_leaves_spoils_nothing() -> None:
    async def run() -> None:
        go = threading.Event()

        def slow(limits: Limits) -> Grammar:
            go.wait(10)
            return Grammar.from_regex("a")

        cache = GrammarCache(VOCABULARY, Limits(compile_queue=2), threads=1)
        first = asyncio.ensure_future(cache.get([1], slow))
        second = asyncio.ensure_future(cache.get([2], slow))
        await asyncio.sleep(0.01)
        with pytest.raises(LimitError) as caught:
            await cache.get([3], slow)
        assert (caught.value.code, caught.value.limit) == ("compile_queue_full", "compile_queue")
        first.cancel()
        go.set()
        await second
        await asyncio.sleep(0.05)
        assert len(cache) == 2
        cache.close()

    asyncio.run(run())


def test_a_limit_of_the_first_mask_is_met_before_the_answer_begins() -> None:
    async def run() -> Any:
        cache = GrammarCache(VOCABULARY, Limits(step_work=1))
        with pytest.raises(LimitError) as caught:
            await cache.get([1], build("(a|b)+c[d-f]*"))
        cache.close()
        return caught.value

    assert asyncio.run(run()).limit == "step_work"
