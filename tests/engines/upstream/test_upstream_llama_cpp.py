"""narrows before llama.cpp's own server, with a real model. NARROWS_UPSTREAM_CALLS: how many streamed calls are made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from llama_server import llama_server
from serving import eventually, serving
from upstream_calls import TOOLS, all_wrong, stream

from narrows import Grammar
from narrows.engines.api import Request, SamplingParams
from narrows.engines.upstream import UpstreamEngine, dispatcher
from narrows.errors import EngineError

pytestmark = [pytest.mark.model, pytest.mark.timeout(1200)]
pytest.importorskip("xllamacpp")

CALLS = int(os.environ.get("NARROWS_UPSTREAM_CALLS", "4"))
LONG = {"messages": [{"role": "user", "content": "Tell me a very long story."}], "max_tokens": 800, "temperature": 0}


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with llama_server() as (_, url):
        yield url


@pytest.fixture(scope="module")
def engine(upstream: str) -> Iterator[UpstreamEngine]:
    with UpstreamEngine(upstream) as engine:
        yield engine


@pytest.fixture(scope="module")
def url(engine: UpstreamEngine) -> Iterator[str]:
    with serving(engine) as url:
        yield url


def text(engine: UpstreamEngine, grammar: Grammar, **sampling: object) -> str:
    """What the model writes under a grammar."""
    prompt = engine.encode("<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n", parse_special=True)
    parameters = SamplingParams(**{"max_tokens": 40, "seed": 1, **sampling})  # type: ignore[arg-type]
    constraint = engine.vocabulary.compile(grammar)
    request = Request(request_id="1", prompt_token_ids=prompt, sampling=parameters, constraint=constraint)
    outputs = list(engine.generate(request))
    assert outputs[-1].finish_reason == "stop", outputs[-1].error
    return "".join(output.text for output in outputs)


def test_streamed_calls(url: str) -> None:
    assert list(all_wrong(url, CALLS)) == []


def test_characters_of_several_tokens(engine: UpstreamEngine) -> None:
    # llama.cpp sends the id of a character's last token alone.
    wanted = "€ 🦩é日\u2028x"
    assert text(engine, Grammar.choice([wanted])) == wanted


def test_a_control_token_is_not_its_name(engine: UpstreamEngine) -> None:
    # llama.cpp would take <|im_start|> for the characters of its name, where a grammar allows them.
    special = {token: 20.0 for name, token in engine.vocabulary.special.items() if name != "<|im_end|>"}
    assert len(text(engine, Grammar.from_regex("[a-z<>|_]{12,30}"), logit_bias=special)) >= 12


def test_a_marker_is_not_its_name(engine: UpstreamEngine) -> None:
    # The same, for a token that the grammar names.
    name, token = "<repo_name>", engine.vocabulary.special["<repo_name>"]
    grammar = Grammar.from_gbnf(f'root ::= "x" [a-z<>_]* <[{token}]> "y"')
    assert name not in text(engine, grammar, logit_bias={token: 20.0})


def test_a_token_by_its_id(engine: UpstreamEngine) -> None:
    token = engine.vocabulary.special["<|im_start|>"]
    assert text(engine, Grammar.from_gbnf(f'root ::= "a" <[{token}]> "b"')) == "ab"


def test_log_probabilities_are_there(url: str) -> None:
    body = {"prompt": "The", "max_tokens": 3, "logprobs": 2, "temperature": 0}
    choice = httpx.post(f"{url}/v1/completions", json=body, timeout=60).json()["choices"][0]
    assert len(choice["logprobs"]["tokens"]) == 3
    for value, top in zip(choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"], strict=True):
        assert len(top) == 2
        assert value == max(top.values())


def test_what_cannot_be_handed_over_is_refused_by_name(url: str) -> None:
    reply = httpx.post(f"{url}/v1/chat/completions", json={**LONG, "response_format": {"type": "json_object"}})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "not_context_free")


def test_a_client_that_leaves_frees_the_slot(url: str, upstream: str) -> None:
    def busy() -> bool:
        return any(slot["is_processing"] for slot in httpx.get(f"{upstream}/slots").json())

    with httpx.stream("POST", f"{url}/v1/chat/completions", json={**LONG, "stream": True}, timeout=60) as reply:
        lines = reply.iter_lines()
        while '"content":""' in (line := next(lines)) or not line:
            pass
        assert busy()
    assert eventually(lambda: not busy(), 20)


def test_killed_in_the_middle_and_back_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "HEALTH_SECONDS", 0.2)
    with llama_server(slots=1) as (process, upstream):
        engine = UpstreamEngine(upstream)
        with engine, serving(engine) as url:
            body = {**LONG, "stream": True, "tools": TOOLS}
            seen: list[str] = []
            with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60) as reply:
                for line in reply.iter_lines():
                    if len(seen) == 3:
                        process.kill()
                    seen += [line] if line else []
            assert seen[-1] == "data: [DONE]"
            assert json.loads(seen[-2][6:])["error"]["code"] in ("upstream_lost", "upstream_failed")
            assert eventually(lambda: httpx.get(f"{url}/health").status_code == 503, 20)
            assert engine.stats().running == 0
            process.wait()
            with llama_server(slots=1, port=int(upstream.rpartition(":")[2])):
                assert eventually(lambda: httpx.get(f"{url}/health").status_code == 200, 20)
                assert stream(url, {**LONG, "max_tokens": 3}).finish == "length"


def test_the_command(upstream: str) -> None:
    command = [sys.executable, "-m", "narrows.cli", "serve", "--upstream", f"{upstream}/v1", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            assert stream(url, {**LONG, "max_tokens": 2}).finish == "length"
        finally:
            process.terminate()
    assert process.returncode == 0


def test_the_command_without_an_upstream() -> None:
    command = [
        sys.executable,
        "-m",
        "narrows.cli",
        "serve",
        "--upstream",
        "http://127.0.0.1:9",
        "--upstream-timeout",
        "0",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 5
    assert "cannot be reached" in done.stderr
    done = subprocess.run([*command, "--threads", "2"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2


def test_another_model_s_tokenizer_is_refused(upstream: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    from fake_upstream import folder

    with pytest.raises(EngineError) as caught:
        UpstreamEngine(upstream, tokenizer=folder(tmp_path_factory.mktemp("other")))
    assert caught.value.code == "tokenizer_mismatch"
