"""Microseconds per delta of stream parsers: narrows, vLLM's own and SGLang's own, on the same text, in the same run.

    make bench-stream                      # sets up .venv-vllm and fetches the peers, then runs this
    .venv-vllm/bin/python bench/stream_peers.py [--formats glm_xml,kimi_k2] [--sizes 1000,10000] [--json FILE]

One call with one long string argument, and one with many keys, cut into the tokens of Qwen3's tokenizer (with the
format's markers as special tokens), one token per delta. Reported is CPU time per delta of the arguments. In brackets
is the time over their last tenth, where growth would show. Then comes the one-time cost of the rest of the call (text
and markup before and after). All are the best of some runs, without the cost of making a parser. A parser that has used
`--budget` seconds on one text is stopped; its numbers are for what it has read.

A peer "grows" if its last tenth costs half as much again at the largest size as at the smallest. narrows has a bound at
every size: a fifth of the cost of each peer that grows, and half of the cost of the fastest of the others. `missed`
names the peers for which the bound is not kept.

vLLM is driven as its server drives it (`ParserManager.get_parser`, `parse_delta`, with text and ids), SGLang by its
detector (`parse_streaming_increment`, text), narrows by `feed` (text). The peers are pure Python here: `fetch` unpacks
wheels of the pinned versions, and vLLM's dependencies are installed. Modules that SGLang imports for GPUs are replaced
by empty ones.
"""

from __future__ import annotations

import argparse
import gc
import importlib.abc
import importlib.machinery
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from stream import TOOLS, arguments_in, many_keys, one_argument, rendered
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from narrows import formats

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
VERSIONS = {"vllm": "0.33.0", "sglang": "0.5.23"}
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "narrows" / "peers"

PEERS: dict[str, tuple[str | None, str | None]] = {
    "hermes_json": ("hermes", "hermes"),
    "longcat": ("longcat", None),
    "iquest_q1": (None, "iquest_q1"),
    "ernie45": ("ernie45", None),
    "internlm": ("internlm", "interns1"),
    "inkling": ("inkling", "inkling"),
    "gigachat3": ("gigachat3", "gigachat3"),
    "granite_20b_fc": ("granite-20b-fc", None),
    "llama3_json": ("llama3_json", "llama3"),
    "mistral": ("mistral", "mistral"),
    "granite_array": ("granite", None),
    "jamba": ("jamba", None),
    "hunyuan_a13b": ("hunyuan_a13b", None),
    "xlam": ("xlam", None),
    "cohere_command3": ("cohere_command3", None),
    "cohere_command4": ("cohere_command4", "cohere_command4"),
    "phi4_mini": ("phi4_mini_json", None),
    "apertus": ("apertus", "apertus2509"),
    "deepseek_v3": ("deepseek_v3", "deepseekv3"),
    "deepseek_v31": ("deepseek_v31", "deepseekv31"),
    "kimi_k2": ("kimi_k2", "kimi_k2"),
    "harmony": ("openai", "gpt-oss"),
    "plamo3": ("plamo3", None),
    "qwen3_xml": ("qwen3_coder", "qwen3_coder"),
    "mimo_xml": ("mimo", "mimo"),
    "seed_oss": ("seed_oss", None),
    "glm_xml": ("glm45", "glm45"),
    "hunyuan_v3": ("hy_v3", "hunyuan"),
    "hy_v4": ("hy_v4", None),
    "k2_horizon": ("k2_horizon", "k2_horizon"),
    "minimax_m2": ("minimax_m2", "minimax-m2"),
    "minimax_m3": ("minimax_m3", "minimax-m3"),
    "deepseek_v32": ("deepseek_v32", "deepseekv32"),
    "deepseek_v4": ("deepseek_v4", "deepseekv4"),
    "deepseek_v41": ("deepseek_v41", "deepseekv41"),
    "gigachat35": (None, "gigachat35"),
    "dots": ("dots", "dots"),
    "step3": ("step3", "step3"),
    "minicpm5": ("minicpm5", "minicpm5"),
    "muse": ("muse", "muse"),
    "kimi_k3": ("kimi_k3", "kimi_k3"),
    "pythonic": ("pythonic", "pythonic"),
    "olmo3": ("olmo3", None),
    "lfm2": ("lfm2", "lfm2"),
    "gemma4": ("gemma4", "gemma4"),
    "functiongemma": ("functiongemma", None),
}
"""narrows' format -> its parser in vLLM and in SGLang."""

