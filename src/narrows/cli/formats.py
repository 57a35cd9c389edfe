"""`narrows formats`: the wire formats there are, what one looks like, which one a template means, and whether a file holds together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from narrows.cli.exits import NO, errors_shown, out, print_json
from narrows.cli.inputs import read_text

if TYPE_CHECKING:
    from narrows.formats import Format

app = typer.Typer(invoke_without_command=True, rich_markup_mode="rich")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# Conversations that a format must be able to write and read back.
_CALL = {
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris", "days": 3, "metric": true}'},
}
_OTHER = {"type": "function", "function": {"name": "search", "arguments": '{"query": "a \\"quoted\\" word\\nand é"}'}}
_TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "metric": {"type": "boolean"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "search",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string"}},
                "required": ["query"],
                "additionalProperties": False,
            },
        },
    },
]
_MESSAGES: dict[str, dict[str, Any]] = {
    "one call": {"role": "assistant", "content": None, "tool_calls": [_CALL]},
    "two calls": {"role": "assistant", "content": None, "tool_calls": [_CALL, _OTHER]},
    "text, then a call": {"role": "assistant", "content": "Let me look.", "tool_calls": [_CALL]},
    "text": {"role": "assistant", "content": "It is warm."},
}


@app.callback()
def root(context: typer.Context, as_json: AsJson = False) -> None:
    """The wire formats that narrows brings.

    [bold]Examples[/]

      narrows formats

      narrows formats show hermes_json

      narrows formats detect chat_template.jinja

      narrows formats check my_format.toml
    """
    if context.invoked_subcommand is None:
        _list(as_json)


def _list(as_json: bool) -> None:
    from narrows import formats

    found = [formats.get(name) for name in formats.names()]
    if as_json:
        print_json(
            [{"name": fmt.name, "title": fmt.title, "models": fmt.models, "aliases": fmt.aliases} for fmt in found]
        )
        return
    table = Table("name", "what a call looks like", "models", "also known as", box=None, pad_edge=False)
    for fmt in found:
        table.add_row(
            f"[bold]{escape(fmt.name)}[/]",
            escape(fmt.title),
            escape(", ".join(fmt.models)),
            escape(", ".join(fmt.aliases)),
        )
    out.print(table)


@app.command("list")
def list_formats(as_json: AsJson = False) -> None:
    """List them."""
    _list(as_json)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A format's name, or a TOML file.")], as_json: AsJson = False
) -> None:
    """Show what a model writes in this format, and the TOML that defines it."""
    with errors_shown(as_json):
        fmt = _find(name)
        examples = {title: fmt.render(message) for title, message in _MESSAGES.items()}
    if as_json:
        print_json(
            {
                "name": fmt.name,
                "title": fmt.title,
                "models": fmt.models,
                "aliases": fmt.aliases,
                "examples": examples,
                "toml": fmt.source,
            }
        )
        return
    out.print(f"[bold]{escape(fmt.name)}[/]  {escape(fmt.title)}")
    for title, text in examples.items():
        out.print(f"\n[dim]{title}[/]")
        out.print(escape(text))
    out.print("\n[dim]definition[/]")
    out.print(escape(fmt.source))


@app.command()
def detect(
    template: Annotated[str, typer.Argument(help="A chat template's file; - reads standard input.")],
    as_json: AsJson = False,
) -> None:
    """Say which format a chat template means. Exit code 1: none, or more than one."""
    text = read_text(template, "TEMPLATE")
    with errors_shown(as_json):
        from narrows import formats

        found = formats.detect(text)
    if as_json:
        print_json(
            {
                "format": found.name,
                "confidence": found.confidence,
                "reason": found.reason,
                "candidates": found.candidates,
            }
        )
    else:
        out.print(f"[bold]{escape(found.name or 'no format')}[/]: {escape(found.reason)}")
    if not found:
        raise typer.Exit(NO)


@app.command()
def check(
    file: Annotated[str, typer.Argument(help="A TOML file, or a format's name.")], as_json: AsJson = False
) -> None:
    """Load a format, write conversations in it, read them back, and hold them against its grammar.

    Exit code 0: grammar, parser and renderer agree. 1: they do not. 4: the file does not hold together.
    """
    with errors_shown(as_json):
        fmt = _find(file)
        failures = [
            f"{title}: {problem}" for title, message in _MESSAGES.items() for problem in _disagreements(fmt, message)
        ]
    if as_json:
        print_json({"name": fmt.name, "agrees": not failures, "failures": failures})
    else:
        for failure in failures:
            out.print(f"[red]{escape(failure)}[/]")
        out.print(
            f"[bold]{escape(fmt.name)}[/]: "
            + ("[red]does not agree with itself[/]" if failures else "[green]grammar, parser and renderer agree[/]")
        )
    if failures:
        raise typer.Exit(NO)


def _find(name: str) -> Format:
    from narrows import formats

    return formats.load(name) if name.endswith(".toml") else formats.get(name)


def _disagreements(fmt: Format, message: dict[str, Any]) -> list[str]:
    """What parser and grammar say otherwise about the text that `render` writes."""
    from narrows.cli.parse import read_by_grammar

    text = fmt.render(message)
    read = fmt.parse(text, tools=_TOOLS)
    wanted = [call["function"] for call in message.get("tool_calls", ())]
    problems = []
    if [call.name for call in read.tool_calls] != [call["name"] for call in wanted]:
        problems.append(f"the parser reads the calls {[call.name for call in read.tool_calls]} in {text!r}")
    elif any(
        _value(call.arguments) != _value(given["arguments"])
        for call, given in zip(read.tool_calls, wanted, strict=True)
    ):
        problems.append(f"the parser reads the arguments {[call.arguments for call in read.tool_calls]} in {text!r}")
    if (read.content or "").strip() != (message.get("content") or ""):
        problems.append(f"the parser reads the content {read.content!r} in {text!r}")
    count, complete, _ = read_by_grammar(fmt, text, _TOOLS, {"tool_choice": "auto"})
    if not complete:
        problems.append(f"the grammar stops at character {count} of {text!r}")
    return problems


def _value(arguments: str) -> Any:
    """The value of a JSON text; the text itself where it is none."""
    from pydantic_core import from_json

    try:
        return from_json(arguments)
    except ValueError:
        return arguments
