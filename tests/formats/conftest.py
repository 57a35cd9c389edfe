"""The outputs that other projects test with belong to them. Where they are not at hand, the tests that read them are left out."""

from __future__ import annotations

from pathlib import Path

CASES = Path(__file__).parents[3] / "shared" / "cases"
collect_ignore = [] if CASES.is_dir() else ["test_third_party.py"]


def pytest_report_header() -> str:
    return "" if CASES.is_dir() else "narrows: without the outputs that other projects test with"
