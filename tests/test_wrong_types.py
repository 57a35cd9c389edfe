"""Every public callable, with each parameter in turn of a wrong kind: it works, or it ends in a NarrowsError.

An entry that is new is found by itself where its class stands here; `test_every_public_name_is_tried` names the one that is not.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiktoken

import narrows
from narrows import Constraint, Grammar, Limits, Matcher, NarrowsError, Vocabulary, formats
from narrows.decoding.params import SamplingParams
from narrows.decoding.values import AnswerValues, ValueOptions
from narrows.engines.api import Request
from narrows.engines.llama_cpp import LlamaCppEngine
from narrows.formats.format import Format
from narrows.grammar.flatten import flatten
from narrows.server.settings import Settings
from narrows.tools import functions

TOKENS = [bytes([b]) for b in range(256)] + [b"", b"abc"]
VOCABULARY = Vocabulary(TOKENS, {"</s>": 256}, eos=256)
GRAMMAR = Grammar.from_regex("[a-c]{0,9}")
CONSTRAINT = VOCABULARY.compile(GRAMMAR)
ARRAYS = flatten(GRAMMAR.module, VOCABULARY.facts, Limits())
HERMES = formats.get("hermes_json")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
MESSAGE = {"role": "assistant", "content": "hi", "tool_calls": [CALL]}
WORDS = (VOCABULARY.size + 31) // 32
TEXT_FORMAT, TOKEN_FORMAT = {"type": "const_string", "value": "a"}, {"type": "token", "token": 97}
TEXT_TAG = {"begin": "<a>", "content": TEXT_FORMAT, "end": "</a>"}
TOKEN_TAG = {"begin": TOKEN_FORMAT, "content": TEXT_FORMAT, "end": TOKEN_FORMAT}
CALLS = {"at_least_one": False, "stop_after_first": False}
FORMATS: dict[str, dict[str, Any]] = {
    "const_string": {"value": "a"},
    "json_schema": {
        "json_schema": SCHEMA,
        "style": "json",
        "any_order": False,
        "max_whitespace_cnt": 1,
        "excludes": [],
    },
    "grammar": {"grammar": 'root ::= "a"'},
    "regex": {"pattern": "a"},
    "any_text": {"excludes": ["b"], "max_tokens": None, "max_chars": 5},
    "sequence": {"elements": [TEXT_FORMAT]},
    "star": {"content": TEXT_FORMAT},
    "repeat": {"min": 1, "max": 2, "content": TEXT_FORMAT},
    "tag": {"begin": "a", "content": TEXT_FORMAT, "end": ["b", "ab"]},
    "triggered_tags": {"triggers": ["<"], "tags": [TEXT_TAG], "excludes": ["b"], **CALLS},
    "tags_with_separator": {"tags": [TEXT_TAG], "separator": ",", **CALLS},
    "dispatch": {"rules": [["a", TEXT_FORMAT]], "loop": True, "excludes": ["b"]},
    "token": {"token": 97},
    "exclude_token": {"exclude_tokens": [98]},
    "any_tokens": {"exclude_tokens": [98], "max_tokens": 5},
    "token_triggered_tags": {"trigger_tokens": [97], "tags": [TOKEN_TAG], "exclude_tokens": [98], **CALLS},
    "token_dispatch": {"rules": [[97, TEXT_FORMAT]], "loop": True, "exclude_tokens": [98]},
}
TAG = {"type": "structural_tag", "format": {"type": "any_text"}}


class Surprising:
    """An object that is like nothing else, and says so whatever it is asked."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no equality")

    __hash__ = None  # type: ignore[assignment]


