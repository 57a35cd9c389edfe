"""The exit codes, and how errors are shown.

0    done, and the answer is yes
1    done, and the answer is no: a schema is not fully enforced, a text is not in the grammar or not well formed, an
     answer was cut, a format fails its checks
2    usage: an unknown option, or a file that cannot be read
3    a limit was reached (`Limits`)
4    the input was refused: a grammar, schema, format or request that cannot be parsed or is not supported
5    the model, its library or the download failed
130  interrupted
141  whoever read the output has gone, as in `narrows formats | head -1`
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from narrows.cli.limit_options import NAMES
from narrows.cli.sources import Sources
from narrows.cli.terminal import print_json, talk, visible
from narrows.errors import EngineError, LimitError, NarrowsError

OK, NO, USAGE, LIMIT, REFUSED, ENGINE, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 3, 4, 5, 130, 141


def code_of(error: NarrowsError) -> int:
    """The exit code for an error."""
    if isinstance(error, LimitError):
        return LIMIT
    return ENGINE if isinstance(error, EngineError) else REFUSED


@contextmanager
def errors_shown(as_json: bool, sources: Sources | None = None, *, has_limits: bool = False) -> Iterator[None]:
    """Turns narrows' errors into a message and an exit code. With --json the error is also an object on stdout.

    `sources` says which file or option a place is in. It may be filled inside the block. `has_limits`: whether the
    command has `--limit`.
    """
    try:
        yield
    except NarrowsError as error:
        source, located = (sources or Sources()).located(error)
        if as_json:
            print_json({"error": {**located.to_dict(), **({"source": source} if source else {})}})
        name = f"{escape(visible(source))}: " if source else ""
        text = escape(visible(str(located)))
        talk.print(f"[bold red]error:[/] {name}{text} [dim]\\[{escape(located.code)}][/]")
        if has_limits and located.limit in NAMES:
            talk.print(f"[dim]--limit {located.limit}=N sets this limit[/]")
        raise typer.Exit(code_of(error)) from None
    except typer.BadParameter as error:
        if as_json:
            option = {"source": error.param_hint} if isinstance(error.param_hint, str) else {}
            print_json({"error": {"code": "usage", "message": error.message, **option}})
        raise
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


class Commands(TyperGroup):
    """The group of all commands: an interrupt or a closed pipe ends any of them without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ENOSPC):
                raise
            forget_output()
            if error.errno == errno.EPIPE:
                raise typer.Exit(PIPE_CLOSED) from None
            talk.print(f"[bold red]error:[/] cannot write the output: {error.strerror}")
            raise typer.Exit(USAGE) from None
        return result


def forget_output() -> None:
    """What stdout still holds goes nowhere, so that Python does not fail on it when it ends."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