Delta = tuple[str, int]
"""Text and id of a token."""


def fetch() -> None:
    """Unpack the peers' Python files, if that was not done before."""
    for name, version in VERSIONS.items():
        target = CACHE / f"{name}-{version}"
        if target.is_dir():
            continue
        print(f"fetching {name} {version}", file=sys.stderr)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work]
            subprocess.run([*command, f"{name}=={version}"], check=True)
            with zipfile.ZipFile(next(Path(work).glob("*.whl"))) as wheel:
                files = [n for n in wheel.namelist() if n.startswith(f"{name}/") and n.endswith((".py", ".json"))]
                wheel.extractall(Path(work) / "unpacked", files)
            (Path(work) / "unpacked").rename(target)


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Empty modules in place of those that need a GPU."""

    names = frozenset(("triton", "sgl_kernel", "flashinfer", "IPython", "traitlets"))

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.names else None

    def create_module(self, spec: Any) -> Any:
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__, module.__name__ = [], spec, spec.name
        return module

    def exec_module(self, module: Any) -> None:
        pass


def import_peers() -> None:
    """Put the peers before installed packages of the same name."""
    sys.path[:0] = [str(CACHE / f"{name}-{version}") for name, version in VERSIONS.items()]
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    import vllm

    assert vllm.__file__.startswith(str(CACHE)), "vLLM was imported before its pinned version could be"
    sys.meta_path.append(_Absent())
    logging.disable(logging.WARNING)


def narrows_parser(name: str) -> Callable[[], Callable[[Delta], Any]]:
    fmt = formats.get(name)

    def make() -> Callable[[Delta], Any]:
        feed = fmt.parser(TOOLS, reasoning=None).feed
        feed("")  # builds the regions now, not at the first delta
        return lambda delta: feed(delta[0])

    return make


def vllm_parser(name: str, tokenizer: Any) -> Callable[[], Callable[[Delta], Any]]:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser import ParserManager

    messages = [{"role": "user", "content": "x"}]
    request = ChatCompletionRequest(model="m", messages=messages, tools=TOOLS, tool_choice="auto")
    parser = ParserManager.get_parser(tool_parser_name=name, enable_auto_tools=True, tokenizer=tokenizer)
    assert parser is not None

    def make() -> Callable[[Delta], Any]:
        instance = parser(tokenizer, request.tools)
        instance.adjust_request(request)
        parse = instance.parse_delta
        return lambda delta: parse(delta[0], [delta[1]], request, [1], finished=False)

    return make


def sglang_parser(name: str) -> Callable[[], Callable[[Delta], Any]]:
    from sglang.srt.entrypoints.openai.protocol import Tool
    from sglang.srt.function_call.function_call_parser import FunctionCallParser

    tools = [Tool.model_validate(tool) for tool in TOOLS]

    def make() -> Callable[[Delta], Any]:
        parse = FunctionCallParser(tools, name).detector.parse_streaming_increment
        return lambda delta: parse(delta[0], tools)

    return make


def parser_of(engine: str, name: str, tokenizer: Any) -> Callable[[], Callable[[Delta], Any]]:
    """A function that makes parsers of this format. `name`: the format's name in that engine."""
    if engine == "narrows":
        return narrows_parser(name)
    return vllm_parser(name, tokenizer) if engine == "vllm" else sglang_parser(name)