def wrong_values() -> Iterator[Any]:
    """New ones each time: a callable may keep or change what it is given."""
    cycle: list[Any] = []
    cycle.append(cycle)
    loop: dict[str, Any] = {"type": "object"}
    loop["properties"] = {"a": loop}
    deep: Any = {}
    for _ in range(3_000):
        deep = {"items": deep, "a": [deep]}
    values = [
        None, True, 0, 3, -1, 2**31, 2**63, 2**70, -(2**70), 10**400, 10**5000, 1.5, -0.0, math.nan, math.inf, 1j, Decimal("sNaN"), Decimal(3),
        Fraction(1, 3), "", "x", "\ud800", "x\0y", "3", b"", b"\xff", b"x", bytearray(b"x"), memoryview(b"xy")[::-1], [], [None], [True],
        [-1], [2**70], [1.5], ["x"], ["\ud800"], [b"x"], [[]], [{}], [()], [3, "x"], (), (None,), ("x", 3), ("x", "x"), {}, {"x": 1},
        {"x": None}, {"x": "\ud800"}, {"x": math.nan}, {"x": object()}, {"x": {1, 2}}, {"x": b"x"}, {"x": (1, "x")}, {1: 2}, {None: 1},
        {"\ud800": 1}, {"type": 3}, {"type": "object", "properties": [3]}, {"name": 3}, {"function": 3}, {"function": {"name": {}}}, set(),
        {"x"}, {3}, frozenset({"x"}), object(), object, int, len, Surprising(), [Surprising()], {"x": Surprising()}, iter([3]),
        (x for x in "ab"), range(3), range(10**5), slice(3), ..., NotImplemented, Path("no such file"), Path("/"), types, cycle, loop, deep,
        [0] * 10_000, "x" * 50_000, np.int32(3), np.float32(1.5), np.bool_(True), np.str_("x"), np.zeros(0), np.zeros(3, np.int32),
        np.zeros((3, 3)), np.zeros(WORDS), np.zeros(WORDS, np.int64), np.zeros((1, WORDS), np.uint32), np.zeros((2, WORDS + 1), np.int32),
        np.array("x"), np.array([None, "x"]), np.zeros(2 * WORDS, np.int32)[::2], GRAMMAR, CONSTRAINT, VOCABULARY, HERMES, CONSTRAINT.matcher(),
        Limits(), ValueError("x"),
    ]  # fmt: skip
    yield from values


def shown(value: Any) -> str:
    try:
        return f"{type(value).__name__} {value!r:.40}"
    except Exception:
        return type(value).__name__


@dataclass(frozen=True)
class Entry:
    name: str
    call: Callable[..., Any]
    valid: dict[str, Any] = field(default_factory=dict)
    """What is given beside the wrong value, where the parameter has no default or the default would hide something."""
    then: Callable[[Any], Any] = lambda result: None
    """What the result is for: a value that only fails there fails too late."""
    takes_callables: tuple[str, ...] = ()
    """Parameters that take any callable: what it raises is its caller's own."""
    parameters: tuple[str, ...] = ()
    works: bool = True
    """What is valid needs something that is not here."""


def parameters(entry: Entry) -> list[str]:
    if entry.parameters:
        return list(entry.parameters)
    if is_dataclass(entry.call):
        return [f.name for f in fields(entry.call) if f.init]
    return [name for name in inspect.signature(entry.call).parameters if name not in ("self", "kwargs", "exc")]


def on(make: Callable[[], Any], name: str) -> Callable[..., Any]:
    """The method of a new object each time. Keywords are the method's."""

    def call(**arguments: Any) -> Any:
        return getattr(make(), name)(**arguments)

    method = getattr(make(), name)
    with contextlib.suppress(ValueError):
        call.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return call


def compiled(grammar: Grammar) -> None:
    matcher = VOCABULARY.compile(grammar).matcher()
    matcher.fill_mask(np.zeros(WORDS, np.int32))


