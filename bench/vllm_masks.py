"""What does one step of a structured output cost inside vLLM? narrows' backend and xgrammar's, on the same tokens.

    python bench/vllm_masks.py [--model DIR]          run it with vLLM's Python

If the model takes milliseconds, a server's tokens per second (bench/vllm.py) cannot tell the backends apart. This
leaves the model out. It makes each backend from a real engine configuration, compiles the schema of bench/vllm.py's
"one", and leads it through a valid document token by token, by vLLM's own interface: `fill_bitmask`, then
`accept_tokens`. Reported are microseconds per call: means over the document, the best of the rounds, which take turns.
`first` is the first round, which computes masks that later rounds remember.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]  # bench/vllm.py is not vLLM
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")


def neighbour(name: str, path: Path) -> ModuleType:
    """The module in this file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def document() -> str:
    people = [
        {
            "name": f"Ann Lee {number}",
            "email": "annlee@home.com",
            "age": 30 + number % 9,
            "role": "designer",
            "note": f"Works on the second floor, room {number}.",
        }
        for number in range(40)
    ]
    return json.dumps({"people": people})


def backends(model: Path) -> tuple[Any, dict[str, Callable[[str], Any]], dict[str, Any]]:
    """The tokenizer, and for each side a function that compiles a schema, and the side's row of a bitmask."""
    from transformers import AutoTokenizer
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.structured_output.backend_types import StructuredOutputOptions
    from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend

    from narrows.plugins.vllm.masking.backend import Backend

    class Narrows(Backend):
        inner_class = XgrammarBackend

    tokenizer = AutoTokenizer.from_pretrained(model)
    compilers: dict[str, Callable[[str], Any]] = {}
    rows: dict[str, Any] = {}
    for name, backend in (("narrows", Narrows), ("xgrammar", XgrammarBackend)):
        chosen: Any = {"backend": name}
        config = EngineArgs(model=str(model), structured_outputs_config=chosen).create_engine_config()
        side = backend(config, tokenizer=tokenizer, vocab_size=config.model_config.get_vocab_size())
        compilers[name] = lambda schema, side=side: side.compile_grammar(StructuredOutputOptions.JSON, schema, None)
        rows[name] = side.allocate_token_bitmask(1)
    return tokenizer, compilers, rows


def walk(grammar: Any, row: Any, ids: list[int]) -> tuple[float, float]:
    """(us per `fill_bitmask`, us per `accept_tokens`)."""
    fill = accept = 0.0
    for token in ids:
        began = time.perf_counter()
        grammar.fill_bitmask(row, 0)
        filled = time.perf_counter()
        accepted = grammar.accept_tokens("request", [token])
        accept += time.perf_counter() - filled
        fill += filled - began
        assert accepted, f"token {token} is refused"
    return 1e6 * fill / len(ids), 1e6 * accept / len(ids)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="the folder of a model; only its tokenizer matters")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    folder = (
        options.model or neighbour("model_folder", HERE.parent / "tests" / "plugins" / "vllm" / "model_folder.py").PLAIN
    )
    tokenizer, compilers, rows = backends(folder)
    schema = json.dumps(neighbour("throughput", HERE / "vllm.py").PEOPLE)
    ids = tokenizer.encode(document(), add_special_tokens=False)
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in compilers}
    for _ in range(options.rounds):
        for name, compiled in compilers.items():
            costs[name].append(walk(compiled(schema), rows[name], ids))
    for name, rounds in costs.items():
        fill, accept = (min(cost[part] for cost in rounds) for part in (0, 1))
        first = sum(rounds[0])
        print(
            f"{name:9} {len(ids)} tokens: fill {fill:6.2f}  accept {accept:6.2f}  both {fill + accept:6.2f}  "
            f"first {first:6.2f}"
        )


if __name__ == "__main__":
    main()
