"""The project's own rules: who imports whom, what product code may not use, and what files may not say."""

from __future__ import annotations

import ast
import re
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


def test_product_code_uses_nothing_that_backtracks_evaluates_or_unpickles() -> None:
    for path in MODULES:
        tree = ast.parse(path.read_text())
        imported = {name.partition(".")[0] for name in _imports(tree)} | set(_imports(tree))
        assert not imported & FORBIDDEN_IMPORTS, path
        assert "ast.literal_eval" not in imported, path
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        assert not {called.id for called in calls if isinstance(called, ast.Name)} & FORBIDDEN_CALLS, path


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
        "jsonschema_specifications",
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


def test_no_file_names_a_path_of_one_machine() -> None:
    texts = {path: path.read_text(errors="replace") for path in tracked()}
    assert not [(path, piece) for path, text in texts.items() for piece in MACHINE if piece in text]


WIDTH = 120
UNBREAKABLE = re.compile(r"(`+).*?\1|\[[^\]]*\]\([^)]*\)")
"""A code span or a link."""


def long_prose_lines(markdown: str) -> list[str]:
    """Lines of more than 120 columns that can be broken: no code blocks, no tables, no code span or link alone."""
    found = []
    fence = ""
    for line in markdown.splitlines():
        text = line.strip()
        ticks = text[: len(text) - len(text.lstrip("`"))]
        if fence:
            fence = "" if len(ticks) >= len(fence) and text == ticks else fence
        elif len(ticks) >= 3:
            fence = ticks
        elif len(line) > WIDTH and not text.startswith("|"):
            words = UNBREAKABLE.sub("span", text).split()
            if len(words) > 1 + (words[0] in ("-", "*")):
                found.append(line)
    return found


def test_a_long_line_of_prose_is_told_from_what_cannot_be_broken() -> None:
    words, span = "word " * 30, "`" + "word " * 30 + "`"
    assert long_prose_lines(words) == [words]
    assert long_prose_lines(f"{span} word") == [f"{span} word"]
    assert not long_prose_lines(f"```\n{words}\n```\n| {words} |\n- {span}\n[{words}](page.md)")
    assert long_prose_lines(f"````\n```\n{words}\n````\n- {words}") == [f"- {words}"]


@pytest.mark.parametrize("path", [p for p in tracked() if p.suffix == ".md"], ids=lambda p: str(p.relative_to(ROOT)))
def test_prose_has_lines_of_at_most_120_columns(path: Path) -> None:
    assert not long_prose_lines(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("folder", ["src", "docs", "examples"])
def test_python_has_lines_of_at_most_120_columns(folder: str) -> None:
    """Docstrings and comments as well, which the formatter leaves as they are."""
    for path in (ROOT / folder).rglob("*.py"):
        assert not [n for n, line in enumerate(path.read_text().splitlines(), 1) if len(line) > WIDTH], path


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
