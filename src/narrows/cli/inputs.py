"""Reads the inputs that options name: files, standard input, JSON."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Any

import typer
from pydantic_core import from_json

from narrows.cli.sources import Sources
from narrows.errors import GrammarError
from narrows.grammar.languages import FrontEnd

STDIN = "-"
_MOST_BYTES = 1 << 28
"""Of a file that is read whole. What limits allow is far below."""
_IN_PLACE = ("{", "[", '"')
"""How JSON begins that is given in place of a file's name."""


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


class KeyOrder(str, Enum):
    """The order in which the keys of a schema's objects may come."""

    DECLARED = "declared"
    ANY = "any"


class Dialect(str, Enum):
    """Of a regular expression."""

    PYTHON = "python"
    ECMA = "ecma"
    RUST = "rust"


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
        raise typer.BadParameter("it goes with --language substring", param_hint="--unit")


def check_stdin(*names: str | None) -> None:
    """Standard input can be read once. That two inputs want it is a usage error."""
    if names.count(STDIN) > 1:
        raise typer.BadParameter("- stands for standard input, which only one input can be read from")


def read_bytes(name: str, option: str) -> bytes:
    """The bytes of a file, or of standard input for `-`. A file that cannot be read is a usage error."""
    try:
        if name == STDIN:
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise typer.BadParameter(f"cannot read {name}: {error.strerror}", param_hint=option) from None
    except ValueError:  # a null byte in the name
        raise typer.BadParameter(f"{name!r} is no name of a file", param_hint=option) from None
    if len(data) > _MOST_BYTES:
        raise typer.BadParameter(f"{called(name)} has more than {_MOST_BYTES >> 20} MiB", param_hint=option)
    return data


def read_text(name: str, option: str) -> str:
    """The text of a file, or of standard input for `-`, without a byte order mark. A file that cannot be read, or is
    not UTF-8, is a usage error."""
    data = read_bytes(name, option)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{called(name)} is not UTF-8 text (byte {error.start})", param_hint=option) from None


def called(name: str) -> str:
    """What a message calls an input."""
    return "standard input" if name == STDIN else name


def text_or_file(value: str, option: str) -> str:
    """The text of the file for `@file`, of standard input for `-`; any other value is the text itself."""
    return (
        read_text(value[1:], option) if value.startswith("@") else read_text(value, option) if value == STDIN else value
    )


def text_source(value: str, option: str) -> str:
    """What a message calls a text that `text_or_file` reads: its file, or the option."""
    return called(value[1:]) if value.startswith("@") else called(value) if value == STDIN else option


def is_in_place(value: str) -> bool:
    """Whether a value is JSON itself, and not the name of a file."""
    return value.lstrip()[:1] in _IN_PLACE


def json_source(value: str, option: str) -> str:
    """What a message calls JSON that `json_or_file` reads: its file, or the option."""
    return option if is_in_place(value) else called(value)


def json_or_file(value: str, option: str, pointer: str = "") -> Any:
    """JSON given in place (starts with `{`, `[` or `"`), or the name of a file that holds it. `pointer` names it in an
    error, beside line and column."""
    text = value if is_in_place(value) else read_text(value, option)
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        message, line, column = str(error), None, None  # "expected value at line 1 column 2"
        before, _, place = message.rpartition(" at line ")
        numbers = place.split(" column ")
        if len(numbers) == 2 and all(number.isdecimal() for number in numbers):
            message, line, column = before, *map(int, numbers)
        raise GrammarError(
            f"not valid JSON: {message}", code="json_invalid", pointer=pointer, line=line, column=column
        ) from None


def tools_of(values: list[str], option: str, sources: Sources) -> list[dict[str, Any]]:
    """Tools from JSON files or texts. Each holds one tool or a list of them. A bare function gets OpenAI's wrapping.
    `sources` learns where the tool at `/tools/0` comes from."""
    tools: list[dict[str, Any]] = []
    for value in values:
        name = json_source(value, option)
        sources.add("/tools", name)
        parsed = json_or_file(value, option, "/tools")
        is_list = isinstance(parsed, list)
        for number, tool in enumerate(parsed if is_list else [parsed]):
            pointer, inside = f"/tools/{len(tools)}", f"/{number}" if is_list else ""
            sources.add(pointer, name, inside)
            if not isinstance(tool, dict):
                raise GrammarError("a tool is a JSON object", code="tool_invalid", pointer=pointer)
            if "function" not in tool:
                sources.add(f"{pointer}/function", name, inside)
                tool = {"type": "function", "function": tool}
            tools.append(tool)
    return tools
