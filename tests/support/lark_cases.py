"""The cases of tests/cases/lark. Each is a grammar with texts that it has, beginnings of some (`viable`), and texts that it has not;
or with the place where it is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from narrows import Grammar, Vocabulary
from narrows.reference import Reference

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
BYTES = Vocabulary([bytes([b]) for b in range(256)])
READ = [case for case in CASES if "error" not in case]


def texts(case: dict[str, Any]) -> list[str]:
    return [*case["matches"], *case.get("viable", ()), *case["rejects"]]


def name(case: dict[str, Any]) -> str:
    return f"{case['file']}: {case['name']}"


def check_texts(case: dict[str, Any], grammar: Grammar) -> None:
    """The texts of a case, by reference and engine."""
    reference = Reference(grammar.module)
    matcher = BYTES.compile(grammar).matcher()
    for text in (*case["matches"], *case.get("viable", ()), *case["rejects"]):
        data = text.encode()
        matcher.reset()
        is_beginning = matcher.accept_bytes(data)
        assert (is_beginning and matcher.is_accepting) == (text in case["matches"]) == reference.accepts(data), text
        assert is_beginning is reference.viable(data), text
        assert is_beginning or text in case["rejects"], text