def tokenizer_of(fmt: formats.Format) -> Tokenizer:
    """Qwen3's, with the format's markers as special tokens."""
    import real_tokenizers

    tokenizer = Tokenizer.from_file(str(real_tokenizers.folder("qwen3") / "tokenizer.json"))
    markers = [m for m in fmt.markers(None) if m[0] in "<[" and m[-1] in ">]" and "\n" not in m and "/" not in m[:2]]
    closers = [m for m in fmt.markers(None) if m[:2] == "</" and m[-1] == ">" and m.replace("/", "", 1) in markers]
    tokenizer.add_special_tokens([*markers, *closers])
    return tokenizer


def tokens(tokenizer: Tokenizer, text: str, begin: int, end: int) -> tuple[list[Delta], list[Delta], list[Delta]]:
    """The tokens before the arguments, of the arguments, and after them. A token across a border counts as outside."""
    stream, at = DecodeStream(skip_special_tokens=False), 0
    before: list[Delta] = []
    inside: list[Delta] = []
    after: list[Delta] = []
    for token in tokenizer.encode(text, add_special_tokens=False).ids:
        piece = stream.step(tokenizer, token) or ""
        part = before if at < begin else inside if at + len(piece) <= end else after
        part.append((piece, token))
        at += len(piece)
    assert "".join(delta[0] for delta in before + inside + after) == text
    return before, inside, after


Cost = tuple[float, float, float, int]
"""(us per delta of the arguments that were read, us per delta of their last tenth, us for the rest of the call, deltas
read)."""


class Stuck(BaseException):
    """A delta takes too long. Not an Exception, since the peers catch those."""


