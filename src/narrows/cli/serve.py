"""`narrows serve`: the OpenAI-compatible server, with the embedded engine or before another server."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated, Any, cast

import typer
from rich.markup import escape

from narrows.cli import engine_options
from narrows.cli.exits import USAGE, errors_shown
from narrows.cli.inputs import read_text
from narrows.cli.limit_options import LimitOption, limits_of
from narrows.cli.model import connect_engine, load_engine
from narrows.cli.model_file import HfFile, HfRepo, HfToken, HubOptions, Offline, local_file, tokenizer_files
from narrows.cli.several import Asked, models_asked
from narrows.cli.sources import Sources, errors_at
from narrows.cli.terminal import print_json, talk
from narrows.engines.api import Engine

# Some clients insist on an API key, so the example has one. The other example is the README's.
_TRY = """\
[bold]narrows[/] serves {models} on [bold]{url}[/]  (Ctrl-C stops it)
  {options}

Try next, in another terminal:
  curl -N {url}/v1/chat/completions -H 'Content-Type: application/json' -d '{{
    "messages": [{{"role": "user", "content": "What is the weather in Paris?"}}],
    "tools": [{{"type": "function", "function": {{"name": "get_weather", "parameters": {{"type": "object",
      "properties": {{"city": {{"type": "string"}}}}, "required": ["city"]}}}}}}],
    "tool_choice": "required", "parallel_tool_calls": false, "max_tokens": 60, "stream": true}}'
  python -c "import openai; print(openai.OpenAI(base_url='{url}/v1', api_key='none').models.list())"
  {playground}the API page: {url}/docs      metrics: {url}/metrics
