"""How often do tool parsers read an answer wrongly? narrows' parsers inside vLLM, and vLLM's own.

    .venv-vllm/bin/python bench/vllm_parsers.py [FORMAT ...] [--json] [--why]

Both are driven by vLLM's serving layer and by LocalAI's loop. It runs in an environment with vLLM (`make test-vllm`
makes one) and needs no model. Each format has 22 answers (tests/cases/vllm/answers.toml): calls, plain text, hard
strings, a closing marker in a string, text after a call, a call that is cut. Each answer, in the tokens of a real
tokenizer, is cut into deltas in nine ways, which makes 198 runs.

A run is wrong if the stream differs from the complete answer or from the expected one, if arguments are not JSON, if
markup is in the content, or if the parser raises. The amount of whitespace between words does not count. The marker in
a string comes as one token, the harder case for text. In formats with tags around bare text that token would be the
marker itself, so there it comes in several. vLLM's own parser of a format is the one in its registry under a name that
the format knows (`Format.aliases`).

Other programs can use `wrong_runs`, to count the same for a real model's outputs.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# bench/vllm.py must not be imported as vLLM.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
sys.path.insert(0, str(HERE.parent / "tests" / "plugins" / "vllm"))

import answers  # noqa: E402
import serving  # noqa: E402
from localai import LocalAI  # noqa: E402

from narrows import formats  # noqa: E402

WAYS = ("serving", "LocalAI")


@dataclass(slots=True)
class Count:
    """Wrong runs of one parser, where it is driven in one way."""

    parser: str
    way: str
    runs: int = 0
    wrong: int = 0
    by_cutting: dict[str, int] = field(default_factory=dict)
    by_kind: dict[str, int] = field(default_factory=dict)
    cases: dict[str, str] = field(default_factory=dict)
    """A wrong answer's name -> the problem in one of its runs."""

    def add(self, answer: answers.Answer, cutting: str, problem: str | None) -> None:
        group = "1 to 8 tokens" if cutting.startswith("1 to 8") else cutting
        self.runs += 1
        self.by_cutting.setdefault(group, 0)
        if problem is not None:
            self.wrong += 1
            self.by_cutting[group] += 1
            self.by_kind[answer.kind] = self.by_kind.get(answer.kind, 0) + 1
            self.cases.setdefault(answer.name, f"{cutting}: {problem}")


def vllm_parser(fmt: formats.Format) -> str | None:
    """The name of vLLM's own tool parser for this format."""
    from vllm.tool_parsers import ToolParserManager

    known = set(ToolParserManager.list_registered())
    return next((name for name in (*fmt.aliases, fmt.name) if name in known), None)


def driver(
    parser: str, way: str, tokenizer: Any
) -> tuple[Callable[..., answers.Result], Callable[..., answers.Result]]:
    """(stream(deltas), complete(text, ids)) with this tool parser."""
    from vllm.tool_parsers import ToolParserManager

    cls, reasoning = ToolParserManager.get_tool_parser(parser), _reasoning_parser(parser)
    if way == "LocalAI":
        from vllm.reasoning import ReasoningParserManager

        splits = ReasoningParserManager.get_reasoning_parser(reasoning) if reasoning else None
        return (
            lambda deltas: LocalAI(cls, tokenizer, answers.TOOLS).stream(deltas),
            lambda text, ids: LocalAI(cls, tokenizer, answers.TOOLS, splits).complete(text),
        )
    parsers, request = serving.parser_class(parser, reasoning), serving.chat_request(answers.TOOLS)
    return (
        lambda deltas: serving.stream(parsers, tokenizer, request, deltas),
        lambda text, ids: serving.complete(parsers, tokenizer, request, text, ids),
    )


def _reasoning_parser(parser: str) -> str | None:
    """narrows' reasoning parser for narrows' tool parser, if the format has reasoning: some formats set their content
    off with it. None of the answers holds reasoning."""
    fmt = formats.get(parser.removeprefix("narrows_")) if parser.startswith("narrows_") else None
    return parser if fmt is not None and fmt.reasoning is not None else None


def wrong_runs(parser: str, way: str, tokenizer: Any, given: Iterable[answers.Answer]) -> Count:
    """Runs every cutting of these answers through this tool parser, and counts the wrong runs."""
    count = Count(parser, way)
    stream, complete = driver(parser, way, tokenizer)
    for answer in given:
        whole: answers.Result | Exception
        try:
            whole = complete(answer.text, answer.tokens(tokenizer))
        except Exception as error:  # whatever a parser raises is counted
            whole = error
        for cutting, deltas in answers.cuttings(answer, tokenizer):
            count.add(answer, cutting, _problem(answer, stream, deltas, whole, way == "serving"))
    return count


def _problem(
    answer: answers.Answer, stream: Any, deltas: Any, whole: answers.Result | Exception, flushed: bool
) -> str | None:
    if isinstance(whole, Exception):
        return f"complete: {whole!r}"
    try:
        return answer.problem(stream(deltas), whole, flushed)
    except Exception as error:  # as above
        return repr(error)


def measure(names: Iterable[str]) -> Iterable[Count]:
    from narrows.plugins.vllm import plugin

    plugin.register()
    tokenizer = answers.marked_tokenizer()
    for name in names:
        fmt = formats.get(name)
        for parser in (f"narrows_{fmt.name}", vllm_parser(fmt)):
            for way in WAYS if parser else ():
                try:
                    # LocalAI reads complete answers without ids.
                    given = answers.answers(fmt.name, by_text=way == "LocalAI")
                    yield wrong_runs(str(parser), way, tokenizer, given)
                except ImportError as error:
                    print(f"{parser} is left out: {error}", file=sys.stderr)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument(
        "formats", nargs="*", metavar="FORMAT", help="by default hermes_json qwen3_xml mistral; 'all' for all formats"
    )
    arguments.add_argument("--json", action="store_true", help="print counts as JSON")
    arguments.add_argument("--why", action="store_true", help="print one wrong run of each answer")
    options = arguments.parse_args()
    names = options.formats or ["hermes_json", "qwen3_xml", "mistral"]
    logging.disable(logging.CRITICAL)  # vLLM's parsers log their tracebacks
    counts = []
    if not options.json:
        print("| parser | driven by | wrong runs | by character | by token | 1 to 8 tokens | whole | kinds |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for count in measure(formats.names() if names == ["all"] else names):
        counts.append(asdict(count))
        if not options.json:
            cuts = " | ".join(str(count.by_cutting[key]) for key in ("characters", "tokens", "1 to 8 tokens", "whole"))
            kinds = ", ".join(f"{kind} {number}" for kind, number in count.by_kind.items())
            print(f"| {count.parser} | {count.way} | {count.wrong} of {count.runs} | {cuts} | {kinds} |", flush=True)
            for name, why in count.cases.items() if options.why else ():
                print(f"    {name}: {why}")
    if options.json:
        print(json.dumps(counts, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
