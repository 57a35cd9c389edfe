"""What decoding with a grammar costs and saves, with the small real model: ratios to free decoding in the same run.

    python bench/decoding.py                # all rows, at batch 1, 4 and 8
    python bench/decoding.py --quick        # a smoke test: few tokens, once
    python bench/decoding.py --row extraction --batch 1

Each row is one kind of text, decoded in turns with free decoding of as many tokens in each sequence: the same prompt, no
grammar, no end. The number is the rate of tokens divided by that of free decoding, the median of the rounds: above 1 is faster.
"bound" is what jump forward can reach at most if a forced token cost nothing: 1 / (1 - forced share). The share of
forced tokens is that of the row's own texts. "no mask" is the share of drawn tokens for which no mask was made. "ready"
is the share of rows of logits that found the guide's work done: a mask, or no need of one.

Rows:
    string         a JSON string of 150 to 250 characters, sample first
    json           an object of known keys, compact, with jump forward
    json, drafts   the same, with drafts as well: what `Strategies()` does
    call           a tool call in the model's own format, with jump forward and drafts
    extraction     an object that repeats what stands in the prompt, with drafts
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from dataclasses import dataclass
from typing import Any

import narrows
from narrows.engines.api import Request, SamplingParams, Strategies
from narrows.engines.default_model import default_gguf
from narrows.engines.llama_cpp import LlamaCppEngine

CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "country_code": {"type": "string", "maxLength": 20},
        "population_estimate": {"type": "integer", "maximum": 99_999_999},
        "is_capital_city": {"type": "boolean"},
        "average_temperature": {"type": "integer", "maximum": 99},
    },
    "required": ["city", "country_code", "population_estimate", "is_capital_city", "average_temperature"],
    "additionalProperties": False,
}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "street": {"type": "string"},
        "city": {"type": "string"},
        "company": {"type": "string"},
    },
    "required": ["name", "street", "city", "company"],
    "additionalProperties": False,
}
LETTER = (
    "Extract the data as JSON with the keys name, street, city, company. Copy them exactly.\n"
    "Name: Maximilian Alexander Featherstonehaugh\nStreet: 1847 Northwest Appleby Crescent Boulevard\n"
    "City: Llanfairpwllgwyngyll upon Humberside\nCompany: International Consolidated Widget Manufacturing"
)
TOOL = {"type": "function", "function": {"name": "save_city", "parameters": CITY}}
OFF = Strategies(sample_first="never", jump_forward="never", draft="never")


@dataclass
class Row:
    name: str
    prompt: list[int]
    constraint: narrows.Constraint
    strategies: Strategies
    most: int


def chat(engine: LlamaCppEngine, text: str) -> list[int]:
    turns = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    return engine.encode(turns, parse_special=True)


def rows_of(engine: LlamaCppEngine) -> list[Row]:
    vocabulary = engine.vocabulary
    compact = narrows.Grammar.from_json_schema(CITY, whitespace="compact")
    string = narrows.Grammar.from_json_schema({"type": "string", "minLength": 150, "maxLength": 250})
    hermes = narrows.formats.get("hermes_json")
    call = hermes.grammar([TOOL], tool_choice="required", parallel=False, reasoning=None, vocab=vocabulary)
    person = narrows.Grammar.from_json_schema(PERSON)
    city = chat(engine, "Describe a city as JSON.")
    jump = Strategies(draft="never")
    return [
        Row("string", city, vocabulary.compile(string), Strategies(jump_forward="never", draft="never"), 60),
        Row("json", city, vocabulary.compile(compact), jump, 60),
        Row("json, drafts", city, vocabulary.compile(compact), Strategies(), 60),
        Row("call", city, vocabulary.compile(call), Strategies(), 90),
        Row("extraction", chat(engine, LETTER), vocabulary.compile(person), Strategies(), 90),
    ]


numbers = itertools.count()


def decode(
    engine: LlamaCppEngine, prompt: list[int], temperature: float, lengths: list[int], **options: Any
) -> tuple[float, list[int]]:
    """(seconds, tokens of each) of sequences of at most these lengths."""
    free = options.get("constraint") is None
    start = time.perf_counter()
    streams = []
    for index, most in enumerate(lengths):
        sampling = SamplingParams(temperature=temperature, seed=index, max_tokens=most, ignore_eos=free)
        request = Request(
            request_id=f"bench-{next(numbers)}",
            prompt_token_ids=prompt,
            sampling=sampling,
            constraint=options.get("constraint"),
            strategies=options.get("strategies", OFF),
        )
        streams.append(engine.generate(request))
    tokens = [0] * len(streams)
    for index, stream in enumerate(streams):
        for output in stream:
            assert output.error is None, output.error
            tokens[index] += len(output.token_ids)
    return time.perf_counter() - start, tokens


def measure(engine: LlamaCppEngine, row: Row, batch: int, temperature: float, rounds: int) -> dict[str, Any]:
    shared = {"constraint": row.constraint, "strategies": row.strategies}
    most = [row.most] * batch
    decode(engine, row.prompt, temperature, most, **shared)  # what is seen for the first time is not measured here
    ratios, tokens = [], 0
    before = engine.strategy_totals()
    for _ in range(rounds):
        seconds, lengths = decode(engine, row.prompt, temperature, most, **shared)
        free_seconds, free_lengths = decode(engine, row.prompt, temperature, lengths)
        assert free_lengths == lengths
        ratios.append(free_seconds / seconds)
        tokens = sum(lengths)
    after = engine.strategy_totals()
    used = {name: after.get(name, 0) - before.get(name, 0) for name in after}
    drawn = tokens * rounds - used.get("jumped_tokens", 0)
    forced = used.get("jumped_tokens", 0) / (tokens * rounds)
    return {
        "row": row.name,
        "batch": batch,
        "temperature": temperature,
        "ratio": round(statistics.median(ratios), 3),
        "bound": round(1 / (1 - forced), 2),
        "forced": round(forced, 3),
        "unmasked": round(1 - used.get("masks", 0) / drawn, 3),
        "ready": round(1 - used.get("late_rows", 0) / max(1, used.get("guided_rows", 0)), 4),
        "draft_tokens": used.get("draft_tokens", 0),
        "accepted": used.get("accepted_draft_tokens", 0),
        "tokens": tokens,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--row", help="this row alone")
    parser.add_argument("--batch", type=int, action="append", help="this number of sequences; more than once for more")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    args = parser.parse_args()
    with LlamaCppEngine(default_gguf(), n_ctx=8192) as engine:
        rows = [row for row in rows_of(engine) if args.row in (None, row.name)]
        if not rows:
            parser.error(f"there is no row {args.row!r}")
        batches = args.batch or ([1] if args.quick else [1, 4, 8])
        print(f"{'':14} batch  temp  ratio  bound  forced  no mask   ready  drafted  came true")
        for row, batch, temperature in itertools.product(rows, batches, (0.0, 0.8)):
            if args.quick:
                row.most = 12
            result = measure(engine, row, batch, temperature, 1 if args.quick else args.rounds)
            if args.json:
                print(json.dumps(result))
                continue
            print(
                f"{row.name:14} {batch:5} {temperature:5.1f} {result['ratio']:6.2f} {result['bound']:6.2f} "
                f"{result['forced']:7.1%} {result['unmasked']:8.1%} {result['ready']:7.2%} {result['draft_tokens']:8} {result['accepted']:10}"
            )


if __name__ == "__main__":
    main()
