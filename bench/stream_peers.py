"""Microseconds per delta of stream parsers: narrows beside vLLM's and SGLang's own, on the same text, in the same run.

    make bench-stream                      # sets up .venv-vllm and fetches the peers, then runs this
    .venv-vllm/bin/python bench/stream_peers.py [--formats glm_xml,kimi_k2] [--sizes 1000,10000,100000] [--budget 4] [--json FILE]

One call with one long string argument, and one with many keys, cut into the tokens of Qwen3's tokenizer (with the format's markers as
special tokens), one token a delta. Shown is processor time per delta of the arguments, in brackets that over their last tenth, where growth
shows, and what the rest of the call costs once (text and markup before and behind); the best of some runs, without what making a parser
costs. A parser that has used up `--budget` seconds on one text is stopped, and its numbers are those of what it read.
A peer grows if its last tenth costs half as much again at the largest size as at the smallest. The bound for narrows is a fifth of what each peer
that grows costs, and half of the fastest of the others, at every size; `missed` names the peer beside which it is not kept.
vLLM is driven as its server drives it (`ParserManager.get_parser`, `parse_delta`, with text and ids), SGLang by its detector
(`parse_streaming_increment`, text), narrows by `feed` (text). The peers are pure Python here: wheels of the pinned versions, unpacked by
`fetch`, on vLLM's dependencies; what SGLang imports for GPUs is replaced by empty modules.
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

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "vocabulary"))
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
"""Our format -> the parser of it in vLLM and in SGLang."""

Delta = tuple[str, int]
"""Text and id of one token."""


def fetch() -> None:
    """Unpack the peers' Python files, once."""
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
                kept = [n for n in wheel.namelist() if n.startswith(f"{name}/") and n.endswith((".py", ".json"))]
                wheel.extractall(Path(work) / "unpacked", kept)
            (Path(work) / "unpacked").rename(target)


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Empty modules in place of what needs a GPU."""

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
    """Put the peers before what is installed."""
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
        feed("")  # its regions are built now, not with the first delta
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
        made = parser(tokenizer, request.tools)
        made.adjust_request(request)
        parse = made.parse_delta
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


def parser_of(who: str, name: str, tokenizer: Any) -> Callable[[], Callable[[Delta], Any]]:
    """What makes parsers of this format, under its name there."""
    if who == "narrows":
        return narrows_parser(name)
    return vllm_parser(name, tokenizer) if who == "vllm" else sglang_parser(name)


def tokenizer_of(fmt: formats.Format) -> Tokenizer:
    """Qwen3's, with the format's markers as special tokens."""
    import real_tokenizers

    tokenizer = Tokenizer.from_file(str(real_tokenizers.folder("qwen3") / "tokenizer.json"))
    markers = [m for m in fmt.markers(None) if m[0] in "<[" and m[-1] in ">]" and "\n" not in m and "/" not in m[:2]]
    closers = [m for m in fmt.markers(None) if m[:2] == "</" and m[-1] == ">" and m.replace("/", "", 1) in markers]
    tokenizer.add_special_tokens([*markers, *closers])
    return tokenizer


def tokens(tokenizer: Tokenizer, text: str, begin: int, end: int) -> tuple[list[Delta], list[Delta], list[Delta]]:
    """What comes before the arguments, the arguments, what comes behind them; a token across a border belongs to the rest."""
    stream, at = DecodeStream(skip_special_tokens=False), 0
    before: list[Delta] = []
    inside: list[Delta] = []
    behind: list[Delta] = []
    for token in tokenizer.encode(text, add_special_tokens=False).ids:
        piece = stream.step(tokenizer, token) or ""
        part = before if at < begin else inside if at + len(piece) <= end else behind
        part.append((piece, token))
        at += len(piece)
    assert "".join(delta[0] for delta in before + inside + behind) == text
    return before, inside, behind


Cost = tuple[float, float, float, int]
"""us per delta of the arguments that were read, over the last tenth of these, us for the rest of the call, deltas read."""


class Stuck(BaseException):
    """Not an Exception: the peers catch those."""


@contextmanager
def unstuck(seconds: float) -> Iterator[None]:
    """Raises `Stuck` inside after so many seconds: a delta may take minutes, where a pattern tries every way to match."""

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
    before, deltas, behind = parts
    whole, tenth, rest, read, spent = float("inf"), float("inf"), float("inf"), 0, 0.0
    gc.freeze()  # a collection goes through what comes from here on, and leaves the processor's caches alone
    part = 32  # reading the clock costs as much as a delta or two
    for _ in range(max(1, min(200, 100_000 // len(deltas)))):
        began = time.process_time()
        feed = make()
        gc.collect()
        gc.disable()
        made = time.process_time()
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
            for delta in behind:
                feed(delta)
            rest = min(rest, (time.process_time() - times[-1] + times[0] - made) * 1e6)
        gc.enable()
        last = max(1, len(times) // 10)
        tenth = min(tenth, (times[-1] - times[-1 - last]) / (ends[-1] - ends[-1 - last]) * 1e6)
        whole = min(whole, (times[-1] - times[0]) / ends[-1] * 1e6)
        read, spent = max(read, ends[-1]), spent + time.process_time() - began
        if spent > budget:
            break
    return whole, tenth, rest, read


def judge(rows: list[dict[str, Any]]) -> None:
    """Say in each row of one format and shape which peers grow, and beside which the bound is not kept."""
    for row in rows:
        peers = [who for who in ("vllm", "sglang") if row.get(who)]
        row["grows"] = [
            who for who in peers if (rows[-1][who + "_last"] or 0) > 1.5 * (rows[0][who + "_last"] or float("inf"))
        ]
        flat = [row[who] for who in peers if who not in row["grows"]]
        row["missed"] = [
            who
            for who in peers
            if row["narrows"]
            > (row[who] / 5 if who in row["grows"] else min(flat) / 2 if row[who] == min(flat) else row[who])
        ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--formats", help="comma-separated; all that a peer has without it")
    options.add_argument("--sizes", default="1000,10000,100000")
    options.add_argument("--budget", type=float, default=4.0, help="seconds for one parser on one text")
    options.add_argument("--json", help="write the rows to this file")
    chosen = options.parse_args()
    fetch()
    import_peers()
    from transformers import PreTrainedTokenizerFast

    wanted = chosen.formats.split(",") if chosen.formats else [n for n in PEERS if n in formats.names()]
    rows: list[dict[str, Any]] = []
    for name in wanted:
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
                makers = {who: known for who, known in makers.items() if known}
                for who in (*makers, "narrows"):  # a machine that is slow for a while is so for narrows and peers
                    try:
                        make = parser_of(who, makers[who], their_tokenizer)
                        with unstuck(10 + 4 * chosen.budget):
                            *cost, read = measure(make, parts, chosen.budget)
                        columns = [who, who + "_last", who + "_rest"]
                        cost = [min(us, row.get(column) or us) for us, column in zip(cost, columns, strict=True)]
                        row |= dict(zip(columns, (us if us < float("inf") else None for us in cost), strict=True))
                    except (Exception, Stuck) as error:  # a peer that fails on its own format is a result too
                        row[who] = row[who + "_last"] = row[who + "_rest"] = None
                        row[f"{who}_error"] = f"{type(error).__name__}: {error}"[:200]
                        continue
                    if read < len(parts[1]):
                        row[f"{who}_stopped_at"] = read
                sizes.append(row)
                cells = "  ".join(_cell(row, who) for who in makers)
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


def _cell(row: dict[str, Any], who: str) -> str:
    if row[who] is None:
        return f"{who} {row[who + '_error'][:40]}"
    ratio = f" ({row[who] / row['narrows']:.1f}x)" if who != "narrows" else ""
    stopped = f" stopped at {row[who + '_stopped_at']}" if who + "_stopped_at" in row else ""
    rest = f" +{row[who + '_rest']:.0f}" if row[who + "_rest"] is not None else ""
    return f"{who} {row[who]:8.2f} [{row[who + '_last']:.2f}]{rest}{ratio}{stopped}"


if __name__ == "__main__":
    main()
