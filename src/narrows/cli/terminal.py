"""What is written to stdout and stderr: for people on a terminal, and plain in pipes.

Colours come on a terminal only, and not where NO_COLOR is set. Lines fit the terminal's width, which is 80 columns in a
pipe (COLUMNS sets another). What is too long is folded: nothing is cut off. On a terminal, control characters in text
from files and models are written as escapes, so that no text can drive the terminal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape

_PIPE_WIDTH = 80
_LEAST_WIDTH = 24
"""Columns for text beside what stands before it."""
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


class _Output(Console):
    """A console that raises `BrokenPipeError` where rich would end the process with exit code 1."""

    def on_broken_pipe(self) -> None:
        raise


out = _Output(highlight=False, soft_wrap=True)
talk = _Output(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print one line of JSON on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def visible(text: str) -> str:
    """The text with its control characters, other than tabs and line breaks, as escapes such as `\\x1b`."""
    return text.translate(_ESCAPES)


def width() -> int:
    """Columns of a line on stdout."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and len(asked) < 5 and int(asked):
        return int(asked)
    return out.width if out.is_terminal else _PIPE_WIDTH


def folded(text: str, columns: int) -> list[str]:
    """The text in lines of at most so many characters: broken between words, JSON pointers before a slash, and a longer
    piece anywhere."""
    lines: list[str] = []
    for word in wrap(text, columns, break_long_words=False, break_on_hyphens=False):
        line = ""
        for part in _parts(word):
            if line and len(line) + len(part) > columns:
                lines.append(line)
                line = ""
            line += part
            while len(line) > columns:
                lines.append(line[:columns])
                line = line[columns:]
        lines.append(line)
    return lines or [""]


def _parts(word: str) -> list[str]:
    """The parts of a text that a slash begins."""
    first, *rest = word.split("/")
    return [part for part in (first, *(f"/{part}" for part in rest)) if part]


def print_beside(label: str, text: str, *, style: str = "", at: int, dim: bool = False) -> None:
    """Print `text`, folded, from column `at` on, with a label before its first line."""
    columns = max(width() - at, _LEAST_WIDTH)
    for number, line in enumerate(folded(visible(text), columns)):
        lead = label if number == 0 else ""
        shown = f"[{style}]{escape(lead)}[/]" if style and lead else escape(lead)
        body = f"[dim]{escape(line)}[/]" if dim else escape(line)
        out.print(f"{shown}{' ' * (at - len(lead))}{body}".rstrip())


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print columns that are as wide as their longest cell. The last column takes the rest, and is folded."""
    shown = [[visible(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(cell_len(row[column]) for row in shown) for column in range(len(heads) - 1)]
    at = sum(widths) + 2 * len(widths)
    for number, row in enumerate(shown):
        cells = [cell + " " * (most - cell_len(cell)) for cell, most in zip(row[:-1], widths, strict=True)]
        lead = "  ".join([*cells, ""])
        columns = max(width() - at, _LEAST_WIDTH)
        for part, line in enumerate(folded(row[-1], columns)):
            text = ((lead if part == 0 else " " * at) + line).rstrip()
            out.print(escape(text), style="bold" if number == 0 else "")
