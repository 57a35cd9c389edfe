"""Part c: languages other than JSON Schema, each as every engine reads it.

narrows reads GBNF, llguidance and glrmask read Lark, xgrammar its EBNF, which is close to GBNF. Arithmetic, SQL and C
are the grammars of bench/grammars, and lark/ has the same languages with the tokens that Lark wants. The others are a
regular expression or a list, which some engines read as such and others get as a grammar of one terminal. Of several
sources for one engine the one with the fastest masks counts.

Before each language the engine's vocabulary is made anew. Cost: a minute or two.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from first_sight.features import VALUES, short
from first_sight.workers import Worker

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
GRAMMARS = HERE.parent / "grammars"
DATE = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
MAIL = r"[a-zA-Z0-9_+-]+(\.[a-zA-Z0-9_+-]+)*@([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,10}"
CHUNKS = [
    "The mask of a token stream ",
    "is a set of tokens. ",
    "What was seen before ",
    "is found again; ",
    "the rest ",
]
Sources = list[tuple[str, Any]]


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def regex(pattern: str) -> dict[str, Sources]:
    """The whole text matches. No `/` may be in the pattern."""
    one_terminal = f"start: TEXT\nTEXT: /{pattern}/\n"
    return {
        "narrows": [("regex", pattern)],
        "llguidance": [("regex", pattern)],
        "xgrammar": [("regex", pattern)],
        "glrmask": [("lark", one_terminal)],
    }


def choice(strings: list[str]) -> dict[str, Sources]:
    alternatives = " | ".join(map(quoted, strings))
    return {
        "narrows": [("choice", strings)],
        "llguidance": [("lark", f"start: TEXT\nTEXT: {alternatives}\n")],
        "xgrammar": [("ebnf", f"root ::= {alternatives}")],
        "glrmask": [("lark", f"start: TEXT\nTEXT: {alternatives}\n")],
    }


def grammar(name: str) -> dict[str, Sources]:
    gbnf = (GRAMMARS / f"{name}.gbnf").read_text(encoding="utf-8")
    lark = (HERE / "lark" / f"{name}.lark").read_text(encoding="utf-8")
    return {
        "narrows": [("gbnf", gbnf)],
        "llguidance": [("lark", lark)],
        "xgrammar": [("ebnf", gbnf), ("lark", lark)],
        "glrmask": [("lark", lark)],
    }


def substring(text: str) -> dict[str, Sources]:
    inside = quoted(text)
    return {
        "narrows": [("substring", text)],
        "llguidance": [("lark", f'start: %regex {{ "substring_chars": {inside} }}')],
        "xgrammar": [],
        "glrmask": [],
    }


def languages() -> dict[str, tuple[dict[str, Sources], list[str]]]:
    """Per language: the sources of each engine, and texts in it."""
    samples = tomllib.loads((GRAMMARS / "samples.toml").read_text(encoding="utf-8"))
    document = "".join(CHUNKS) * 40
    return {
        **{name: (grammar(name), [samples[name]["text"]]) for name in ("arithmetic", "sql", "c")},
        "choice of 10": (choice(VALUES[:10]), VALUES[:3]),
        "choice of 500": (choice(VALUES), VALUES[::100]),
        "e-mail address": (regex(MAIL), ["ann.lee+tag@mail.example.org", "x@y.de"]),
        "date": (regex(DATE), ["2026-11-24", "1999-12-31"]),
        "substring of 4,000 characters": (substring(document), [document[900:1200]]),
    }


def run(workers: dict[str, Worker], tokenizer: Any) -> dict[str, Any]:
    """Per language and engine, the answer of worker.definition."""
    rows: dict[str, Any] = {}
    for name, (sources, samples) in languages().items():
        texts = [tokenizer.encode(text, add_special_tokens=False).ids for text in samples]
        rows[name] = {engine: ask(worker, sources[engine], texts) for engine, worker in workers.items()}
        print(name, file=sys.stderr, flush=True)
    return rows


def ask(worker: Worker, sources: Sources, texts: list[list[int]]) -> dict[str, Any]:
    """The answer with the fastest masks, or else a refusal."""
    answers: list[dict[str, Any]] = [{"unread": True}]
    for kind, source in sources:
        worker.renew()
        answer = worker.ask("definition", source=source, kind=kind, texts=texts, again=False)
        answers.append(short(answer))
    taken = [answer for answer in answers if "first" in answer]
    return min(taken, key=lambda answer: (len(answer["wrong"]), answer["mean"])) if taken else answers[-1]
