"""The cases of tests/cases/lark. Each is a grammar with texts that it has, beginnings of some (`viable`), and texts that it has not;
or with the place where it is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parents[1] / "cases" / "lark"
CASES: list[dict[str, Any]] = [
    {"file": path.stem, **case}
    for path in sorted(FOLDER.glob("*.toml"))
    for case in tomllib.loads(path.read_text(encoding="utf-8"))["case"]
]
READ = [case for case in CASES if "error" not in case]


def texts(case: dict[str, Any]) -> list[str]:
    return [*case["matches"], *case.get("viable", ()), *case["rejects"]]


def name(case: dict[str, Any]) -> str:
    return f"{case['file']}: {case['name']}"
