"""The cache of compiled grammars: shared, bounded by the bytes that its constraints hold, exact about failures."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from scripted import byte_vocabulary

from narrows import Constraint, Limits, formats
from narrows.compile_cache import Lease
from narrows.compiling import definition as definitions
from narrows.errors import EngineError, GrammarError, LimitError, NarrowsError
from narrows.server import compiler
from narrows.server.grammars import GrammarCache
from narrows.tools.turn import TurnOptions

VOCABULARY = byte_vocabulary()
FORMAT = formats.get("hermes_json")


def cache_of(limits: Limits | None = None, **more: Any) -> GrammarCache:
    return GrammarCache(VOCABULARY, FORMAT, limits or Limits(), **more)


def regex(text: str) -> list[Any]:
    return ["text", "regex", text, {}]


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs the coroutine. An error that the loop reports (such as one that nobody read) fails the test."""
    complaints: list[Any] = []

    async def watched() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        value = await asyncio.wait_for(work, 60)
        gc.collect()
        await asyncio.sleep(0)
        return value

    result = asyncio.run(watched())
    assert not complaints
    return result


class Gate:
    """Keeps definitions from being read until it is opened, and lists those that were read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: list[str] = []
        self.go = threading.Event()
        self.act: Callable[[str], None] = lambda text: None
        real = compiler.read_definition

        def read_definition(definition: list[Any], *rest: Any) -> Any:
            self.read.append(definition[2])
            assert self.go.wait(30)
            self.act(definition[2])
            return real(definition, *rest)

        monkeypatch.setattr(compiler, "read_definition", read_definition)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


def test_one_definition_is_compiled_once_whoever_asks(gate: Gate) -> None:
    async def main() -> None:
        gate.go.set()
        cache = cache_of()
        leases = await asyncio.gather(*(cache.get(regex("a+"), f"client {i % 3}") for i in range(10)))
        assert all(lease.value is leases[0].value for lease in leases)
        assert (await cache.get(regex("a+"))).value is leases[0].value
        assert gate.read == ["a+"]
        assert (len(cache), cache.hits, cache.misses) == (1, 1, 10)
        assert (await cache.get(regex("b+"))).value is not leases[0].value
        cache.close()

    run(main())


def test_the_least_recently_used_goes_first(gate: Gate) -> None:
    async def main() -> None:
        gate.go.set()
        cache = cache_of(Limits(grammar_cache_entries=2))
        for text in ("a", "b", "a", "c", "a", "b"):
            (await cache.get(regex(text))).release()
        assert gate.read == ["a", "b", "c", "b"]
        assert len(cache) == 2
        cache.close()

    run(main())


def test_what_is_kept_is_bounded_by_what_it_holds_as_it_grows() -> None:
    async def main() -> None:
        cache = cache_of(Limits(grammar_cache_bytes=300_000))
        grown: list[Lease[Any]] = []
        for i in range(8):
            lease = await cache.get(regex(f"{i}(a|b|c){{1,3000}}"))
            before = lease.value.constraint.bytes
            matcher = lease.value.constraint.matcher()
            assert matcher.accept_bytes(b"%d" % i + b"abc" * 900)
            assert lease.value.constraint.bytes > before + 30_000  # more than when it entered the cache
            lease.release()
            grown.append(lease)
            assert cache.bytes_held <= 300_000
        assert 1 <= len(cache) < 8
        assert cache.bytes_held == sum(
            entry.overhead + entry.value.constraint.bytes for entry in cache._kept._entries.values()
        )
        assert cache.hits == 0
        await cache.get(regex("7(a|b|c){1,3000}"))
        assert cache.hits == 1  # the last one is kept
        cache.close()

    run(main())


def test_what_is_in_use_stays_and_goes_when_it_ends() -> None:
    async def main() -> None:
        cache = cache_of(Limits(grammar_cache_entries=1))
        first = await cache.get(regex("a"))
        second = await cache.get(regex("b"))
        assert len(cache) == 2
        assert (await cache.get(regex("a"))).value is first.value
        second.release()
        second.release()
        assert (len(cache), cache.bytes_in_use) == (1, cache.bytes_held)
        cache.close()

    run(main())


def test_what_is_in_use_is_bounded_and_shared_out() -> None:
    async def main() -> None:
        cache = cache_of(Limits(grammar_cache_bytes=100_000))
        many: list[Lease[Any]] = []
        caught = None
        while caught is None:
            try:
                many.append(await cache.get(regex(f"a{len(many)}b+"), "one"))
            except LimitError as error:
                caught = error
        assert (caught.code, caught.limit) == ("grammar_memory_full", "grammar_cache_bytes")
        assert 40_000 < cache.bytes_in_use < 60_000
        assert (await cache.get(regex("a0b+"), "one")).value is many[0].value  # takes no more memory
        other = await cache.get(regex("z"), "another")  # has room
        for lease in [*many, other]:
            lease.release()
        await cache.get(regex("y"), "one")
        cache.close()

    run(main())


def test_failures_are_not_kept_and_each_request_gets_its_own() -> None:
    async def main() -> None:
        cache = cache_of()
        errors = await asyncio.gather(*(cache.get(regex("(")) for _ in range(3)), return_exceptions=True)
        assert all(isinstance(error, GrammarError) for error in errors)
        assert len({id(error) for error in errors}) == 3
        assert (len(cache), len(cache.compiler)) == (0, 0)
        assert isinstance((await cache.get(regex("a"))).value.constraint, Constraint)
        cache.close()

    run(main())


def test_a_limit_of_the_first_mask_is_met_before_the_answer_begins() -> None:
    async def main() -> Any:
        cache = cache_of(Limits(step_work=1))
        with pytest.raises(LimitError) as caught:
            await cache.get(regex("(a|b)+c[d-f]*"))
        cache.close()
        return caught.value

    assert run(main()).limit == "step_work"


# Turns, and clients that leave.


def test_one_client_cannot_fill_the_queue(gate: Gate) -> None:
    async def main() -> None:
        cache = cache_of(Limits(compile_queue=8), lanes=compiler.Lanes(1))
        asked = [asyncio.ensure_future(cache.get(regex(f"a{i}"), "one")) for i in range(12)]
        await asyncio.sleep(0)
        assert len(cache.compiler) == 4
        other = [asyncio.ensure_future(cache.get(regex(f"b{i}"), "another")) for i in range(8)]
        await asyncio.sleep(0)
        assert len(cache.compiler) == 6
        third = asyncio.ensure_future(cache.get(regex("c"), "a third"))
        await asyncio.sleep(0)
        assert len(cache.compiler) == 7
        gate.go.set()
        outcomes = await asyncio.gather(*asked, *other, third, return_exceptions=True)
        refused = [error for error in outcomes if isinstance(error, NarrowsError)]
        assert {(error.code, error.limit) for error in refused} == {("compile_queue_full", "compile_queue")}
        assert len(refused) == 14
        assert isinstance(outcomes[-1], Lease)
        cache.close()

    run(main())


def test_a_client_waits_for_what_is_under_way_and_no_more(gate: Gate) -> None:
    async def main() -> None:
        cache = cache_of(lanes=compiler.Lanes(1))
        asked = [asyncio.ensure_future(cache.get(regex(f"a{i}"), "one")) for i in range(30)]
        await asyncio.sleep(0.01)
        asked += [asyncio.ensure_future(cache.get(regex(f"b{i}"), "another")) for i in range(2)]
        await asyncio.sleep(0.01)
        gate.go.set()
        await asyncio.gather(*asked)
        assert gate.read[:5] == ["a0", "b0", "a1", "b1", "a2"]
        cache.close()

    run(main())


def test_the_models_of_a_server_share_threads_turns_and_the_bound(gate: Gate) -> None:
    async def main() -> None:
        lanes = compiler.Lanes(1)
        first, second = (cache_of(Limits(compile_queue=20), lanes=lanes) for _ in range(2))
        asked = [asyncio.ensure_future(first.get(regex(f"a{i}"), "one")) for i in range(10)]
        await asyncio.sleep(0.01)
        asked += [asyncio.ensure_future(second.get(regex(text), "another")) for text in ("a1", "b")]
        refused = asyncio.ensure_future(second.get(regex("c"), "one"))
        await asyncio.sleep(0.01)
        assert (len(first.compiler), len(second.compiler)) == (10, 2)
        gate.go.set()
        *leases, error = await asyncio.gather(*asked, refused, return_exceptions=True)
        assert isinstance(error, NarrowsError)
        assert error.code == "compile_queue_full", "one has half of all places"
        assert gate.read[:5] == ["a0", "a1", "a1", "b", "a2"], "each model compiles for its own vocabulary"
        assert leases[1].value is not leases[10].value
        assert (len(first), len(second), len(lanes.jobs)) == (10, 2, 0)
        first.close()
        second.close()

    run(main())


def test_a_definition_that_two_clients_want_stands_in_both_lines(gate: Gate) -> None:
    async def main() -> None:
        cache = cache_of(lanes=compiler.Lanes(1))
        asked = [asyncio.ensure_future(cache.get(regex(f"a{i}"), "one")) for i in range(10)]
        await asyncio.sleep(0.01)
        asked.append(asyncio.ensure_future(cache.get(regex("a9"), "another")))
        await asyncio.sleep(0.01)
        gate.go.set()
        await asyncio.gather(*asked)
        assert gate.read[:3] == ["a0", "a9", "a1"]
        assert len(gate.read) == 10
        cache.close()

    run(main())


def test_what_nobody_waits_for_any_more_is_not_read(gate: Gate) -> None:
    async def main() -> None:
        cache = cache_of(lanes=compiler.Lanes(1))
        first = asyncio.ensure_future(cache.get(regex("a"), "one"))
        leaving = [asyncio.ensure_future(cache.get(regex("b"), name)) for name in ("one", "one", "another")]
        shared = [asyncio.ensure_future(cache.get(regex("c"), name)) for name in ("one", "another")]
        await asyncio.sleep(0.01)
        for task in (*leaving, shared[0], first):
            task.cancel()
        await asyncio.sleep(0.01)
        assert len(cache.compiler) == 1
        gate.go.set()
        assert isinstance(await shared[1], Lease)
        assert gate.read == ["a", "c"]
        assert await asyncio.gather(*leaving, return_exceptions=True) != []
        cache.close()

    run(main())


# Memory, bugs, and the end.


def test_a_compilation_that_dies_of_memory_is_an_error(gate: Gate) -> None:
    async def main() -> None:
        def dies(text: str) -> None:
            raise MemoryError

        gate.act = dies
        gate.go.set()
        cache = cache_of()
        with pytest.raises(NarrowsError) as caught:
            await cache.get(regex("a"))
        assert caught.value.code == "out_of_memory"
        gate.act = lambda text: None
        await cache.get(regex("a"))
        cache.close()

    run(main())


def test_nobody_hangs_where_memory_is_too_short_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither if the thread cannot wake the loop, nor if the loop cannot keep the result."""

    async def main() -> None:
        monkeypatch.setattr(compiler, "HEARD_SECONDS", 0.05)
        cache = cache_of()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: None)
        fails = {"tell": 3, "keep": 3}
        tell, keep = loop.call_soon_threadsafe, cache.compiler._keep

        def failing(name: str, real: Any) -> Any:
            def call(*given: Any, **named: Any) -> Any:
                if fails[name]:
                    fails[name] -= 1
                    raise MemoryError
                return real(*given, **named)

            return call

        monkeypatch.setattr(loop, "call_soon_threadsafe", failing("tell", tell))
        monkeypatch.setattr(cache.compiler, "_keep", failing("keep", keep))
        assert isinstance(await cache.get(regex("a")), Lease)
        assert fails == {"tell": 0, "keep": 0}
        assert len(cache.compiler) == 0
        cache.close()

    run(main())


