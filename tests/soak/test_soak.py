"""Tests of the soak itself: each check fails on the fault that it looks for. The soak runs with `make soak`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any

import asks
import attacks
import hostile
import hostile_grammars
import load
import mutations
import pytest
import report
from asks import Answer
from load import _collect
from measure import MEGABYTE, Clock, Phase, baseline_check, compare, flat, judge, plan, quantile

PHASES = [Phase("without", 0, 100), Phase("with", 100, 200), Phase("settle", 200, 210), Phase("without", 210, 300)]


def gaps(seconds_without: float, seconds_with: float, count: int = 1_000) -> list[tuple[str, float, float]]:
    """Mostly short gaps; five of a hundred are as long as the arguments say."""
    return [
        ("free", begin + 90 * i / count, long if i % 20 == 0 else 0.01)
        for begin, long in ((0, seconds_without), (100, seconds_with))
        for i in range(count)
    ]


@pytest.mark.parametrize("minutes", [1, 5, 60])
def test_phases_take_turns_and_fill_the_time(minutes: float) -> None:
    phases = plan(minutes)
    assert [p.name for p in phases[:4]] == ["warm", "without", "with", "settle"]
    assert all(a.end == b.begin for a, b in pairwise(phases))
    assert phases[-1].end == pytest.approx(60 * minutes)
    assert sum(p.name == "with" for p in phases) >= 2


def test_a_stall_belongs_to_the_phase_in_which_it_began() -> None:
    split = Clock(PHASES).split([("free", 150, 120.0), ("free", 205, 1.0), ("free", -1, 1.0)])
    assert split["with"] == {"free": [120.0], "all": [120.0]}
    assert "without" not in split


def test_a_p99_gap_that_grows_by_more_than_half_is_wrong() -> None:
    def wrong(seconds_without: float, seconds_with: float, count: int = 1_000) -> list[str]:
        table = compare(Clock(PHASES).split(gaps(seconds_without, seconds_with, count)))
        return [name for name, problem in judge("gap", table, 300, 1.5).items() if problem]

    assert wrong(0.1, 0.14) == []
    assert wrong(0.1, 0.16) == ["p99 gap, free", "p99 gap, all"]
    assert wrong(0.1, 0.1, count=50) == ["p99 gap, all"]  # silence is not success
    nothing = compare(Clock(PHASES).split([]))
    assert [name for name, problem in judge("gap", nothing, 300, 1.5).items() if problem] == ["p99 gap, all"]


def test_harm_that_stays_is_seen() -> None:
    calm = [("free", at + i / 10, 0.1) for at in (0, 210) for i in range(800)]
    assert baseline_check(calm, PHASES) == ""
    assert baseline_check([(k, at, 0.1 if at < 100 else 0.2) for k, at, _ in calm], PHASES)
    assert baseline_check(calm[:800], PHASES)  # nothing came in the second calm phase


def memory(mb: Any) -> bool:
    return bool(flat([(float(t), int(mb(t) * MEGABYTE)) for t in range(400)])["flat"])


def test_memory_is_flat_or_not() -> None:
    assert memory(lambda t: 500)
    assert memory(lambda t: min(2 * t, 300) + 300)  # caches fill in the first half
    assert not memory(lambda t: 500 + t)
    assert not memory(lambda t: 500 if t < 380 else 900)
    assert not flat([])["flat"]


def test_quantiles_are_values_that_were_seen() -> None:
    assert quantile([], 0.5) == 0
    assert quantile([3, 1, 2], 0.5) == 2
    assert quantile(list(range(100)), 0.99) == 99


WRONG_ANSWERS = {
    "free": Answer("text", finish="error"),
    "schema, small": Answer('{"seconds": "x"}', finish="stop"),
    "schema, recursive": Answer('{"a"', finish="stop"),
    "tools, required": Answer("no call", finish="stop"),
    "tools, auto": Answer("", {0: ["1", "get_weather", '{"location": 1}']}, "tool_calls"),
    "two turns": Answer("", {0: ["1", "another", "{}"]}, "tool_calls"),
}


@pytest.mark.parametrize("name", WRONG_ANSWERS)
def test_a_wrong_answer_is_seen(name: str) -> None:
    ask = asks.CLASSES[name][0](Random(1))
    assert ask.check(WRONG_ANSWERS[name]) not in ("valid", "length")


def test_right_answers() -> None:
    weather = Answer("", {0: ["1", "get_weather", '{"location": "Lima"}'], 1: ["2", "get_weather", '{"loc']}, "length")
    required = asks.with_tools("required")(Random(1)).check
    assert required(weather) == "length"
    del weather.calls[1]
    weather.finish = "tool_calls"
    assert required(weather) == "valid"
    assert asks.of_schema("matrix")(Random(1)).check(Answer("x", finish="length")) == "length"


def test_one_seed_with_two_answers_is_seen() -> None:
    ask = asks.seeded(False)(Random(1))
    assert ask.check(Answer("one", finish="stop")) == "valid"
    assert ask.check(Answer("two", finish="stop")) not in ("valid", "length")


def test_what_attackers_got_is_judged() -> None:
    def seen(answer: str, aim: str = "fields") -> dict[str, dict[str, Any]]:
        return {
            "two lengths": {
                "aim": aim,
                "answers": {answer: 3, "status 400": 1, "404 model_not_found": 1, "0 answers": 1},
            }
        }

    fine = seen("200")
    assert not any(check(fine) for check in (report._faults, report._silent, report._large, report._smuggled))
    assert report._faults(seen("500 internal_error"))
    assert report._faults(seen("status 502", "connection"))
    assert report._faults(seen("status 503"))
    assert not report._faults(seen("status 503 after < 20 s", "connection"))
    assert report._silent(seen("nothing in 120 s"))
    assert report._silent(seen("nothing in 30 s, then 400 regex_invalid"))
    assert report._large(seen("400 schema_invalid, 1465 KB"))
    assert report._smuggled(seen("2 answers"))


def test_health_and_pace_are_judged() -> None:
    fine: dict[str, Any] = {"count": 9, "p99": 0.1, "max": 0.2, "failed": {}}
    assert not report._health({"with": fine, "without": fine})
    assert report._health({"with": fine | {"max": 0.3}, "without": fine})
    assert report._health({"with": fine, "without": fine | {"failed": {"status 503": 1}}})
    assert not report._pace({"without": 30.0, "with": 20.0})
    assert report._pace({"without": 30.0, "with": 10.0})


def test_there_are_16_streams() -> None:
    assert sum(len(makes) for makes in asks.CLASSES.values()) == 16


def test_chunks_become_an_answer() -> None:
    answer = Answer()
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}
    for delta in (
        {"role": "assistant"},
        {"content": "a"},
        {"tool_calls": [call]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
    ):
        _collect({"index": 0, "delta": delta, "finish_reason": None}, answer)
    assert not _collect({"index": 0, "delta": {}, "finish_reason": "tool_calls"}, answer)
    assert (answer.text, answer.calls, answer.finish) == ("a", {0: ["c", "f", "{}"]}, "tool_calls")


@pytest.mark.parametrize("attack", attacks.ATTACKS, ids=lambda attack: attack.name)
def test_each_attack_makes_a_body(attack: attacks.Attack) -> None:
    path, body = attack.make(Random(1))
    assert path in (attacks.CHAT, attacks.TEXT)
    assert len(body) < 9_500_000


def test_only_a_refusal_that_needs_no_place_can_be_late() -> None:
    reading = attacks.Attack("one", "reading", lambda _: ("/", b""))
    share = attacks.Attack("another", "share", lambda _: ("/", b""))
    assert reading.is_late("400 limit_reached reading_work", 31)
    assert not reading.is_late("400 limit_reached reading_work", 29)
    assert not reading.is_late("200", 31)
    assert not share.is_late("400 limit_reached step_work", 31)


def test_random_inputs_follow_from_their_seed() -> None:
    schemas = mutations.sources()
    assert len(schemas) > 100
    for seed in range(20):
        assert hostile_grammars.random_grammar(seed) == hostile_grammars.random_grammar(seed)
        assert json.dumps(mutations.mutated(seed, schemas)) == json.dumps(mutations.mutated(seed, schemas))


def test_a_slow_call_is_wrong_unless_it_raises() -> None:
    case: dict[str, Any] = {"constraint_bytes": 0, "shared_bytes": 0, "grown": 0}
    assert hostile.wrong(case | {"slowest": {"fill_mask": 0.4, "compile": 1.9, "fill_mask, raising": 0.7}}) == []
    assert hostile.wrong(case | {"slowest": {"fill_mask": 0.6}})
    assert hostile.wrong(case | {"slowest": {"compile, raising": 2.5}})
    assert hostile.wrong(case | {"slowest": {}, "grown": hostile.BOUND + 1})
    assert hostile.wrong({"killed": "after 60 s", "slowest": {}})


async def asked_once() -> load.Record:
    record = load.Record()
    asking = load.Load("http://127.0.0.1:1", record, 1)
    async with asking._http() as http:
        await asking._asked(http, "free", asks.free(Random(1)))
    return record


def test_a_stall_is_a_gap_and_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pings keep the connection busy; only chunks count."""

    async def chunks(self: load.Load, http: object, ask: asks.Ask) -> AsyncGenerator[dict[str, Any], None]:
        yield {"choices": [{"index": 0, "text": "a", "finish_reason": None}]}
        await asyncio.sleep(60)

    monkeypatch.setattr(load, "STALL", 0.05)
    monkeypatch.setattr(load.Load, "_chunks", chunks)

    record = asyncio.run(asked_once())
    assert record.outcomes["free", "failed"] == 1
    assert "no chunk" in record.failures[0]["what"]
    assert len(record.firsts) == 1
    assert [seconds >= 0.05 for _, _, seconds in record.gaps] == [True]


def test_a_gap_is_the_time_of_one_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """An emoji of three tokens takes three steps, and is no stall. Forty forced tokens do not hide one."""

    clock = SimpleNamespace(now=1.0, monotonic=lambda: clock.now)

    async def chunks(self: load.Load, http: object, ask: asks.Ask) -> AsyncGenerator[dict[str, Any], None]:
        for text, tokens, seconds in (("a", 5, 0.0), ("👏", 8, 0.3), ("b", 9, 0.1), ("c" * 40, 49, 0.4)):
            clock.now += seconds
            choice = {"index": 0, "text": text, "finish_reason": "length" if tokens == 49 else None}
            yield {"choices": [choice], "usage": {"completion_tokens": tokens}}

    monkeypatch.setattr(load.Load, "_chunks", chunks)
    monkeypatch.setattr(load, "time", clock)

    record = asyncio.run(asked_once())
    assert record.tokens == 49
    assert [seconds for _, _, seconds in record.gaps] == pytest.approx([0.1, 0.1, 0.1])
