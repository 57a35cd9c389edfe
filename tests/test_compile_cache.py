"""Compiled grammars that are kept: bounded by what they hold now, shared by threads, and never dropped while in use."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from narrows import Constraint, Limits, Vocabulary
from narrows.compile_cache import CompileCache, Lease
from narrows.errors import InputError, LimitError
from narrows.plugins.vllm.masking.constraints import Constraints, Definition

VOCABULARY = Vocabulary([bytes([b]) for b in range(256)] + [None], special={"<end>": 256}, eos=[256])


class Value:
    """Holds so many bytes."""

    def __init__(self, size: int = 0) -> None:
        self.size = size


def cache_of(**limits: int) -> CompileCache[str, Value]:
    return CompileCache(lambda value: value.size, Limits(**limits))


def test_a_value_is_made_once_by_all_threads() -> None:
    cache = cache_of()
    begun, go = threading.Event(), threading.Event()
    made: list[Value] = []

    def make() -> Value:
        begun.set()
        assert go.wait(30)
        made.append(Value())
        return made[0]

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(cache.get, "a", make)
        assert begun.wait(30)
        others = [pool.submit(cache.get, "a", make) for _ in range(7)]
        go.set()
        assert all(each.result().value is made[0] for each in [first, *others])
    assert (len(made), len(cache)) == (1, 1)


def test_failures_are_not_kept_and_reach_all_who_wait() -> None:
    cache = cache_of()

    def fail() -> Value:
        raise InputError("no", code="no")

    for _ in range(2):
        with pytest.raises(InputError):
            cache.get("a", fail)
    assert cache.get("a", Value).value.size == 0


def test_the_least_recently_used_goes_first_and_what_is_in_use_stays() -> None:
    cache = cache_of(grammar_cache_entries=2)
    used = cache.get("used", Value)
    for key in ("a", "b", "c"):
        cache.get(key, Value)
    assert [key for key in ("used", "a", "b", "c") if cache.lease(key) is not None] == ["used", "c"]
    used.release()
    for key in ("d", "e"):
        cache.get(key, Value)
    assert cache.lease("used") is None


def test_bytes_are_those_that_the_values_hold_now() -> None:
    cache = cache_of(grammar_cache_bytes=100_000)
    values = [Value(1_000) for _ in range(10)]
    for number, value in enumerate(values):
        cache.keep(str(number), value)
    assert len(cache) == 10
    for value in values:
        value.size = 30_000
    cache.trim()
    assert (len(cache), cache.bytes_held <= 100_000) == (3, True)


def test_a_lease_ends_with_itself() -> None:
    cache = cache_of()
    lease: Lease[Value] | None = cache.get("a", lambda: Value(1))
    assert cache.bytes_in_use > 0
    del lease
    assert cache.bytes_in_use == 0


def test_a_user_who_has_as_much_in_use_as_is_left_gets_no_more() -> None:
    cache = cache_of(grammar_cache_bytes=100_000)
    lease = cache.get("a", lambda: Value(60_000), user="one")
    with pytest.raises(LimitError) as caught:
        cache.check_room("one")
    assert caught.value.code == "grammar_memory_full"
    cache.check_room("another")
    lease.release()
    cache.check_room("one")


# The plug-in for vLLM.


def grown(constraints: Constraints, pattern: str) -> Lease[Constraint]:
    """A lease of a constraint that has been used, and holds some 50 KB more than when it was compiled."""
    lease = constraints.lease(Definition("regex", pattern))
    before = lease.value.bytes
    assert lease.value.matcher().accept_bytes(pattern[:1].encode() + b"abc" * 900)
    assert lease.value.bytes > before + 30_000
    return lease


def test_vllms_constraints_are_counted_by_what_they_hold() -> None:
    constraints = Constraints(VOCABULARY, Limits(grammar_cache_bytes=300_000))
    for number in range(8):
        grown(constraints, f"{number}(a|b|c){{1,3000}}")
        assert constraints.bytes_held <= 300_000
    assert 1 <= len(constraints) < 8


def test_vllms_constraints_stay_while_they_are_used() -> None:
    constraints = Constraints(VOCABULARY, Limits(grammar_cache_entries=1))
    lease = constraints.lease(Definition("regex", "a"))
    for pattern in "bcd":
        constraints.get(Definition("regex", pattern))
    assert constraints.get(Definition("regex", "a")) is lease.value


def test_a_lease_asks_for_the_sizes_of_what_is_in_use_alone() -> None:
    asked: list[Value] = []

    def size(value: Value) -> int:
        asked.append(value)
        return value.size

    cache: CompileCache[str, Value] = CompileCache(size, Limits(grammar_cache_entries=1_000))
    values = {str(n): Value(n) for n in range(500)}
    for name, value in values.items():
        cache.keep(name, value)
    used = cache.get("7", Value)
    asked.clear()
    cache.get("9", Value).release()
    assert set(asked) == {values["7"], values["9"]}
    values["7"].size, values["9"].size = 1_000_000, 2_000_000  # one in use, and one that nobody uses
    used.release()
    assert cache.bytes_held == sum(value.size + 1_000 for value in values.values())


def test_what_grew_in_use_is_dropped_when_it_is_released() -> None:
    cache = cache_of(grammar_cache_bytes=100_000)
    lease = cache.get("a", Value)
    cache.keep("b", Value(10))
    lease.value.size = 200_000
    lease.release()
    assert (cache.lease("a"), len(cache), cache.bytes_held) == (None, 1, 1_010)
