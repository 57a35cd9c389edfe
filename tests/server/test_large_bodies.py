"""Bodies of megabytes do not keep others waiting: each is read, or refused, while /health answers."""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import random
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import httpx
import psutil
import pytest
from matrix import some_pairs
from pydantic_core import from_json
from scripted import ScriptedEngine
from serving import connect, process, rest_of, serving

from narrows import EngineError, InputError, LimitError, Limits, NarrowsError, json_pieces
from narrows.server import Settings, protocol
from narrows.server.http import Room
from narrows.server.threads import Threads

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
JSON = {"content-type": "application/json"}
SIZE = 8_300_000
ASK = '"messages":[{"role":"user","content":"hi"}]'
SECONDS = 0.05
"""Seconds that /health may take on an idle machine. Tests allow a busy machine twenty times that."""


def filled(head: str, unit: str, tail: str) -> bytes:
    """`unit` as often as fits, joined by commas."""
    count = (SIZE - len(head) - len(tail)) // (len(unit) + 1)
    return (head + ",".join([unit] * count) + tail).encode()


def keys(head: str, value: str, tail: str) -> bytes:
    return (head + ",".join(f'"{i:x}":{value}' for i in range(600_000)) + tail).encode()


@functools.cache
def bodies() -> dict[str, tuple[str, bytes]]:
    """Made when they are needed: they take a second and 200 MB."""
    return {
        "lists": (CHAT, filled("{" + ASK + ',"metadata":{"a":[', "[]", "]}}")),
        "objects": (CHAT, filled("{" + ASK + ',"metadata":{"a":[', "{}", "]}}")),
        "nested lists": (CHAT, filled("{" + ASK + ',"metadata":{"a":[', "[" * 150 + "]" * 150, "]}}")),
        "unknown fields": (CHAT, keys("{" + ASK + ",", "1", "}")),
        "unknown fields in a message": (CHAT, keys('{"messages":[{"role":"user","content":"hi",', "1", "}]}")),
        "keys in metadata": (CHAT, keys("{" + ASK + ',"metadata":{', "1", "}}")),
        "messages": (CHAT, filled('{"messages":[', '{"role":"user"}', "]}")),
        "wrong messages": (CHAT, filled('{"messages":[', "1", "]}")),
        "as many messages as there may be": (
            CHAT,
            ('{"messages":[' + ",".join(['{"role":"user","content":"%s"}' % ("x" * 700)] * 9_999) + "]}").encode(),
        ),
        "tool calls": (
            CHAT,
            filled('{"messages":[{"role":"assistant","tool_calls":[', '{"function":{"name":"f"}}', "]}]}"),
        ),
        "content parts": (CHAT, filled('{"messages":[{"role":"user","content":[', '{"type":"text","text":""}', "]}]}")),
        "wrong content parts": (CHAT, filled('{"messages":[{"role":"user","content":[', "1", "]}]}")),
        "a long text": (CHAT, ('{"messages":[{"role":"user","content":"' + "x" * SIZE + '"}]}').encode()),
        "a long escaped text": (
            CHAT,
            ('{"messages":[{"role":"user","content":"' + "\\u00e9" * (SIZE // 6) + '"}]}').encode(),
        ),
        "an image": (
            CHAT,
            (
                '{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,'
                + "iVBORw0K" * (SIZE // 8 - 30)
                + '"}}]}]}'
            ).encode(),
        ),
        "tools": (CHAT, filled("{" + ASK + ',"tools":[', '{"type":"function","function":{"name":"f"}}', "]}")),
        "wrong tools": (CHAT, filled("{" + ASK + ',"tools":[', "1", "]}")),
        "arguments in the history": (
            CHAT,
            json.dumps(
                {
                    "messages": [
                        {"role": "user", "content": "x"},
                        {
                            "role": "assistant",
                            "tool_calls": [{"function": {"name": "f", "arguments": "[" + "[]," * 2_500_000 + "0]"}}],
                        },
                    ]
                }
            ).encode(),
        ),
        "stop texts": (CHAT, filled("{" + ASK + ',"stop":[', '""', "]}")),
        "stop tokens": (CHAT, filled("{" + ASK + ',"stop_token_ids":[', "1", "]}")),
        "biases": (CHAT, keys("{" + ASK + ',"logit_bias":{', "1", "}}")),
        "wrong biases": (CHAT, keys("{" + ASK + ',"logit_bias":{', '"a"', "}}")),
        "token ids": (TEXT, filled('{"prompt":[', "1", "]}")),
        "lists of token ids": (TEXT, filled('{"prompt":[', "[1]", "]}")),
        "prompts": (TEXT, filled('{"prompt":[', '""', "]}")),
        "JSON that ends early": (CHAT, filled("{" + ASK + ',"metadata":[', "[]", "")),
        "brackets that never close": (CHAT, b"[" * SIZE),
        "quotes": (CHAT, b'"' * SIZE),
        "backslashes": (CHAT, b'{"messages":"' + b"\\" * SIZE + b'"}'),
        "digits": (CHAT, b'{"seed":' + b"1" * SIZE + b"}"),
        "whitespace": (CHAT, b" " * SIZE),
    }


class Prober(threading.Thread):
    """Requests /health again and again, and keeps the longest wait."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url, self.over, self.worst = url, threading.Event(), 0.0

    def run(self) -> None:
        while not self.over.wait(0.01):
            started = time.monotonic()
            connection = connect(self.url, b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 60)
            assert rest_of(connection).startswith(b"HTTP/1.1 200")
            connection.close()
            self.worst = max(self.worst, time.monotonic() - started)


MOST_TELLING = [
    "lists",
    "nested lists",
    "unknown fields",
    "keys in metadata",
    "wrong messages",
    "wrong tools",
    "tool calls",
    "content parts",
    "an image",
]
MOST_TELLING += [
    "as many messages as there may be",
    "arguments in the history",
    "wrong biases",
    "lists of token ids",
    "backslashes",
]


@pytest.mark.parametrize("names", [MOST_TELLING, pytest.param(None, marks=pytest.mark.soak)], ids=["some", "all"])
def test_health_does_not_wait_for_large_bodies(names: list[str] | None) -> None:
    waits: dict[str, float] = {}
    with process(settings={}) as (_, url), httpx.Client(base_url=url, timeout=120) as client:
        client.post(CHAT, content=b"{" + ASK.encode() + b"}", headers=JSON)
        for name in names or bodies():
            path, body = bodies()[name]
            prober = Prober(url)
            prober.start()
            try:
                response = client.post(path, content=body, headers=JSON)
            finally:
                prober.over.set()
                prober.join()
            waits[name] = prober.worst
            print(
                f"{name:35} {response.status_code} {prober.worst * 1000:6.0f} ms {response.elapsed.total_seconds():6.2f} s"
            )
            assert response.status_code == 200 or 400 <= response.status_code < 500, (name, response.text[:300])
            assert len(response.content) < 5_000, name
    assert {name: wait for name, wait in waits.items() if wait > 20 * SECONDS} == {}


def test_large_bodies_together_are_bounded() -> None:
    """Beyond `bodies_bytes` a request gets 503. Later the room is given back."""
    body = b"{" + ASK.encode() + b',"max_tokens":5,"metadata":{"a":"' + b"x" * 60_000 + b'"}}'
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with serving(ScriptedEngine(), Settings(limits=Limits(bodies_bytes=200_000))) as url:
        half_sent = [connect(url, head + body[:50_000]) for _ in range(3)]
        time.sleep(0.3)
        response = httpx.post(url + CHAT, content=body, headers=JSON)
        assert (response.status_code, response.json()["error"]["code"]) == (503, "server_busy")
        assert response.headers["retry-after"] == "1"
        assert httpx.get(f"{url}/health").status_code == 200
        half_sent[0].sendall(body[50_000:])
        assert half_sent[0].recv(4096).startswith(b"HTTP/1.1 200")
        for connection in half_sent:
            connection.close()
        for _ in range(6):
            assert httpx.post(url + CHAT, content=body, headers=JSON).status_code == 200
            assert httpx.post(url + CHAT, content=body + b"{", headers=JSON).status_code == 400


def test_a_body_of_too_many_values_is_refused() -> None:
    with serving(ScriptedEngine(), Settings(limits=Limits(body_values=20))) as url:
        assert httpx.post(url + CHAT, content=b"{" + ASK.encode() + b"}", headers=JSON).status_code == 200
        body = b"{" + ASK.encode() + b',"metadata":{"a":[' + b"1," * 30 + b"1]}}"
        error = httpx.post(url + CHAT, content=body, headers=JSON).json()["error"]
        assert (error["code"], error["limit"]) == ("limit_reached", "body_values")


# The parser in pieces against the parser as a whole.

SCALARS = [1, -2.5e3, True, None, "a", 'é\\"\n,:[{]}', "\\", "\\\\", "\\\\\\", "", 12345678901234567890123, "x" * 40]


def random_value(rng: random.Random, depth: int) -> Any:
    kind = rng.random()
    if depth <= 0 or kind < 0.4:
        return rng.choice(SCALARS)
    if kind < 0.7:
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(6))]
    names = ["a", "b", 'k"', "\\", "", "é"]
    return {f"{rng.choice(names)}{rng.randrange(4)}": random_value(rng, depth - 1) for _ in range(rng.randrange(6))}


def damaged(rng: random.Random, text: bytes) -> bytes:
    out = bytearray(text)
    for _ in range(rng.randrange(1, 3)):
        at, byte = rng.randrange(len(out) + 1), rng.choice(b'[]{},:"\\ 1a\n\xff')
        out[at : at + rng.randrange(2)] = bytes([byte]) * rng.randrange(2)
    return bytes(out)


def outcome(read: Any, text: bytes) -> str:
    try:
        return repr(read(text))
    except (ValueError, NarrowsError):
        return "refused"


@pytest.mark.parametrize("runs", [3_000, pytest.param(300_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
def test_pieces_say_what_the_whole_says(monkeypatch: pytest.MonkeyPatch, runs: int) -> None:
    rng = random.Random(5)
    limits = Limits()
    for _ in range(runs):
        monkeypatch.setattr(json_pieces, "PIECE", rng.choice([1, 2, 8, 32]))
        value = random_value(rng, rng.randrange(7))
        text = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, None, 1])).encode()
        if rng.random() < 0.3:
            text = text.replace(b'"b', b'"a').replace(b'1":', b'0":').replace(b'2":', b'0":')  # keys that come twice
        if rng.random() < 0.5:
            text = damaged(rng, text)
        whole = outcome(lambda text: from_json(text, allow_inf_nan=False), text)
        assert outcome(lambda text: json_pieces.parse(text, limits), text) == whole, text


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("[" + "1,\n" * 40_000 + "x]", 40_001, 1),
        ("[" + "1," * 40_000 + "x]", 1, 80_002),
        ("[" + "1,\n" * 40_000 + "]", 40_001, 1),
        ('{"a": [' + "1,\n" * 40_000 + "}", 40_001, 1),
        ("[" + "1,\n" * 40_000 + "1", 40_001, 2),
        ("[" + "1,\n" * 40_000 + "1] x", 40_001, 3),
        ('{"a" [' + "1,\n" * 40_000 + "1]}", 1, 2),
    ],
)
def test_a_mistake_in_a_large_body_has_its_place(text: str, line: int, column: int) -> None:
    with pytest.raises(InputError) as caught:
        json_pieces.parse(text.encode(), Limits())
    assert (caught.value.code, caught.value.line) == ("json_invalid", line)
    assert abs((caught.value.column or 0) - column) <= 1


@pytest.mark.parametrize("inside", ["", "1," * 30_000 + "1"])
def test_json_may_nest_200_levels_in_pieces_too(inside: str) -> None:
    assert json_pieces.parse(("[" * 200 + inside + "]" * 200).encode(), Limits())
    with pytest.raises(InputError) as caught:
        json_pieces.parse(("[" * 202 + inside + "]" * 202).encode(), Limits())
    assert caught.value.code == "json_depth"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ensure_ascii": False, "sort_keys": True},
        {"indent": 2, "separators": None},
        {"separators": (",", ":"), "indent": None},
    ],
)
def test_writing_slowly_writes_the_same(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    monkeypatch.setattr(json_pieces, "_MANY", 3)
    rng = random.Random(6)
    for _ in range(300):
        value = random_value(rng, rng.randrange(6))
        assert json_pieces.dumps(value, **options) == json.dumps(value, **options)


def test_the_collector_is_put_off_and_comes_back() -> None:
    assert gc.isenabled()
    with json_pieces.collector_put_off:
        with json_pieces.collector_put_off:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    with json_pieces.collector_put_off:
        pass
    assert not gc.isenabled()
    gc.enable()


def test_what_was_made_meanwhile_is_old_to_the_collector() -> None:
    """Otherwise the collector would go through a million new objects in one step, and nothing else would run."""
    with json_pieces.collector_put_off:
        items = json_pieces.parse(b"[" + b"[[]]," * 20_000 + b"[]]", Limits())
    young = {id(item) for item in (*gc.get_objects(0), *gc.get_objects(1))}
    assert not any(id(item) in young for item in items)
    assert gc.get_freeze_count() == 0, "and it looks at them some day"


CYCLES = """
import contextlib, gc, sys
from narrows import json_pieces

class Cycle:  # only the collector finds one that nobody uses any more
    alive = 0

    def __init__(self):
        self.itself = self
        Cycle.alive += 1

    def __del__(self):
        Cycle.alive -= 1

json_pieces._OVERLAP = 0.0
many = len(gc.get_objects()) // 4
with json_pieces.collector_put_off if "overlapping" in sys.argv else contextlib.nullcontext():
    for _ in range(6):
        with json_pieces.collector_put_off:
            cycles = [Cycle() for _ in range(many)]
        del cycles
assert Cycle.alive < 4 * many, (Cycle.alive, many)
gc.collect()
assert Cycle.alive == 0
"""


@pytest.mark.parametrize("how", ["overlapping", "apart"])
def test_cycles_that_outlive_a_body_are_collected_all_the_same(how: str) -> None:
    """What is alive when a body ends becomes old, and Python itself would not collect it before much else has become
    old as well. A process of its own has few objects, so this takes little time."""
    subprocess.run([sys.executable, "-c", CYCLES, how], check=True)


def test_what_nothing_reads_is_not_kept_while_the_answer_is_written() -> None:
    """A collection of garbage would go through it, and nothing else runs meanwhile."""
    inside = ",".join(f'"{i}": ["nothing reads this"]' for i in range(5_000))
    body = f'{{"prompt": "a", "metadata": {{{inside}}}, "labels": {{{inside}}}}}'
    request = protocol.read(protocol.CompletionRequest, json_pieces.parse(body.encode(), Limits()), Limits())
    gc.collect()
    assert not any(type(item) is list and item == ["nothing reads this"] for item in gc.get_objects())
    assert request.unknown_fields() == ["labels"], "its name is for a warning"


def test_many_values_are_too_many() -> None:
    with pytest.raises(LimitError) as caught:
        json_pieces.parse(b"[" + b"1," * 3_000_000 + b"1]", Limits())
    assert caught.value.limit == "body_values"


def test_threads_keep_their_place_when_nobody_waits_any_more() -> None:
    """Otherwise each client that leaves would let one more thread run."""

    async def run() -> None:
        threads = Threads()
        go, at_work, most = threading.Event(), 0, 0

        def work() -> None:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            go.wait(20)
            at_work -= 1

        begun = [threads.begin_in_thread(2_000_000, work) for _ in range(5)]
        waiting = [asyncio.ensure_future(threads.result_of(running)) for running in begun]
        await asyncio.sleep(0.2)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        later = asyncio.ensure_future(threads.in_thread(2_000_000, work))
        await asyncio.sleep(0.2)
        assert not begun[0].task.done()
        assert not later.done()
        go.set()
        await later
        assert most == 1
        assert [running.begun for running in begun] == [True, False, False, False, False], "those are taken back"

    asyncio.run(run())


def test_one_clients_bodies_leave_room_for_others() -> None:
    room = Room(64 << 20)
    for _ in range(32):
        room.take(1 << 20, "many")
    with pytest.raises(EngineError):
        room.take(1 << 20, "many")
    room.take(8 << 20, "other")
    for client in map(str, range(40)):
        with suppress(EngineError):
            room.take(8 << 20, client)
    assert room.left >= 8 << 20
    room.take(1 << 20, "little")
    room.give(1 << 20, "little")
    room.give(32 << 20, "many")
    room.take(8 << 20, "many")


MORE = 80_000_000
"""Bytes by which the process may grow after three requests. One body of those below takes more while it is read."""


@pytest.mark.parametrize(
    ("name", "leave"), some_pairs(["lists", "keys in metadata", "a long message"], [False, True], one_in=2)
)
def test_what_was_read_is_let_go_without_the_garbage_collector(name: str, leave: bool) -> None:
    """The collector rarely looks at old objects. An error that holds its own frame would keep all that was read until
    then. `leave`: the client does not read the answer."""
    long = (CHAT, b'{"messages":[{"role":"user","content":"' + b"word " * 1_600_000 + b'"}],"max_tokens":3}')
    path, body = {**bodies(), "a long message": long}[name]
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    held = []
    gc.collect()
    gc.disable()
    try:
        with serving(ScriptedEngine(max_model_len=1_000)) as url:
            for pause in (0.0, 0.05, 0.3, 0.0, 0.1, 0.3):
                with connect(url, head.encode() + body) as connection:
                    if leave:
                        time.sleep(pause)
                    else:
                        assert connection.recv(65_536).startswith(b"HTTP/1.1 ")
                time.sleep(0.5)
                held.append(psutil.Process().memory_info().rss)
            deadline = time.monotonic() + 20  # a thread that has begun runs to its end
            while psutil.Process().memory_info().rss > held[2] + MORE and time.monotonic() < deadline:
                time.sleep(0.1)
            held.append(psutil.Process().memory_info().rss)
    finally:
        gc.enable()
    assert held[-1] <= held[2] + MORE, held