def test_a_thread_that_cannot_be_started_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        def refuse(*given: Any) -> None:
            raise RuntimeError("can't start new thread")

        cache = cache_of()
        with monkeypatch.context() as patch:
            patch.setattr(cache.compiler._lanes.pool, "submit", refuse)
            with pytest.raises(NarrowsError) as caught:
                await cache.get(regex("a"))
            assert caught.value.code == "out_of_memory"
        await cache.get(regex("a"))
        cache.close()

    run(main())


def test_a_bug_reaches_everyone_who_waits_as_it_is(gate: Gate) -> None:
    async def main() -> None:
        gate.act = lambda text: {}[text]  # type: ignore[misc]
        gate.go.set()
        cache = cache_of()
        errors = await asyncio.gather(*(cache.get(regex("a")) for _ in range(2)), return_exceptions=True)
        assert [type(error) for error in errors] == [KeyError, KeyError]
        cache.close()

    run(main())


def test_closing_ends_everyone_who_waits(gate: Gate) -> None:
    async def main() -> None:
        cache = cache_of(lanes=compiler.Lanes(1))
        asked = [asyncio.ensure_future(cache.get(regex(text))) for text in ("a", "b")]
        await asyncio.sleep(0.01)
        cache.close()
        errors = await asyncio.gather(*asked, return_exceptions=True)
        assert [(type(error), error.code) for error in errors] == [(EngineError, "server_stopping")] * 2  # type: ignore[union-attr]
        with pytest.raises(EngineError):
            await cache.get(regex("c"))
        gate.go.set()

    run(main())


def test_places_of_a_contents_errors_are_the_definitions() -> None:
    turn = TurnOptions(tools=[], tool_choice="none", reasoning=None)
    chat = ["chat", turn.arguments(), None, "standard", "error", regex("(")[1:]]
    with pytest.raises(GrammarError) as caught:
        definitions.grammar(chat, FORMAT, Limits())
    assert caught.value.pointer == "/content"