"""


def serve(
    model_argument: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]MODEL",
            help="A GGUF file, or the name of a model of the hub, USER/MODEL[:QUANT]; several for several models, each "
            "by its name. Without any, the small default model.",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", metavar="[NAME=]MODEL", help="The same as MODEL; may be repeated."),
    ] = None,
    hf_repo: HfRepo = None,
    hf_file: HfFile = None,
    hf_token: HfToken = None,
    offline: Offline = False,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", help="Port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 8000,
    api_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Require this bearer token on /v1; may be repeated.",
            envvar="NARROWS_API_KEY",
            show_envvar=True,
        ),
    ] = None,
    served_model_name: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A name of the model for clients; may be repeated.")
    ] = None,
    tool_call_parser: Annotated[
        list[str] | None,
        typer.Option(
            "--tool-call-parser",
            "--format",
            metavar="NAME",
            help="Wire format of tool calls, a name or a TOML file. Without it, found from the chat template."
            " With several models MODEL=NAME; so also the next two.",
        ),
    ] = None,
    reasoning_parser: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A reasoning style. 'auto', the default, is the format's own, 'none' leaves it in the content.",
        ),
    ] = None,
    enable_auto_tool_choice: Annotated[
        bool, typer.Option("--enable-auto-tool-choice", help="Accepted as in vLLM; it is always on.")
    ] = False,
    chat_template: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="A Jinja file to use in place of the model's own template.")
    ] = None,
    max_tool_calls: Annotated[
        int,
        typer.Option(
            metavar="N", help="The most calls in one answer, unless the request sets it; 0 sets no bound.", min=0
        ),
    ] = 16,
    stop_at_repeated_call: Annotated[
        bool,
        typer.Option(
            "--stop-at-repeated-call/--no-stop-at-repeated-call",
            help="End an answer before it repeats a call, or a series of calls, that it has just made.",
        ),
    ] = True,
    disable_additional_properties: Annotated[
        bool,
        typer.Option(
            "--disable-additional-properties/--no-disable-additional-properties",
            help="Objects in schemas allow only the properties that they list, unless the schema says otherwise.",
        ),
    ] = True,
    strict_schemas: Annotated[
        bool,
        typer.Option("--strict-schemas", help="Refuse schemas that cannot be enforced, also without 'strict'."),
    ] = False,
    stored_responses: Annotated[
        int,
        typer.Option(
            metavar="N", help="Answers of /v1/responses that are remembered, in memory; 0 remembers none.", min=0
        ),
    ] = 1_000,
    playground: Annotated[
        bool, typer.Option("--playground/--no-playground", help="Serve the playground, a page for people, at /.")
    ] = True,
    max_model_len: Annotated[
        int | None, typer.Option(metavar="N", help="The most tokens of prompt and answer together.", min=16)
    ] = None,
    max_num_seqs: Annotated[
        int | None,
        typer.Option("--max-num-seqs", "--parallel", "-np", metavar="N", help="Sequences that run at once.", min=1),
    ] = None,
    max_queue: Annotated[
        int | None, typer.Option(metavar="N", help="Sequences that may wait. Requests beyond them get 429.", min=0)
    ] = None,
    cache_ram: Annotated[
        int | None,
        typer.Option(
            "--cache-ram",
            "-cram",
            metavar="N",
            help="Memory in MiB for prefixes that later requests may begin with; 0 keeps none, -1 sets no limit.",
            min=-1,
        ),
    ] = None,
    prefix_cache_tokens: Annotated[
        int | None,
        typer.Option(metavar="N", help="The most tokens that are kept there, in addition to --cache-ram.", min=0),
    ] = None,
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
    embeddings: engine_options.EmbeddingsOn = False,
    pooling: engine_options.Pooling = None,
    embd_normalize: engine_options.EmbdNormalize = None,
    embd_batch_size: engine_options.EmbdBatchSize = None,
    llama_lib: Annotated[
        str | None, typer.Option(metavar="FILE", help="Path of a llama.cpp shared library.", envvar="NARROWS_LLAMA_LIB")
    ] = None,
    upstream: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Run no model: stand before this server, such as http://127.0.0.1:8001/v1.",
            show_default=False,
        ),
    ] = None,
    upstream_kind: Annotated[
        str | None,
        typer.Option(help="vllm, sglang, llama.cpp, or openai for any other. Without it, the upstream is asked."),
    ] = None,
    upstream_model: Annotated[
        str | None, typer.Option(help="The upstream's name of the model. Without it, the first that it lists.")
    ] = None,
    upstream_api_key: Annotated[
        str | None,
        typer.Option(help="The upstream's bearer token.", envvar="NARROWS_UPSTREAM_API_KEY", show_envvar=True),
    ] = None,
    upstream_timeout: Annotated[
        float, typer.Option(help="Seconds to wait for an upstream that does not answer yet.", min=0)
    ] = 300.0,
    upstream_checked: Annotated[
        bool,
        typer.Option(
            "--upstream-checked",
            help="Take grammars that the upstream cannot be held to. An answer that leaves one ends with an error.",
        ),
    ] = False,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="The tokenizer of the upstream's model: a folder with a tokenizer.json, a GGUF file, or the model's"
            " name on the hub. Without it, the files that the upstream names, if they are on this machine.",
            show_default=False,
        ),
    ] = None,
    scheduling_policy: Annotated[
        str, typer.Option(metavar="NAME", help="fcfs, or priority: requests with a lower 'priority' go first.")
    ] = "fcfs",
    allowed_origins: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Web origin whose pages may call the server; may be repeated."),
    ] = None,
    timeout_graceful_shutdown: Annotated[
        float,
        typer.Option(
            "--timeout-graceful-shutdown",
            "--shutdown-timeout",
            metavar="SECONDS",
            help="Seconds for running requests when the server is told to stop.",
            min=0,
        ),
    ] = 8.0,
    max_connections: Annotated[
        int | None,
        typer.Option(
            "--max-connections",
            "--limit-concurrency",
            metavar="N",
            help="The most open connections. By default 4096, or fewer if the limit on descriptors is low.",
            min=1,
        ),
    ] = None,
    head_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Seconds for a request's head to come.", min=0.1)
    ] = 10.0,
    body_timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="Seconds for a request's body to come, and one more for each 10 KB.", min=0.1
        ),
    ] = 30.0,
    timeout_keep_alive: Annotated[
        int, typer.Option(metavar="SECONDS", help="Seconds that an idle connection stays open between requests.", min=0)
    ] = 5,
    limit: LimitOption = None,
    log_level: Annotated[
        str, typer.Option(metavar="LEVEL", help="critical, error, warning, info or debug.")
    ] = "warning",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout when ready, and nothing else.")
    ] = False,
) -> None:
    """Start an OpenAI-compatible server.

    \b
    Examples:
      narrows serve
      narrows serve Qwen3-0.6B-Q8_0.gguf --api-key secret
      narrows serve Qwen/Qwen3-0.6B-GGUF:Q8_0
      narrows serve model.gguf --tool-call-parser mistral --port 8080
      narrows serve qwen=Qwen3-0.6B-Q8_0.gguf small=model.gguf

      narrows serve --upstream http://127.0.0.1:8001/v1 --tokenizer Qwen/Qwen3-8B
    """
    from narrows.server import ServedModel, Settings, create_app, logs, memory
    from narrows.server.settings import POLICIES, SchedulingPolicy

    sources = Sources()
    with errors_shown(as_json, sources, has_limits=True):
        hub = HubOptions(repo=hf_repo, file=hf_file, token=hf_token, offline=offline)
        models = [*(model_argument or ()), *(model or ()), *([hf_repo] if hf_repo is not None else [])]
        asked = models_asked(
            models,
            served_model_name or (),
            hub=hub,
            lora=lora or (),
            lora_scaled=lora_scaled or (),
            tool_call_parser=tool_call_parser or (),
            reasoning_parser=reasoning_parser or (),
            chat_template=chat_template or (),
        )
        of_all = {
            "cache_ram": cache_ram,
            "prefix_cache_tokens": prefix_cache_tokens,
            "embeddings": embeddings or None,
            "pooling": pooling,
            "embd_normalize": embd_normalize,
            "embd_batch": embd_batch_size,
        }
        of_each = [
            of_all
            | engine_options.arguments(
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
                lora=one.lora,
                lora_scaled=one.lora_scaled,
            )
            for one in asked
        ]
        _refuse_unused(
            upstream is not None,
            {
                "--model": models or None,
                **{engine_options.FLAGS[name]: value for name, value in of_each[0].items()},
            },
            {
                "--upstream-kind": upstream_kind,
                "--upstream-model": upstream_model,
                "--upstream-checked": upstream_checked or None,
                "--tokenizer": tokenizer,
            },
        )
        if log_level not in ("critical", "error", "warning", "info", "debug"):
            raise typer.BadParameter(f"{log_level!r} is not a level", param_hint="--log-level")
        if scheduling_policy not in POLICIES:
            raise typer.BadParameter(f"must be one of {', '.join(POLICIES)}", param_hint="--scheduling-policy")
        settings = Settings(
            api_keys=tuple(key for key in api_key or () if key),
            allowed_origins=tuple(allowed_origins or ()),
            max_tool_calls=max_tool_calls or None,
            stop_at_repeated_call=stop_at_repeated_call,
            disable_additional_properties=disable_additional_properties,
            strict_schemas=strict_schemas,
            limits=limits_of(limit),
            stored_responses=stored_responses,
            playground=playground,
            scheduling_policy=cast(SchedulingPolicy, scheduling_policy),
            shutdown_timeout=timeout_graceful_shutdown,
            max_connections=max_connections,
            head_timeout=head_timeout,
            body_timeout=body_timeout,
            keep_alive_timeout=timeout_keep_alive,
        )
        _check_names(asked, sources)
        templates = [read_text(one.chat_template, "--chat-template") if one.chat_template else None for one in asked]
        _try_address(host, port)
        # A thread of pure Python, such as one that reads a grammar, makes the decode loop wait by this interval several
        # times a step. Measured with two such threads: 35 ms a step with Python's 5 ms, 10 with 1; less gains nothing.
        sys.setswitchinterval(0.001)
        memory.give_back_early()
        logs.configure(log_level)
        sizes = {"max_model_len": max_model_len, "max_num_seqs": max_num_seqs, "max_queue": max_queue}
        with ExitStack() as opened:
            engines: dict[tuple[object, ...], Engine] = {}
            served: dict[str, ServedModel] = {}
            files = [None if one.model is None else local_file(one.model, hub, quiet=as_json) for one in asked]
            for one, file, of_model, template in zip(asked, files, of_each, templates, strict=True):
                if one.weights not in engines:
                    engines[one.weights] = engine = (
                        load_engine(
                            one.model, hub=hub, file=file, quiet=as_json, library=llama_lib, **sizes, **of_model
                        )
                        if upstream is None
                        else connect_engine(
                            upstream,
                            quiet=as_json,
                            kind=upstream_kind,
                            model=upstream_model,
                            api_key=upstream_api_key,
                            wait=upstream_timeout,
                            checked=upstream_checked,
                            tokenizer=None if tokenizer is None else tokenizer_files(tokenizer, hub, quiet=as_json),
                            **sizes,
                        )
                    )
                    opened.callback(engine.close)
                engine = engines[one.weights]
                its_model = ServedModel(engine, one.tool_call_parser, one.reasoning_parser, template)
                served |= dict.fromkeys(one.names or (engine.model_name,), its_model)
            app = create_app(served, settings)
            if host not in ("127.0.0.1", "localhost", "::1") and not settings.api_keys:
                talk.print(f"[yellow]note:[/] {host} can be reached by others, and no --api-key is set")
            _run(app, host, port, log_level, as_json)


def _options(described: Mapping[str, Any]) -> str:
    """The engine's options in a line."""
    names = ("n_ctx", "max_model_len", "max_num_seqs", "n_threads", "n_threads_batch", "n_gpu_layers", "cache_ram")
    said = [f"{name} {described[name]}" for name in names]
    said.append(f"cache {described['cache_type_k']}/{described['cache_type_v']}")
    if "pooling" in described:
        said.append(f"embeddings of up to {described['embd_batch']} tokens, pooling {described['pooling']}")
    said += [f"lora {os.path.basename(path)} x {scale:g}" for path, scale in described["lora"]]
    return ", ".join(said)


