"""`narrows generate`: one prompt through the embedded model, held to a schema, regex, grammar, choice or tool."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.markup import escape

from narrows.cli import engine_options
from narrows.cli.exits import NO, errors_shown, print_json, talk
from narrows.cli.inputs import (
    UNIT,
    Additional,
    Draft,
    SelectBy,
    Unit,
    check_unit,
    json_or_file,
    text_or_file,
    tools_of,
)
from narrows.cli.model import load_engine
from narrows.grammar.languages import LANGUAGES
from narrows.grammar.languages.gbnf import GBNF


def generate(
    prompt: Annotated[str, typer.Argument(help="The user's message. @FILE reads a file, - standard input.")],
    schema: Annotated[str | None, typer.Option(help="JSON Schema: a file, or the JSON itself.")] = None,
    regex: Annotated[str | None, typer.Option(help="Regular expression that the whole answer matches.")] = None,
    grammar: Annotated[str | None, typer.Option(help="Grammar: the text, or @FILE.")] = None,
    language: Annotated[
        str | None,
        typer.Option(
            help=f"What --grammar is written in: {', '.join(LANGUAGES)}. grammar (GBNF or Lark) if not given."
        ),
    ] = None,
    unit: Annotated[Unit | None, UNIT] = None,
    choice: Annotated[list[str] | None, typer.Option(help="An allowed answer; repeat it for each.")] = None,
    tool: Annotated[
        list[str] | None, typer.Option(help="Tool to call, as JSON or a file of one or more; may be repeated.")
    ] = None,
    tool_choice: Annotated[str, typer.Option(help="required, auto, or the name of a tool.")] = "required",
    additional: Annotated[
        Additional,
        typer.Option(
            help="How to read objects of a schema or tool that list properties and do not say additionalProperties: "
            "closed to the declared keys, or open, as in the standard."
        ),
    ] = Additional.DECLARED,
    system: Annotated[str | None, typer.Option(help="System message.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="A GGUF file; the small default model without it.")
    ] = None,
    tool_call_parser: Annotated[
        str | None, typer.Option("--tool-call-parser", "--format", help="Wire format of tool calls.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(help="Most tokens of the answer.", min=1)] = 256,
    temperature: Annotated[float, typer.Option(help="0 is greedy.", min=0)] = 0.0,
    seed: Annotated[int | None, typer.Option(help="Makes a random answer repeatable.")] = None,
    budget: Annotated[
        bool, typer.Option("--budget", help="Keep room to end: the answer is whole when --max-tokens is reached.")
    ] = False,
    select: Annotated[
        SelectBy | None,
        typer.Option(help="Score each --choice as a whole, and print the scores. Compare by sum, by token or by byte."),
    ] = None,
    draft: Annotated[
        Draft,
        typer.Option(help="Guess tokens from the prompt or from the grammar, and check several at once."),
    ] = Draft.AUTO,
    n: Annotated[int, typer.Option("-n", help="How many answers.", min=1)] = 1,
    threads: engine_options.Threads = None,
    threads_batch: engine_options.ThreadsBatch = None,
    ctx_size: engine_options.ContextSize = None,
    batch_size: engine_options.BatchSize = None,
    ubatch_size: engine_options.UbatchSize = None,
    cache_type_k: engine_options.CacheTypeK = None,
    cache_type_v: engine_options.CacheTypeV = None,
    flash_attn: engine_options.FlashAttn = None,
    n_gpu_layers: engine_options.GpuLayers = None,
    no_mmap: engine_options.NoMmap = False,
    mlock: engine_options.Mlock = False,
    lora: engine_options.LoraFiles = None,
    lora_scaled: engine_options.LoraScaled = None,
    values: Annotated[
        bool, typer.Option("--values", help="Print each JSON value of the answer as it becomes whole, one a line.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole completion as one JSON object.")] = False,
) -> None:
    """Answer a prompt under a constraint, and print the answer as it comes.

    A call is printed as a line: its name and its arguments as JSON. Exit code 1: the answer was cut by --max-tokens.

    [bold]Examples[/]

      narrows generate "Name a colour" --choice red --choice green --choice blue

      narrows generate "When was Faust written?" --schema '{"properties": {"year": {"type": "integer"}}}'

      narrows generate "Is it warm in Paris?" --tool weather.json --json

      narrows generate "Three colours" --schema colours.json --values

      narrows generate "Is the sky blue?" --choice yes --choice no --select sum
    """
    body: dict[str, Any] = {"messages": [], "max_tokens": max_tokens, "temperature": temperature, "n": n}
    if system is not None:
        body["messages"].append({"role": "system", "content": system})
    body["messages"].append({"role": "user", "content": text_or_file(prompt, "PROMPT")})
    if seed is not None:
        body["seed"] = seed
    with errors_shown(as_json):
        constraints = {
            "json": json_or_file(schema, "--schema") if schema is not None else None,
            "regex": regex,
            "choice": choice or None,
        }
        if language is not None and (grammar is None or language not in LANGUAGES):
            raise typer.BadParameter(f"--language goes with --grammar and is one of {', '.join(LANGUAGES)}")
        if unit is not None and grammar is None:
            raise typer.BadParameter("--unit goes with --grammar and --language substring")
        if grammar is not None:
            front = LANGUAGES[language or GBNF.name]
            if constraints.get(front.name) is not None:
                raise typer.BadParameter(f"--grammar in the language {front.name} repeats another option")
            text = text_or_file(grammar, "--grammar")
            constraints[front.name] = front.from_text(text.removesuffix("\n") if front.one_line else text)
            check_unit(unit, front)
            if unit is not None:
                constraints[front.name] = {"text": constraints[front.name], "unit": unit.value}
        sources = {name: value for name, value in constraints.items() if value is not None}
        if len(sources) + bool(tool) > 1:
            raise typer.BadParameter("at most one of --schema, --regex, --grammar, --choice and --tool")
        body["disable_additional_properties"] = additional is Additional.DECLARED
        if sources:
            body["structured_outputs"] = sources
        if tool:
            body["tools"] = tools_of(tool, "--tool")
            body["parallel_tool_calls"] = False
            named = {"type": "function", "function": {"name": tool_choice}}
            body["tool_choice"] = tool_choice if tool_choice in ("auto", "required") else named
        if values:
            if as_json or n > 1:
                raise typer.BadParameter("--values goes with one answer, and not with --json")
            body |= {"stream": True, "stream_options": {"include_values": True}}
        if select is not None and not choice:
            raise typer.BadParameter("--select goes with --choice")
        body |= {"draft": draft.value, "budget": budget, "select": None if select is None else select.value}
        options = engine_options.arguments(
            threads=threads,
            threads_batch=threads_batch,
            ctx_size=ctx_size,
            batch_size=batch_size,
            ubatch_size=ubatch_size,
            cache_type_k=cache_type_k,
            cache_type_v=cache_type_v,
            flash_attn=flash_attn,
            n_gpu_layers=n_gpu_layers,
            no_mmap=no_mmap,
            mlock=mlock,
            lora=lora,
            lora_scaled=lora_scaled,
        )
        engine = load_engine(model, quiet=as_json, **options)
        try:
            complete = asyncio.run(_run(engine, body, tool_call_parser, as_json))
        finally:
            engine.close()
    if not complete:
        raise typer.Exit(NO)


async def _run(engine: Any, body: dict[str, Any], tool_call_parser: str | None, as_json: bool) -> bool:
    """The server's own path from request to answer, without HTTP. True if no answer was cut."""
    from pydantic import ValidationError

    from narrows import json_pieces
    from narrows.server.answers import collect_chat, first_error
    from narrows.server.errors import from_validation
    from narrows.server.metrics import Metrics
    from narrows.server.protocol import ChatRequest
    from narrows.server.service import Service
    from narrows.server.settings import Settings
    from narrows.server.unenforced import header

    values = "stream_options" in body
    service = Service(engine, Settings(tool_call_parser=tool_call_parser), Metrics())
    try:
        try:
            request = ChatRequest.model_validate(body, strict=False)
        except ValidationError as error:
            raise from_validation(error) from None
        request.check(service.limits)
        answer = await service.start_chat(request, "generate")
        if answer.loose:
            talk.print(f"[yellow]not enforced:[/] {escape(header(answer.loose))}")
        chunks = []
        try:
            async for batch in answer.batches():
                chunks += batch
                if values:
                    for value in (value for chunk in batch for value in chunk.get("values", ())):
                        sys.stdout.write(json_pieces.dumps(value, ensure_ascii=False) + "\n")
                    sys.stdout.flush()
                elif not as_json and body["n"] == 1:
                    for chunk in batch:
                        _show(chunk["delta"])
        finally:
            answer.close()
        failure = first_error(chunks, answer.errors)
        if failure is not None:
            raise failure
    finally:
        service.close()
    choices = collect_chat(chunks)
    if as_json:
        print_json({"choices": choices, "usage": answer.usage()})
    else:
        _close(choices, body["n"], values)
    return all(choice["finish_reason"] in ("stop", "tool_calls") for choice in choices)


