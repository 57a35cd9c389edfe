"""narrows under vLLM's V2 model runner and under asynchronous scheduling, which vLLM keeps for GPUs: on the CPU, by forced.py.

A model with random weights says anything, so that what comes out right was held to it. All kinds share a batch, for half of which there is room: some are preempted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engine
import pytest
from conftest import Note
from test_structured_outputs_engine import PROCESSOR, VALID

pytestmark = pytest.mark.timeout(1200)

TRITON = Path(sys.prefix) / "triton"
"""Where `make test-vllm` puts Triton: beside the environment's packages, not among them, since it is for these tests alone."""

RUNNERS = {
    "v1 async": "vllm.v1.worker.cpu_model_runner",
    "v2 async": "vllm.v1.worker.cpu.model_runner",
    "v2 async ngram": "vllm.v1.worker.cpu.model_runner",
}
WITHOUT = {"v1 async": "counter"}
"""A kind that this run is not asked for."""
DIGITS = "0123456789" * 5
COUNTED: dict[str, tuple[dict[str, Any], Callable[[str], bool]]] = {
    "digits": ({"extra": {"narrows_regex": DIGITS}}, lambda text: text == DIGITS),
    "counter": ({"extra": {"count": "per sequence"}}, lambda text: text == ("0123456789" * 6)),
}
KINDS = {
    **{name: VALID[name] for name in ("json", "regex", "gbnf", "tools")},
    **{name: PROCESSOR[name] for name in ("narrows_json", "narrows_choice")},
    **COUNTED,
}


@pytest.fixture(scope="module")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import random_model

    folder = tmp_path_factory.mktemp("model")
    random_model.main(folder)
    return folder


@pytest.fixture(scope="module", params=RUNNERS)
def found(request: pytest.FixtureRequest, random_model: Path, note: Note) -> Any:
    asked: str = request.param
    found = engine.run(
        "runner",
        random_model,
        RUNNER=asked,
        REQUESTS=json.dumps({name: request for name, (request, _) in KINDS.items() if name != WITHOUT.get(asked)}),
        NARROWS_VLLM_STRUCTURED_OUTPUTS="1",
        PYTHONPATH=str(TRITON),
    )
    texts = [(name, text, reason) for name, both in found["texts"].items() for text, reason in both]
    right = [is_right(*text) for text in texts]
    note(f"{asked}: {right.count(True)} of {len(right)} texts right, after {found['preemptions']} preemptions")
    return {**found, "asked": asked}


def is_right(name: str, text: str, reason: str) -> bool:
    """Whole and valid; one that counts may be cut."""
    try:
        return (reason == "stop" or name in COUNTED) and KINDS[name][1](text)
    except ValueError:  # no JSON
        return False


def test_it_is_the_runner_that_was_asked_for(found: Any) -> None:
    assert found["runner"] == RUNNERS[found["asked"]]
    assert found["async"]
    assert found["preemptions"] > 0


@pytest.mark.parametrize("name", KINDS)
def test_both_texts_are_right(name: str, found: Any) -> None:
    texts = found["texts"].get(name)
    if texts is None:
        assert name == WITHOUT[found["asked"]]
        return
    assert [is_right(name, *text) for text in texts] == [True, True], texts
