"""The project's own rules, held: who imports whom, what product code may not use, and what files may not say."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "narrows"
MODULES = sorted(SOURCE.rglob("*.py"))
FORBIDDEN_IMPORTS = {"re", "regex", "pickle", "marshal", "shelve", "dill"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}


def tracked() -> list[Path]:
    """The project's text files, as a clone would have them."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    names = listed.stdout.decode().split("\0") if listed.returncode == 0 else []
    files = [ROOT / name for name in names if name] or [
        p for p in ROOT.rglob("*") if p.is_file() and ".venv" not in p.parts
    ]
    return [path for path in files if path.is_file() and b"\0" not in path.read_bytes()[:4096]]


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_product_code_uses_nothing_that_backtracks_evaluates_or_unpickles(path: Path) -> None:
    tree = ast.parse(path.read_text())
    imported = {name.partition(".")[0] for name in _imports(tree)} | set(_imports(tree))
    assert not imported & FORBIDDEN_IMPORTS
    assert "ast.literal_eval" not in imported
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & FORBIDDEN_CALLS


def test_dependencies_point_one_way() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports; import sys; sys.exit(lint_imports(no_cache=True))",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_narrows_needs_numpy_alone() -> None:
    """Everything that an extra brings is made unimportable; `import narrows` must not notice."""
    extras = [
        "fastapi",
        "starlette",
        "pydantic",
        "jinja2",
        "typer",
        "rich",
        "gguf",
        "tokenizers",
        "tiktoken",
        "transformers",
        "xllamacpp",
        "uvicorn",
        "prometheus_client",
    ]
    code = f"import sys\nfor name in {extras!r}: sys.modules[name] = None\nimport narrows\nprint(narrows.Grammar, narrows.formats.names())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_public_names_exist_and_are_listed() -> None:
    import narrows

    assert len(set(narrows.__all__)) == len(narrows.__all__)
    for name in narrows.__all__:
        assert hasattr(narrows, name), name
    design = {"Vocabulary", "Grammar", "Constraint", "Matcher", "Limits", "NarrowsError", "fill_masks", "formats"}
    assert design <= set(narrows.__all__)


# Built from pieces, so that this file does not hold what it looks for.
MACHINE = ["/" + "work/", "/" + "root/", "/" + "home/", "/" + "tmp/brief", "/" + "opt/pypi"]


@pytest.mark.parametrize("path", tracked(), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_file_names_a_path_of_one_machine(path: Path) -> None:
    text = path.read_text(errors="replace")
    assert not [piece for piece in MACHINE if piece in text]


def test_security_promises_name_tests_that_exist() -> None:
    promised = [
        word
        for line in (ROOT / "SECURITY.md").read_text().splitlines()
        for word in line.split("`")
        if word.startswith(("tests/", "core/"))
    ]
    assert promised
    for name in promised:
        assert (ROOT / name).is_file(), name


INCIDENTS = """
CVE-2025-29770 CVE-2025-32381 CVE-2025-57809 CVE-2025-58446 CVE-2026-25048 CVE-2026-2069 CVE-2025-48942 CVE-2025-48887 CVE-2026-55574
GHSA-8wr5-jm2h-8r4f CVE-2025-9141 CVE-2025-61620 CVE-2024-34359 CVE-2026-34756 CVE-2025-48956 CVE-2025-59425 CVE-2026-44222 CVE-2025-43859
CVE-2026-9540
"""
"""Of servers and grammar engines like this one, in public advisories."""


@pytest.mark.parametrize("incident", INCIDENTS.split())
def test_every_incident_of_others_is_in_security(incident: str) -> None:
    assert incident in (ROOT / "SECURITY.md").read_text()


def test_makefile_targets_are_documented() -> None:
    lines = (ROOT / "Makefile").read_text().splitlines()
    phony = next(line for line in lines if line.startswith(".PHONY:")).split()[1:]
    for target in phony:
        assert any(line.startswith(f"{target}:") and "## " in line for line in lines), target
