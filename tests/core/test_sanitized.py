"""The core under AddressSanitizer and UBSan, on random grammars and vocabularies (core/fuzz/ir_walk.cpp says what it promises), and on
random texts (core/fuzz/stream_runs.cpp).

Builds the core a second time, which takes most of a minute; `make fuzz` runs the longer form.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "sanitized"


@pytest.fixture(scope="module")
def programs() -> Path:
    cmake = shutil.which("cmake") or str(Path(sys.executable).with_name("cmake"))
    if not Path(cmake).exists():
        pytest.skip("no cmake")
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the other worker of a parallel run may want the same
        build(cmake)
    return BUILD / "core" / "fuzz"


def build(cmake: str) -> None:
    options = ["-DNARROWS_PYTHON=OFF", "-DNARROWS_FUZZ=ON", "-DNARROWS_SANITIZE=address,undefined"]
    configure = [cmake, "-S", ROOT, "-B", BUILD, *options, "-DCMAKE_CXX_FLAGS_RELEASE=-O1"]
    subprocess.run(configure, check=True, capture_output=True)
    built = subprocess.run([cmake, "--build", BUILD, "--parallel", "2"], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr


def run(program: Path, runs: int, first: int) -> None:
    done = subprocess.run([program, str(runs), str(first)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"{runs} random " in done.stdout


@pytest.mark.timeout(600)
def test_random_grammars(programs: Path) -> None:
    run(programs / "ir_walk", 1_500, 0)


@pytest.mark.timeout(600)
def test_random_texts(programs: Path) -> None:
    run(programs / "stream_runs", 5_000, 0)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("target", "factor"), [("ir_walk", 1), ("stream_runs", 10)])
def test_many_random_inputs(programs: Path, target: str, factor: int) -> None:
    run(programs / target, factor * int(os.environ.get("NARROWS_FUZZ_RUNS", "60000")), 1_000_000)
