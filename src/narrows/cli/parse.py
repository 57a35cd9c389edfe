"""`narrows parse`: the events of a transcript or a stream's log in a wire format, and where it stops being well
formed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from narrows.cli.exits import NO, errors_shown
from narrows.cli.inputs import check_stdin, read_text, tools_of
from narrows.cli.logs import Log, is_log, read_log
from narrows.cli.sources import Sources, errors_at
from narrows.cli.terminal import out, print_json, visible

if TYPE_CHECKING:
    from narrows.events import Event
    from narrows.formats import Format


def parse(
    format_name: Annotated[str, typer.Argument(metavar="FORMAT", help="A wire format's name, or a TOML file.")],
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="The model's text, or the log of an OpenAI stream; - is standard input."),
    ] = "-",
    tool: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="The offered tools, as JSON or a file; may be repeated. Without tools, any name is a call.",
        ),
    ] = None,
    tool_choice: Annotated[
        str, typer.Option(metavar="NAME", help="auto, required, none, or the name of a tool.")
    ] = "auto",
    reasoning: Annotated[
        str,
        typer.Option(
            metavar="STYLE", help="Reasoning style; 'auto' is the format's own, 'none' leaves it in the content."
        ),
    ] = "auto",
    prompt: Annotated[
        str,
        typer.Option(metavar="FILE", help="The rendered prompt, or its end. It may open what the answer continues."),
    ] = "",
    log: Annotated[
        bool | None,
        typer.Option(
            "--log/--text", help="Read a log of `data:` lines, or plain text. By default the first line decides."
        ),
    ] = None,
    choice: Annotated[int, typer.Option(metavar="N", help="Which choice of the log.", min=0)] = 0,
    message: Annotated[bool, typer.Option("--message", help="Print the message in place of its events.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: one event per line, then a summary.")] = False,
) -> None:
    """Parse a transcript in a wire format.

    Its events are printed, for a log with the delta that causes them, and where the text stops being well formed.

    Exit code 0: the text is well formed: the format's grammar accepts it and every call is whole. 1: it is not, and the
    summary shows the place. Parsing itself never fails.

    \b
    Examples:
      narrows parse hermes_json answer.txt
      narrows parse qwen3_xml answer.txt --tool tools.json --message --json
      curl -sN localhost:8000/v1/completions -d @request.json |
        narrows parse hermes_json
      echo '<tool_call>{"name": "f", "arguments": {}}</tool_call>' |
        narrows parse hermes_json
    """
    sources = Sources()
    sources.add("/tool_choice/function/name", "--tool-choice")
    sources.add("/reasoning", "--reasoning")
    with errors_shown(as_json, sources):
        check_stdin(file, prompt, *(tool or ()))
        raw = read_text(file, "FILE")
        from narrows import formats
        from narrows.events import ToolCallEnd, ToolCallStart

        fmt = formats.find(format_name)
        style = None if reasoning == "none" else reasoning
        with errors_at("/reasoning"):
            fmt.style(style)
        source = read_log(raw, choice) if (is_log(raw) if log is None else log) else None
        deltas = source.deltas if source is not None else [raw]
        text = "".join(deltas)
        tools = tools_of(tool, "--tool", sources) if tool else None
        parsed_choice: Any = (
            tool_choice
            if tool_choice in ("auto", "required", "none")
            else {"type": "function", "function": {"name": tool_choice}}
        )
        options: dict[str, Any] = {
            "tool_choice": parsed_choice,
            "reasoning": style,
            "prompt": read_text(prompt, "--prompt") if prompt else "",
        }
        parser = fmt.parser(tools=tools, **options)
        steps = [(delta, parser.feed(delta)) for delta in deltas] + [("", parser.finish())]
        events = [event for _, new in steps for event in new]
        cut = [event.reason for event in events if isinstance(event, ToolCallEnd) and not event.complete]
        unknown = [event.name for event in events if isinstance(event, ToolCallStart) and not event.known]
        accepted, complete, expected = read_by_grammar(fmt, text, tools, options)
    summary: dict[str, Any] = {
        "well_formed": complete and not cut,
        "accepted_characters": accepted,
        "characters": len(text),
        "line": None if complete else text.count("\n", 0, accepted) + 1,
        "column": None if complete else accepted - text.rfind("\n", 0, accepted),
        "expected": expected,
        "cut": cut,
        "unknown_tools": unknown,
    }
    if source is not None:
        summary |= {
            "deltas": len(deltas),
            "choices": source.choices,
            "finish_reason": source.finish_reason,
            "parsed_by_the_server": {
                "tool_calls": source.parsed_calls,
                "reasoning_characters": source.parsed_reasoning,
            },
        }
    if message:
        _show_message(_message(events), as_json)
    else:
        for number, (delta, new) in enumerate(steps):
            if source is not None and not as_json and delta:
                out.print(f"[dim]delta {number:>5}[/]  {escape(repr(delta))}")
            for event in new:
                _show_event(event, as_json, number if source is not None else None)
    if as_json:
        print_json({"summary": summary})
    else:
        _show_summary(text, summary, source)
    if not summary["well_formed"]:
        raise typer.Exit(NO)


def _show_summary(text: str, summary: dict[str, Any], source: Log | None) -> None:
    accepted, expected = summary["accepted_characters"], summary["expected"]
    if summary["well_formed"]:
        out.print("[green]well formed[/]")
    elif summary["line"] is None:
        out.print("[red]not well formed[/]")
    else:
        place = (
            "the text ends too early"
            if accepted == len(text)
            else f"stops at line {summary['line']}, column {summary['column']}, "
            f"before {text[accepted : accepted + 24]!r}"
        )
        out.print(f"[red]not well formed[/]: {escape(place)}" + (f"; expected {escape(expected)}" if expected else ""))
    for reason in summary["cut"]:
        out.print(f"[red]a call is not whole[/]: {escape(visible(reason or ''))}")
    for name in summary["unknown_tools"]:
        out.print(f"[yellow]unknown tool[/]: {escape(visible(name))}")
    if source is not None and (source.parsed_calls or source.parsed_reasoning):
        out.print(
            f"[yellow]the server had parsed the text already[/]: {source.parsed_calls} calls and "
            f"{source.parsed_reasoning} characters of reasoning are not in it. Ask the server for plain text "
            "(/v1/completions), or start it without its own parsers"
        )


def read_by_grammar(
    fmt: Format, text: str, tools: list[dict[str, Any]] | None, options: dict[str, Any]
) -> tuple[int, bool, str]:
    """The number of characters that the format's grammar accepts, whether they are a whole text, and what may follow
    them."""
    from narrows import Vocabulary

    vocab = Vocabulary([bytes([b]) for b in range(256)] + [b""], special={"<end>": 256}, eos=[256])
    matcher = vocab.compile(fmt.grammar(tools, vocab=vocab, **options)).matcher()
    for position, character in enumerate(text):
        if not matcher.accept_bytes(character.encode()):
            token = character.encode()[0]
            explained = matcher.explain(token)
            expected = ", ".join(repr(chr(b)) if b < 128 else f"byte {b:#x}" for b in explained.expected[:12])
            return position, False, expected
    return len(text), matcher.is_accepting, ""


def _message(events: list[Event]) -> dict[str, Any]:
    """The message of these events, in the form of the server's answers."""
    from narrows.stream.message import collect

    message = collect(events)
    content = message.content if message.content or message.tool_calls else ""
    answer: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    if message.reasoning is not None:
        answer |= {"reasoning": message.reasoning, "reasoning_content": message.reasoning}
    if message.tool_calls:
        answer["tool_calls"] = [call.to_dict() for call in message.tool_calls]
    return answer


def _show_message(message: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(message)
    else:
        out.print_json(data=message)


_COLOURS = {
    "Reasoning": "magenta",
    "Content": "default",
    "ToolCallStart": "bold green",
    "ToolCallArguments": "cyan",
    "ToolCallEnd": "green",
}


def _show_event(event: Event, as_json: bool, delta: int | None = None) -> None:
    fields = asdict(event)
    span = fields.pop("span")
    kind = type(event).__name__
    if as_json:
        print_json({"event": kind, **({"delta": delta} if delta is not None else {}), **fields, "span": span})
        return
    colour = "red" if fields.get("complete") is False or fields.get("known") is False else _COLOURS[kind]
    values = "  ".join(f"{name}={value!r}" for name, value in fields.items())
    out.print(f"[dim]{span[0]:>6}..{span[1]:<6}[/] [{colour}]{kind:<17} {escape(values)}[/]")
