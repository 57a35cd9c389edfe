"""Options are types: a type checker finds a name that is none. And the names are those that are understood at run time."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

import narrows
from narrows import Grammar, formats
from narrows.decoding.drafts import DraftMode
from narrows.decoding.sample_first import StrategyMode
from narrows.decoding.strategies import Strategies
from narrows.errors import NarrowsError
from narrows.formats.format import Format
from narrows.grammar import options
from narrows.server.settings import SchedulingPolicy, Settings

WRONG = """\
import narrows
from narrows.engines.api import Strategies
from narrows.server import Settings

narrows.Grammar.from_json_schema({}, whitespace="compact", key_order="any", escapes="minimal", on_unsupported="warn", additional="declared")
narrows.Grammar.from_json_schema({}, whitespace="compakt")
narrows.Grammar.from_json_schema({}, key_order="sorted")
narrows.Grammar.from_json_schema({}, escapes="none")
narrows.Grammar.from_json_schema({}, on_unsupported="raise")
narrows.Grammar.from_json_schema({}, additional="open")
narrows.Grammar.from_regex("a", dialect="rust")
narrows.Grammar.from_regex("a", dialect="pyton")
narrows.Grammar.from_lark("start: A", lexer="dynamic")
narrows.Grammar.from_ebnf("", notation="antlr")
narrows.Grammar.substring("", unit="sentences")
narrows.formats.get("hermes_json").parser(untyped="auto")
narrows.formats.get("hermes_json").parser(untyped="text")
narrows.formats.get("hermes_json").grammar([], on_unsupported="by_tools")
Settings(scheduling_policy="priority")
Settings(scheduling_policy="fifo")
Strategies(draft="lookup")
Strategies(jump_forward="yes")
"""
FINE = ("compact", "rust", '"auto"', '"priority"')


def test_a_type_checker_finds_an_option_that_is_none(tmp_path: Path) -> None:
    """The rest of the package is taken as it is: `make lint` checks it."""
    file = tmp_path / "options.py"
    file.write_text(WRONG)
    root = Path(narrows.__file__).parents[2]
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports", "silent", "--no-error-summary", file.name]
    command += ["--config-file", str(root / "pyproject.toml"), "--cache-dir", str(root / ".mypy_cache" / "options")]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={"MYPYPATH": str(root / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if "[arg-type]" in line}
    lines = WRONG.splitlines()
    wrong = {n for n, line in enumerate(lines, 1) if '="' in line and not any(fine in line for fine in FINE)}
    assert found == wrong, done.stdout + done.stderr


def literals(function: Callable[..., Any]) -> dict[str, tuple[Any, ...]]:
    """Parameter -> the words that its type allows."""
    named = {name: parameter.annotation for name, parameter in inspect.signature(function).parameters.items()}
    return {name: get_args(KNOWN[hint]) for name, hint in named.items() if hint in KNOWN}


KNOWN = {**vars(options), "SchedulingPolicy": SchedulingPolicy, "StrategyMode": StrategyMode, "DraftMode": DraftMode}
CALLS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "from_json_schema": (Grammar.from_json_schema, [{"type": "string"}]),
    "from_structural_tag": (
        Grammar.from_structural_tag,
        [{"type": "structural_tag", "format": {"type": "json_schema", "json_schema": {"type": "string"}}}],
    ),
    "from_regex": (Grammar.from_regex, ["a"]),
    "from_lark": (Grammar.from_lark, ['start: "a"']),
    "substring": (Grammar.substring, ["a b"]),
    "Settings": (Settings, []),
    "Strategies": (Strategies, []),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_option_of_the_types_is_understood_and_no_other(name: str) -> None:
    call, arguments = CALLS[name]
    assert literals(call)
    for option, values in literals(call).items():
        for value in values:
            call(*arguments, **{option: value})
        with pytest.raises(NarrowsError):
            call(*arguments, **{option: "no such"})


def test_the_notations_and_what_formats_take() -> None:
    for notation in literals(Grammar.from_ebnf)["notation"]:
        with pytest.raises(NarrowsError) as error:
            Grammar.from_ebnf("", notation=notation)
        assert error.value.code != "invalid_option"
    hermes = formats.get("hermes_json")
    for untyped in literals(Format.parser)["untyped"]:
        hermes.parser(untyped=untyped)
    tools = [{"type": "function", "function": {"name": "f"}}]
    for option, values in literals(Format.grammar).items():
        for value in values:
            hermes.grammar(tools, **{option: value})
