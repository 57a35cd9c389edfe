"""The command group. Each command has its own file and is registered here.

Help is plain text: rich cuts long option names at 80 columns, and takes words in square brackets for markup."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from narrows.cli import check, formats, generate, parse, serve
from narrows.cli.exits import Commands

app = typer.Typer(
    name="narrows",
    help="Hold a language model's token stream to a grammar, and read typed deltas out of it.",
    epilog="Exit codes: 0 yes, 1 no, 2 usage, 3 a limit was reached, 4 the input was refused, 5 the model failed, "
    "130 interrupted, 141 the output was closed.",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(serve.serve)
app.command()(generate.generate)
app.command()(check.check)
app.command()(parse.parse)
app.add_typer(formats.app, name="formats")


def _version(asked: bool) -> None:
    if asked:
        try:
            typer.echo(f"narrows {version('narrows')}")
        except PackageNotFoundError:
            typer.echo("narrows (not installed)")
        raise typer.Exit


@app.callback()
def _root(
    show: Annotated[
        bool | None, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = None,
) -> None:
    pass
