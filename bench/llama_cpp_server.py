"""How long does a valid tool call take, compared with llama.cpp's own server and its grammar?

    python bench/llama_cpp_server.py                                   # the small model
    python bench/llama_cpp_server.py --model model.gguf --calls 40 --threads 4 [--json]

Both servers run in their own process, with the same file and the same number of threads, and answer over HTTP. They
take turns call by call, so that other load falls on both. Each call has temperature 0, and is asked for complete and as
a stream, in two ways:
    tools   `tools` with `tool_choice: "required"`
    json    the same call as a JSON object, with `response_format: json_schema`

A call is valid if there is exactly one, of a tool that was offered, whose arguments are valid by the tool's schema. The
time for a valid call is all the time of a server divided by the number of its valid calls, so an invalid one costs.

llama.cpp's server is the one in xllamacpp, the library that narrows pins: llama.cpp's own code behind its own HTTP. Both
use the chat template `tools_template.jinja`, so that both have the same prompt and the same wire format. Without a
template that has tools, llama.cpp's server ignores them, also with `tool_choice: "required"`: `--own-template` shows
that with the small model. With one, its grammar lets text of any length come before a call, also where a call is
required. Two calls before the question show the model how to begin with the call; the default model is too small to
learn from that, and writes text. In `json` both grammars begin with the call.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import jsonschema_rs
from openai import APIError, OpenAI

_TEXT = {"type": "string", "maxLength": 40}
TOOLS: dict[str, dict[str, Any]] = {
    "get_weather": {"city": _TEXT, "days": {"type": "integer", "minimum": 1, "maximum": 14}},
    "search": {"query": _TEXT, "language": {"enum": ["en", "fr", "de"]}},
    "route": {"from": _TEXT, "to": _TEXT, "by": {"enum": ["train", "car", "foot"]}},
}
PLACES = ("Paris", "Oslo", "Rome", "Berlin", "Lima", "Cairo", "Kyoto", "Boston", "Delhi", "Quito")
QUESTIONS = ("What is the weather in {}?", "How do I get to {} by train?", "Find a hotel in {}.")


def schema(name: str) -> dict[str, Any]:
    properties = TOOLS[name]
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


OFFERED: list[Any] = [
    {"type": "function", "function": {"name": name, "description": f"The tool {name}", "parameters": schema(name)}}
    for name in TOOLS
]


def example(question: str, name: str, arguments: dict[str, Any], result: str) -> list[Any]:
    """A question, the call that answers it, and what the tool returned."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{name}", "type": "function", "function": function}
    return [
        {"role": "user", "content": question},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{name}", "content": result},
    ]


EXAMPLES = [
    *example("What is the weather in Madrid?", "get_weather", {"city": "Madrid", "days": 1}, "Sunny, 31 C."),
    *example("Find a museum in Vienna.", "search", {"query": "museum Vienna", "language": "de"}, "Albertina."),
]


def asked(question: str, way: str) -> dict[str, Any]:
    """The fields of a request that say what is asked."""
    messages: list[Any] = [{"role": "user", "content": question}]
    if way == "tools":
        fields = {"tools": OFFERED, "tool_choice": "required", "parallel_tool_calls": False}
        return {"messages": EXAMPLES + messages, **fields}
    system = {"role": "system", "content": f"Answer with a call of one of these tools, as JSON: {json.dumps(OFFERED)}"}
    branches = [
        {
            "type": "object",
            "properties": {"name": {"const": name}, "arguments": schema(name)},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for name in TOOLS
    ]
    wanted = {"type": "json_schema", "json_schema": {"name": "call", "schema": {"anyOf": branches}, "strict": True}}
    return {"messages": [system, *messages], "response_format": wanted}


def ask(client: OpenAI, model: str, question: str, way: str, stream: bool) -> dict[str, Any]:
    """One request: seconds, seconds to the first piece of the call, tokens, and whether the call is valid."""
    body: dict[str, Any] = {"model": model, "temperature": 0, "max_tokens": 100, **asked(question, way)}
    calls: dict[int, list[str]] = {}
    text = ""
    tokens, first = 0, 0.0
    started = time.perf_counter()
    try:
        if stream:
            options = {"include_usage": True}
            for chunk in client.chat.completions.create(**body, stream=True, stream_options=options):
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    if choice.delta.content and way == "json":
                        first = first or time.perf_counter() - started
                    for call in choice.delta.tool_calls or ():
                        first = first or time.perf_counter() - started
                        named = calls.setdefault(call.index, ["", ""])
                        named[0] += (call.function and call.function.name) or ""
                        named[1] += (call.function and call.function.arguments) or ""
                if chunk.usage:
                    tokens = chunk.usage.completion_tokens
        else:
            answer = client.chat.completions.create(**body)
            tokens = answer.usage.completion_tokens
            text = answer.choices[0].message.content or ""
            for i, call in enumerate(answer.choices[0].message.tool_calls or ()):
                calls[i] = [call.function.name, call.function.arguments]
    except APIError as error:
        print(f"{client.base_url}: {error}", file=sys.stderr)
    seconds = time.perf_counter() - started
    is_valid = valid_json(text) if way == "json" else len(calls) == 1 and valid(*calls[0])
    return {"seconds": seconds, "first": first, "tokens": tokens, "valid": is_valid}


def valid_json(text: str) -> bool:
    try:
        call = json.loads(text)
    except ValueError:
        return False
    return isinstance(call, dict) and valid(call.get("name", ""), json.dumps(call.get("arguments")))


def valid(name: str, arguments: str) -> bool:
    try:
        return name in TOOLS and bool(jsonschema_rs.is_valid(schema(name), json.loads(arguments)))
    except ValueError:
        return False


def measure(urls: dict[str, str], calls: int) -> list[dict[str, Any]]:
    """A row for each server and way of asking."""
    clients = {name: OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) for name, url in urls.items()}
    models = {name: client.models.list().data[0].id for name, client in clients.items()}
    runs: dict[tuple[str, bool, str], list[dict[str, Any]]] = {}
    for i in range(calls + 1):
        for way, stream in itertools.product(("tools", "json"), (False, True)):
            number = 2 * i + stream  # a question that was asked before is in both servers' prefix caches
            question = QUESTIONS[number % len(QUESTIONS)].format(PLACES[number % len(PLACES)])
            for name in sorted(clients, reverse=i % 2 == 1):
                run = ask(clients[name], models[name], question, way, stream)
                if i:  # the first is a warm-up: the tools' prompt, the grammar
                    runs.setdefault((way, stream, name), []).append(run)
    return [row(*key, those) for key, those in runs.items()]


