"""narrows before another server, which a test plays: what is asked, what is read, and what happens when it fails."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_upstream import END, SPECIAL, FakeUpstream, events, fake_upstream, folder, ids, refuse, stream, texts
from serving import eventually, metric, serving
from upstream_calls import Answer
from upstream_calls import stream as streamed

from narrows import Grammar
from narrows.engines.api import Output, RepetitionDetection, Request, SamplingParams, Strategies, ThinkingBudget
from narrows.engines.upstream import UpstreamEngine, client, dispatcher
from narrows.engines.upstream import connect as connecting
from narrows.errors import EngineError, LimitError, NarrowsError, UnsupportedError
from narrows.server import Settings

Connect = Callable[..., UpstreamEngine]
ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 100}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture
def fake() -> Iterator[FakeUpstream]:
    with fake_upstream() as server:
        yield server


@pytest.fixture
def connect(fake: FakeUpstream, tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    monkeypatch.setattr(client, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(dispatcher, "HEALTH_SECONDS", 0.05)
    engines: list[UpstreamEngine] = []

    def connected(**options: Any) -> UpstreamEngine:
        engines.append(UpstreamEngine(fake.url, tokenizer=tokenizer, wait=1, **options))
        return engines[-1]

    yield connected
    for engine in engines:
        engine.close()


def outputs(engine: UpstreamEngine, grammar: Grammar | None = None, **sampling: Any) -> list[Output]:
    """The outputs of one request, merged by sequence."""
    constraint = engine.vocabulary.compile(grammar) if grammar is not None else None
    n = sampling.pop("n", 1)
    detection = sampling.pop("repetition_detection", None)
    request = Request(
        request_id="1",
        prompt_token_ids=engine.encode("hi"),
        sampling=SamplingParams(**{"max_tokens": 100, **sampling}),
        constraint=constraint,
        n=n,
        repetition_detection=detection,
    )
    merged: dict[int, Output] = {}
    for output in engine.generate(request):
        if output.index in merged:
            merged[output.index].merge(output)
        else:
            merged[output.index] = output
    return [merged[index] for index in sorted(merged)]


def code(output: Output) -> str:
    assert output.finish_reason == "error"
    assert output.error is not None
    return output.error.code


def test_asks_for_ids_and_gives_the_text(fake: FakeUpstream, connect: Connect) -> None:
    fake.answers.append(stream(ids("Hé\u2028llo.")))
    (output,) = outputs(connect(api_key="secret"), temperature=0.5, top_k=3, seed=7, stop_token_ids=(65,))
    assert (output.text, output.token_ids[-1], output.finish_reason) == ("Hé\u2028llo.", END, "stop")
    asked = fake.asked[0]
    assert asked["path"] == "/v1/completions"
    assert asked["prompt"] == list(b"hi")
    assert (asked["model"], asked["temperature"], asked["top_k"], asked["seed"]) == ("org/small", 0.5, 3, 7)
    assert (asked["return_token_ids"], asked["stop_token_ids"]) == (True, [65, END])
    assert set(fake.keys) == {"Bearer secret"}


def test_each_sequence_has_its_seed(fake: FakeUpstream, connect: Connect) -> None:
    fake.answers += [stream(ids("a"))] * 3
    assert [output.text for output in outputs(connect(), seed=7, n=3)] == ["a"] * 3
    assert sorted(asked["seed"] for asked in fake.asked) == [7, 8, 9]
    fake.answers += [stream(ids("a"))] * 2
    outputs(connect(), seed=2**63 - 1, n=2)
    assert {asked["seed"] for asked in fake.asked[3:]} == {2**63 - 1, -(2**63)}


def test_the_grammar_is_handed_over(fake: FakeUpstream, connect: Connect) -> None:
    fake.answers.append(stream(ids("ab")))
    (output,) = outputs(connect(), Grammar.from_regex("ab|c"))
    assert output.finish_reason == "stop"
    text = fake.asked[0]["structured_outputs"]["grammar"]
    assert Grammar.from_gbnf(text)
    banned = {str(256 + i): -100.0 for i, name in enumerate(SPECIAL) if name != "<|im_end|>"}
    assert fake.asked[0]["logit_bias"] == banned


def test_narrows_in_vllm_reads_the_grammar(fake: FakeUpstream, connect: Connect) -> None:
    fake.has_narrows = True
    fake.answers.append(stream(ids("ab")))
    engine = connect()
    assert engine.describe()["kind"] == "vllm with narrows"
    outputs(engine, Grammar.from_regex("ab|c"))
    assert "structured_outputs" not in fake.asked[0]
    assert Grammar.from_gbnf(fake.asked[0]["vllm_xargs"]["narrows_grammar"])


def test_sglang_takes_it_in_its_own_field(fake: FakeUpstream, connect: Connect) -> None:
    fake.owner = "sglang"
    # SGLang may give its stop token apart.
    choice = {"index": 0, "text": "", "token_ids": list(b"ab"), "finish_reason": "stop", "matched_stop": END}
    fake.answers.append(events([{"choices": [choice]}]))
    (output,) = outputs(connect(), Grammar.from_regex("ab|c"))
    assert (output.text, output.token_ids, output.finish_reason) == ("ab", [*b"ab", END], "stop")
    assert Grammar.from_gbnf(fake.asked[0]["ebnf"])


@pytest.mark.parametrize("wrong", ["ax", "a", "<|im_start|>ab", "abb"])
def test_an_answer_that_leaves_the_grammar_is_an_error(fake: FakeUpstream, connect: Connect, wrong: str) -> None:
    fake.answers.append(stream(ids(wrong)))
    (output,) = outputs(connect(), Grammar.from_regex("ab"))
    assert code(output) == "upstream_left_grammar"
    assert "ab".startswith(output.text)


def test_a_cut_answer_is_no_error(fake: FakeUpstream, connect: Connect) -> None:
    fake.answers.append(stream(ids("a", end=False), finish="length"))
    (output,) = outputs(connect(), Grammar.from_regex("ab"))
    assert (output.text, output.finish_reason) == ("a", "length")


NAMES = Grammar.from_json_schema({"type": "object"})


def test_what_cannot_be_handed_over_is_refused(fake: FakeUpstream, connect: Connect) -> None:
    with pytest.raises(UnsupportedError) as caught:
        outputs(connect(), NAMES)
    assert caught.value.code == "not_context_free"
    assert "--upstream-checked" in str(caught.value)
    assert not fake.asked


def test_checked_takes_it_and_ends_an_answer_that_leaves_it(fake: FakeUpstream, connect: Connect) -> None:
    engine = connect(checked=True)
    fake.answers += [stream(ids('{"a": 1, "b": 2}')), stream(ids('{"a": 1, "a": 2}'))]
    assert [outputs(engine, NAMES)[0].finish_reason for _ in range(2)] == ["stop", "error"]
    assert all(asked["structured_outputs"]["grammar"] for asked in fake.asked)


def test_a_server_without_grammars_is_refused_one(fake: FakeUpstream, connect: Connect) -> None:
    fake.owner = "me"
    with pytest.raises(UnsupportedError) as caught:
        outputs(connect(), Grammar.from_regex("ab"))
    assert caught.value.code == "grammar_not_handed_over"
    fake.answers += [texts(["a", "b"]), texts(["ac"])]
    engine = connect(checked=True)
    assert [outputs(engine, Grammar.from_regex("ab"))[0].finish_reason for _ in range(2)] == ["stop", "error"]


def test_text_alone_is_read_as_tokens(fake: FakeUpstream, connect: Connect) -> None:
    fake.owner = "me"
    fake.answers.append(texts(["Hé", "l<tool", "_call>", "x<|im_", "st"]))
    (output,) = outputs(connect())
    assert output.token_ids == [*"Hél".encode(), 258, *b"x<|im_st"]
    assert (output.text, output.finish_reason) == ("Hélx<|im_st", "stop")


def test_a_prompt_that_text_cannot_say_is_refused(fake: FakeUpstream, connect: Connect) -> None:
    fake.owner = "me"
    fake.answers.append(texts(["Hello."]))
    with serving(connect()) as url:
        assert streamed(url, ASK).content == "Hello."
        assert fake.asked[0]["prompt"] == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
        answer = streamed(url, {**ASK, "messages": [{"role": "user", "content": "<|im_end|>"}]})
    assert answer.error is not None
    assert answer.error["code"] == "prompt_not_text"
    assert len(fake.asked) == 1


@pytest.mark.parametrize(
    ("sampling", "owner"),
    [({"min_tokens": 3}, "llamacpp"), ({"top_k": 3}, "me"), ({"logprobs": 1}, "me"), ({"logprobs": 1}, "sglang")],
)
def test_unknown_parameters_are_refused(
    fake: FakeUpstream, connect: Connect, sampling: dict[str, Any], owner: str
) -> None:
    fake.owner = owner
    with pytest.raises(UnsupportedError) as caught:
        outputs(connect(max_model_len=4096), **sampling)
    assert caught.value.code == "upstream_unsupported"
    assert caught.value.pointer == f"/{next(iter(sampling))}"


def test_what_needs_logits_is_refused(connect: Connect) -> None:
    engine = connect()
    for options in (
        {"strategies": Strategies(budget=True)},
        {"thinking_budget": ThinkingBudget(tokens=1, end=[1])},
        {"token_healing": True},
        {"logits_processors": [lambda t, row: row]},
    ):
        with pytest.raises(UnsupportedError) as caught:
            engine.generate(Request(request_id="1", prompt_token_ids=[1], **options))
        assert caught.value.code == "upstream_unsupported"


@pytest.mark.parametrize("grammar", [None, Grammar.from_regex("[a ]*")])
def test_an_answer_that_repeats_itself_ends(fake: FakeUpstream, connect: Connect, grammar: Grammar | None) -> None:
    fake.answers.append(stream(ids("a a a a a a a a a")))
    engine = connect()
    detection = RepetitionDetection(max_pattern_size=2, min_count=3)
    (output,) = outputs(engine, grammar, repetition_detection=detection)
    assert (output.finish_reason, output.stop_reason) == ("repetition", "repetition_detected")


@pytest.mark.parametrize("status", [429, 503])
def test_is_asked_again_before_the_first_byte(fake: FakeUpstream, connect: Connect, status: int) -> None:
    fake.answers += [refuse(status), refuse(status, retry_after="0"), stream(ids("Hello."))]
    engine = connect()
    assert outputs(engine)[0].text == "Hello."
    assert engine.stats().retries_total == 2


def test_gives_up_at_last(fake: FakeUpstream, connect: Connect) -> None:
    fake.answers += [refuse(429)] * 5 + [refuse(503)] * 5 + [refuse(400, "bad grammar")]
    engine = connect()
    assert [code(outputs(engine)[0]) for _ in range(3)] == ["upstream_busy", "upstream_failed", "upstream_refused"]
    assert not fake.answers


def test_is_not_asked_again_after_it(fake: FakeUpstream, connect: Connect) -> None:
    fake.answers += [stream(ids("Hel", end=False), finish=None)]
    (output,) = outputs(connect())
    assert code(output) == "upstream_lost"
    assert output.text == "Hel"
    assert len(fake.asked) == 1


@pytest.mark.parametrize(
    "event", [{"error": {"message": "out of memory"}}, {"choices": [{"text": "", "finish_reason": "abort"}]}]
)
def test_an_error_in_the_stream_is_an_error(fake: FakeUpstream, connect: Connect, event: dict[str, Any]) -> None:
    fake.answers.append(events([event]))
    (output,) = outputs(connect())
    assert code(output) == "upstream_failed"


def test_a_silent_upstream_is_lost(fake: FakeUpstream, connect: Connect) -> None:
    fake.answers.append(lambda request: (request.begin(), time.sleep(1))[0])
    assert code(outputs(connect(read_timeout=0.2))[0]) == "upstream_lost"


def test_a_client_that_leaves_ends_the_upstreams_work(fake: FakeUpstream, connect: Connect) -> None:
    fake.answers.append(stream(ids("x" * 4000), pause=0.01))
    engine = connect()
    with serving(engine) as url:
        body = {**ASK, "max_tokens": 3000, "stream": True}
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body) as reply:
            next(line for line in reply.iter_lines() if '"x"' in line)
        assert fake.left.wait(5)
        assert eventually(lambda: engine.stats().running == 0)
        assert engine.stats().finished_total == {"abort": 1}


def test_a_stop_text_ends_the_upstreams_work(fake: FakeUpstream, connect: Connect) -> None:
    fake.answers.append(stream(ids("Hello. " + "x" * 4000), pause=0.01))
    (output,) = outputs(connect(), stop=(".",), max_tokens=4000)
    assert (output.text, output.stop_reason) == ("Hello", ".")
    assert fake.left.wait(5)


def test_sequences_wait_for_a_place(fake: FakeUpstream, connect: Connect) -> None:
    engine = connect(max_num_seqs=1, max_queue=1)
    fake.answers += [stream(ids("x" * 20), pause=0.02)] * 2
    asks = [Request(request_id=str(i), prompt_token_ids=[1], sampling=SamplingParams(max_tokens=50)) for i in range(3)]
    first, second = engine.generate(asks[0]), engine.generate(asks[1])
    with pytest.raises(LimitError) as caught:
        engine.generate(asks[2])
    assert caught.value.code == "queue_full"
    assert eventually(lambda: (engine.stats().running, engine.stats().waiting) == (1, 1))
    second.close()
    assert eventually(lambda: engine.stats().waiting == 0)
    assert "".join(output.text for output in first) == "x" * 20
    assert len(fake.asked) == 1
    assert engine.drain(5)
    with pytest.raises(EngineError):
        engine.generate(asks[2])


def test_health_is_the_upstreams(fake: FakeUpstream, connect: Connect) -> None:
    with serving(connect()) as url:
        assert httpx.get(f"{url}/health").status_code == 200
        fake.is_healthy = False
        assert eventually(lambda: httpx.get(f"{url}/health").status_code == 503)
        assert httpx.get(f"{url}/health").json()["error"]["code"] == "upstream_unreachable"
        fake.is_healthy = True
        assert eventually(lambda: httpx.get(f"{url}/health").status_code == 200)
        assert "narrows_upstream_retries_total{" in httpx.get(f"{url}/metrics").text
        assert metric(url, "narrows_upstream_retries_total") == 0


def test_tools_and_other_faces_work_over_it(fake: FakeUpstream, connect: Connect) -> None:
    fake.has_narrows = True
    call = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    fake.answers += [stream(ids(call)), stream(ids("Hi."))]
    with serving(connect(), Settings(tool_call_parser="hermes_json")) as url:
        answer = streamed(url, {**ASK, "tools": tools, "tool_choice": "required"})
        assert answer == Answer(calls=[["f", '{"a": 1}']], finish="tool_calls", done=True)
        body = {"model": "small", "max_tokens": 9, "messages": ASK["messages"]}
        said = httpx.post(f"{url}/v1/messages", json=body).json()
        assert said["content"] == [{"type": "text", "text": "Hi."}]


def test_a_refusal_says_where(connect: Connect) -> None:
    with serving(connect()) as url:
        reply = httpx.post(f"{url}/v1/chat/completions", json={**ASK, "response_format": {"type": "json_object"}})
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "not_context_free"
    assert reply.json()["error"]["pointer"] == "/response_format"


# The start.


def test_says_that_nobody_answers(tokenizer: Path) -> None:
    said: list[str] = []
    with pytest.raises(EngineError) as caught:
        UpstreamEngine("http://127.0.0.1:9/v1", tokenizer=tokenizer, wait=1.5, progress=said.append)
    assert caught.value.code == "upstream_unreachable"
    assert said == ["waiting for the upstream http://127.0.0.1:9"]


def test_waits_for_a_model_that_loads(fake: FakeUpstream, tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_PAUSE", 0.01)

    def loaded(line: str) -> None:
        fake.is_healthy = True

    fake.is_healthy = False
    UpstreamEngine(fake.url, tokenizer=tokenizer, wait=5, progress=loaded).close()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"model": "other"}, "model_not_found"),
        ({"kind": "other"}, "engine_option_invalid"),
        ({"max_num_seqs": 0}, "engine_option_invalid"),
        ({"tokenizer": "/nowhere"}, "tokenizer_missing"),
        ({"tokenizer": None}, "tokenizer_missing"),
    ],
)
def test_wrong_options(fake: FakeUpstream, tokenizer: Path, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(NarrowsError) as caught:
        UpstreamEngine(fake.url, **{"tokenizer": tokenizer, **options})
    assert caught.value.code == expected


def test_another_tokenizer_is_noticed(fake: FakeUpstream, tokenizer: Path) -> None:
    fake.tokenized = [1, 2, 3]
    with pytest.raises(EngineError) as caught:
        UpstreamEngine(fake.url, tokenizer=tokenizer)
    assert caught.value.code == "tokenizer_mismatch"


def test_the_context_is_what_the_upstream_says(fake: FakeUpstream, tokenizer: Path) -> None:
    fake.owner = "llamacpp"
    fake.props = {"default_generation_settings": {"n_ctx": 0}}
    with UpstreamEngine(fake.url, tokenizer=tokenizer) as engine:
        assert engine.max_model_len == 4096


def test_special_names_in_text_are_text(tokenizer: Path, fake: FakeUpstream) -> None:
    with UpstreamEngine(fake.url, tokenizer=tokenizer) as engine:
        assert engine.encode("a<|im_end|>") == list(b"a<|im_end|>")
        assert engine.encode("a<|im_end|>", parse_special=True) == [97, END]
        assert engine.chat_template
        assert json.dumps(dict(engine.special_tokens)) == '{"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}'
