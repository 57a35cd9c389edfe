"""What does a step cost inside llama-cpp-python? narrows' logits processor beside llama.cpp's own grammar sampler, in one
run, on the same prompt and schema.

    python bench/llama_cpp_python.py [--model FILE.gguf] [--tokens 60] [--rounds 3]    with .venv-llama-cpp-python's Python

Measured is CPU time of `Llama.sample`, which chooses a token from the logits, for each token of a greedy answer: without
anything, with a logits processor that does nothing (what llama-cpp-python itself takes to call one), with narrows, and
with `LlamaGrammar.from_json_schema`. `first` is the first round, which computes masks that later rounds remember; the
others are the best of the later rounds. `decode` is what the model takes for a token, for comparison.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import llama_cpp

from narrows import Grammar
from narrows.engines.default_model import default_gguf
from narrows.plugins.llama_cpp_python import LogitsProcessor, vocabulary_of

SCHEMA = {
    "type": "object",
    "properties": {
        "people": {
            "type": "array",
            "minItems": 3,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "role": {"enum": ["engineer", "designer", "manager"]},
                    "age": {"type": "integer"},
                    "note": {"type": "string"},
                },
                "required": ["name", "role", "age", "note"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["people"],
    "additionalProperties": False,
}
PROMPT = "Three people of a small company, as JSON:\n"


def nothing(ids: Any, logits: Any) -> Any:
    return logits


def timed(llm: Any, tokens: int, **options: Any) -> tuple[float, float]:
    """Microseconds of CPU time for each token: of sampling, and of everything."""
    llm.reset()
    prompt = llm.tokenize(PROMPT.encode())
    sample, spent = llm.sample, [0.0]

    def watched(**arguments: Any) -> int:
        start = time.thread_time()
        token: int = sample(**arguments)
        spent[0] += time.thread_time() - start
        return token

    llm.sample = watched
    made, start = 0, 0.0
    for token in llm.generate(prompt, temp=0, **options):
        made += 1
        if made == 1:  # the prompt is not counted, and neither is the first token
            start, spent[0] = time.thread_time(), 0.0
        if made > tokens or llama_cpp.llama_vocab_is_eog(llm._model.vocab, token):
            break
    whole = time.thread_time() - start
    del llm.sample
    return spent[0] / (made - 1) * 1e6, whole / (made - 1) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default=None)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    path = asked.model or str(default_gguf())
    llm = llama_cpp.Llama(path, n_ctx=1024, n_threads=1, n_threads_batch=1, verbose=False)
    vocabulary_of(llm)
    start = time.thread_time()
    constraint = vocabulary_of(llm).compile(Grammar.from_json_schema(SCHEMA))
    print(f"llama-cpp-python {llama_cpp.__version__}, {llm.n_vocab()} tokens; compiled in", end=" ")
    print(f"{(time.thread_time() - start) * 1e3:.1f} ms")
    text = json.dumps(SCHEMA)
    sides: dict[str, Callable[[], dict[str, Any]]] = {
        "no processor": dict,
        "a processor that does nothing": lambda: {"logits_processor": [nothing]},
        "narrows": lambda: {"logits_processor": LogitsProcessor(llm, constraint)},
        "llama.cpp's grammar": lambda: {"grammar": llama_cpp.LlamaGrammar.from_json_schema(text, verbose=False)},
    }
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for _ in range(max(2, asked.rounds)):
        for name, options in sides.items():
            rows[name].append(timed(llm, asked.tokens, **options()))
    print("| us of CPU time for a token | first | later | decode |\n| --- | --: | --: | --: |")
    for name, measured in rows.items():
        sampling, whole = min(measured[1:])
        print(f"| {name} | {measured[0][0]:,.0f} | {sampling:,.0f} | {whole - sampling:,.0f} |")


if __name__ == "__main__":
    main()
