"""`--limit NAME=N`: it reaches what reads and what compiles, and errors name it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from narrows.cli.app import app
from narrows.cli.limit_options import NAMES, limits_of
from narrows.limits import Limits

RUN = CliRunner()


def checked(schema: str, *arguments: str, tmp_path: Path) -> tuple[int, str, str]:
    file = tmp_path / "schema.json"
    file.write_text(schema)
    result = RUN.invoke(app, ["check", str(file), *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("limit", ["reading_work", "states", "step_work", "schema_bytes"])
def test_check_keeps_to_a_limit_and_says_how_to_set_it(tmp_path: Path, limit: str) -> None:
    schema = '{"type": "string", "pattern": "^a[0-9]+b$"}'
    code, _, said = checked(schema, "--limit", f"{limit}=3", "--text", '"a1b"', tmp_path=tmp_path)
    assert (code, f"--limit {limit}=N" in said) == (3, True), said
    assert checked(schema, "--limit", f"{limit}=5_000_000", "--text", '"a1b"', tmp_path=tmp_path)[0] == 0


def test_a_limit_may_be_raised(tmp_path: Path) -> None:
    """A body that is too long for `regex_bytes` by default."""
    schema = '{"type": "string", "pattern": "^(' + "|".join(f"word{k}" for k in range(9_000)) + ')$"}'
    assert checked(schema, tmp_path=tmp_path)[0] == 3
    assert checked(schema, "--limit", "regex_bytes=200000", tmp_path=tmp_path)[0] == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("reading_wrk=3", "did you mean reading_work?"),
        ("nothing=3", "is no limit"),
        ("reading_work", "is not NAME=N"),
        ("reading_work=many", "is not NAME=N"),
        ("reading_work=0", "is not NAME=N"),
        (f"reading_work={1 << 60}", "is not NAME=N"),
    ],
)
@pytest.mark.parametrize("command", ["check x", "generate x", "serve --port 0"])
def test_what_is_no_limit(command: str, given: str, said: str) -> None:
    result = RUN.invoke(app, [*command.split(), "--limit", given])
    assert (result.exit_code, said in " ".join(result.stderr.replace("│", " ").split())) == (2, True), result.stderr


def test_every_limit_can_be_set() -> None:
    assert limits_of([f"{name}={k + 1}" for k, name in enumerate(NAMES)]) == Limits(
        **{name: k + 1 for k, name in enumerate(NAMES)}
    )
    assert limits_of(None) == Limits()


@pytest.mark.model
@pytest.mark.usefixtures("loaded")
def test_generate_keeps_to_a_limit() -> None:
    result = RUN.invoke(app, ["generate", "x", "--regex", "a[0-9]+", "--limit", "states=1"])
    assert (result.exit_code, "--limit states=N" in result.stderr) == (3, True), result.stderr
