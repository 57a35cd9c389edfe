"""What a step of transformers' `generate` costs with a constraint: narrows beside xgrammar and llguidance, same run.

    pip install xgrammar==0.2.8 llguidance==1.9.1
    python bench/transformers_steps.py                                 # the small real model, on the CPU
    python bench/transformers_steps.py --device cuda --random 128256 --tokenizer llama3_1

Each engine generates the same batches in turn: 8 prompts, of which each has a constraint of its own, and 1. The
processors are called by the real `generate`; the time inside them is taken apart, with the device at rest before and
after. "step" is the whole step. xgrammar brings a processor of its own. llguidance brings functions for tensors, which
the processor here calls as its README does. Texts of narrows are checked: each is one of its constraint.

`--random V`: a Llama with V tokens and 1.2 billion random weights instead of the real model, for a device that has no
model file. Its texts make no sense, and the costs are the same.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

import narrows
from narrows.plugins.transformers import LogitsProcessor

SCHEMAS = [
    {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]},
    {"type": "array", "items": {"type": "number"}, "minItems": 3},
    {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 2},
    {"enum": ["red", "green", "blue", {"other": [1, 2, 3]}]},
    {"type": "array", "items": {"type": "string", "maxLength": 40}, "minItems": 2},
    {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "boolean"}}}, "required": ["a"]},
    {"type": "string", "minLength": 30},
    {"type": "object", "properties": {"k": {"type": "object", "properties": {"v": {"type": "null"}}}}},
]
PROMPTS = [f"Write JSON, number {number}:" for number in range(8)]


def load(args: argparse.Namespace) -> tuple[Any, Any]:
    """The model and its tokenizer."""
    if args.tokenizer:
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
        from real_tokenizers import folder

        path = args.tokenizer if Path(args.tokenizer).is_dir() else folder(args.tokenizer)
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    if args.random:
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=args.random, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
            num_attention_heads=32, num_key_value_heads=8, bos_token_id=None, eos_token_id=tokenizer.eos_token_id,
        )  # fmt: skip
        with torch.device(args.device):
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    else:
        from narrows.engines.default_model import default_gguf

        gguf = default_gguf()
        tokenizer = transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.float32
        ).to(args.device)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model.eval(), tokenizer


class Timed(transformers.LogitsProcessor):
    """Another processor, and the seconds of each call of it."""

    def __init__(self, inner: Any, device: str) -> None:
        self.inner, self.device, self.seconds = inner, device, list[float]()

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self._wait()
        start = time.perf_counter()
        scores = self.inner(input_ids, scores)
        self._wait()
        self.seconds.append(time.perf_counter() - start)
        return scores

    def _wait(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()


Maker = Callable[[int], Any]
"""Number of rows -> a new processor, with what was compiled before."""


def narrows_maker(model: Any, tokenizer: Any) -> tuple[Maker, list[narrows.Constraint]]:
    vocabulary = narrows.Vocabulary.from_transformers(tokenizer, size=model.config.vocab_size)
    constraints = [vocabulary.compile(narrows.Grammar.from_json_schema(schema)) for schema in SCHEMAS]
    return lambda rows: LogitsProcessor(constraints[:rows]), constraints


def xgrammar_maker(model: Any, tokenizer: Any) -> Maker:
    import xgrammar

    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=model.config.vocab_size)
    compiler = xgrammar.GrammarCompiler(info, max_threads=1)
    compiled = [compiler.compile_json_schema(schema) for schema in SCHEMAS]
    return lambda rows: xgrammar.contrib.hf.LogitsProcessor(compiled[:rows])


def llguidance_maker(model: Any, tokenizer: Any) -> Maker:
    import llguidance.hf
    import llguidance.torch

    tokens = llguidance.hf.from_tokenizer(tokenizer, n_vocab=model.config.vocab_size)
    grammars = [llguidance.LLMatcher.grammar_from_json_schema(schema) for schema in SCHEMAS]

    class Processor(transformers.LogitsProcessor):
        def __init__(self, rows: int) -> None:
            self.matchers = [llguidance.LLMatcher(tokens, grammar) for grammar in grammars[:rows]]
            self.mask = llguidance.torch.allocate_token_bitmask(rows, model.config.vocab_size)
            self.executor = llguidance.LLExecutor()
            self.begun = False

        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            if self.begun:
                for matcher, token in zip(self.matchers, input_ids[:, -1].tolist(), strict=True):
                    if not matcher.is_stopped():
                        matcher.consume_token(token)
            self.begun = True
            pairs = [(matcher, row) for row, matcher in enumerate(self.matchers)]
            llguidance.torch.fill_next_token_bitmask_par(self.executor, pairs, self.mask)
            llguidance.torch.apply_token_bitmask_inplace(scores, self.mask.to(scores.device, non_blocking=True))
            return scores

    return Processor


def generate(model: Any, tokenizer: Any, rows: int, steps: int, processors: list[Any]) -> tuple[list[list[int]], float]:
    """The new tokens of each row, and seconds per step."""
    inputs = tokenizer(PROMPTS[:rows], return_tensors="pt", padding=True).to(model.device)
    torch.manual_seed(rows)
    start = time.perf_counter()
    made = model.generate(
        **inputs, logits_processor=processors, max_new_tokens=steps, do_sample=True, pad_token_id=tokenizer.pad_token_id
    )[:, inputs.input_ids.shape[1] :].tolist()
    return made, (time.perf_counter() - start) / max(len(made[0]), 1)


def check(rows: list[list[int]], constraints: list[narrows.Constraint]) -> int:
    """How many rows are texts of their constraints, or beginnings of one. Raises AssertionError where one is not."""
    for row, constraint in zip(rows, constraints, strict=False):
        matcher = constraint.matcher()
        for token in row:
            if matcher.is_finished:
                break
            assert matcher.accept(token), row
    return len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--random", type=int, default=0, metavar="V")
    parser.add_argument("--tokenizer", default="", help="a name of tests/support/real_tokenizers.py, or a folder")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    model, tokenizer = load(args)
    ours, constraints = narrows_maker(model, tokenizer)
    makers: dict[str, Maker | None] = {"none": None, "narrows": ours}
    for name, make in (("xgrammar", xgrammar_maker), ("llguidance", llguidance_maker)):
        try:
            makers[name] = make(model, tokenizer)
        except ImportError:
            print(f"{name} is not installed")
    print(
        f"{model.config.vocab_size} tokens, {args.device}, transformers {transformers.__version__}, torch {torch.__version__}"
    )
    checked = 0
    for rows in (1, 8):
        steps: dict[str, list[float]] = {name: [] for name in makers}
        inside: dict[str, list[float]] = {name: [] for name in makers}
        for turn in range(args.rounds + 1):
            for name, maker in makers.items():
                timed = [] if maker is None else [Timed(maker(rows), args.device)]
                made, each = generate(model, tokenizer, rows, args.steps, timed)
                if name == "narrows":
                    checked += check(made, constraints)
                if turn:  # the first warms up
                    steps[name].append(each)
                    inside[name] += timed[0].seconds[1:] if timed else []
        print(f"{rows} rows | step, ms | in the processor, us: median | p99")
        for name in makers:
            own = sorted(inside[name])
            numbers = f"{1e6 * own[len(own) // 2]:.0f} | {1e6 * own[int(0.99 * len(own))]:.0f}" if own else "- | -"
            print(f"{name} | {1e3 * statistics.median(steps[name]):.2f} | {numbers}")
    print(f"{checked} texts of narrows checked")


if __name__ == "__main__":
    main()
