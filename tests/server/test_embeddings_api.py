"""`/v1/embeddings` with a real model and the real client of OpenAI, and beside llama.cpp's own server."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import ollama
import openai
import pytest
from llama_server import llama_server
from scripted import ScriptedEngine
from serving import metric, serving

from narrows.engines import default_model
from narrows.engines.api import Request, SamplingParams
from narrows.engines.llama_cpp import LlamaCppEngine
from narrows.engines.llama_cpp.embedding_context import normalized
from narrows.engines.upstream import UpstreamEngine
from narrows.errors import EngineError, InputError, LimitError
from narrows.limits import Limits
from narrows.server import Settings

pytestmark = pytest.mark.model
TEXTS = ["The cat sat on the mat.", "日本 🦩 <|im_end|> {}", "x"]
SETTINGS = Settings(served_model_names=("m",), limits=Limits(embedding_inputs=20))


@pytest.fixture(scope="module")
def engine() -> Iterator[LlamaCppEngine]:
    with LlamaCppEngine(
        default_model.default_gguf(), n_ctx=2048, max_queue=3, embeddings=True, pooling="mean", embd_batch=64
    ) as engine:
        yield engine


@pytest.fixture(scope="module")
def url(engine: LlamaCppEngine) -> Iterator[str]:
    with serving(engine, SETTINGS) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


def ask(url: str, **body: Any) -> tuple[int, Any]:
    content, headers = json.dumps(body), {"content-type": "application/json"}
    reply = httpx.post(f"{url}/v1/embeddings", content=content, headers=headers, timeout=60)
    return reply.status_code, reply.json()


def cosine(one: Any, other: Any) -> float:
    a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_the_client_of_openai(client: openai.OpenAI) -> None:
    found = client.embeddings.create(model="m", input=TEXTS)  # it asks for base64, and makes numbers of it
    numbers = client.embeddings.create(model="m", input=TEXTS, encoding_format="float")
    assert [each.index for each in found.data] == [0, 1, 2]
    assert (found.model, found.usage.prompt_tokens) == ("m", found.usage.total_tokens)
    for i, each in enumerate(found.data):
        assert len(each.embedding) == 576
        assert np.linalg.norm(each.embedding) == pytest.approx(1, abs=1e-5)
        assert each.embedding == pytest.approx(numbers.data[i].embedding, abs=1e-6)
    assert cosine(found.data[0].embedding, found.data[2].embedding) < 0.99


def test_texts_and_token_ids(engine: LlamaCppEngine, client: openai.OpenAI) -> None:
    ids = [engine.encode(text, parse_special=True) for text in TEXTS]
    texts = client.embeddings.create(model="m", input=TEXTS)
    lists = client.embeddings.create(model="m", input=ids)
    assert texts.usage.prompt_tokens == sum(map(len, ids))
    for i, own in enumerate(ids):
        alone = client.embeddings.create(model="m", input=TEXTS[i])
        single = client.embeddings.create(model="m", input=own)
        for other in (lists.data[i], alone.data[0], single.data[0]):
            assert cosine(texts.data[i].embedding, other.embedding) > 0.9999


def test_base64_is_of_little_endian_floats(url: str) -> None:
    _, answer = ask(url, input="x", encoding_format="base64")
    _, plain = ask(url, input="x")
    numbers = np.frombuffer(base64.b64decode(answer["data"][0]["embedding"]), dtype="<f4")
    assert numbers.tolist() == pytest.approx(plain["data"][0]["embedding"], abs=1e-6)


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({}, 400, "missing_field", "input"),
        ({"input": []}, 400, "prompt_empty", "input"),
        ({"input": ""}, 400, "prompt_empty", "input"),
        ({"input": ["a", ""]}, 400, "prompt_empty", "input[1]"),
        ({"input": [[1], []]}, 400, "prompt_empty", "input[1]"),
        ({"input": ["a", 1]}, 400, "invalid_type", "input[1]"),
        ({"input": [1, "a"]}, 400, "invalid_type", "input[1]"),
        ({"input": [[1], [True]]}, 400, "invalid_type", "input[1][0]"),
        ({"input": {"a": 1}}, 400, "invalid_type", "input"),
        ({"input": [[1], [10**9]]}, 400, "token_out_of_range", "input[1]"),
        ({"input": "word " * 100}, 400, "context_length_exceeded", "input"),
        ({"input": ["a", "word " * 100]}, 400, "context_length_exceeded", "input[1]"),
        ({"input": "word " * 10_000}, 400, "context_length_exceeded", "input"),
        ({"input": ["a"] * 21}, 400, "limit_reached", "input"),
        ({"input": "a", "dimensions": 64}, 400, "field_unsupported", "dimensions"),
        ({"input": "a", "encoding_format": "int8"}, 400, "invalid_value", "encoding_format"),
        ({"input": "a", "model": "other"}, 404, "model_not_found", "model"),
    ],
)
def test_what_is_refused(url: str, body: dict[str, Any], status: int, code: str, param: str) -> None:
    found, answer = ask(url, **body)
    assert (found, answer["error"]["code"], answer["error"]["param"]) == (status, code, param), answer


def test_the_dimensions_of_the_model_may_be_asked_for(url: str) -> None:
    assert ask(url, input="a", dimensions=576)[0] == 200


def test_an_engine_without_embeddings() -> None:
    with serving(ScriptedEngine("Hello.")) as url:
        status, answer = ask(url, input="a")
        assert (status, answer["error"]["code"]) == (501, "embeddings_disabled")


def test_a_model_without_the_option_and_without_pooling() -> None:
    with LlamaCppEngine(default_model.default_gguf(), n_ctx=256) as engine, serving(engine) as url:
        status, answer = ask(url, input="a")
        assert (status, answer["error"]["code"]) == (501, "embeddings_disabled")
        assert "--embeddings" in answer["error"]["message"]
    with LlamaCppEngine(default_model.default_gguf(), n_ctx=256, embeddings=True, embd_batch=32) as engine:
        assert engine.describe()["pooling"] == "none"
        with serving(engine) as url:
            status, answer = ask(url, input="a")
            assert (status, answer["error"]["code"]) == (400, "pooling_none")
            assert "--pooling" in answer["error"]["message"]
        ids = engine.encode("The cat sat.")
        assert engine.embed(["The cat sat."], pooled=False).result().vectors[0].shape == (len(ids), 576)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"pooling": "mean"}, "pooling"),
        ({"embeddings": True, "pooling": "rank"}, "pooling"),
        ({"embeddings": True, "pooling": "max"}, "pooling"),
        ({"embeddings": True, "embd_normalize": -2}, "embd_normalize"),
        ({"embeddings": True, "embd_batch": 0}, "embd_batch"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError) as caught:
        LlamaCppEngine(default_model.default_gguf(), **options)
    assert (caught.value.code, caught.value.pointer) == ("engine_option_invalid", f"/{name}")


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_the_vectors_are_those_of_llama_cpp_s_server(pooling: str) -> None:
    pytest.importorskip("xllamacpp")
    own = {"n_ctx": 256, "embeddings": True, "pooling": pooling, "embd_batch": 128}
    texts = [*TEXTS, "A sentence of some words. " * 15]
    with llama_server(slots=1, cells=512, pooling=pooling) as (_, peer):
        theirs = ask(peer, input=texts)[1]["data"]
        with LlamaCppEngine(default_model.default_gguf(), **own) as engine:  # type: ignore[arg-type]
            ours = engine.embed(texts).result()
        for vector, each in zip(ours.vectors, theirs, strict=True):
            assert cosine(vector, each["embedding"]) > 0.9999
            assert np.linalg.norm(each["embedding"]) == pytest.approx(np.linalg.norm(vector), abs=1e-4)
        if pooling == "mean":
            with UpstreamEngine(peer) as upstream, serving(upstream) as url:
                status, handed = ask(url, input=texts)
                assert status == 200
                for one, each in zip(handed["data"], theirs, strict=True):
                    assert cosine(one["embedding"], each["embedding"]) > 0.9999
                status, answer = ask(url, input="word " * 1000)
                assert (status, answer["error"]["code"]) == (502, "upstream_failed")


def test_how_vectors_are_normalised() -> None:
    vector = np.asarray([3, -4, 0], dtype=np.float32)
    assert normalized(vector, -1).tolist() == [3, -4, 0]
    assert normalized(vector, 0).tolist() == [24570, -32760, 0]
    assert normalized(vector, 1).tolist() == pytest.approx([3 / 7, -4 / 7, 0])
    assert normalized(vector, 2).tolist() == pytest.approx([0.6, -0.8, 0])
    assert normalized(vector, 3).tolist() == pytest.approx([3 / 91 ** (1 / 3), -4 / 91 ** (1 / 3), 0])
    assert normalized(vector * 0, 2).tolist() == [0, 0, 0]


def test_requests_take_turns(engine: LlamaCppEngine) -> None:
    long = [engine.encode("word " * 30)[:30]] * 8
    many = engine.embed(long)
    few = engine.embed(["a"])
    few.result(60)
    assert not many.done()
    assert many.cancel()
    assert engine.embed(["b"]).result(60).prompt_tokens == 1


def test_too_many_requests(engine: LlamaCppEngine) -> None:
    long = [engine.encode("word " * 60)[:60]] * 20
    waiting = [engine.embed(long) for _ in range(4)]  # max_queue is 3, and one is being computed
    with pytest.raises(LimitError) as caught:
        engine.embed(long)
    assert caught.value.code == "queue_full"
    for each in waiting:
        each.cancel()


def test_streams_go_on_meanwhile(engine: LlamaCppEngine) -> None:
    long = [engine.encode("word " * 60)[:60]] * 20
    prompt = engine.encode("Once upon a time")
    seconds = []
    for busy in (False, True):
        future = engine.embed(long) if busy else None
        request = Request(request_id=str(busy), prompt_token_ids=prompt, sampling=SamplingParams(max_tokens=20))
        before = time.monotonic()
        for _ in engine.generate(request):
            seconds.append(time.monotonic() - before)
            before = time.monotonic()
        if future is not None:
            assert not future.done(), "it ended before the stream"
            future.cancel()
    assert max(seconds) < 5.0, "a stream waited for the embeddings"


def test_closing_ends_what_waits() -> None:
    engine = LlamaCppEngine(default_model.default_gguf(), n_ctx=256, embeddings=True, pooling="mean", embd_batch=64)
    future = engine.embed([engine.encode("word " * 60)[:60]] * 50)
    time.sleep(0.2)
    began = time.monotonic()
    closing = threading.Thread(target=engine.close)
    closing.start()
    with pytest.raises(EngineError) as caught:
        future.result(60)
    closing.join(60)
    assert caught.value.code == "engine_closed"
    assert time.monotonic() - began < 10
    with pytest.raises(EngineError):
        engine.embed(["a"])


def test_what_is_counted(url: str) -> None:
    def counted() -> dict[str, float]:
        names = (
            "request_success_total",
            "prompt_tokens_total",
            "e2e_request_latency_seconds_count",
            "request_errors_total",
        )
        return {name: metric(url, f"narrows_embedding_{name}", "m") for name in names}

    generated = metric(url, "narrows_prompt_tokens_total")
    before = counted()
    tokens = ask(url, input=TEXTS)[1]["usage"]["prompt_tokens"]
    assert ask(url, input=["a", ""])[0] == 400
    assert ask(url, input=[])[0] == 400  # nothing that the engine could see
    assert httpx.post(f"{url}/embedding", json={"content": TEXTS}, timeout=60).status_code == 200
    assert httpx.post(f"{url}/api/embed", json={"model": "m", "input": TEXTS}, timeout=60).status_code == 200
    assert {name: value - before[name] for name, value in counted().items()} == {
        "request_success_total": 3,
        "prompt_tokens_total": 3 * tokens,
        "e2e_request_latency_seconds_count": 3,
        "request_errors_total": 1,
    }
    page = httpx.get(f"{url}/metrics").text
    assert 'narrows_embedding_request_errors_total{code="prompt_empty",model_name="m"}' in page
    assert metric(url, "narrows_prompt_tokens_total") == generated


def test_llama_cpp_s_own_form(engine: LlamaCppEngine, url: str) -> None:
    wanted = engine.embed(TEXTS).result().vectors
    for path, name in (("/embedding", "content"), ("/embeddings", "input")):
        answer = httpx.post(f"{url}{path}", json={name: TEXTS}, timeout=60).json()
        assert [each["index"] for each in answer] == [0, 1, 2]
        for each, vector in zip(answer, wanted, strict=True):
            assert len(each["embedding"]) == 1
            assert cosine(each["embedding"][0], vector) > 0.9999
    for body, param in (
        ({}, "content"),
        ({"content": "a", "input": "a"}, "content"),
        ({"input": ["a", ""]}, "input[1]"),
    ):
        reply = httpx.post(f"{url}/embedding", json=body)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


def test_ollama_s_client(engine: LlamaCppEngine, url: str) -> None:
    client = ollama.Client(host=url)
    wanted = engine.embed(TEXTS).result()
    found = client.embed(model="m", input=TEXTS)
    assert (found.model, found.prompt_eval_count) == ("m", wanted.prompt_tokens)
    for vector, own in zip(found.embeddings, wanted.vectors, strict=True):
        assert cosine(vector, own) > 0.9999
    assert cosine(client.embeddings(model="m", prompt=TEXTS[0]).embedding, wanted.vectors[0]) > 0.9999
    with pytest.raises(ollama.ResponseError, match="is too long"):
        client.embed(model="m", input="word " * 100)
    client._client.close()
