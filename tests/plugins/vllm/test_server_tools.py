"""narrows' parsers under the real server: what is streamed equals what comes complete, and both equal what the model wrote.

For each format 200 requests, each asked for streamed and complete with one seed and one request id, as many at a time as the engine takes; per
token, and again with drafts taken from earlier text, so that deltas hold several tokens. `NARROWS_VLLM_REQUESTS` asks for fewer. What the model wrote is kept in
`build/vllm`, and is then read again in other cuttings, by narrows' parsers and by vLLM's own; `build/vllm/replayed.json` has the counts.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import answers
import pytest
import serving
from client import Answer, Call, Client
from conftest import Note, Start
from server import NGRAM, STREAMS
from tool_requests import WIRES, Maker, Request

pytestmark = pytest.mark.timeout(3600)

COUNT = int(os.environ.get("NARROWS_VLLM_REQUESTS", "200"))
KEPT = Path(__file__).parents[3] / "build" / "vllm"


def tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer
    from vllm.tokenizers.hf import get_cached_tokenizer

    return get_cached_tokenizer(AutoTokenizer.from_pretrained(folder))


def ask(client: Client, requests: Sequence[Request], temperature: float) -> list[tuple[Request, Answer, Answer]]:
    """The streamed and the complete answer of each, all of them as many at a time as the engine takes."""

    def answer(method: Callable[..., list[Answer]], request: Request) -> Answer:
        options = {**request.options, "request_id": request.request_id, "temperature": temperature}
        (found,) = method(request.messages, **options)
        return found

    with ThreadPoolExecutor(STREAMS) as pool:
        asked = [
            (request, pool.submit(answer, client.stream, request), pool.submit(answer, client.complete, request))
            for request in requests
        ]
        return [(request, streamed.result(), complete.result()) for request, streamed, complete in asked]


@pytest.fixture(params=[pytest.param((), id="per token"), pytest.param(NGRAM, id="ngram")], scope="module")
def speculation(request: pytest.FixtureRequest) -> Sequence[str]:
    found: Sequence[str] = request.param
    return found


@pytest.mark.parametrize("name", WIRES)
def test_streamed_equals_complete_and_what_the_model_wrote(
    name: str, speculation: Sequence[str], start_server: Start, markers_model: Path, note: Note
) -> None:
    words = tokenizer(markers_model)
    parser = f"narrows_{name}"
    client = start_server(
        "--structured-outputs-config.backend",
        "narrows",
        "--enable-auto-tool-choice",
        "--tool-call-parser",
        parser,
        *speculation,
        model=markers_model,
    )
    requests = Maker(name, words.get_vocab()).all(COUNT)
    # Drafts use up a seed's random numbers, and how many there are depends on the other requests.
    began = time.monotonic()
    answered = ask(client, requests, 0 if speculation else 0.7)
    seconds = time.monotonic() - began

    wrong, kept, several = [], [], 0
    for request, streamed, complete in answered:
        kept.append({"kind": request.kind, "ids": streamed.token_ids, "finish_reason": streamed.finish_reason})
        several += any(len(step) > 1 for step in streamed.steps)
        for kind, answer in (("streamed", streamed), ("complete", complete)):
            raw = words.decode([token for token in answer.token_ids if token != words.eos_token_id])
            try:
                request.check(answer, raw)
            except (AssertionError, ValueError, IndexError) as error:
                wrong.append(
                    f"{request.request_id} ({request.kind}, {kind}): {error}\n  raw: {raw!r}\n  {answer.said()}"
                )
        if streamed.token_ids == complete.token_ids and streamed.said() != complete.said():
            wrong.append(
                f"{request.request_id} ({request.kind}): streamed {streamed.said()}\n  complete {complete.said()}"
            )
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / f"{name}-{'ngram' if speculation else 'per-token'}.json").write_text(
        json.dumps(kept, ensure_ascii=False, indent=1)
    )

    # The same seed gives the same tokens, but for a tie that another batch breaks otherwise.
    same = sum(streamed.token_ids == complete.token_ids for _, streamed, complete in answered)
    tokens = sum(len(answer.token_ids) for _, streamed, complete in answered for answer in (streamed, complete))
    note(
        f"server, {name}{', ngram' if speculation else ''}: {len(wrong)} wrong of {2 * len(answered)} answers to {len(answered)} requests, "
        f"{same} pairs of the same tokens, {several} streams with several tokens in a delta; {tokens} tokens in {seconds:.0f} s"
    )
    assert not wrong, f"{len(wrong)} wrong of {2 * len(answered)}:\n" + "\n".join(wrong[:20])
    assert same >= 0.75 * len(answered), f"only {same} of {len(answered)} pairs have the same tokens"
    cut = [streamed for request, streamed, _ in answered if request.kind.startswith("cut")]
    assert sum(bool(answer.calls) for answer in cut) >= len(cut) / 4, "the budgets cut before the calls"
    assert not speculation or several, "no delta held several tokens: nothing was drafted"


OWN = {"hermes_json": "hermes", "qwen3_xml": "qwen3_coder", "mistral": "mistral"}


@pytest.mark.parametrize("name", WIRES)
def test_what_the_model_wrote_reads_the_same_in_every_cutting(name: str, markers_model: Path, note: Note) -> None:
    """What the server gave, in nine cuttings each: by character, by token, by 1 to 8 tokens with six seeds, whole. vLLM's own parsers are
    counted beside ours, on the same text."""
    found = sorted(KEPT.glob(f"{name}-*.json"))
    if not found:
        pytest.skip("the server has not been asked yet")
    from narrows.plugins.vllm import plugin

    plugin.register()
    words = tokenizer(markers_model)
    counts = {
        parser: wrong_by_kind(parser, [json.loads(path.read_text()) for path in found], name, words)
        for parser in (f"narrows_{name}", OWN[name])
    }
    path = KEPT / "replayed.json"
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **counts}, indent=1))
    for parser, kinds in counts.items():
        wrong, of = (sum(column) for column in zip(*kinds.values(), strict=True))
        by_kind = ", ".join(f"{kind} {count} of {runs}" for kind, (count, runs) in kinds.items() if count)
        note(f"read again, {parser}: {wrong} wrong of {of} runs" + (f" ({by_kind})" if by_kind else ""))
    assert not sum(wrong for wrong, _ in counts[f"narrows_{name}"].values())
    assert sum(wrong for wrong, _ in counts[OWN[name]].values()), (
        "vLLM's parser reads all of it: say so in docs/vllm.md"
    )


def wrong_by_kind(parser: str, runs: list[list[dict[str, Any]]], name: str, words: Any) -> dict[str, tuple[int, int]]:
    """Kind of request -> how many of its runs are wrong, of how many: unlike the complete answer, or unlike the text, or an exception."""
    parsers = serving.parser_class(parser)
    counts: dict[str, tuple[int, int]] = {}
    for run in runs:
        for request, entry in zip(Maker(name, words.get_vocab()).all(len(run)), run, strict=True):
            ids = [token for token in entry["ids"] if token != words.eos_token_id]
            raw = words.decode(ids)
            choice = request.options.get("tool_choice", "auto")
            asked = serving.chat_request(request.options["tools"], tool_choice=choice, request_id=request.request_id)
            steps = answers.steps(words, ids)
            end = None if entry["finish_reason"] == "length" else words.eos_token_id
            try:
                complete = serving.complete(parsers, words, asked, raw, ids)
                request.check(_answer(complete, entry["finish_reason"]), raw)
            except Exception:  # whatever a parser does wrong is what is counted
                complete = None
            for cutting in answers.CUTTINGS:
                try:
                    streamed = serving.stream(parsers, words, asked, answers.cut(steps, end, cutting))
                    request.check(_answer(streamed, entry["finish_reason"]), raw)
                except Exception:
                    right = False
                else:
                    # vLLM's own ids are random, and its complete arguments are written anew.
                    right = complete is not None and (
                        not parser.startswith("narrows_") or _said(streamed) == _said(complete)
                    )
                wrong, of = counts.get(request.kind, (0, 0))
                counts[request.kind] = (wrong + (not right), of + 1)
    return counts


def _said(result: answers.Result) -> tuple[Any, ...]:
    return result.content, result.reasoning, result.calls


def _answer(result: answers.Result, finish_reason: str) -> Answer:
    calls = [Call(identifier, name, arguments) for name, arguments, identifier in result.calls]
    return Answer(result.content, result.reasoning, calls, finish_reason)
