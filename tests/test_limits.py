"""Every field of `Limits` can be hit. Those of the library are hit here; for the others this says which test does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

import narrows
from narrows import Grammar, Limits, Vocabulary
from narrows.grammar import ir

VOCABULARY = Vocabulary([bytes([b]) for b in range(256)])


def compiled(grammar: Grammar, limits: Limits, text: bytes = b"") -> None:
    matcher = VOCABULARY.compile(grammar, limits=limits).matcher()
    matcher.accept_bytes(text)
    matcher.explain(0)


def schema_with_branches(limits: Limits) -> None:
    three = [{"type": t} for t in ("string", "integer", "null")]
    Grammar.from_json_schema({"anyOf": three, "allOf": [{"anyOf": three}]}, limits=limits)


def nested(limits: Limits) -> None:
    node: ir.Node = ir.Literals((b"a", b"ab"))
    for _ in range(30):
        node = ir.Repeat(ir.Alt((ir.Seq((node, ir.Bytes(b"x"))), ir.Bytes(b"y"))), 2, 5)
    compiled(Grammar(ir.Module({"root": ir.Lexeme(node)})), limits)


def one_step_after_another(limits: Limits) -> None:
    matcher = VOCABULARY.compile(
        Grammar.from_gbnf('root ::= root root | "a" root | "a" | root "b"'), limits=limits
    ).matcher()
    for _ in range(60):
        matcher.accept(ord("a"))
        matcher = matcher.fork()


def ambiguous(limits: Limits) -> None:
    compiled(Grammar.from_gbnf('root ::= root root | "a" root | "a" | root "b"'), limits, b"a" * 60)


HITS: dict[str, tuple[int, Callable[[Limits], object]]] = {
    "reading_work": (500, lambda x: Grammar.from_regex("abcdefgh" * 100, limits=x)),
    "schema_bytes": (100, lambda x: Grammar.from_json_schema('{"enum": ["' + "x" * 200 + '"]}', limits=x)),
    "schema_depth": (5, lambda x: Grammar.from_json_schema('{"items": ' * 9 + "{}" + "}" * 9, limits=x)),
    "schema_places": (
        5,
        lambda x: Grammar.from_json_schema({"properties": {f"p{i}": {"type": "null"} for i in range(9)}}, limits=x),
    ),
    "schema_branches": (2, schema_with_branches),
    "number_digits": (5, lambda x: Grammar.from_json_schema({"type": "integer", "minimum": 10**9}, limits=x)),
    "grammar_bytes": (20, lambda x: Grammar.from_gbnf('root ::= "a long text in a rule"', limits=x)),
    "regex_bytes": (20, lambda x: Grammar.from_regex("a" * 30, limits=x)),
    "nesting": (10, lambda x: Grammar.from_regex("(" * 20 + "a" + ")" * 20, limits=x)),
    "ir_nodes": (10, lambda x: compiled(Grammar.from_json_schema({}), x)),
    "states": (50, lambda x: compiled(Grammar.from_json_schema({"type": "array", "items": {}, "maxItems": 99}), x)),
    "term_depth": (10, nested),
    "step_work": (100, ambiguous),
    "sequence_work": (1_000, one_step_after_another),
    "live_items": (10, ambiguous),
    "constraint_bytes": (2_000, ambiguous),
    "capture_work": (500, lambda x: Grammar.from_lark("start: a*\na[capture]: /b/").captures("b" * 200, limits=x)),
}

ELSEWHERE = {
    "object_keys": "tests/oracle/test_distinct.py::test_beyond_the_bound_names_may_come_again",
    "vocabulary_bytes": "tests/core/test_matcher.py::test_nothing_changes_when_what_is_remembered_is_dropped",
    "vocabulary_tokens": "tests/vocabulary/test_vocab_objects.py::test_limits",
    "token_bytes": "tests/vocabulary/test_vocab_objects.py::test_limits",
    "stream_name_chars": "tests/stream/test_stream_limits.py::test_a_name_that_is_too_long_is_text",
    "stream_held_chars": "tests/stream/test_stream_limits.py::stream_held_chars",
    "stream_depth": "tests/stream/test_stream_limits.py::stream_depth",
    "stream_keys": "tests/stream/regions/test_parameters.py::stream_keys",
    "body_bytes": "tests/server/test_server_hostile.py::body_bytes",
    "body_values": "tests/server/test_large_bodies.py::body_values",
    "bodies_bytes": "tests/server/test_large_bodies.py::bodies_bytes",
    "messages": "tests/server/test_server_hostile.py::messages",
    "tools": "tests/server/test_server_hostile.py::tools",
    "select_options": "tests/server/test_decoding_fields.py::select_options",
    "stop_strings": "tests/server/test_server_hostile.py::stop_strings",
    "stop_characters": "tests/server/test_server_hostile.py::stop_characters",
    "stop_token_ids": "tests/server/test_server_hostile.py::stop_token_ids",
    "sequences": "tests/server/test_server_hostile.py::sequences",
    "embedding_inputs": "tests/server/test_embeddings_api.py::embedding_inputs",
    "logprob_values": "tests/server/test_large_answers.py::logprob_values",
    "unknown_fields": "tests/server/test_foreign_fields.py::unknown_fields",
    "compile_queue": "tests/server/test_server_grammars.py::compile_queue",
    "reading_bytes": "tests/compiling/test_reading_apart.py::reading_bytes",
    "grammar_cache_entries": "tests/server/test_server_grammars.py::grammar_cache_entries",
    "grammar_cache_bytes": "tests/server/test_server_grammars.py::grammar_cache_bytes",
    "prompt_cache_characters": "tests/chat/test_chat_template.py::prompt_cache_characters",
}


def test_every_limit_is_hit_somewhere() -> None:
    assert set(HITS) | set(ELSEWHERE) == {f.name for f in fields(Limits)}
    root = Path(__file__).parent.parent
    for name, place in ELSEWHERE.items():
        path, test = place.split("::")
        assert test in (root / path).read_text(), f"{name}: no {test} in {path}"


@pytest.mark.parametrize("name", HITS)
def test_the_error_names_the_limit(name: str) -> None:
    value, hit = HITS[name]
    with pytest.raises(narrows.LimitError) as caught:
        hit(Limits(**{name: value}))
    assert caught.value.limit == name
    assert caught.value.code == "limit_reached"


@pytest.mark.parametrize(
    ("name", "value", "right_side"),
    [
        ("grammar_bytes", 20, '"a long text in a rule"'),
        ("nesting", 10, "(" * 20 + '"a"' + ")" * 20),
        ("reading_work", 500, '"a" "b" | ' * 100 + '"c"'),
    ],
)
@pytest.mark.parametrize("read", [Grammar.from_gbnf, Grammar.from_lark], ids=["gbnf", "lark"])
def test_texts_of_grammars_reach_the_same_limits(
    read: Callable[..., Grammar], name: str, value: int, right_side: str
) -> None:
    text = ("root ::= " if read == Grammar.from_gbnf else "start: ") + right_side
    read(text)
    with pytest.raises(narrows.LimitError) as caught:
        read(text, limits=Limits(**{name: value}))
    assert caught.value.limit == name


@pytest.mark.parametrize("name", HITS)
def test_the_same_input_passes_by_default(name: str) -> None:
    HITS[name][1](Limits())


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "many"])
def test_a_limit_is_a_positive_integer(value: object) -> None:
    with pytest.raises(narrows.InputError) as caught:
        Limits(states=value)  # type: ignore[arg-type]
    assert caught.value.code == "limits_invalid"
