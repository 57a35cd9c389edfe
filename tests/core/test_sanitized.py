"""The core under AddressSanitizer and UBSan, on random grammars and vocabularies (core/fuzz/ir_walk.cpp says what it
promises), on strings with patterns and lengths (core/fuzz/text_walk.cpp), and on random output (core/fuzz/stream_runs.cpp).

The short form of `make sanitize`, which has ThreadSanitizer too, and which `.ci/run` calls; so this is left to `make fuzz`.
Builds the core a second time, which takes most of a minute.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "core" / "fuzz"))
import sanitize


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("program", "runs"),
    [
        (sanitize.Program("address", "ir_walk"), 1_500),
        (sanitize.Program("address", "text_walk"), 1_000),
        (sanitize.Program("address", "stream_runs"), 5_000),
    ],
    ids=lambda value: getattr(value, "title", ""),
)
def test_random_inputs(program: sanitize.Program, runs: int) -> None:
    sanitize.build(program.kind)
    done = sanitize.run(program, str(runs))
    assert done.returncode == 0, sanitize.said(done)
    assert f"{runs} random " in done.stdout
