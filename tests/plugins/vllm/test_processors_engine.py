"""A stateful constraint under the real engine: eight requests where few have room, and n = 3 for four prompts.

Beside ours stand two that are wrong, so that the test is one that can fail: an object that all share, and a factory whose products are not
brought back after a preemption.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import engine
import pytest
from conftest import Note

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def found(plain_model: Path, note: Note) -> Any:
    found = engine.run("preemption", plain_model)
    for name in ("narrows", "per sequence", "shared", "without replay"):
        note(f"preemption, {name}: {right(found, name)} of 8 right, {found[name]['preemptions']} preemptions")
        if "n" in found[name]:
            texts = [text for texts in found[name]["n"] for text in texts]
            note(f"n = 3 for four prompts, {name}: {texts.count(found['expected'])} of {len(texts)} right")
    return found


def right(found: Any, name: str) -> int:
    return sum(text == found["expected"] for text in found[name]["texts"])


@pytest.mark.parametrize("name", ["narrows", "per sequence"])
def test_all_are_right_after_preemptions(name: str, found: Any) -> None:
    assert found[name]["preemptions"] > 0
    assert right(found, name) == 8


@pytest.mark.parametrize("name", ["narrows", "per sequence"])
def test_each_of_n_has_its_own_state(name: str, found: Any) -> None:
    texts = [text for texts in found[name]["n"] for text in texts]
    assert texts == [found["expected"]] * 12


def test_a_shared_object_is_wrong_for_all(found: Any) -> None:
    assert right(found, "shared") == 0


def test_a_factory_alone_is_wrong_for_the_preempted(found: Any) -> None:
    assert found["without replay"]["preemptions"] > 0
    assert 0 < right(found, "without replay") < 8
