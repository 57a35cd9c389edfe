"""`narrows formats`: lists the wire formats, shows one, detects a model's, and checks whether a file is consistent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from narrows.cli.exits import NO, errors_shown
from narrows.cli.inputs import STDIN, read_text
from narrows.cli.terminal import out, print_beside, print_json, talk, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from narrows.formats import Format

app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def root(context: typer.Context, as_json: AsJson = False) -> None:
    """List, show, detect and check wire formats.

    Without a command, list the formats: those of narrows, and your own (NARROWS_FORMATS, or an installed package's).

    \b
    Examples:
      narrows formats
      narrows formats show hermes_json
      narrows formats detect ~/models/Qwen3-4B
      narrows formats check my_format.toml
    """
    if context.invoked_subcommand is None:
        _list(as_json)


def _list(as_json: bool) -> None:
    listed = dict(_known())
    if as_json:
        print_json(
            [
                {
                    "name": name,
                    "title": fmt.title,
                    "models": fmt.models,
                    "aliases": fmt.aliases,
                    "verified": fmt.verified,
                }
                for name, fmt in listed.items()
            ]
        )
        return
    at = max(map(len, listed), default=0) + 2
    for name, fmt in listed.items():
        print_beside(name, fmt.title, style="bold", at=at)
        more = [", ".join(fmt.models)] if fmt.models else []
        more += [f"also known as {', '.join(fmt.aliases)}"] if fmt.aliases else []
        more += [] if fmt.verified else ["unverified"]
        if more:
            print_beside("", "; ".join(more), at=at, dim=True)


def _known() -> Iterator[tuple[str, Format]]:
    """narrows' own formats, then the user's. A format of the user that cannot be read is left out with a note."""
    from narrows import formats
    from narrows.errors import FormatError

    yield from ((name, formats.get(name)) for name in formats.names())
    for name in formats.installed():
        try:
            yield name, formats.get(name)
        except FormatError as error:
            talk.print(f"[yellow]note:[/] {escape(name)} is left out: {escape(visible(str(error)))}")


@app.command("list")
def list_formats(as_json: AsJson = False) -> None:
    """List the formats."""
    _list(as_json)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="FORMAT", help="A format's name, or a TOML file.")],
    as_json: AsJson = False,
) -> None:
    """Show what a model writes in a format.

    Then the format's grammar, and the TOML that defines it.
    """
    with errors_shown(as_json):
        from narrows import formats
        from narrows.cli.format_check import examples
        from narrows.formats.notation import grammar_text

        fmt = formats.find(name)
        written = examples(fmt)
        grammar = grammar_text(fmt)
    if as_json:
        print_json(
            {
                "name": fmt.name,
                "title": fmt.title,
                "models": fmt.models,
                "aliases": fmt.aliases,
                "verified": fmt.verified,
                "reasoning": fmt.reasoning.name if fmt.reasoning is not None else None,
                "markers": fmt.markers(fmt.reasoning),
                "examples": written,
                "grammar": grammar,
                "toml": fmt.source,
            }
        )
        return
    out.print(f"[bold]{escape(fmt.name)}[/]  {escape(fmt.title)}" + ("" if fmt.verified else "  [yellow]unverified[/]"))
    for title, text in written.items():
        out.print(f"\n[dim]{title}[/]")
        out.print(escape(visible(text)))
    out.print("\n[dim]grammar[/]")
    out.print(escape(visible(grammar)))
    out.print("\n[dim]definition[/]")
    out.print(escape(visible(fmt.source)))


@app.command()
def detect(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model's folder, a GGUF file, or a chat template's file; - reads a template from standard input.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Detect the format and reasoning style of a model.

    They are found in its chat template. Exit code 1: no format, or more than one.

    \b
    Examples:
      narrows formats detect ~/models/Qwen3-4B
      narrows formats detect chat_template.jinja --json
    """
    with errors_shown(as_json):
        from narrows import formats

        template = read_text(model, "MODEL") if model == STDIN else None
        detected = formats.detect(template) if template is not None else formats.detect_model(model)
    if as_json:
        print_json(
            {
                "format": detected.name,
                "confidence": detected.confidence,
                "reason": detected.reason,
                "candidates": detected.candidates,
                "reasoning": detected.reasoning,
                "reasoning_reason": detected.reasoning_reason,
                "source": detected.source or None,
            }
        )
    else:
        sure = "" if not detected or detected.confidence == 1.0 else f" [yellow](likely: {detected.confidence:.0%})[/]"
        out.print(f"[bold]{escape(detected.name or 'no format')}[/]{sure}: {escape(detected.reason)}")
        if detected.reasoning_reason:
            out.print(f"reasoning [bold]{escape(detected.reasoning or 'none')}[/]: {escape(detected.reasoning_reason)}")
    if not detected:
        raise typer.Exit(NO)


@app.command()
def check(
    file: Annotated[str, typer.Argument(metavar="FORMAT", help="A TOML file, or a format's name.")],
    as_json: AsJson = False,
) -> None:
    """Check that a format's grammar, parser and renderer agree.

    Conversations are written in it, read back in every cut, and compared with its grammar. Texts that the grammar
    allows are read.

    Exit code 0: grammar, parser and renderer agree. 1: they do not. 4: the file cannot be read as a format.
    """
    with errors_shown(as_json):
        from narrows import formats
        from narrows.cli.format_check import disagreements

        fmt = formats.find(file)
        failures = disagreements(fmt)
    if as_json:
        print_json({"name": fmt.name, "agrees": not failures, "failures": failures})
    else:
        for failure in failures:
            out.print(f"[red]{escape(failure)}[/]")
        verdict = "[green]grammar, parser and renderer agree[/]"
        if failures:
            verdict = "[red]grammar, parser and renderer disagree[/]"
        out.print(f"[bold]{escape(fmt.name)}[/]: {verdict}")
    if failures:
        raise typer.Exit(NO)
