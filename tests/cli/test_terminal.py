"""What the command line does as a program on a terminal and in pipes: widths, colours, help, interrupts, closed pipes."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from narrows.cli.app import app
from narrows.cli.terminal import folded, visible

SCRIPT = [sys.executable, "-c", "from narrows_command import main; main()"]
LONG = "a_rather_long_name_of_a_property"
LOOSE = {"type": "array", "contains": {"type": "string"}, "minContains": 2, "uniqueItems": True}


def environment(**more: str) -> dict[str, str]:
    """Without what a developer's own terminal says."""
    dropped = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "TERM": "xterm", "PYTHONUNBUFFERED": "1", **more}


@pytest.fixture(autouse=True)
def interrupts_count() -> Iterator[None]:
    """A shell lets what it runs in the background ignore interrupts, and so would the commands that are started here."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def piped(*arguments: str, columns: int = 80) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)})


def on_a_terminal(*arguments: str, columns: int = 80, **more: str) -> tuple[int, str]:
    """The exit code, and what a terminal of this width would show."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [*SCRIPT, *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment(COLUMNS=str(columns), **more),
    ) as process:
        os.close(follower)
        shown = b""
        try:
            while piece := os.read(leader, 65_536):
                shown += piece
        except OSError:  # the process has ended
            pass
        os.close(leader)
    return process.returncode, shown.decode()


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


COMMANDS = dict(commands(get_command(app)))


