"""The contract for engines on a real vLLM engine, by each way to a constraint (contract.py). The model has random weights, so that it says anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import engine
import pytest
from conftest import Note

pytestmark = pytest.mark.timeout(1200)

WAYS = ["structured", "processor", "structured ngram"]


@pytest.fixture(scope="module")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import random_model

    folder = tmp_path_factory.mktemp("model")
    random_model.main(folder)
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_the_contract_holds(way: str, small_model: Path, note: Note) -> None:
    found: dict[str, Any] = engine.run(
        "contract", small_model, MODEL=str(small_model), CONTRACT=way, NARROWS_VLLM_STRUCTURED_OUTPUTS="1"
    )
    counts = {outcome: sum(o == outcome for o, _ in found.values()) for outcome in ("passed", "skipped", "failed")}
    note(f"contract, {way}: {counts}")
    assert {name: says for name, (outcome, says) in found.items() if outcome == "failed"} == {}
    assert counts["passed"] >= 7
