"""The exit codes, and how errors are shown.

0    done, and the answer is yes
1    done, and the answer is no: a schema is not fully enforced, a text is not well formed, an answer was cut, a format
     fails its checks
2    usage: an unknown option, or a file that cannot be read
3    a limit was reached (`Limits`)
4    the input was refused: a grammar, schema, format or request that cannot be parsed or is not supported
5    the model, its library or the download failed
130  interrupted
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from narrows.errors import EngineError, LimitError, NarrowsError

OK, NO, USAGE, LIMIT, REFUSED, ENGINE, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

out = Console(highlight=False, soft_wrap=True)
talk = Console(stderr=True, highlight=False, soft_wrap=True)


def code_of(error: NarrowsError) -> int:
    """The exit code for an error."""
    if isinstance(error, LimitError):
        return LIMIT
    return ENGINE if isinstance(error, EngineError) else REFUSED


def print_json(value: Any) -> None:
    """Print one line of JSON on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


@contextmanager
def errors_shown(as_json: bool) -> Iterator[None]:
    """Turns narrows' errors into a message and an exit code. With --json the error is also an object on stdout."""
    try:
        yield
    except NarrowsError as error:
        if as_json:
            print_json({"error": error.to_dict()})
        talk.print(f"[bold red]error:[/] {escape(str(error))} [dim]\\[{escape(error.code)}][/]")
        raise typer.Exit(code_of(error)) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