@contextmanager
def unstuck(seconds: float) -> Iterator[None]:
    """Raises `Stuck` inside after so many seconds. A delta may take minutes if a regular expression tries every way to
    match."""

    def ring(*_: Any) -> None:
        raise Stuck(f"a delta takes more than {seconds:.0f} s")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def measure(
    make: Callable[[], Callable[[Delta], Any]], parts: tuple[list[Delta], list[Delta], list[Delta]], budget: float
) -> Cost:
    before, deltas, after = parts
    whole, tenth, rest, read, spent = float("inf"), float("inf"), float("inf"), 0, 0.0
    gc.freeze()  # a collection then looks only at new objects, and leaves the processor's caches alone
    part = 32  # reading the clock costs as much as a delta or two
    for _ in range(max(1, min(200, 100_000 // len(deltas)))):
        began = time.process_time()
        feed = make()
        gc.collect()
        gc.disable()
        ready = time.process_time()
        for delta in before:
            feed(delta)
        times, ends = [time.process_time()], [0]
        for at in range(0, len(deltas), part):
            for delta in deltas[at : at + part]:
                feed(delta)
            times.append(time.process_time())
            ends.append(min(at + part, len(deltas)))
            if times[-1] - times[0] > budget:
                break
        else:
            for delta in after:
                feed(delta)
            rest = min(rest, (time.process_time() - times[-1] + times[0] - ready) * 1e6)
        gc.enable()
        last = max(1, len(times) // 10)
        tenth = min(tenth, (times[-1] - times[-1 - last]) / (ends[-1] - ends[-1 - last]) * 1e6)
        whole = min(whole, (times[-1] - times[0]) / ends[-1] * 1e6)
        read, spent = max(read, ends[-1]), spent + time.process_time() - began
        if spent > budget:
            break
    return whole, tenth, rest, read


def judge(rows: list[dict[str, Any]]) -> None:
    """Add to each row of one format and shape the peers that grow, and those for which the bound is not kept."""
    for row in rows:
        peers = [engine for engine in ("vllm", "sglang") if row.get(engine)]
        row["grows"] = [
            engine
            for engine in peers
            if (rows[-1][engine + "_last"] or 0) > 1.5 * (rows[0][engine + "_last"] or float("inf"))
        ]
        flat = [row[engine] for engine in peers if engine not in row["grows"]]
        row["missed"] = [
            engine
            for engine in peers
            if row["narrows"]
            > (
                row[engine] / 5
                if engine in row["grows"]
                else min(flat) / 2
                if row[engine] == min(flat)
                else row[engine]
            )
        ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--formats", help="comma-separated; by default all that a peer has")
    options.add_argument("--sizes", default="1000,10000,100000")
    options.add_argument("--budget", type=float, default=4.0, help="seconds for one parser on one text")
    options.add_argument("--json", help="write the rows to this file")
    chosen = options.parse_args()
    fetch()
    import_peers()
    from transformers import PreTrainedTokenizerFast

    names = chosen.formats.split(",") if chosen.formats else [n for n in PEERS if n in formats.names()]
    rows: list[dict[str, Any]] = []
    for name in names:
        fmt = formats.get(name)
        tokenizer = tokenizer_of(fmt)
        their_tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>")
        for shape, build in (("one argument", one_argument), ("many keys", many_keys)):
            sizes: list[dict[str, Any]] = []
            for size in map(int, chosen.sizes.split(",")):
                arguments = build(size)
                text = rendered(fmt, {"function": {"name": "write", "arguments": arguments}})
                parts = tokens(tokenizer, text, *arguments_in(fmt, arguments, text))
                row: dict[str, Any] = {"format": name, "shape": shape, "size": size, "deltas": len(parts[1])}
                makers = dict(zip(("narrows", "vllm", "sglang"), (name, *PEERS[name]), strict=True))
                makers = {engine: known for engine, known in makers.items() if known}
                for engine in (*makers, "narrows"):  # narrows runs twice, in case the machine is slow for a while
                    try:
                        make = parser_of(engine, makers[engine], their_tokenizer)
                        with unstuck(10 + 4 * chosen.budget):
                            *cost, read = measure(make, parts, chosen.budget)
                        columns = [engine, engine + "_last", engine + "_rest"]
                        cost = [min(us, row.get(column) or us) for us, column in zip(cost, columns, strict=True)]
                        row |= dict(zip(columns, (us if us < float("inf") else None for us in cost), strict=True))
                    except (Exception, Stuck) as error:  # a peer that fails on its own format is a result too
                        row[engine] = row[engine + "_last"] = row[engine + "_rest"] = None
                        row[f"{engine}_error"] = f"{type(error).__name__}: {error}"[:200]
                        continue
                    if read < len(parts[1]):
                        row[f"{engine}_stopped_at"] = read
                sizes.append(row)
                cells = "  ".join(_cell(row, engine) for engine in makers)
                print(f"{name:15} {shape:13} {size:>8,}  {cells}", flush=True)
            judge(sizes)
            rows += sizes
            for row in sizes:
                if row["missed"]:
                    print(f"{'':15} {'':13} {row['size']:>8,}  missed: {', '.join(row['missed'])}", flush=True)
    missed = sum(bool(row["missed"]) for row in rows)
    print(f"{len(rows)} rows, {missed} miss a bound")
    if chosen.json:
        Path(chosen.json).write_text(json.dumps({"versions": VERSIONS, "rows": rows}, indent=1))


def _cell(row: dict[str, Any], engine: str) -> str:
    if row[engine] is None:
        return f"{engine} {row[engine + '_error'][:40]}"
    ratio = f" ({row[engine] / row['narrows']:.1f}x)" if engine != "narrows" else ""
    stopped = f" stopped at {row[engine + '_stopped_at']}" if engine + "_stopped_at" in row else ""
    rest = f" +{row[engine + '_rest']:.0f}" if row[engine + "_rest"] is not None else ""
    return f"{engine} {row[engine]:8.2f} [{row[engine + '_last']:.2f}]{rest}{ratio}{stopped}"


if __name__ == "__main__":
    main()
