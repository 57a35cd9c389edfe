"""The hostile requests, as data: a name, the part of the server that is aimed at, and a function that makes the body.

A body that is always the same is made once.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import hostile_grammars as grammars

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
FORGED = "2026-01-01 00:00:00,000 ERROR forged"
"""A text that no line of the log may begin with. It is short, since texts are cut before they are logged."""


REFUSAL_SECONDS = 30.0
"""Seconds that a refusal may take on a busy machine which needs no place beside the streams."""
TURN_SECONDS = 120.0
"""The same for what must wait for its place beside 16 streams: answers, and refusals of what has begun."""
PROMPT_SECONDS = 400.0
"""The same for prompts of thousands of tokens. They share prefill with others, at 30 tokens a second or less."""


@dataclass(frozen=True)
class Attack:
    name: str
    aim: str
    """compile, mask, cache, reading, share, connection, fields, echo, leaving."""
    make: Callable[[Random], tuple[str, bytes]]
    times: int = 1
    """Requests per turn."""
    leave: bool = False
    """Whether the attacker leaves as soon as the request is sent."""
    waits: float = TURN_SECONDS
    """Seconds that an attacker waits before it leaves."""

    def is_late(self, label: str, seconds: float) -> bool:
        """Whether a refusal that needs no place took too long."""
        waits_for_a_place = self.aim in ("mask", "cache", "share", "fields")
        return label[:1] == "4" and seconds > REFUSAL_SECONDS and not waits_for_a_place


def _json(path: str, **body: Any) -> tuple[str, bytes]:
    return path, json.dumps(body, ensure_ascii=False).encode()


def _structured(kind: str, value: Any, tokens: int, **fields: Any) -> tuple[str, bytes]:
    return _json(
        TEXT, prompt="Some words:", max_tokens=tokens, temperature=1.5, structured_outputs={kind: value}, **fields
    )


def gbnf(text: str, tokens: int = 24, **fields: Any) -> Callable[[Random], tuple[str, bytes]]:
    return functools.cache(lambda _: _structured("grammar", text, tokens, **fields))


def lazily(make: Callable[[], tuple[str, bytes]]) -> Callable[[Random], tuple[str, bytes]]:
    """Makes the body at the first use, then returns the same one."""
    cached = functools.cache(make)
    return lambda _: cached()


def schema(make: Callable[[], Any]) -> Callable[[Random], tuple[str, bytes]]:
    return lazily(lambda: _structured("json", make(), 8))


def new_grammar(rng: Random) -> tuple[str, bytes]:
    return _structured("grammar", grammars.random_grammar(rng.getrandbits(40)), 24)


def new_doubling(rng: Random) -> tuple[str, bytes]:
    return _structured("grammar", grammars.doubling(12, f'[a-{rng.choice("bcdefgh")}] "{rng.getrandbits(16)}"'), 8)


def new_growing(rng: Random) -> tuple[str, bytes]:
    return _structured("grammar", grammars.growing(rng.getrandbits(40)), 24)


def new_growing_twice(rng: Random) -> tuple[str, bytes]:
    return _structured("grammar", grammars.many_words(90, mark=f"é{rng.getrandbits(40)}"), 16, n=2)


def digits() -> Any:
    bounds = (
        {"type": "number", "minimum": int("1" * 398 + str(i % 10)), "maximum": int("3" * 398 + "7")}
        for i in range(2_000)
    )
    return {"properties": {f"k{i}": bound for i, bound in enumerate(bounds)}}


def patterns() -> Any:
    return {"properties": {f"k{i}": {"type": "string", "pattern": "a[b-z]*" * 1_000 + str(i)} for i in range(1_000)}}


def required() -> Any:
    return {"type": "object", "required": [f"k{i}" for i in range(100_000)]}


def long_prompt(rng: Random) -> tuple[str, bytes]:
    return _json(TEXT, prompt=[rng.randrange(1_000, 40_000) for _ in range(7_900)], max_tokens=4)


def long_message(rng: Random) -> tuple[str, bytes]:
    text = " ".join(rng.choice(("stone", "river", "cloud", "lamp")) for _ in range(7_700))
    return _json(CHAT, messages=[{"role": "user", "content": text}], max_tokens=4)


def many_sequences(rng: Random) -> tuple[str, bytes]:
    return _json(TEXT, prompt="One", n=16, max_tokens=2, seed=rng.getrandbits(20))


def unknown_fields() -> tuple[str, bytes]:
    fields = ",".join(f'"field{i}":{i}' for i in range(200_000))
    return TEXT, f'{{"prompt":"a","max_tokens":1,{fields}}}'.encode()


def unknown_fields_inside() -> tuple[str, bytes]:
    fields = ",".join(f'"field{i}":{{"a":[{i}]}}' for i in range(200_000))
    return TEXT, f'{{"prompt":"a","max_tokens":1,"metadata":{{{fields}}}}}'.encode()


def big_text() -> tuple[str, bytes]:
    return _json(CHAT, messages=[{"role": "user", "content": "word " * 1_670_000}], max_tokens=4)


def big_list() -> tuple[str, bytes]:
    return TEXT, b'{"prompt": "a", "max_tokens": 1, "metadata": [' + b"[]," * 2_700_000 + b"[]]}"


def big_ids() -> tuple[str, bytes]:
    return TEXT, b'{"max_tokens": 1, "prompt": [' + b"12," * 2_700_000 + b"12]}"


def too_big() -> tuple[str, bytes]:
    return CHAT, b'{"messages": [{"role": "user", "content": "' + b"a" * 9_000_000 + b'"}]}'


FIELDS = (
    "messages prompt model tools tool_choice response_format structured_outputs stop n seed temperature top_p top_k min_p max_tokens "
    "max_completion_tokens min_tokens logit_bias logprobs top_logprobs stream stream_options chat_template_kwargs reasoning_effort priority "
    "stop_token_ids presence_penalty frequency_penalty repetition_penalty parallel_tool_calls max_tool_calls continue_final_message "
    "include_reasoning ignore_eos user metadata disable_additional_properties stop_at_repeated_call echo suffix best_of store"
).split()
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 1e308, 0.5, "", "a", "\0", "\n", "é" * 50, "self", [], [[]], [None], ["a", 1], {}, {"self": 1},
    {"type": "function"}, {"type": "json_schema"}, {"type": []}, {"json": {}}, {"regex": "("}, {"grammar": 1}, {"choice": []}, {"": ""}, {"a": {"b": [{}]}},
    [{"role": "user", "content": [{"type": "text"}]}], [{"role": "tool", "content": None}], [{"type": "function", "function": {"name": "self", "parameters": 1}}],
    {"tools": 1}, {"messages": []}, {"1": 1e9}, {"-1": "x"},
)  # fmt: skip


def pairs() -> Iterator[tuple[str, str, Any]]:
    """Every field with every value, in a mixed order."""
    every = list(itertools.product((CHAT, TEXT), FIELDS, VALUES))
    Random(0).shuffle(every)
    return itertools.cycle(every)


_PAIRS = pairs()


def any_field(rng: Random) -> tuple[str, bytes]:
    """The next pair: often alone, otherwise with another field."""
    path, field, value = next(_PAIRS)
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]} if path == CHAT else {"prompt": "hi"}
    body |= {"max_tokens": 2, field: value}
    if rng.random() < 0.3:
        body.setdefault(rng.choice(FIELDS), rng.choice(VALUES))
    return _json(path, **body)


def any_json(rng: Random) -> tuple[str, bytes]:
    deep = rng.choice((50, 199, 300, 100_000))
    bodies = (
        b"",
        b"null",
        b"[]",
        b'"a"',
        b"NaN",
        b"{",
        b'{"a":1}{',
        b"\xff\xfe",
        b"[" * deep,
        b'{"prompt":' * deep,
        b'{"prompt":"\\ud800"}',
    )
    return rng.choice((CHAT, TEXT)), rng.choice(bodies)


def forged_line(rng: Random) -> tuple[str, bytes]:
    line = f"x\n{FORGED}\r\n{FORGED}\x1b[2J"
    where = rng.randrange(4)
    if where == 0:
        return _json(TEXT, prompt="a", max_tokens=1, **{line: 1, f"{line}{rng.random()}": 1})
    if where == 1:
        return _json(TEXT, prompt="a", max_tokens=1, model=line)
    if where == 2:
        tool = {"type": "function", "function": {"name": line, "parameters": {"type": "object"}}}
        return _json(CHAT, messages=[{"role": "user", "content": "a"}], max_tokens=2, tools=[tool])
    unenforced = {
        "type": "object",
        "properties": {line: {"type": "array", "uniqueItems": True, "items": {"const": line}}},
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": unenforced}}
    return _json(CHAT, messages=[{"role": "user", "content": "a"}], max_tokens=2, response_format=wanted)


def echoed(rng: Random) -> tuple[str, bytes]:
    huge = "é<" * 250_000
    bodies: list[dict[str, Any]] = [
        {"model": huge}, {"tool_choice": huge}, {"response_format": {"type": huge}}, {"structured_outputs": {huge: 1}}, {huge: {"schema": 1}}, {"guided_json": huge},
        {"structured_outputs": {"regex": "(" + huge[:60_000]}}, {"structured_outputs": {"grammar": "root ::= " + huge}}, {"stop": [[huge]]},
        {"structured_outputs": {"json": {"$ref": "#/" + huge}}}, {"structured_outputs": {"json": {"type": huge}}}, {"reasoning_effort": huge}, {"logit_bias": {huge: 1}},
    ]  # fmt: skip
    return _json(CHAT, messages=[{"role": "user", "content": "a"}], max_tokens=2, **rng.choice(bodies))


def plain(rng: Random) -> tuple[str, bytes]:
    """A valid request, whose client does not wait for the answer."""
    return _json(
        CHAT, messages=[{"role": "user", "content": f"Tell me of {rng.random()}"}], max_tokens=300, stream=True
    )


ATTACKS = [
    Attack("a sequence of 4,000 sets", "compile", gbnf(grammars.long_sequence(), 8)),
    Attack("doubling rules", "compile", new_doubling),
    Attack("14 KB of words with counters", "mask", gbnf(grammars.many_words())),
    Attack("300 rules that call each other", "mask", gbnf(grammars.many_rules())),
    Attack("recursion under counted repetitions", "mask", gbnf(grammars.CJK)),
    Attack("the same, eight at once", "mask", gbnf(grammars.CJK, n=8)),
    Attack("an empty loop after whitespace", "mask", gbnf(grammars.SPACES, 200)),
    Attack("an ambiguous sum", "mask", gbnf(grammars.AMBIGUOUS, 60)),
    Attack("counted dots", "mask", gbnf(grammars.DOTS)),
    Attack("random grammars", "mask", new_grammar),
    Attack("4 KB grammars, each new", "cache", new_growing),
    Attack("the same, of other letters and twice", "cache", new_growing_twice),
    Attack("2,000 bounds of 399 digits", "reading", schema(digits)),
    Attack("1,000 patterns of 8 KB", "reading", schema(patterns)),
    Attack("flags turned on and off 4,000 times", "reading", lazily(lambda: _structured("regex", "(?i:a(?-i:b))" * 4_000, 8))),
    Attack("a chain of 100,000 rules", "reading", lazily(lambda: _structured("grammar", grammars.chain(), 8))),
    Attack("the same, with branches", "reading", lazily(lambda: _structured("grammar", grammars.chain(branching=True), 8))),
    Attack("100,000 required names", "reading", schema(required)),
    Attack("a prompt of 7,900 tokens", "share", long_prompt, waits=PROMPT_SECONDS),
    Attack("a message of 7,700 words", "share", long_message, waits=PROMPT_SECONDS),
    Attack("16 answers", "share", many_sequences),
    Attack("200,000 unknown fields", "share", lazily(unknown_fields)),
    Attack("200,000 of them inside one", "share", lazily(unknown_fields_inside)),
    Attack("a message of 8 MB", "share", lazily(big_text)),
    Attack("8 MB of lists", "share", lazily(big_list)),
    Attack("8 MB of token ids", "share", lazily(big_ids)),
    Attack("9 MB", "share", lazily(too_big)),
    Attack("any field with any value", "fields", any_field, times=20),
    Attack("bodies that are no request", "fields", any_json, times=5),
    Attack("lines for the log", "echo", forged_line),
    Attack("huge texts that an error may repeat", "echo", echoed),
    Attack("gone once it is sent", "leaving", plain, leave=True),
    Attack("gone while a grammar is compiled", "leaving", new_doubling, leave=True),
    Attack("gone while 8 MB are read", "leaving", lazily(big_text), leave=True),
]  # fmt: skip
