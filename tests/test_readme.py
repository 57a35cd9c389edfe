"""The README's examples, run as they are; and whether what the docs name exists: targets, options, links, imports."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "bench" / "README.md"])


def example(name: str) -> str:
    """The code block after the comment `<!-- example: name -->`."""
    text = (ROOT / "README.md").read_text()
    rest = text.split(f"<!-- example: {name} -->\n", 1)[1]
    return rest.split("\n", 1)[1].split("\n```", 1)[0]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [sys.executable, "-m", "narrows.cli", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the server did not start"
        try:
            yield json.loads(line)["url"]
        finally:
            process.terminate()


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_in_python() -> None:
    assert run(example("python")) == "True\n"


def test_the_stream() -> None:
    out = run(example("stream"))
    assert "name='draw'" in out
    events = out.splitlines()
    assert events[0].startswith("ToolCallStart(")
    assert events[-1].startswith("ToolCallEnd(")
    pieces = [
        line.split("text='", 1)[1].rsplit("', span=", 1)[0] for line in events if line.startswith("ToolCallArguments(")
    ]
    assert "".join(pieces) == '{"prompt": "dog"}'


def test_parts_of_a_text() -> None:
    """Each line is as its comment says."""
    told = [line.rpartition("  # ")[2] for line in example("parts").splitlines() if "  # " in line]
    printed = run(example("parts")).splitlines()
    assert len(printed) == len(told) == 3
    assert all(comment.endswith(line) for line, comment in zip(printed, told, strict=True)), printed


@pytest.mark.model
def test_over_http(url: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    command = example("http").replace("http://127.0.0.1:8000", url)
    out = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=100, check=True).stdout
    events = [json.loads(line.removeprefix("data: ")) for line in out.splitlines() if line.startswith("data: {")]
    assert out.rstrip().endswith("data: [DONE]")
    calls = [call for event in events for choice in event["choices"] for call in choice["delta"].get("tool_calls", ())]
    assert calls[0]["function"]["name"] == "get_weather"
    arguments = json.loads("".join(call["function"]["arguments"] for call in calls))
    assert arguments["unit"] in ("celsius", "fahrenheit")
    assert len(arguments["city"]) <= 40
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.model
def test_with_the_official_client(url: str) -> None:
    out = run(example("openai").replace("http://127.0.0.1:8000", url))
    first, _, rest = out.partition("\n")
    assert first.startswith('get_weather {"city": ')
    assert rest.strip()


@pytest.mark.model
def test_a_typed_object(url: str) -> None:
    out = run(example("typed").replace("http://127.0.0.1:8000", url))
    assert out.startswith("City(name='")
    assert " capital=" in out


def with_the_command() -> dict[str, str]:
    """The environment with `narrows` on the path."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.model
def test_from_a_terminal(tmp_path: Path) -> None:
    """Line by line, as it stands; the environment is the one that runs the tests."""
    (tmp_path / "schema.json").write_text('{"type": "object", "properties": {"city": {"type": "string"}}}')
    (tmp_path / "transcript.txt").write_text('<tool_call>\n{"name": "draw", "arguments": {}}\n</tool_call>')
    first, *commands = example("terminal").splitlines()
    assert first.startswith(". .venv/bin/activate")
    for command in commands:
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=with_the_command(),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
        assert done.stdout.strip(), command


