"""What does a JSON Schema cost in tokens per second? The ratio of the speeds with and without it, in the same run.

    python bench/serve.py [--model FILE.gguf] [--batch 1 8] [--tokens 64] [--rounds 7] [--json]
    python bench/serve.py --url http://127.0.0.1:8000/v1          any OpenAI-compatible server

Each round generates the same number of tokens from the same prompt, once free and once under the schema, in changing
order. The ratio of a round compares two neighbouring runs; the median over the rounds is reported. Prompts are in the
cache, so only decoding is timed. Target: at least 0.95. On a busy machine look at the CPU ratio too: the same for this
process's CPU seconds per token, including masks that a second core computes in vain.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

SCHEMA = {
    "type": "object",
    "properties": {
        "people": {
            "type": "array",
            "minItems": 40,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "minLength": 3, "maxLength": 40},
                    "email": {"type": "string", "pattern": "^[a-z]{2,12}@[a-z]{2,12}\\.(com|org|net)$"},
                    "age": {"type": "integer", "minimum": 18, "maximum": 99},
                    "role": {"enum": ["engineer", "designer", "manager", "analyst"]},
                    "address": {
                        "type": "object",
                        "properties": {
                            "city": {"type": "string", "maxLength": 30},
                            "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
                        },
                        "required": ["city", "zip"],
                        "additionalProperties": False,
                    },
                    "note": {"anyOf": [{"type": "string", "maxLength": 120}, {"type": "null"}]},
                },
                "required": ["name", "email", "age", "role", "address", "note"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["people"],
    "additionalProperties": False,
}
QUESTION = "List forty people of a company with name, email, age, role, address and a note, as JSON."

Run = Callable[[int, int, bool], float]
"""(sequences, tokens each, under the schema) -> tokens per second. Appends to `CPU` too."""
CPU: dict[bool, list[float]] = {False: [], True: []}
"""Tokens per CPU second of this process; the key tells whether the schema held."""


def embedded(model: str | None) -> tuple[Run, Callable[[], None], str]:
    import narrows
    from narrows.engines import default_model
    from narrows.engines.api import Request, SamplingParams
    from narrows.engines.llama_cpp import LlamaCppEngine

    engine = LlamaCppEngine(model or default_model.default_gguf())
    begun = time.perf_counter()
    constraint = engine.vocabulary.compile(narrows.Grammar.from_json_schema(SCHEMA))
    compile_ms = (time.perf_counter() - begun) * 1000
    prompt = engine.encode(f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n", parse_special=True)

    def run(sequences: int, tokens: int, constrained: bool) -> float:
        sampling = SamplingParams(temperature=0.8, seed=1, max_tokens=tokens, ignore_eos=True)
        request = Request(
            request_id="bench",
            prompt_token_ids=prompt,
            n=sequences,
            sampling=sampling,
            constraint=constraint if constrained else None,
        )
        count = 0
        begun = cpu = 0.0
        for output in engine.generate(request):
            begun, cpu = begun or time.perf_counter(), cpu or time.process_time()
            count += len(output.token_ids)
        assert count == sequences * tokens, "a sequence ended early: its time would not compare"
        CPU[constrained].append((count - sequences) / (time.process_time() - cpu))
        return (count - sequences) / (time.perf_counter() - begun)

    return (
        run,
        engine.close,
        f"{engine.describe()['model_kind']}, {engine.describe()['n_threads']} thread(s), schema compiled in {compile_ms:.1f} ms",
    )


def served(url: str) -> tuple[Run, Callable[[], None], str]:
    import openai

    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    model = client.models.list().data[0].id
    response_format = {"type": "json_schema", "json_schema": {"name": "people", "schema": SCHEMA, "strict": True}}

    def one(tokens: int, constrained: bool, seed: int) -> int:
        answer = client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": QUESTION}],
            max_tokens=tokens,
            temperature=0.8,
            seed=seed,
            extra_body={"ignore_eos": True} | ({"response_format": response_format} if constrained else {}),
        )
        return int(answer.usage.completion_tokens)

    def run(sequences: int, tokens: int, constrained: bool) -> float:
        begun = time.perf_counter()
        with ThreadPoolExecutor(sequences) as pool:
            count = sum(pool.map(lambda i: one(tokens, constrained, i), range(sequences)))
        return count / (time.perf_counter() - begun)

    return run, client.close, f"{model} at {url}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a GGUF file; by default the small model")
    parser.add_argument("--url", help="an OpenAI-compatible server instead of the embedded engine")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    options = parser.parse_args()
    run, close, engine = served(options.url) if options.url else embedded(options.model)
    results = []
    for sequences in options.batch:
        for constrained in (False, True):  # the first run of each kind fills the caches
            run(sequences, options.tokens, constrained)
        free, held, ratios = [], [], []
        CPU[False].clear(), CPU[True].clear()
        for number in range(options.rounds):
            order = (False, True) if number % 2 else (True, False)
            speed = {constrained: run(sequences, options.tokens, constrained) for constrained in order}
            free.append(speed[False])
            held.append(speed[True])
            ratios.append(speed[True] / speed[False])
        results.append(
            {
                "batch": sequences,
                "tokens_per_second_free": round(statistics.median(free), 1),
                "tokens_per_second_schema": round(statistics.median(held), 1),
                "ratio_median": round(statistics.median(ratios), 3),
                "ratio_min": round(min(ratios), 3),
                "ratio_max": round(max(ratios), 3),
                "ratio_cpu": round(statistics.median(CPU[True]) / statistics.median(CPU[False]), 3)
                if CPU[True]
                else None,
            }
        )
    close()
    if options.json:
        print(json.dumps({"what": engine, "rounds": options.rounds, "tokens": options.tokens, "results": results}))
        return
    print(engine)
    for r in results:
        print(
            f"batch {r['batch']}: {r['tokens_per_second_schema']} tokens/s with the schema, "
            f"{r['tokens_per_second_free']} without: "
            f"ratio {r['ratio_median']} (rounds {r['ratio_min']} to {r['ratio_max']}; CPU {r['ratio_cpu']})"
        )


if __name__ == "__main__":
    main()
