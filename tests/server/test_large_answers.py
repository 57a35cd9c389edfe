"""Answers with many log-probabilities are written beside the event loop, in pieces, and equal those written at once."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import Any

import httpx
import pytest
from scripted import ScriptedEngine
from serving import serving
from test_large_bodies import random_value

from narrows import Limits, json_pieces
from narrows.server import Settings, answering, answers, exchange

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
ASK = [{"role": "user", "content": "hi"}]
WRITING = ({}, {"ensure_ascii": False}, {"separators": (",", ":")}, {"ensure_ascii": False, "allow_nan": False})


@pytest.mark.parametrize("many", [1, 3, 10])
def test_what_is_written_in_pieces_is_what_json_writes(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    rng = random.Random(many)
    monkeypatch.setattr(json_pieces, "_MANY", many)
    for _ in range(2_000):
        monkeypatch.setattr(json_pieces, "_RUN", rng.choice([1, 2, 5]))
        value = [random_value(rng, rng.randrange(7)) for _ in range(rng.randrange(4))]
        options = rng.choice(WRITING)
        assert json_pieces.dumps(value, **options) == json.dumps(value, **options)
        assert json_pieces.dumps({"ä": value, "b": {}}, **options) == json.dumps({"ä": value, "b": {}}, **options)


def test_keys_that_are_no_strings_are_written_as_json_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_pieces, "_MANY", 2)
    value = [{1: "a", None: [1, 2, 3], False: {}, 2.5: []}, {"a": {3: [1, 2, 3]}}]
    assert json_pieces.dumps(value) == json.dumps(value)


def test_writing_in_pieces_needs_no_recursion() -> None:
    value: Any = [[0] * 30_000]
    for _ in range(100):
        value = [value, {"a": value}][:1]
    assert json_pieces.dumps(value) == json.dumps(value)


def answer(client: httpx.Client, path: str, **fields: Any) -> Any:
    response = client.post(path, json=fields)
    assert response.status_code == 200, response.text
    return [
        {key: choice.get(key) for key in ("index", "message", "text", "logprobs", "finish_reason")}
        for choice in response.json()["choices"]
    ]


def streamed(client: httpx.Client, path: str, **fields: Any) -> dict[int, list[Any]]:
    out: dict[int, list[Any]] = {}
    with client.stream("POST", path, json={**fields, "stream": True}) as response:
        for line in response.iter_lines():
            if not line.startswith("data: {"):
                continue
            choice = json.loads(line[6:])["choices"][0]
            logprobs = choice.get("logprobs")
            if logprobs is not None:
                out.setdefault(choice["index"], []).extend(logprobs.get("content") or logprobs["tokens"])
    return out


def test_large_and_small_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = [
        (CHAT, {"messages": ASK, "logprobs": True, "top_logprobs": 20, "n": 3, "max_tokens": 100}),
        (TEXT, {"prompt": ["a", "b"], "logprobs": 5, "max_tokens": 100}),
    ]
    with serving(ScriptedEngine("Grüße! " * 12)) as url, httpx.Client(base_url=url, timeout=60) as client:
        before = [
            (answer(client, path, **fields), streamed(client, path, **fields | {"n": 1})) for path, fields in asks
        ]
        monkeypatch.setattr(answering, "AT_ONCE", 10)
        monkeypatch.setattr(exchange, "_VALUES_AT_ONCE", 10)
        monkeypatch.setattr(exchange, "_WRITTEN_AT_ONCE", 10)
        monkeypatch.setattr(json_pieces, "_MANY", 50)
        after = [(answer(client, path, **fields), streamed(client, path, **fields | {"n": 1})) for path, fields in asks]
    assert after == before
    assert len(before[0][0][0]["logprobs"]["content"]) >= 80


def test_health_answers_while_a_large_answer_is_written() -> None:
    """An answer of about 10 MB."""
    gaps: list[float] = []
    done = threading.Event()

    def look(url: str) -> None:
        with httpx.Client(base_url=url, timeout=60) as client:
            while not done.is_set():
                started = time.perf_counter()
                assert client.get("/health").status_code == 200
                gaps.append(time.perf_counter() - started)

    wanted = {"messages": ASK, "logprobs": True, "top_logprobs": 20, "n": 4, "max_tokens": 2_000}
    threads: set[str] = set()
    written = answers.collect_chat

    def noted(chunks: Any) -> Any:
        threads.add(threading.current_thread().name)
        return written(chunks)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "collect_chat", noted)
        engine = ScriptedEngine("a" * 2_000, max_model_len=4_096)
        with serving(engine) as url, httpx.Client(base_url=url, timeout=120) as client:
            looking = threading.Thread(target=look, args=(url,))
            looking.start()
            response = client.post(CHAT, json=wanted)
            done.set()
            looking.join()
    assert len(response.json()["choices"][3]["logprobs"]["content"]) == 2_000
    assert len(gaps) > 10
    assert threads, "it was written"
    assert all(name.startswith("AnyIO worker") for name in threads), threads


@pytest.mark.parametrize(
    ("path", "fields", "pointer"),
    [
        (CHAT, {"messages": ASK, "logprobs": True, "top_logprobs": 20, "n": 2, "max_tokens": 30}, "/top_logprobs"),
        (CHAT, {"messages": ASK, "logprobs": True, "n": 2, "max_tokens": 600}, "/top_logprobs"),
        (TEXT, {"prompt": ["a", "b", "c"], "logprobs": 5, "max_tokens": 60}, "/logprobs"),
    ],
)
def test_the_log_probabilities_of_an_answer_are_bounded(path: str, fields: dict[str, Any], pointer: str) -> None:
    """The limit is Limits.logprob_values."""
    settings = Settings(limits=Limits(logprob_values=1_000))
    with serving(ScriptedEngine("Hello"), settings) as url, httpx.Client(base_url=url, timeout=60) as client:
        response = client.post(path, json=fields)
        assert response.status_code == 400
        error = response.json()["error"]
        assert (error["code"], error["param"]) == ("limit_reached", pointer[1:])
        assert "logprob_values" in error["message"]
        assert client.post(path, json=fields | {"max_tokens": 5}).status_code == 200


def test_an_answer_without_a_bound_of_its_own_ends_at_that_of_its_log_probabilities() -> None:
    settings = Settings(limits=Limits(logprob_values=10_000))
    ask = {"messages": ASK, "logprobs": True, "top_logprobs": 1}
    with serving(ScriptedEngine("a" * 9_000), settings) as url, httpx.Client(base_url=url, timeout=60) as client:
        (choice,) = answer(client, CHAT, **ask)
        assert (len(choice["logprobs"]["content"]), choice["finish_reason"]) == (5_000, "length")
        assert client.post(CHAT, json=ask | {"n": 2}).status_code == 400, "less than anyone would expect"