def used(vocabulary: Vocabulary) -> None:
    matcher = vocabulary.compile(GRAMMAR).matcher()
    matcher.fill_mask(np.zeros((vocabulary.size + 31) // 32, np.int32))


def read(parser: Any) -> None:
    parser.feed('hm <tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>')
    parser.finish()


ENCODING = tiktoken.Encoding(
    "small", pat_str=".", mergeable_ranks={bytes([b]): b for b in range(256)}, special_tokens={"<|endoftext|>": 256}
)

TOKENIZER_JSON = {
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
    "added_tokens": [{"id": 2, "content": "</s>", "special": True}],
    "decoder": {"type": "ByteLevel"},
}
ROW, ROWS = np.zeros(WORDS, np.int32), np.zeros((1, WORDS), np.int32)
DRAFT = {"tokens": [97], "rows": np.zeros((2, WORDS), np.int32)}
PARSER_CALLABLES = ("id_factory",)

ENTRIES = [
    Entry("Vocabulary", Vocabulary, {"tokens": TOKENS}, used),
    Entry("Vocabulary.from_tokenizer_json", Vocabulary.from_tokenizer_json, {"path": TOKENIZER_JSON}, used),
    Entry("Vocabulary.from_gguf", Vocabulary.from_gguf, {"path": "no such file"}, used, works=False),
    Entry("Vocabulary.from_tokenizers", Vocabulary.from_tokenizers, {"tokenizer": None}, used, works=False),
    Entry("Vocabulary.from_transformers", Vocabulary.from_transformers, {"tokenizer": None}, used, works=False),
    Entry("Vocabulary.from_tiktoken", Vocabulary.from_tiktoken, {"encoding": ENCODING}, used),
    Entry("LlamaCppEngine", LlamaCppEngine, {"model": "no such file"}, works=False),
    Entry("Vocabulary.token_bytes", VOCABULARY.token_bytes),
    Entry("Vocabulary.spell", VOCABULARY.spell),
    Entry("Vocabulary.compile", VOCABULARY.compile, {"grammar": GRAMMAR}, lambda c: c.matcher().fill_mask(ROW)),
    Entry("Vocabulary.assemble", VOCABULARY.assemble, {"arrays": ARRAYS}, lambda c: c.matcher().fill_mask(ROW)),
    Entry("Grammar", Grammar, {"module": GRAMMAR.module}, compiled),
    Entry("Grammar.from_json_schema", Grammar.from_json_schema, {"schema": SCHEMA}, compiled),
    *(
        Entry(f"Grammar.from_json_schema of {{{keyword!r}: ...}}", lambda value, k=keyword: Grammar.from_json_schema({k: value}), {}, compiled,
             parameters=("value",))
        for keyword in ("type", "enum", "const", "minimum", "multipleOf", "minLength", "pattern", "format", "properties", "required",
                        "additionalProperties", "items", "prefixItems", "anyOf", "not", "$ref", "$id", "$defs", "description", "x-mine")
    ),
    Entry("Grammar.from_language", Grammar.from_language, {"language": "regex", "source": "a"}, compiled, parameters=("language", "source", "limits")),
    Entry("Grammar.from_regex", Grammar.from_regex, {"pattern": "a"}, compiled),
    Entry("Grammar.from_gbnf", Grammar.from_gbnf, {"text": 'root ::= "a"'}, compiled),
    Entry("Grammar.from_lark", Grammar.from_lark, {"text": 'start: "a"'}, compiled),
    Entry("Grammar.concat", lambda part: Grammar.concat("a", part), {"part": GRAMMAR}, compiled, parameters=("part",)),
    Entry("Grammar.union", lambda part: Grammar.union("a", part), {"part": GRAMMAR}, compiled, parameters=("part",)),
    Entry("Grammar.substring", Grammar.substring, {"text": "a b"}, compiled),
    Entry("Grammar.repeat", GRAMMAR.repeat, {}, compiled),
    Entry("Grammar.captures", GRAMMAR.captures, {"text": "abc"}),
    Entry("Grammar.from_ebnf", Grammar.from_ebnf, {"text": 'root ::= "a"'}, compiled),
    Entry("Grammar.choice", Grammar.choice, {"strings": ["a"]}, compiled),
    Entry("Grammar.from_structural_tag", Grammar.from_structural_tag, {"tag": TAG}, compiled),
    *(
        Entry(f"Grammar.from_structural_tag of {kind}.{field}", lambda value, k=kind, f=field: Grammar.from_structural_tag(
            {"type": "structural_tag", "format": {"type": k, **FORMATS[k], f: value}}), {}, compiled, parameters=("value",))
        for kind, fields in FORMATS.items() for field in fields
    ),
    Entry("Grammar.free_text", Grammar.free_text, {"switches": {"<a>": GRAMMAR}}, compiled),
    Entry("Constraint", Constraint, {"core": CONSTRAINT._core, "vocabulary": VOCABULARY, "grammar": GRAMMAR}, lambda c: c.matcher()),
    Entry("Matcher", Matcher, {"constraint": CONSTRAINT}, lambda m: m.fill_mask(ROW), parameters=("constraint",)),
    Entry("Matcher.fill_mask", on(CONSTRAINT.matcher, "fill_mask"), {}, parameters=("row",)),
    Entry("Matcher.accept", on(CONSTRAINT.matcher, "accept"), {}, parameters=("token",)),
    Entry("Matcher.accept_bytes", on(CONSTRAINT.matcher, "accept_bytes"), {}, parameters=("data",)),
    Entry("Matcher.try_accept", on(CONSTRAINT.matcher, "try_accept"), {}, parameters=("token",)),
    Entry("Matcher.try_accepts", on(CONSTRAINT.matcher, "try_accepts"), {}, parameters=("tokens",)),
    Entry("Matcher.history", on(CONSTRAINT.matcher, "history"), {}, parameters=("last",)),
    Entry("Matcher.fill_healing_mask", on(CONSTRAINT.matcher, "fill_healing_mask"), {"before": b"a", "row": ROW}, parameters=("before", "row")),
    Entry("Matcher.fill_ending_mask", on(CONSTRAINT.matcher, "fill_ending_mask"), {"at_most": 3, "row": ROW}, parameters=("at_most", "row")),
    Entry("Matcher.accepts", on(CONSTRAINT.matcher, "accepts"), {}, parameters=("tokens",)),
    Entry("Matcher.captures", lambda limits: CONSTRAINT.matcher().captures(limits=limits), parameters=("limits",)),
    Entry("Matcher.rollback", on(CONSTRAINT.matcher, "rollback"), {}, parameters=("n",)),
    Entry("Matcher.forced_bytes", on(CONSTRAINT.matcher, "forced_bytes"), {}, parameters=("at_most",)),
    Entry("Matcher.single_tokens", on(CONSTRAINT.matcher, "single_tokens"), {}, parameters=("at_most",)),
    Entry("Matcher.explanation", on(CONSTRAINT.matcher, "explanation"), {}, parameters=("token",)),
    Entry("Matcher.fill_draft_masks", on(CONSTRAINT.matcher, "fill_draft_masks"), DRAFT, parameters=("tokens", "rows", "parents")),
    Entry("Matcher.replay", on(CONSTRAINT.matcher, "replay")),
    Entry("Matcher.forced_tokens", on(CONSTRAINT.matcher, "forced_tokens"), takes_callables=("encode",)),
    Entry("Matcher.explain", on(CONSTRAINT.matcher, "explain")),
    Entry("Typed", narrows.Typed, {"kind": int}, lambda typed: typed.grammar()),
    Entry("Typed.read", narrows.Typed(int).read, {"text": "3"}),
    Entry("Typed.read_partial", narrows.Typed(int).read_partial, {"text": "3"}),
    Entry("Typed.partials", narrows.Typed(int).partials, {}, lambda values: values.feed("3")),
    Entry("TypedValues.feed", on(narrows.Typed(int).partials, "feed"), {"text": "1"}, parameters=("text", "logprob")),
    Entry("JsonValues", narrows.JsonValues, {}, lambda values: values.feed("[1.5, 2]"), ("parse_float",)),
    Entry("JsonValues.feed", on(narrows.JsonValues, "feed"), {"text": "1"}, parameters=("text", "logprob")),
    Entry("ValueOptions", ValueOptions, {}, lambda options: AnswerValues(options).feed([]), ("parse_float",)),
    Entry("tool_of", functions.tool_of, {"function": shown}, takes_callables=("function",)),
    Entry("call", functions.call, {"function": str.upper, "arguments": "{}"}, takes_callables=("function",), works=False),
    Entry("fill_masks", narrows.fill_masks, {"matchers": [CONSTRAINT.matcher()], "rows": ROWS}),
    Entry("Limits", Limits),
    Entry("formats.get", formats.get),
    Entry("formats.load", formats.load),
    Entry("formats.find", formats.find),
    Entry("formats.reasoning_style", formats.reasoning_style),
    Entry("formats.detect", formats.detect),
    Entry("formats.detect_model", formats.detect_model),
    Entry("formats.from_response_template", formats.from_response_template, {
        "declaration": {"start_anchor": "<a>", "fields": {"tool_calls": {"open": "<t>", "close": "</t>", "content": "json"}}}}),
    Entry("Format.parser", HERMES.parser, {"tools": TOOLS}, read, PARSER_CALLABLES),
    Entry("Format.parse", HERMES.parse, {"text": "a<tool_call>\n{", "tools": TOOLS}, repr, PARSER_CALLABLES),
    Entry("Format.grammar", HERMES.grammar, {"tools": TOOLS}, compiled),
    Entry("Format.render", HERMES.render, {"message": MESSAGE}),
    Entry("Format.id_factory", HERMES.id_factory, {}, lambda make: make(0)),
    Entry("Format.style", HERMES.style),
    Entry("Format.starts_in_reasoning", HERMES.starts_in_reasoning, {"prompt": ""}),
    Entry("Format.form", HERMES.form),
    Entry("Format.markers", HERMES.markers),
    Entry("Format.openers", HERMES.openers),
    *(
        Entry(f"StreamParser.{name}", on(lambda: HERMES.parser(TOOLS, vocab=VOCABULARY), name), {}, parameters=(parameter,))
        for name, parameter in (("feed", "text"), ("feed_bytes", "data"), ("feed_tokens", "ids"), ("feed_spelled", "text"))
    ),
    Entry("SamplingParams", SamplingParams),
    Entry("Request", Request, {"request_id": "1", "prompt_token_ids": [1]}, takes_callables=("parser_factory",)),
    Entry("Settings", Settings),
]  # fmt: skip

CASES = [pytest.param(entry, name, id=f"{entry.name}({name})") for entry in ENTRIES for name in parameters(entry)]


def plain_exceptions(entry: Entry, name: str) -> set[tuple[str, str]]:
    """(the exception, the value) where a value of a wrong kind ends in neither success nor a NarrowsError."""
    found = set()
    for value in wrong_values():
        if name in entry.takes_callables and callable(value):
            continue
        try:
            entry.then(entry.call(**{**entry.valid, name: value}))
        except NarrowsError:
            pass
        except Exception as error:
            found.add((f"{type(error).__name__}: {error!s:.90}", shown(value)))
    return found


@pytest.mark.parametrize(("entry", "name"), CASES)
def test_a_wrong_kind_is_a_narrows_error(entry: Entry, name: str) -> None:
    assert plain_exceptions(entry, name) == set()


@pytest.mark.parametrize(
    "entry", [entry for entry in ENTRIES if entry.valid and entry.works], ids=lambda entry: entry.name
)
def test_what_stands_beside_the_wrong_value_is_right(entry: Entry) -> None:
    """Else it would be refused for something else."""
    entry.then(entry.call(**entry.valid))


MADE_BY_NARROWS = {
    "Capture",
    "Explanation",
    "Event",
    "Reasoning",
    "Content",
    "ToolCallStart",
    "ToolCallArguments",
    "ToolCallEnd",
    "WholeValue",
}
"""Values that come out; nobody has to make them."""


def test_every_public_name_is_tried() -> None:
    tried = {entry.name.split(".")[0] for entry in ENTRIES}
    errors = {name for name in narrows.__all__ if name.endswith("Error")}
    assert set(narrows.__all__) - tried - errors - MADE_BY_NARROWS == set()
    for kind in (Vocabulary, Grammar, Matcher, Format):
        methods = {
            name
            for name, member in inspect.getmembers(kind, callable)
            if not name.startswith("_") and takes_something(member)
        }
        assert {f"{kind.__name__}.{name}" for name in methods} <= {entry.name for entry in ENTRIES}, kind


def takes_something(method: Callable[..., Any]) -> bool:
    try:
        return bool(set(inspect.signature(method).parameters) - {"self"})
    except ValueError:
        return "self)" not in (method.__doc__ or "")


def test_a_wrong_number_of_arguments_is_pythons_own_business() -> None:
    matcher = CONSTRAINT.matcher()
    for call in (matcher.accept, lambda: matcher.accept(1, 2), lambda: matcher.accept(tok=1), narrows.fill_masks):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("given", ["x", None, 1.5, [1], b"a"])
def test_the_core_says_it_as_the_rest_does(given: Any) -> None:
    matcher = CONSTRAINT.matcher()
    with pytest.raises(narrows.InputError, match="token must be a token id, which is an int, not ") as caught:
        matcher.accept(given)
    assert caught.value.code == "wrong_type"
    with pytest.raises(narrows.InputError, match="limits must be narrows") as caught:
        VOCABULARY.compile(GRAMMAR, given)
    assert (caught.value.code, caught.value.pointer) == ("wrong_type", "/limits")
    assert matcher.accept(np.int64(97))  # type: ignore[arg-type]
    assert len(matcher) == 1


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (np.zeros(2, np.int64), r"a numpy array of int64, of shape \(2,\)"),
        (np.zeros(4, np.int32)[::2], r"a numpy array of int32, of shape \(2,\), not C-contiguous"),
        (np.zeros((1, 2), np.int32), r"a numpy array of int32, of shape \(1, 2\)"),
        (np.frombuffer(bytes(8), np.int32), r"a read-only numpy array of int32, of shape \(2,\)"),
        ([0, 0], "list"),
    ],
)
def test_a_row_is_told_what_is_wrong_with_it(row: Any, said: str) -> None:
    with pytest.raises(narrows.InputError, match=f"of one dimension, not {said}$"):
        CONSTRAINT.matcher().fill_mask(row)


@pytest.mark.parametrize("token", [2**70, -(2**70)])
def test_a_token_far_outside_is_a_token_error(token: int) -> None:
    for call in (CONSTRAINT.matcher().accept, CONSTRAINT.matcher().explain, VOCABULARY.token_bytes):
        with pytest.raises(narrows.TokenError):
            call(token)


@pytest.mark.parametrize("descriptor", [0, 1, 2, 3])
def test_an_int_is_no_path(descriptor: int) -> None:
    """open(1) would read, and close, the process's own output."""
    for read in (Vocabulary.from_gguf, Vocabulary.from_tokenizer_json, formats.load, formats.detect_model):
        with pytest.raises(narrows.InputError, match="path must be"):
            read(descriptor)  # type: ignore[arg-type]
