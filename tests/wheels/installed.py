"""Installs a wheel into a new environment of each Python that is given, and runs tests against it there.

    python tests/wheels/installed.py dist/narrows-*.whl --python python3.12 --python python3.14

The tests are those that need little beside the wheel (`TESTS`). Cost: two or three minutes for each Python.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = (
    "tests/wheels/test_wheel_installed.py",
    "tests/core/test_matcher.py",
    "tests/grammar/regex",
    "tests/grammar/test_utf8.py",
    "tests/grammar/test_compose.py",
    "tests/oracle/test_masks.py",
    "tests/stream/test_fast_lane.py",
    "tests/stream/test_json_scan.py",
)


def check(python: str, wheel: Path, folder: Path, tests: list[str]) -> bool:
    """Whether the tests passed. What fails is printed."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    inside = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [inside, *quiet, "--only-binary=:all:", "numpy", "hypothesis", "pytest", "pytest-timeout"], check=True
    )
    subprocess.run([inside, *quiet, wheel], check=True)
    return subprocess.run([inside, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], cwd=ROOT).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", action="append", required=True, help="an interpreter; may be given again")
    parser.add_argument("--test", action="append", help="instead of all of TESTS; may be given again")
    asked = parser.parse_args()
    failed = []
    for python in asked.python:
        print(f"== {python}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            if not check(python, asked.wheel.resolve(), Path(folder) / "venv", asked.test or list(TESTS)):
                failed.append(python)
    print(f"failed: {', '.join(failed)}" if failed else "passed in all")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
