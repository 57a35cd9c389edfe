"""What does the engine do, and what does each part cost? Measures what docs/engine.md reports.

    python bench/engine.py                        # Llama 3.1's 128,256 tokens, all questions
    python bench/engine.py --questions hits,tiny --tokenizer qwen3 --json

    hits       Of all masks: how many were known, how many were put together from known parts, how many were new?
    crossings  In how many places do tokens leave a string, a number or whitespace, and what does the first mask
               cost there?
    tiny       What do interned configurations cost where a table of a dozen states would do?
    stacks     Do tail calls and left-corner rewriting keep few readings open, on the grammars of bench/grammars?
    objects    What do 60 and 300 optional keys cost in declared order, and what would any order cost?

Times are CPU time of the calling thread in microseconds, unless a column says otherwise. They include reading the
clock, whose cost is shown. A "new vocabulary" is one that no grammar was compiled for before, so nothing is remembered.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

import narrows
from narrows.grammar import ir

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "support"))

now = time.thread_time_ns
Row = dict[str, Any]
WORDS = 'the quick café report for Zürich, due on Friday: 20 € or less (see "notes") — it\'s fine\n'.split(" ")


class Bench:
    """The tokenizer and its vocabularies, which all questions share."""

    def __init__(self, folder: Path, seed: int, variants: int) -> None:
        from tokenizers import Tokenizer

        from narrows.vocabulary.loaders import tokenizer_json

        self._data = tokenizer_json.load(folder / "tokenizer.json")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.random = random.Random(seed)
        self.variants = variants
        self.row = np.zeros((self.vocabulary().size + 31) // 32, np.int32)

    def vocabulary(self) -> narrows.Vocabulary:
        data = self._data
        return narrows.Vocabulary(data.tokens, data.special, data.eos, data.size)

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def time(self, action: Callable[[], Any]) -> float:
        start = now()
        action()
        return (now() - start) / 1e3

    def fill(self, matcher: narrows.Matcher) -> float:
        return self.time(lambda: matcher.fill_mask(self.row))

    def allowed(self) -> int:
        """The number of tokens in the last mask."""
        return int(np.unpackbits(self.row.view(np.uint8)).sum())


def median(values: Iterable[float]) -> float:
    return statistics.median(list(values))


def quantiles(values: list[float], prefix: str = "") -> Row:
    ordered = sorted(values)
    at = {name: ordered[min(len(ordered) - 1, int(q * len(ordered)))] for name, q in (("p50", 0.5), ("p99", 0.99))}
    return {prefix + "p50": at["p50"], prefix + "p99": at["p99"], prefix + "max": ordered[-1]}


def walk(bench: Bench, constraint: narrows.Constraint, ids: list[int], label: str = "") -> Row:
    matcher = constraint.matcher()
    masks, steps = [], []
    for token in ids:
        masks.append(bench.fill(matcher))
        start = now()
        if not matcher.accept(token):
            raise SystemExit(f"token {token} is masked in {ids}")
        steps.append((now() - start) / 1e3)
    stats = constraint.stats()
    return {
        "tokens": len(ids), **quantiles(masks, label + "mask "), **quantiles(steps, label + "accept "),
        "states": stats["shared_states"], "records": stats["shared_masks"], "KB": stats["shared_bytes"] / 1e3,
    }  # fmt: skip


# hits


def schemas() -> list[Row]:
    return [s for file in sorted((HERE / "schemas").glob("*.json")) for s in json.loads(file.read_text("utf-8"))]


def instances(entry: Row, count: int, rng: random.Random) -> list[Any]:
    """The schema's own instances, and up to `count` variants of them: keys dropped, texts and numbers changed, items
    repeated. Only variants that are valid and new count."""
    import jsonschema_rs

    valid = jsonschema_rs.validator_for(entry["schema"]).is_valid
    texts = list(entry["instances"])
    seen = {json.dumps(i) for i in texts}
    for _ in range(count * 30):
        if len(texts) >= len(entry["instances"]) + count:
            break
        variant = copy.deepcopy(rng.choice(entry["instances"]))
        for _ in range(rng.randint(1, 6)):
            variant = change(variant, rng)
        text = json.dumps(variant)
        if text not in seen and valid(variant):
            seen.add(text)
            texts.append(variant)
    return texts


def change(value: Any, rng: random.Random) -> Any:
    """The value with one random place changed."""
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        if rng.random() < 0.25:
            return {k: v for k, v in value.items() if k != key}
        return {k: change(v, rng) if k == key else v for k, v in value.items()}
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        if rng.random() < 0.25:
            return [*value, change(value[at], rng)]
        return [*value[:at], change(value[at], rng), *value[at + 1 :]]
    if isinstance(value, bool) or value is None:
        return rng.choice((True, False))
    if isinstance(value, int):
        return rng.randint(0, 2 * abs(value) + 10)
    if isinstance(value, float):
        return round(value * rng.uniform(0.1, 3), rng.randint(1, 4))
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 14))) if isinstance(value, str) else value


def hits(bench: Bench) -> list[Row]:
    work = [(s["schema"], instances(s, bench.variants, bench.random)) for s in schemas()]
    tokens = [[bench.encode(json.dumps(i, ensure_ascii=False)) for i in texts] for _, texts in work]
    grammars = [narrows.Grammar.from_json_schema(schema) for schema, _ in work]
    known: dict[int, set[int]] = {}  # id of a constraint: the configurations whose masks were filled

    def replay(name: str, runs: Iterable[tuple[narrows.Constraint, list[int]]]) -> Row:
        times: dict[str, list[float]] = {"known": [], "same parts": [], "made": []}
        with_walk = with_state = texts = 0
        for constraint, ids in runs:
            seen = known.setdefault(id(constraint), set())
            matcher = constraint.matcher()
            for token in ids:
                key = matcher.state_key
                before = constraint.stats()
                spent = bench.fill(matcher)
                after = constraint.stats()
                if key in seen:
                    kind = "known"
                elif after["masks"] == before["masks"]:
                    kind = "same parts"
                else:
                    kind = "made"
                    with_walk += after["crossings"] > before["crossings"]
                    with_state += after["shared_masks"] > before["shared_masks"]
                times[kind].append(spent)
                seen.add(key)
                if not matcher.accept(token):
                    raise SystemExit(f"a valid text is masked: {token} in {ids}")
            texts += 1
        every = [t for some in times.values() for t in some]
        row: Row = {"steps": name, "texts": texts, "masks": len(every)}
        for kind, some in times.items():
            row[f"{kind} %"] = 100 * len(some) / len(every)
        row["new walk %"] = 100 * with_walk / len(every)
        row["new state %"] = 100 * with_state / len(every)
        for kind, some in times.items():
            row[f"{kind} us"] = median(some) if some else 0.0
        return {**row, **quantiles(every)}

    def each(constraints: list[narrows.Constraint], part: slice) -> Iterable[tuple[narrows.Constraint, list[int]]]:
        return [(c, ids) for c, lists in zip(constraints, tokens, strict=True) for ids in lists[part]]

    alone = [bench.vocabulary().compile(g) for g in grammars]
    shared = bench.vocabulary()
    together, again = [shared.compile(g) for g in grammars], [shared.compile(g) for g in grammars]
    return [
        replay("first text of a schema, new vocabulary", each(alone, slice(0, 1))),
        replay("first text of a schema, vocabulary used by the schemas before", each(together, slice(0, 1))),
        replay("other texts of the same constraint", each(together, slice(1, None))),
        replay("all texts again", each(together, slice(0, None))),
        replay("first text, same schema compiled again", each(again, slice(0, 1))),
    ]


# crossings

WORD = 'root ::= word tail\nword ::= [a-z_] [a-z0-9_]*\ntail ::= "(" root? ")"'
LINE = 'root ::= ([^\\n]+ "\\n" root)?'
PLACES: list[tuple[str, Any, str]] = [
    ("value of any type", {}, ""),
    ("string, after its quote", {"type": "array", "items": {"type": "string"}}, '["'),
    ("string, after a letter", {"type": "array", "items": {"type": "string"}}, '["a'),
    ("string, after a backslash", {"type": "array", "items": {"type": "string"}}, '["a\\'),
    ("string of 3 to 200, after a letter", {"type": "array", "items": {"type": "string", "minLength": 3, "maxLength": 200}}, '["a'),
    ("string of 3 to 200, after 190", {"type": "array", "items": {"type": "string", "minLength": 3, "maxLength": 200}}, '["' + 190 * "a"),
    ("string, pattern [a-z ]+, after a letter", {"type": "array", "items": {"type": "string", "pattern": "^[a-z ]+$"}}, '["a'),
    ("key beside 3 known ones", {"type": "object", "properties": {"ab": {}, "abc": {}, "d": {}}}, '{"a'),
    ("integer, after a digit", {"type": "array", "items": {"type": "integer"}}, "[1"),
    ("integer 1 to 5000, after a digit", {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 5000}}, "[1"),
    ("number, after a digit", {"type": "array", "items": {"type": "number"}}, "[1"),
    ("number, after 1.5", {"type": "array", "items": {"type": "number"}}, "[1.5"),
    ("whitespace, after [", {"type": "array", "items": {"type": "integer"}}, "["),
    ("whitespace, after a comma and a line", {"type": "array", "items": {"type": "integer"}}, "[1,\n"),
    ("enum of 200, after a quote", {"type": "array", "items": {"enum": [f"value {i}" for i in range(200)]}}, '["'),
    ("identifier before a bracket (GBNF)", WORD, "a"),
    ("line of any text (GBNF)", LINE, "a"),
]  # fmt: skip


def crossings(bench: Bench) -> list[Row]:
    rows = []
    for name, source, text in PLACES:
        is_text = isinstance(source, str)
        grammar = narrows.Grammar.from_gbnf(source) if is_text else narrows.Grammar.from_json_schema(source)
        new, inside_known, warm = [], [], []
        for _ in range(3):
            vocabulary = bench.vocabulary()
            constraint = vocabulary.compile(grammar)
            matcher = constraint.matcher()
            if not matcher.accept_bytes(text.encode()):
                raise SystemExit(f"{name}: {text} does not fit")
            before = constraint.stats()
            new.append(bench.fill(matcher))
            after = constraint.stats()
            warm.append(median(bench.fill(matcher) for _ in range(20)))
            other = vocabulary.compile(grammar).matcher()
            other.accept_bytes(text.encode())
            inside_known.append(bench.fill(other))
        grown = {k: after[k] - before[k] for k in after}
        rows.append(
            {
                "place": name, "allowed": bench.allowed(), "automaton states": grown["shared_states"],
                "records": grown["shared_masks"], "crossings": grown["shared_crossings"], "walks": grown["crossings"],
                "configurations": grown["configurations"], "first us": median(new),
                "first in another grammar us": median(inside_known), "known us": median(warm),
            }
        )  # fmt: skip
    return rows


# tiny


def tiny(bench: Bench) -> list[Row]:
    """Compares with a table in Python: a dict of dicts for steps and one row per state, all computed beforehand."""
    vocabulary = bench.vocabulary()
    rows = []
    for name, grammar, text in (
        ("[0-9]+", narrows.Grammar.from_regex("[0-9]+"), "1234567890" * 4),
        ("a choice of 3", narrows.Grammar.choice(["positive", "negative", "neutral"]), "negative"),
        ("ISO date", narrows.Grammar.from_regex(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", "ecma"), "2026-11-21"),
    ):
        first_masks, first_steps = [], []
        ids = bench.encode(text)
        constraint = vocabulary.compile(grammar)
        compiled = median(bench.time(partial(vocabulary.compile, grammar)) for _ in range(9))
        matcher = constraint.matcher()
        table: dict[int, dict[int, int]] = {}
        masks: dict[int, Any] = {}
        for token in ids:
            key = matcher.state_key
            first_masks.append(bench.fill(matcher))
            masks.setdefault(key, bench.row.copy())
            first_steps.append(bench.time(partial(matcher.accept, token)))
            table.setdefault(key, {})[token] = matcher.state_key
        start = constraint.matcher().state_key
        mine: dict[str, list[float]] = {"accept": [], "mask": []}
        direct: dict[str, list[float]] = {"accept": [], "mask": []}
        for _ in range(300):
            matcher.reset()
            state = start
            for token in ids:
                mine["mask"].append(bench.fill(matcher))
                t0 = now()
                matcher.accept(token)
                t1 = now()
                np.copyto(bench.row, masks[state])
                t2 = now()
                state = table[state][token]
                t3 = now()
                mine["accept"].append((t1 - t0) / 1e3)
                direct["mask"].append((t2 - t1) / 1e3)
                direct["accept"].append((t3 - t2) / 1e3)
        row: Row = {"grammar": name, "compile us": compiled, "configurations": constraint.stats()["configurations"]}
        for what, firsts in (("accept", first_steps), ("mask", first_masks)):
            a, b = median(mine[what]), median(direct[what])
            row |= {f"first {what} us": max(firsts), f"{what} us": a, f"table {what} us": b, f"{what} ratio": a / b}
        rows.append(row)
    overhead = median(bench.time(lambda: None) for _ in range(1000))
    # Many bytes in one call: the cost of a step without Python around it.
    constraint = vocabulary.compile(narrows.Grammar.from_regex("[0-9]+"))
    data = b"7" * 4096
    constraint.matcher().accept_bytes(data)
    known = median(bench.time(lambda: constraint.matcher().accept_bytes(data)) for _ in range(50)) * 1e3 / len(data)
    deep = (HERE / "grammars" / "json.gbnf").read_text()
    nested = b"[" * 4096
    new = []
    for _ in range(5):
        matcher = vocabulary.compile(narrows.Grammar.from_gbnf(deep)).matcher()
        new.append(bench.time(partial(matcher.accept_bytes, nested)) * 1e3 / len(nested))
    rows.append(
        {
            "grammar": f"(ns a byte: known step {known:.0f}, new configuration {median(new):.0f}; clock {overhead:.2f} us)"
        }
    )
    return rows


# stacks


def least_live_items(grammar: narrows.Grammar, vocabulary: narrows.Vocabulary, text: bytes) -> int:
    """The smallest limits.live_items with which the text can be read: how many readings, or return places, are open
    at once."""

    def fits(limit: int) -> bool:
        try:
            constraint = vocabulary.compile(grammar, narrows.Limits(live_items=limit))
            return constraint.matcher().accept_bytes(text)
        except narrows.NarrowsError:
            return False

    low, high = 0, 1
    while not fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def stacks(bench: Bench) -> list[Row]:
    bytes_alone = narrows.Vocabulary([bytes([b]) for b in range(256)])
    samples = tomllib.loads((HERE / "grammars" / "samples.toml").read_text(encoding="utf-8"))
    rows = []
    for name, sample in samples.items():
        source = (HERE / "grammars" / f"{name}.gbnf").read_text(encoding="utf-8")
        grammar = narrows.Grammar.from_gbnf(source)

        def read(text: str, grammar: narrows.Grammar = grammar) -> tuple[narrows.Constraint, float]:
            """The constraint, and ns a byte of the first reading."""
            constraint = bytes_alone.compile(grammar)
            matcher = constraint.matcher()
            data = text.encode()
            spent = bench.time(lambda: matcher.accept_bytes(data))
            if not matcher.is_accepting:
                raise SystemExit(f"the text does not fit: {text[:200]}")
            return constraint, spent * 1e3 / len(data)

        text = sample["text"]
        constraint, first = read(text)
        grown = [read(sample["before"] + n * sample["unit"] + sample["after"])[0].stats() for n in (10, 1000)]
        row: Row = {
            "grammar": name, "states": constraint.stats()["states"], "bytes": len(text.encode()),
            "configurations": constraint.stats()["configurations"],
            "a byte": constraint.stats()["configurations"] / len(text.encode()), "ns a byte": first,
            "open": least_live_items(grammar, bytes_alone, text.encode()),
            "configurations x10": grown[0]["configurations"], "x1000": grown[1]["configurations"],
        }  # fmt: skip
        if "open" in sample:
            deep = [
                sample["outer"] + n * sample["open"] + sample["inner"] + n * sample["close"] + sample["end"]
                for n in (10, 110)
            ]
            few, many = (read(t)[0].stats()["configurations"] for t in deep)
            row["a level"] = (many - few) / 100
            row["open, 110 deep"] = least_live_items(grammar, bytes_alone, deep[1].encode())
        else:
            row["a level"] = row["open, 110 deep"] = ""
        rows.append(row)
    return rows + [grammar_masks(bench, name, sample) for name, sample in samples.items()]


def grammar_masks(bench: Bench, name: str, sample: Row) -> Row:
    """Masks along a text: the first time, then along another text, then along the first one again."""
    vocabulary = bench.vocabulary()
    source = (HERE / "grammars" / f"{name}.gbnf").read_text(encoding="utf-8")
    start = now()
    constraint = vocabulary.compile(narrows.Grammar.from_gbnf(source))
    row: Row = {"masks of": name, "compile us": (now() - start) / 1e3}
    text, other = sample["text"], sample["before"] + 2 * sample["unit"] + sample["after"]
    for label, chosen in (("first ", text), ("other ", other), ("again ", text)):
        ids = bench.encode(chosen)
        spent = walk(bench, constraint, ids, label)
        row |= {"tokens": len(ids)} if label == "first " else {}
        row |= {k: v for k, v in spent.items() if k.startswith(label + "mask")}
    return row | {"masks": constraint.stats()["masks"], "KB": constraint.stats()["bytes"] / 1e3}


# objects


def objects(bench: Bench) -> list[Row]:
    rows: list[Row] = []
    for count in (60, 300):
        kinds: list[Row] = [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"enum": ["low", "high"]}]
        values = ["some text", 17, True, "low"]
        keys = [f"{'size colour weight name state'.split()[i % 5]}_{i}" for i in range(count)]
        schema = {
            "type": "object", "additionalProperties": False,
            "properties": {k: kinds[i % 4] for i, k in enumerate(keys)},
        }  # fmt: skip
        vocabulary = bench.vocabulary()
        start = now()
        grammar = narrows.Grammar.from_json_schema(schema)
        read = now()
        constraint = vocabulary.compile(grammar)
        compiled = now()
        first = bench.fill(constraint.matcher())
        firsts: list[float] = []
        warm: list[float] = []
        matcher = constraint.matcher()
        matcher.accept_bytes(b'{"')
        keys_us = bench.fill(matcher)
        texts = []
        for _ in range(20):
            chosen = sorted(bench.random.sample(range(count), bench.random.randint(1, count // 2)))
            texts.append(bench.encode(json.dumps({keys[i]: values[i % 4] for i in chosen})))
        for out in (firsts, warm):
            for ids in texts:
                matcher = constraint.matcher()
                for token in ids:
                    out.append(bench.fill(matcher))
                    assert matcher.accept(token)
        stats = constraint.stats()
        rows.append(
            {
                "object": f"{count} optional keys, declared order", "schema us": (read - start) / 1e3,
                "compile us": (compiled - read) / 1e3, "first us": first, "all keys us": keys_us,
                **quantiles(firsts, "new "), **quantiles(warm, "again "), "masks": stats["masks"],
                "KB": stats["bytes"] / 1e3, "shared KB": stats["shared_bytes"] / 1e3,
            }
        )  # fmt: skip
    return rows + any_order(bench)


def any_order(bench: Bench) -> list[Row]:
    """The cost of the mask after each new set of keys: with one automaton of the unseen keys, and with a union of one
    automaton per key."""
    rows = []
    for count in (60, 300):
        keys = [f'"{"size colour weight name state".split()[i % 5]}_{i}":'.encode() for i in range(count)]
        vocabulary = bench.vocabulary()
        rest: dict[str, ir.Node] = {
            "rest": ir.Alt((ir.Bytes(b"}"), ir.Seq((ir.Bytes(b"0"), ir.Ref("rest")))))
        }  # recursive, so it stays outside the lexemes

        def mask(
            key: ir.Node, rest: dict[str, ir.Node] = rest, vocabulary: narrows.Vocabulary = vocabulary
        ) -> tuple[float, int]:
            """The time of the mask, and the bytes that all constraints share after it."""
            module = ir.Module({"root": ir.seq(key, ir.Ref("rest")), **rest})
            constraint = vocabulary.compile(narrows.Grammar(module))
            return bench.fill(constraint.matcher()), constraint.stats()["shared_bytes"]

        def together(chosen: list[bytes]) -> ir.Node:
            return ir.Literals(tuple(chosen))

        def apart(chosen: list[bytes]) -> ir.Node:
            return ir.Alt(tuple(ir.Lexeme(ir.Bytes(k)) for k in chosen))

        mask(apart(keys))
        for size in (count - 1, count // 2, count // 6):
            row: Row = {"object": f"any order: {size} of {count} unseen"}
            for label, node in (("one automaton", together), ("union", apart)):
                before = mask(node(keys[:1]))[1]
                masks = [mask(node(sorted(bench.random.sample(keys, size)))) for _ in range(15)]
                row |= {f"{label} us": median(t for t, _ in masks), f"{label} KB": (masks[-1][1] - before) / 15e3}
            rows.append(row)
    return rows


QUESTIONS: dict[str, Callable[[Bench], list[Row]]] = {
    "hits": hits, "crossings": crossings, "tiny": tiny, "stacks": stacks, "objects": objects,
}  # fmt: skip


def show(rows: list[Row]) -> str:
    """The rows as tables. Rows with other columns begin a new table."""

    def cell(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
        return f"{value:,}" if isinstance(value, int) else str(value)

    out = []
    for _, group in groupby(rows, key=list):
        block = list(group)
        table = [list(block[0]), *([cell(value) for value in row.values()] for row in block)]
        widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
        for first, *others in table:
            cells = [first.ljust(widths[0]), *(text.rjust(w) for text, w in zip(others, widths[1:], strict=True))]
            out.append("  ".join(cells).rstrip())
        out.append("")
    return "\n".join(out)


def main(questions: dict[str, Callable[[Bench], list[Row]]], description: str | None) -> None:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tokenizer", default="llama3_1", help="a name from tests/support/real_tokenizers.py, or a folder"
    )
    parser.add_argument("--questions", default=",".join(questions), help="some of " + ", ".join(questions))
    parser.add_argument("--variants", type=int, default=10, help="variants of each schema's own texts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    options = parser.parse_args()
    folder = Path(options.tokenizer)
    if not folder.is_dir():
        import real_tokenizers

        folder = real_tokenizers.folder(options.tokenizer)
    bench = Bench(folder, options.seed, options.variants)
    answers = {}
    for name in options.questions.split(","):
        answers[name] = questions[name](bench)
        if not options.json:
            print(f"== {name}\n{show(answers[name])}", flush=True)
    if options.json:
        print(json.dumps(answers, indent=1))


if __name__ == "__main__":
    main(QUESTIONS, __doc__)