class TestHelp:
    @pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
    def test_it_fits_80_columns_and_names_all_options_whole(self, path: tuple[str, ...]) -> None:
        shown = piped(*path, "--help").stdout
        assert max(map(len, shown.splitlines())) <= 80
        assert "…" not in shown
        assert "..." not in shown.replace("[ARGS]...", "").replace("[[NAME=]MODEL]...", "")
        for parameter in COMMANDS[path].params:
            for option in (*parameter.opts, *parameter.secondary_opts):
                assert option in shown or not option.startswith("-"), option

    @pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
    def test_words_in_square_brackets_are_there(self, path: tuple[str, ...]) -> None:
        """Nothing in a help text is taken for markup."""
        shown = "".join(piped(*path, "--help").stdout.split())
        command = COMMANDS[path]
        texts = [command.help or "", *(getattr(parameter, "help", None) or "" for parameter in command.params)]
        for text in texts:
            assert "".join(text.replace("\b", "").split()) in shown
        assert "[bold]" not in shown

    def test_brackets_in_an_example(self) -> None:
        assert "echo '[a-z]+@[a-z]+' | narrows check - --regex" in piped("check", "--help").stdout
        assert " serve [OPTIONS] [[NAME=]MODEL]...\n" in piped("serve", "--help").stdout


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A keyword that is not enforced lies deep, behind others."""
    nested: dict[str, Any] = LOOSE
    for _ in range(4):
        nested = {"type": "object", "properties": {LONG: nested}, "required": [LONG]}
    nested["properties"]["mail"] = {"type": "string", "format": "email", "title": "[bold]"}
    path = tmp_path_factory.mktemp("width") / "schema.json"
    path.write_text(json.dumps(nested))
    return str(path)


class TestWidth:
    def test_no_pointer_is_cut_off_and_failures_come_first(self, schema: str) -> None:
        done = piped("check", schema)
        assert done.exit_code == 1
        lines = done.stdout.splitlines()
        assert max(map(len, lines)) <= 80
        pointer = f"/properties/{LONG}" * 4 + "/uniqueItems"
        assert f"ignored{pointer}" in "".join(done.stdout.split())
        assert lines[0].startswith("ignored  /properties/")
        statuses = [line.split()[0] for line in lines if line[:1].strip() and line.split()[0] in ("under", "exact")]
        assert statuses == ["under", "exact"]
        assert "--verbose lists them" in done.stdout
        assert "\x1b" not in done.stdout

    def test_verbose_lists_what_is_exact(self, schema: str) -> None:
        done = piped("check", schema, "--verbose", columns=200)
        report = json.loads(piped("check", schema, "--json").stdout)["report"]
        exact = {pointer for pointer, entry in report.items() if entry["status"] == "exact"}
        assert {line.split()[1] for line in done.stdout.splitlines() if line.startswith("exact")} == exact

    @pytest.mark.parametrize("columns", [60, 80, 150])
    def test_formats_fit(self, columns: int) -> None:
        shown = piped("formats", columns=columns).stdout
        assert max(map(len, shown.splitlines())) <= columns
        names = [one["name"] for one in json.loads(piped("formats", "--json").stdout)]
        assert [line.split()[0] for line in shown.splitlines() if line[0] != " "] == names

    def test_folding(self) -> None:
        assert folded("a bc", 10) == ["a bc"]
        assert folded("/properties/abc/items", 12) == ["/properties", "/abc/items"]
        assert folded("see /properties/abc", 12) == ["see", "/properties", "/abc"]
        assert folded("abcdefgh", 3) == ["abc", "def", "gh"]
        assert folded("", 3) == [""]
        assert visible("a\x1b[31m\tb\n\x9b") == "a\\x1b[31m\tb\n\\x9b"


class TestColours:
    def test_only_on_a_terminal_and_not_with_no_color(self, tmp_path: Path) -> None:
        path = tmp_path / "schema.json"
        path.write_text(json.dumps(LOOSE))
        code, shown = on_a_terminal("check", str(path))
        assert code == 1
        assert "\x1b[31mignored" in shown
        _, plain = on_a_terminal("check", str(path), NO_COLOR="1")
        assert "\x1b[31m" not in plain
        assert "ignored" in plain

    def test_text_from_a_file_does_not_drive_the_terminal(self, tmp_path: Path) -> None:
        schema, answer = tmp_path / "schema.json", tmp_path / "\x1b[2J.json"
        schema.write_text(json.dumps({"type": "string", "maxLength": 3}))
        answer.write_text('"abc\\u001b[2J"')
        _, shown = on_a_terminal("check", str(schema), "--instance", str(answer))
        assert "\x1b[2J" not in shown
        assert "\\x1b[2J" in shown


class TestStopping:
    def test_an_interrupt_ends_with_130_and_no_traceback(self) -> None:
        """It comes while the command waits for its input, or before that while modules are imported."""
        with subprocess.Popen(
            [*SCRIPT, "parse", "hermes_json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        assert process.returncode in (130, -signal.SIGINT)
        assert (out, err) == (b"", b"")

    def test_an_interrupt_in_the_first_moments(self) -> None:
        program = "import os, signal, sys, threading, narrows_command\n"
        program += "class Late:\n    def find_spec(self, name, *rest):\n"
        program += "        if name == 'narrows': os.kill(os.getpid(), signal.SIGINT)\n"
        program += "sys.meta_path.insert(0, Late())\nnarrows_command.main()\n"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (-signal.SIGINT, "")

    @pytest.mark.parametrize("command", [["formats"], ["formats", "--json"]], ids=" ".join)
    def test_a_closed_pipe_ends_with_141_and_no_traceback(self, command: list[str]) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([*SCRIPT, *command], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
        os.close(writer)
        assert (done.returncode, done.stderr) == (141, "")

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
    def test_a_full_disk_is_said(self) -> None:
        with open("/dev/full", "w") as full:
            done = subprocess.run([*SCRIPT, "formats"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode == 2
        assert done.stderr.startswith("error: cannot write the output: No space left")

    def test_closed_outputs(self, tmp_path: Path) -> None:
        line = f"{sys.executable} -c 'from narrows_command import main; main()' formats >&- 2>&-"
        assert subprocess.run(line, shell=True, timeout=60).returncode == 0


@pytest.mark.model
class TestGenerateOnATerminal:
    def test_colours_and_speed(self) -> None:
        code, shown = on_a_terminal("generate", "Name a colour.", "--tool", TOOL, "--max-tokens", "60")
        assert code == 0
        assert "\x1b[1;32mpaint " in shown
        assert "\x1b[36m" in shown
        assert "tokens/s" in shown
        assert "the first after" in shown

    def test_an_interrupt_while_it_writes(self) -> None:
        command = [*SCRIPT, "generate", "Tell a story.", "--max-tokens", "4000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], 120)[0]
            process.stdout.read(1)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (130, b"")

    def test_an_interrupt_while_options_are_scored(self) -> None:
        choices = [part for k in range(400) for part in ("--choice", f"option {k} of a list that is long {k}")]
        command = [*SCRIPT, "generate", "Pick one.", "--select", "sum", *choices]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            time.sleep(2.5)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        assert process.returncode in (130, -signal.SIGINT) or out
        assert b"Traceback" not in err


TOOL = '{"name": "paint", "parameters": {"type": "object", "properties": {"c": {"enum": ["red"]}}, "required": ["c"]}}'