@pytest.mark.model
def test_a_stream_piped_into_parse(url: str, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    (command,) = (line for page, line in shell_lines() if page == "cli.md" and line.startswith("curl "))
    (tmp_path / "request.json").write_text('{"prompt": "Hello", "max_tokens": 4, "temperature": 0, "stream": true}')
    done = subprocess.run(
        command.replace("localhost:8000", url.removeprefix("http://")),
        shell=True,
        cwd=tmp_path,
        env=with_the_command(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("delta ") > 1, done.stdout


@pytest.mark.model
def test_the_request_that_selects(url: str) -> None:
    """docs/decoding.md has it over several lines."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    (page,) = (page for page in PAGES if page.name == "decoding.md")
    command = "curl " + page.read_text().split("\ncurl ", 1)[1].split("\nnarrows ", 1)[0]
    command = command.replace("localhost:8000", url.removeprefix("http://"))
    out = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=100, check=True).stdout
    (choice,) = json.loads(out)["choices"]
    assert [option["text"] for option in choice["options"]] == ["Yes, it is.", "No, it is not."]
    assert choice["message"]["content"] in ("Yes, it is.", "No, it is not.")


def shell_lines() -> Iterator[tuple[str, str]]:
    """The page and the text of each line of its blocks for a shell, comments left out."""
    for page in PAGES:
        for block in page.read_text().split("```sh\n")[1:]:
            for line in block.split("\n```", 1)[0].splitlines():
                yield page.name, line.split("#", 1)[0].strip()


def narrows_commands() -> list[tuple[str, tuple[str, ...]]]:
    found = []
    for page, line in shell_lines():
        for piece in line.split("|"):
            words = shlex.split(piece) if piece.count("'") % 2 == 0 else piece.split()
            if words and words[0].rpartition("/")[2] == "narrows":
                found.append((page, tuple(words[1:])))
    return found


@pytest.mark.parametrize(
    ("page", "words"), narrows_commands(), ids=lambda value: value if isinstance(value, str) else " ".join(value)[:60]
)
def test_the_commands_and_options_in_the_docs_are_there(page: str, words: tuple[str, ...]) -> None:
    from typer.main import get_command

    from narrows.cli.app import app

    command: Any = get_command(app)
    for word in words:
        if not hasattr(command, "commands") or word.startswith("-"):
            break
        assert word in command.commands or command.invoke_without_command, f"{page}: no command {word}"
        command = command.commands.get(word, command)
    there = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    named = {word for word in words if word.startswith("--")}
    assert named <= there, f"{page}: narrows {' '.join(words)}: {named - there} is not there"


def test_the_targets_in_the_docs_are_there() -> None:
    targets = {line.split(":", 1)[0] for line in (ROOT / "Makefile").read_text().splitlines() if ":" in line}
    for page in PAGES:
        text = page.read_text()
        named = set(re.findall(r"(?m)(?:`|^)make ([a-z][a-z-]*)", text))
        assert named <= targets, (page.name, named - targets)


def test_the_extras_in_the_docs_are_there() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for page in PAGES:
        named = set(re.findall(r"(?:narrows|\.)\[([a-z]+)\]", page.read_text()))
        assert named <= set(extras), (page.name, named - set(extras))


def test_the_links_in_the_docs_lead_to_files() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s\[\]{}]+)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), (page.name, target)


def anchors(page: Path) -> set[str]:
    """The names under which a page's headings can be linked to."""
    headings = re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?ms)^```.*?^```", "", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_links_in_the_docs_lead_to_headings() -> None:
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#\s\[\]{}]*)#([^)\s]+)\)", page.read_text()):
            if "://" not in target:
                there = anchors(page.parent / target if target else page)
                assert anchor in there, (page.name, target, anchor)


def imports() -> list[tuple[str, str, str]]:
    """The page, the module and the name of each import from narrows in the docs' Python."""
    found = set()
    for page in PAGES:
        for block in page.read_text().split("```python\n")[1:]:
            for line in block.split("\n```", 1)[0].splitlines():
                if line.startswith("from narrows"):
                    (node,) = ast.parse(line).body
                    assert isinstance(node, ast.ImportFrom)
                    found |= {(page.name, str(node.module), alias.name) for alias in node.names}
    return sorted(found)


@pytest.mark.parametrize(("page", "module", "name"), imports())
def test_the_imports_in_the_docs_are_there(page: str, module: str, name: str) -> None:
    """The module is read and not imported: that of vLLM's plug-in needs vLLM."""
    path = ROOT.joinpath("src", *module.split("."))
    if path.joinpath(f"{name}.py").is_file() or path.joinpath(name, "__init__.py").is_file():
        return
    tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    names |= {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert name in names, f"{page}: from {module} import {name}"
