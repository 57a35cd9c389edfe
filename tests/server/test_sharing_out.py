"""Which client a request belongs to. Through HTTP, one client's grammars do not make another client wait."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from scripted import ScriptedEngine
from serving import eventually, metric, serving
from starlette.requests import Request

from narrows import Limits
from narrows.server import Settings, compiler
from narrows.server.clients import client_of


def request_of(address: str | None, key: str = "") -> Request:
    headers = [(b"authorization", f"Bearer {key}".encode())] if key else []
    return Request({"type": "http", "headers": headers, "client": (address, 1) if address is not None else None})


ONE, SEVERAL = Settings(api_keys=("a",)), Settings(api_keys=("a", "b"))


@pytest.mark.parametrize(
    ("first", "second", "settings", "same"),
    [
        (("10.0.0.1", "a"), ("10.0.0.1", "b"), SEVERAL, False),
        (("10.0.0.1", "a"), ("10.0.0.2", "a"), SEVERAL, True),
        (("10.0.0.1", "a"), ("10.0.0.2", "a"), ONE, False),
        (("10.0.0.1", "x"), ("10.0.0.1", "y"), Settings(), True),  # without keys in the settings, a key names no client
        (("10.0.0.1", ""), ("10.0.0.2", ""), Settings(), False),
        (("2001:db8::1", ""), ("2001:db8::ffff:2", ""), Settings(), True),
        (("2001:db8:0:1::1", ""), ("2001:db8:0:2::1", ""), Settings(), False),
        (("::ffff:10.0.0.1", ""), ("10.0.0.1", ""), Settings(), True),
        (("::ffff:10.0.0.1", ""), ("::ffff:10.0.0.2", ""), Settings(), False),
        (("fe80::1%eth0", ""), ("fe80::2%eth0", ""), Settings(), True),
        (("testclient", ""), (None, ""), Settings(), False),
    ],
)
def test_who_is_the_same(first: Any, second: Any, settings: Settings, same: bool) -> None:
    assert (client_of(request_of(*first), settings) == client_of(request_of(*second), settings)) == same


def ask(url: str, address: str, number: int) -> httpx.Response:
    body = {"prompt": "a", "max_tokens": 1, "structured_outputs": {"regex": f"{address}[{number}]+"}}
    return httpx.post(f"{url}/v1/completions", json=body, headers={"x-forwarded-for": address}, timeout=60)


def test_one_client_takes_a_part_of_the_queue_and_others_come_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    go = threading.Event()
    real = compiler.read_definition

    def slow(definition: list[Any], *rest: Any) -> Any:
        read.append(definition[2])
        go.wait(30)
        return real(definition, *rest)

    monkeypatch.setattr(compiler, "read_definition", slow)
    engine = ScriptedEngine("1")
    with (
        serving(engine, Settings(limits=Limits(compile_queue=12))) as url,
        ThreadPoolExecutor(30) as pool,
    ):

        def compiling() -> float:
            return metric(url, "narrows_grammars_compiling")

        greedy = [pool.submit(ask, url, "10.0.0.1", i) for i in range(20)]
        assert eventually(lambda: compiling() == 6 and sum(f.done() for f in greedy) == 14, 30)
        other = pool.submit(ask, url, "10.0.0.2", 1)
        assert eventually(lambda: compiling() == 7, 30)
        go.set()
        assert other.result().status_code == 200
        answers = [future.result() for future in greedy]
        engine.close()
    assert sorted(answer.status_code for answer in answers) == [200] * 6 + [429] * 14
    refused = {answer.json()["error"]["code"] for answer in answers if answer.status_code == 429}
    assert refused == {"compile_queue_full"}
    # The other client's definition comes after the two that were being read.
    assert [text.startswith("10.0.0.2") for text in read[:3]] == [False, False, True]


def test_memory_that_is_out_is_a_503_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*given: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(compiler, "read_definition", dies)
    engine = ScriptedEngine("1")
    with serving(engine) as url:
        answer = ask(url, "10.0.0.1", 1)
        engine.close()
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "out_of_memory"
