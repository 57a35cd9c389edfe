"""docs/clients.md: its examples, run as they stand, and its versions, which are those that are installed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from clients_here import LLAMA_INDEX, NODE_CLIENTS, SECONDS
from conftest import HERE, ROOT, Narrows, Outcome

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGE = (ROOT / "docs" / "clients.md").read_text()
SECTIONS = {section.split("\n", 1)[0]: section for section in PAGE.split("\n## ")[1:]}
CUT = ("IncompleteOutput", "LengthFinish", "NoObjectGenerated", "NoOutputGenerated", "response.incomplete")
"""The errors of clients whose answer was cut."""


@dataclass(frozen=True)
class Case:
    client: str
    language: str
    code: str


def cases() -> list[Any]:
    found = []
    for client, section in SECTIONS.items():
        language, code = section.split("```", 1)[1].split("\n", 1)
        marks = [pytest.mark.short] if client in ("AI SDK", "LlamaIndex") else []
        found.append(pytest.param(Case(client, language, code.split("\n```", 1)[0]), id=client, marks=marks))
    return found


def ask(narrows: Narrows, case: Case) -> Any:
    code = case.code.replace("http://127.0.0.1:8000/v1", narrows.base_url)
    if case.language == "js":
        # Its packages are found from the folder that it runs in.
        command = ["node", "--no-warnings", "--input-type=module", "-e", code]
    else:
        python = LLAMA_INDEX / "bin" / "python" if case.client == "LlamaIndex" else sys.executable
        command = [str(python), "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=NODE_CLIENTS)


@pytest.mark.parametrize("case", cases())
def test_an_example_runs(case: Case, outcome: Outcome) -> None:
    done = outcome.value
    if isinstance(done, Exception):
        raise done
    # The budget may cut an answer; everything else is an error.
    assert done.returncode == 0 or any(error in done.stderr for error in CUT), done.stderr
    assert done.stdout.strip() or done.returncode, case


def pinned() -> set[tuple[str, str]]:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    wanted = [one.partition("==") for name in ("agents", "agents-llama-index") for one in groups[name] if "==" in one]
    python = {(name.partition("[")[0], version) for name, _, version in wanted if name != "pydantic"}
    return python | set(json.loads((HERE / "node" / "package.json").read_text())["dependencies"].items())


def test_the_page_names_the_versions_that_run() -> None:
    table = PAGE.split("| --- | --- | --- |\n", 1)[1].split("\n\n", 1)[0]
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()]
    named = {tuple(version.split(" ")) for _, versions, _ in rows for version in versions.split(", ")}
    assert named == pinned()
    # MCP is no client that one writes code for, and each of the others has its example.
    assert {client for client, _, _ in rows} - {"MCP"} == set(SECTIONS)