def row(way: str, stream: bool, name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    count = sum(run["valid"] for run in runs)
    total = sum(run["seconds"] for run in runs)
    return {
        "way": way,
        "stream": stream,
        "server": name,
        "valid": f"{count}/{len(runs)}",
        "ms_per_valid_call": round(1000 * total / count, 1) if count else None,
        "ms_median": round(1000 * statistics.median(run["seconds"] for run in runs), 1),
        "first_ms_median": round(1000 * statistics.median(run["first"] for run in runs), 1) if stream else None,
        "tokens_median": statistics.median(run["tokens"] for run in runs),
        "ms_per_token": round(1000 * total / max(1, sum(run["tokens"] for run in runs)), 2),
    }


@contextmanager
def process(command: list[str]) -> Iterator[str]:
    """A server that prints a JSON object with its URL when it is ready."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as started:
        assert started.stdout is not None
        try:
            yield json.loads(started.stdout.readline())["url"]
        finally:
            started.terminate()


def serve_peer(model: str, threads: int, template: str | None) -> None:
    """llama.cpp's server, with its defaults except for the threads."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.n_ctx, params.n_parallel, params.port, params.use_jinja, params.verbosity = 4096, 1, 0, True, 0
    if template is not None:
        params.chat_template = Path(template).read_text()
    server = xllamacpp.Server(params)
    print(json.dumps({"url": server.listening_address}), flush=True)
    while True:
        time.sleep(3600)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a GGUF file; by default the small model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--own-template", action="store_true", help="the chat template in the model's file")
    parser.add_argument("--chat-template", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--as-peer", action="store_true", help="be llama.cpp's server")
    options = parser.parse_args()
    if options.as_peer:
        serve_peer(options.model, options.threads, options.chat_template)
        return
    from narrows.engines.default_model import default_gguf

    model = options.model or str(default_gguf())
    given = ["--model", model, "--threads", str(options.threads)]
    if not options.own_template:
        given += ["--chat-template", str(Path(__file__).with_name("tools_template.jinja"))]
    with ExitStack() as stack:
        narrows = [sys.executable, "-m", "narrows.cli", "serve", *given, "--port", "0", "--json", "--ctx-size", "4096"]
        peer = [sys.executable, __file__, "--as-peer", *given]
        urls = {name: stack.enter_context(process(c)) for name, c in (("narrows", narrows), ("llama.cpp", peer))}
        rows = measure(urls, options.calls)
    if options.json:
        print(json.dumps(rows))
        return
    for one in rows:
        print("  ".join(f"{key}={value}" for key, value in one.items()))
    for way, stream in itertools.product(("tools", "json"), (False, True)):
        ms = {
            each["server"]: each["ms_per_valid_call"] for each in rows if (each["way"], each["stream"]) == (way, stream)
        }
        ratio = f"{ms['narrows'] / ms['llama.cpp']:.2f}" if all(ms.values()) else "none: one has no valid call"
        print(f"{way}, stream={stream}: narrows / llama.cpp, time for a valid call: {ratio}")


if __name__ == "__main__":
    main()
