"""Reads the inputs that options name: files, standard input, JSON."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Any

import typer
from pydantic_core import from_json

from narrows.errors import GrammarError
from narrows.grammar.languages import FrontEnd


class SelectBy(str, Enum):
    """What scored options are compared by."""

    SUM = "sum"
    TOKEN = "token"
    BYTE = "byte"


class Draft(str, Enum):
    """Where guessed tokens come from."""

    AUTO = "auto"
    PROMPT = "prompt"
    GRAMMAR = "grammar"
    NEVER = "never"


class Additional(str, Enum):
    """How objects are read whose schema does not say `additionalProperties`."""

    STANDARD = "standard"
    DECLARED = "declared"


class Unit(str, Enum):
    """How a text is cut whose parts are allowed."""

    CHARACTERS = "characters"
    WORDS = "words"
    LINES = "lines"


UNIT = typer.Option(
    help="With --language substring: the parts of the text that are allowed are runs of characters (if not given), "
    "words, or whole lines."
)


def check_unit(unit: Unit | None, front: FrontEnd) -> None:
    """A unit for another language is a usage error."""
    if unit is not None and "unit" not in front.options:
        raise typer.BadParameter("--unit goes with --language substring")


def read_text(name: str, option: str) -> str:
    """The text of a file, or of standard input for `-`. A file that cannot be read, or is not UTF-8, is a usage
    error."""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return data.decode()
    except OSError as error:
        raise typer.BadParameter(f"cannot read {name}: {error.strerror}", param_hint=option) from None
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{name} is not UTF-8 text (byte {error.start})", param_hint=option) from None


def text_or_file(value: str, option: str) -> str:
    """The text of the file for `@file`, of standard input for `-`; any other value is the text itself."""
    return (
        read_text(value[1:], option) if value.startswith("@") else read_text(value, option) if value == "-" else value
    )


def json_or_file(value: str, option: str) -> Any:
    """JSON given in place (starts with `{` or `[`), or the name of a file that holds it."""
    text = value if value.lstrip()[:1] in ("{", "[") else read_text(value, option)
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise GrammarError(f"{option}: not valid JSON: {error}", code="json_invalid") from None


def tools_of(values: list[str], option: str) -> list[dict[str, Any]]:
    """Tools from JSON files or texts. Each holds one tool or a list of them. A bare function gets OpenAI's wrapping."""
    tools: list[dict[str, Any]] = []
    for value in values:
        parsed = json_or_file(value, option)
        for tool in parsed if isinstance(parsed, list) else [parsed]:
            if not isinstance(tool, dict):
                raise GrammarError(f"{option}: a tool is a JSON object", code="tool_invalid")
            tools.append(tool if "function" in tool else {"type": "function", "function": tool})
    return tools
