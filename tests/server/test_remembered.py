"""Responses that are remembered: bounded by number and bytes, and no client pushes out those of another."""

from __future__ import annotations

import random

from narrows.server.remembered import Remembered, Response


def response(owner: str, size: int) -> Response:
    return Response(owner, b"x" * (size - 1), b"y", 0)


def test_the_oldest_goes_first() -> None:
    kept = Remembered(2, 1_000)
    for name in "abc":
        kept.keep(name, response("one", 10))
    assert [kept.get(name, None) is not None for name in "abc"] == [False, True, True]


def test_one_client_does_not_push_out_another() -> None:
    kept = Remembered(100, 1_000)
    kept.keep("other", response("other", 100))
    for i in range(50):
        kept.keep(f"{i}", response("one", 200))
    assert kept.get("other", None) is not None
    assert kept.bytes <= 1_000


def test_others_do_not_find_it() -> None:
    kept = Remembered(10, 1_000)
    kept.keep("a", response("one", 10))
    assert kept.get("a", "two") is None
    assert not kept.forget("a", "two")
    assert kept.forget("a", "one")
    assert (len(kept), kept.bytes) == (0, 0)


def test_none_is_kept_where_there_is_no_room() -> None:
    for kept in (Remembered(0, 1_000), Remembered(10, 0), Remembered(10, 9)):
        kept.keep("a", response("one", 10))
        assert (len(kept), kept.bytes) == (0, 0)


def test_whatever_comes_the_bounds_hold() -> None:
    rng, kept = random.Random(3), Remembered(20, 2_000)
    for i in range(2_000):
        if rng.random() < 0.2:
            kept.forget(f"{rng.randrange(i + 1)}", None)
        kept.keep(f"{i}", response(rng.choice("abc"), rng.randrange(2, 500)))
        assert len(kept) <= 20
        assert kept.bytes <= 2_000
        assert kept.bytes == sum(r.size for r in kept._kept.values()) == sum(kept._bytes_of.values())
