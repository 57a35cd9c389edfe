"""docs/cli.md: its example, and the fields that it lists."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from narrows.cli.app import app

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
CALL = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'


def block(name: str) -> str:
    """The block after the comment `<!-- example: name -->`."""
    rest = PAGE.split(f"<!-- example: {name} -->\n", 1)[1]
    return rest.split("\n", 1)[1].split("\n```", 1)[0]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the files that the page's commands name."""
    monkeypatch.chdir(tmp_path)
    for name in ("schema.json", "answer.json"):
        (tmp_path / name).write_text(block(name) + "\n")
    (tmp_path / "pattern.txt").write_text("[a-z]+\n")
    (tmp_path / "grammar.gbnf").write_text('root ::= "a" | "b"\n')
    (tmp_path / "grammar.lark").write_text("start: /a+/\n")
    (tmp_path / "names.lark").write_text(
        'start: first " " last\nfirst[capture]: /[A-Za-z]+/\nlast[capture]: /[A-Za-z]+/\n'
    )
    (tmp_path / "choices.json").write_text('["a", "b"]')
    (tmp_path / "article.txt").write_text("The cat sat.\n")
    (tmp_path / "answer.txt").write_text(CALL)
    (tmp_path / "tools.json").write_text('[{"name": "f"}]')
    (tmp_path / "my_format.toml").write_text('name = "mine"\nextends = "hermes_json"\n')
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "80"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout


def test_the_example(folder: Path) -> None:
    code, shown = run("check", "schema.json", "--instance", "answer.json")
    assert code == 1
    assert shown.endswith(block("refused") + "\n")


def commands(section: str) -> list[str]:
    text = PAGE.split(f"\n## {section}\n", 1)[1].split("```sh\n", 1)[1].split("\n```", 1)[0]
    return [line.split("#", 1)[0].strip() for line in text.splitlines() if line.startswith("narrows ")]


@pytest.mark.parametrize("line", [line for name in ("check", "formats") for line in commands(name)])
def test_the_commands_run(folder: Path, line: str) -> None:
    """All but those that need a tokenizer or a model of the user's own."""
    words = [word for word in shlex.split(line)[1:] if word not in ("--vocab", "tokenizer.json")]
    if "detect" in words:
        (folder / "template.jinja").write_text("{{ '<think></think>[TOOL_CALLS]' }}")
        words[-1] = "template.jinja"
    code, shown = run(*words)
    assert code == (1 if "--instance" in words else 0), shown
    assert shown


def fields(command: str) -> str:
    return next(line for line in PAGE.splitlines() if line.startswith(f"| `{command}` | "))


def test_the_fields_are_listed(folder: Path) -> None:
    said: Any = json.loads(run("check", "schema.json", "--instance", "answer.json", "--text", "x", "--json")[1])
    for name in said:
        assert f"`{name}`" in fields("check")
    entries = PAGE.split("An entry of `instances`", 1)[1]
    for name in {*said["instances"][0], *said["texts"][0], *said["texts"][0]["refusal"]}:
        assert f"`{name}`" in entries, name
    lines = run("parse", "hermes_json", "answer.txt", "--json")[1].splitlines()
    for name in json.loads(lines[-1])["summary"]:
        assert f"`{name}`" in fields("parse")
    for command in ("formats", "formats show", "formats detect", "formats check"):
        words = {"formats show": ["hermes_json"], "formats detect": ["names.lark"], "formats check": ["forced_json"]}
        found = json.loads(run(*command.split(), *words.get(command, []), "--json")[1])
        for name in found[0] if isinstance(found, list) else found:
            assert f"`{name}`" in fields(command) + (fields("formats") if command == "formats show" else ""), name


@pytest.mark.model
@pytest.mark.usefixtures("loaded")
def test_the_fields_of_generate_are_listed() -> None:
    said = json.loads(run("generate", "x", "--choice", "a", "--json")[1])
    for name in (*said, *said["timing"]):
        assert f"`{name}`" in fields("generate")