def _show(delta: dict[str, Any]) -> None:
    """Print one delta at once: reasoning to stderr, the answer to stdout."""
    if delta.get("reasoning"):
        talk.print(f"[dim]{escape(delta['reasoning'])}[/]", end="")
    for call in delta.get("tool_calls", ()):
        if "id" in call:
            sys.stdout.write(f"\n{call['function']['name']} " if call["index"] else f"{call['function']['name']} ")
        sys.stdout.write(call["function"]["arguments"])
    sys.stdout.write(delta.get("content") or "")
    sys.stdout.flush()


def _close(choices: Sequence[Mapping[str, Any]], n: int, values: bool) -> None:
    if n == 1 and not values:
        sys.stdout.write("\n")
    for option in choices[0].get("options", ()):
        talk.print(f"[dim]{option['probability']:7.2%}  {option['logprob']:9.3f}[/]  {escape(option['text'])}")
    for choice in choices if n > 1 else ():
        message = choice["message"]
        lines = [message["content"]] if message["content"] else []
        lines += [
            f"{call['function']['name']} {call['function']['arguments']}" for call in message.get("tool_calls", ())
        ]
        sys.stdout.write("\n".join(lines) + "\n")
    for choice in choices:
        if choice["finish_reason"] == "length":
            talk.print("[yellow]cut by --max-tokens: the answer is not complete[/]")
            break
    sys.stdout.flush()
