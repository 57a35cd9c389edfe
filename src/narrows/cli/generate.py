"""`narrows generate`: one prompt through the embedded model, held to a schema, regex, grammar, choice or tool."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from narrows.cli import engine_options
from narrows.cli.exits import NO, errors_shown
from narrows.cli.inputs import (
    UNIT,
    Additional,
    Draft,
    SelectBy,
    Unit,
    check_stdin,
    check_unit,
    json_or_file,
    json_source,
    text_or_file,
    text_source,
    tools_of,
)
from narrows.cli.limit_options import LimitOption, limits_of
from narrows.cli.model import load_engine
from narrows.cli.model_file import HfFile, HfRepo, HfToken, HubOptions, Offline
from narrows.cli.sources import Sources, errors_at
from narrows.grammar.languages import LANGUAGES
from narrows.grammar.languages.gbnf import GBNF

_CONSTRAINT = "/structured_outputs"


def generate(
    prompt: Annotated[
        str, typer.Argument(metavar="PROMPT", help="The user's message. @FILE reads a file, - standard input.")
    ],
    schema: Annotated[
        str | None,
        typer.Option("--schema", "--json-schema", metavar="FILE", help="JSON Schema: a file, or the JSON itself."),
    ] = None,
    regex: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Regular expression that the whole answer matches.")
    ] = None,
    grammar: Annotated[str | None, typer.Option(metavar="TEXT", help="Grammar: the text, or @FILE.")] = None,
    language: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"What --grammar is written in: {', '.join(LANGUAGES)}. grammar (GBNF or Lark) if not given.",
        ),
    ] = None,
    unit: Annotated[Unit | None, UNIT] = None,
    choice: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="An allowed answer; repeat it for each.")
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Tool to call, as JSON or a file of one or more; may be repeated."),
    ] = None,
    tool_choice: Annotated[
        str, typer.Option(metavar="NAME", help="required, auto, or the name of a tool.")
    ] = "required",
    additional: Annotated[
        Additional,
        typer.Option(
            help="How to read objects of a schema or tool that list properties and do not say additionalProperties: "
            "closed to the declared keys, or open, as in the standard."
        ),
    ] = Additional.DECLARED,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="System message.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="A GGUF file, or a model of the hub, USER/MODEL[:QUANT]. Else the small default model.",
        ),
    ] = None,
    hf_repo: HfRepo = None,
    hf_file: HfFile = None,
    hf_token: HfToken = None,
    offline: Offline = False,
    tool_call_parser: Annotated[
        str | None, typer.Option("--tool-call-parser", "--format", metavar="NAME", help="Wire format of tool calls.")
    ] = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", "--n-predict", metavar="N", help="Most tokens of the answer.", min=1)
    ] = 256,
    min_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Fewest tokens, unless the constraint ends before.", min=0)
    ] = None,
    temperature: Annotated[
        float, typer.Option("--temperature", "--temp", metavar="X", help="0 is greedy.", min=0, max=100)
    ] = 0.0,
    top_p: Annotated[
        float | None,
        typer.Option(metavar="X", help="Keep the most likely tokens, up to this probability.", min=0, max=1),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(metavar="N", help="Keep the N most likely tokens. 0 keeps all.", min=-1)
    ] = None,
    min_p: Annotated[
        float | None,
        typer.Option(metavar="X", help="Keep tokens with at least X of the highest probability.", min=0, max=1),
    ] = None,
    repetition_penalty: Annotated[
        float | None,
        typer.Option(
            "--repetition-penalty",
            "--repeat-penalty",
            metavar="X",
            help="Above 1, tokens of prompt and answer are less likely to come again.",
            min=0.01,
            max=100,
        ),
    ] = None,
    presence_penalty: Annotated[
        float | None, typer.Option(metavar="X", help="For each token that has been written.", min=-2, max=2)
    ] = None,
    frequency_penalty: Annotated[
        float | None, typer.Option(metavar="X", help="For each time that it has been.", min=-2, max=2)
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="End the answer before this text; may be repeated.")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Makes a random answer repeatable.")] = None,
    thinking_token_budget: Annotated[
        int | None, typer.Option(metavar="N", help="Most tokens of reasoning; -1 sets no bound.", min=-1)
    ] = None,
    repetition_detection: Annotated[
        bool, typer.Option("--repetition-detection", help="End an answer that repeats itself without end.")
    ] = False,
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
    n: Annotated[int, typer.Option("-n", metavar="N", help="How many answers.", min=1)] = 1,
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
    limit: LimitOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole completion as one JSON object.")] = False,
) -> None:
    """Answer a prompt under a constraint.

    The answer is printed as it comes, a call as a line: its name and its arguments as JSON. On a terminal, reasoning,
    content and calls have colours, and the speed is printed to stderr. Exit code 1: the answer was cut by --max-tokens.

    \b
    Examples:
      narrows generate "Name a colour" --choice red --choice green
      narrows generate "When was Faust written?" --schema book.json
      narrows generate "Is it warm in Paris?" --tool weather.json --json
      narrows generate "Three colours" --schema colours.json --values
      narrows generate "Is it blue?" --choice yes --choice no --select sum
      narrows generate "A story" --temp 0.8 --top-p 0.9 --stop END
    """
    sources = Sources()
    with errors_shown(as_json, sources, has_limits=True):
        limits = limits_of(limit)
        check_stdin(prompt, schema, grammar, *(tool or ()))
        hub = HubOptions(repo=hf_repo, file=hf_file, token=hf_token, offline=offline)
        named_model = hub.named(model)
        drawn = {
            "max_tokens": ("--max-tokens", max_tokens),
            "min_tokens": ("--min-tokens", min_tokens),
            "temperature": ("--temperature", temperature),
            "top_p": ("--top-p", top_p),
            "top_k": ("--top-k", top_k),
            "min_p": ("--min-p", min_p),
            "repetition_penalty": ("--repetition-penalty", repetition_penalty),
            "presence_penalty": ("--presence-penalty", presence_penalty),
            "frequency_penalty": ("--frequency-penalty", frequency_penalty),
            "stop": ("--stop", stop),
            "seed": ("--seed", seed),
            "n": ("-n", n),
            "budget": ("--budget", budget),
            "thinking_token_budget": ("--thinking-token-budget", thinking_token_budget),
            "repetition_detection": ("--repetition-detection", repetition_detection),
            "select": ("--select", None if select is None else select.value),
            "draft": ("--draft", draft.value),
        }
        for field, (option, _) in drawn.items():
            sources.add(f"/{field}", option)
        body: dict[str, Any] = {field: value for field, (_, value) in drawn.items() if value is not None}
        sources.add("/messages", text_source(prompt, "PROMPT"))
        body["messages"] = [] if system is None else [{"role": "system", "content": system}]
        body["messages"].append({"role": "user", "content": text_or_file(prompt, "PROMPT")})
        body["disable_additional_properties"] = additional is Additional.DECLARED
        constraints = _constraints(schema, regex, choice, grammar, language, unit, sources)
        if len(constraints) + bool(tool) > 1:
            raise typer.BadParameter("at most one of --schema, --regex, --grammar, --choice and --tool")
        if constraints:
            body["structured_outputs"] = constraints
        if tool:
            body["tools"] = tools_of(tool, "--tool", sources)
            body["parallel_tool_calls"] = False
            named = {"type": "function", "function": {"name": tool_choice}}
            body["tool_choice"] = tool_choice if tool_choice in ("auto", "required") else named
            for place in ("", "/function/name"):
                sources.add(f"/tool_choice{place}", "--tool-choice")
        if values:
            if as_json or n > 1:
                raise typer.BadParameter("it goes with one answer, and not with --json", param_hint="--values")
            body |= {"stream": True, "stream_options": {"include_values": True}}
            sources.add("/stream_options/include_values", "--values")
        if select is not None and not choice:
            raise typer.BadParameter("it goes with --choice", param_hint="--select")
        if tool_call_parser is not None:
            from narrows import formats

            sources.add("/tool_call_parser", "--tool-call-parser")
            with errors_at("/tool_call_parser"):
                formats.find(tool_call_parser)
        from narrows.cli.generate_run import run

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
        engine = load_engine(named_model, hub=hub, quiet=as_json, **options)
        try:
            complete = asyncio.run(run(engine, body, tool_call_parser, as_json, sources, limits))
        finally:
            engine.close()
    if not complete:
        raise typer.Exit(NO)


def _constraints(
    schema: str | None,
    regex: str | None,
    choice: list[str] | None,
    grammar: str | None,
    language: str | None,
    unit: Unit | None,
    sources: Sources,
) -> dict[str, Any]:
    """The field `structured_outputs` of the request. `sources` learns what its parts come from."""
    if language is not None and language not in LANGUAGES:
        raise typer.BadParameter(
            f"{language!r} is not a language: use one of {', '.join(LANGUAGES)}", param_hint="--language"
        )
    for option, given in (("--language", language), ("--unit", unit)):
        if given is not None and grammar is None:
            raise typer.BadParameter("it goes with --grammar", param_hint=option)
    constraints: dict[str, Any] = {}
    if schema is not None:
        sources.add(f"{_CONSTRAINT}/json", json_source(schema, "--schema"))
        constraints["json"] = json_or_file(schema, "--schema", f"{_CONSTRAINT}/json")
    if regex is not None:
        sources.add(f"{_CONSTRAINT}/regex", "--regex")
        constraints["regex"] = regex
    if choice:
        sources.add(f"{_CONSTRAINT}/choice", "--choice")
        constraints["choice"] = choice
    if grammar is not None:
        front = LANGUAGES[language or GBNF.name]
        if front.name in constraints:
            raise typer.BadParameter(f"{front.name} repeats another option", param_hint="--language")
        check_unit(unit, front)
        name = text_source(grammar, "--grammar")
        sources.add(f"{_CONSTRAINT}/{front.name}", name)
        text = text_or_file(grammar, "--grammar")
        with errors_at(f"{_CONSTRAINT}/{front.name}"):
            source = front.from_text(text.removesuffix("\n") if front.one_line else text)
        constraints[front.name] = source if unit is None else {"text": source, "unit": unit.value}
        if unit is not None:
            sources.add(f"{_CONSTRAINT}/{front.name}/text", name)
            sources.add(f"{_CONSTRAINT}/{front.name}/unit", "--unit")
    return constraints