def _try_address(host: str, port: int) -> None:
    """Raises `BadParameter` if the server could not listen there. A model that loads for a minute need not be loaded to
    find that out."""
    from narrows.server.run import try_address

    try:
        try_address(host, port)
    except socket.gaierror as error:
        raise typer.BadParameter(f"{host!r} is no address: {error.strerror}", param_hint="--host") from None
    except OSError as error:
        text = f"cannot listen on {host}, port {port}: {os.strerror(error.errno or 0)}"
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise typer.BadParameter(text, param_hint="--host") from None
        raise typer.BadParameter(f"{text}; 0 takes a free port", param_hint="--port") from None


def _check_names(asked: Sequence[Asked], sources: Sources) -> None:
    """Unknown names are refused before a large model is loaded."""
    from narrows import formats

    sources.add("/tool_call_parser", "--tool-call-parser")
    sources.add("/reasoning_parser", "--reasoning-parser")
    for one in asked:
        fmt = formats.get("hermes_json")
        if one.tool_call_parser is not None:
            with errors_at("/tool_call_parser"):
                fmt = formats.find(one.tool_call_parser)
        with errors_at("/reasoning_parser"):
            fmt.style(one.reasoning_parser)


def _refuse_unused(has_upstream: bool, of_model: dict[str, object], of_upstream: dict[str, object]) -> None:
    """Options that would have no effect: those of a model here beside an upstream, and the reverse."""
    for name, value in (of_model if has_upstream else of_upstream).items():
        if value is not None:
            why = "the upstream runs the model" if has_upstream else "it needs --upstream"
            raise typer.BadParameter(why, param_hint=name)


def _run(app: Any, host: str, port: int, log_level: str, as_json: bool) -> None:
    from narrows.server.run import Server

    models = app.state.models

    class Announced(Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if not self.started:
                return
            bound = self.servers[0].sockets[0].getsockname()[1]
            url = f"http://{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{bound}"
            if as_json:
                each = [
                    {"model": one.name, "format": one.format.name, "engine": one.engine.describe()} for one in models
                ]
                print_json({"url": url, **each[0], "models": each})
            else:
                page = f"the playground: {url}/      " if models.shared.settings.playground else ""
                named = " and ".join(f"[bold]{escape(one.name)}[/] ({escape(one.format.name)})" for one in models)
                options = "\n  ".join(escape(_options(one.engine.describe())) for one in models)
                talk.print(_TRY.format(models=named, url=url, playground=page, options=options))

    try:
        Announced(app, host, port, access_log=log_level in ("info", "debug")).run()
    except SystemExit:  # uvicorn cannot listen, and has logged why
        raise typer.Exit(USAGE) from None
