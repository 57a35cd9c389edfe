"""narrows' parsers under the real server: what is streamed equals what comes complete, and both equal what the model wrote.

For each format 200 requests, each asked for streamed and complete with one seed and one request id, sixteen at a time; per token, and again with
drafts taken from earlier text, so that deltas hold several tokens. `NARROWS_VLLM_REQUESTS` asks for fewer. What the model wrote is kept in
`build/vllm/<format>.json`, for bench/vllm_parsers.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from client import Answer, Client
from conftest import Start
from server import NGRAM
from tool_requests import WIRES, Maker, Request

pytestmark = pytest.mark.timeout(3600)

COUNT = int(os.environ.get("NARROWS_VLLM_REQUESTS", "200"))
KEPT = Path(__file__).parents[2] / "build" / "vllm"


def tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def ask(client: Client, request: Request) -> tuple[Request, Answer, Answer]:
    options = {**request.options, "request_id": request.request_id, "temperature": 0.7}
    (streamed,) = client.stream(request.messages, **options)
    (complete,) = client.complete(request.messages, **options)
    return request, streamed, complete


@pytest.fixture(params=[pytest.param((), id="per token"), pytest.param(NGRAM, id="ngram")], scope="module")
def speculation(request: pytest.FixtureRequest) -> Sequence[str]:
    found: Sequence[str] = request.param
    return found


@pytest.mark.parametrize("name", WIRES)
def test_streamed_equals_complete_and_what_the_model_wrote(
    name: str, speculation: Sequence[str], start_server: Start, markers_model: Path
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
    with ThreadPoolExecutor(16) as pool:
        answered = list(pool.map(lambda request: ask(client, request), requests))

    wrong, kept, several = [], [], 0
    for request, streamed, complete in answered:
        several += any(len(step) > 1 for step in streamed.steps)
        for kind, answer in (("streamed", streamed), ("complete", complete)):
            raw = words.decode([token for token in answer.token_ids if token != words.eos_token_id])
            kept.append({"kind": request.kind, "ids": answer.token_ids, "text": raw})
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
    (KEPT / f"{name}-{'ngram' if speculation else 'plain'}.json").write_text(
        json.dumps(kept, ensure_ascii=False, indent=1)
    )

    assert not wrong, f"{len(wrong)} wrong of {2 * len(answered)}:\n" + "\n".join(wrong[:20])
    # The same seed gives the same tokens, but for a tie that another batch breaks otherwise.
    same = sum(streamed.token_ids == complete.token_ids for _, streamed, complete in answered)
    assert same >= 0.9 * len(answered), f"only {same} of {len(answered)} pairs have the same tokens"
    cut = [streamed for request, streamed, _ in answered if request.kind.startswith("cut")]
    assert sum(bool(answer.calls) for answer in cut) > len(cut) / 2, "the budgets cut before the calls"
    assert not speculation or several, "no delta held several tokens: nothing was drafted"
