"""The grammar backend by itself: what keys mean, flags, what is kept, jumps, frames, and masks as tensors."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import serving
import torch
from serving import WIDTH, allowed, end, ids, marker, matches, takes, text_of
from sglang.srt.constrained import base_grammar_backend
from sglang.srt.constrained.base_grammar_backend import GrammarRow, InvalidGrammarObject, create_grammar_backend
from sglang.srt.entrypoints.openai.protocol import Tool
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.plugins import load_plugins
from sglang.srt.server_args import ServerArgs
from transcripts import TOOLS

from narrows.errors import InputError, VocabularyError
from narrows.limits import Limits
from narrows.plugins.sglang.masking import install, rows
from narrows.plugins.sglang.masking.backend import Backend
from narrows.plugins.sglang.masking.definitions import ADDITIONAL, Definition, Spelling
from narrows.plugins.sglang.masking.grammar import Grammar

load_plugins()


@pytest.fixture(scope="module")
def backend() -> Backend:
    return Backend(serving.tokenizer(), WIDTH, {end()})


def made(backend: Any, kind: str, text: str) -> Grammar:
    grammar = backend._init_value_dispatch((kind, text), False)
    assert isinstance(grammar, Grammar), getattr(grammar, "error_message", grammar)
    return grammar


# The server.


def test_the_command_line_knows_the_name() -> None:
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    assert parser.parse_args(["--model-path", "m", "--grammar-backend", "narrows"]).grammar_backend == "narrows"
    install.install()  # once more, as another process does
    (action,) = [action for action in parser._actions if action.dest == "grammar_backend"]
    assert list(action.choices or ()).count("narrows") == 1


def test_flags_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def spelling(**values: Any) -> Spelling:
        with serving.flags(grammar_backend="narrows", **values):
            return create_grammar_backend(None, serving.tokenizer(), WIDTH, {end()}).spelling

    assert spelling() == Spelling("bounded", None, "declared")
    assert spelling(constrained_json_disable_any_whitespace=True) == Spelling("json.dumps", None, "declared")
    assert spelling(constrained_json_max_whitespace_cnt=2) == Spelling("bounded", 2, "declared")
    with pytest.raises(InputError, match="whitespace-pattern"):
        spelling(constrained_json_whitespace_pattern="[ ]*")
    monkeypatch.setenv(ADDITIONAL, "standard")
    assert spelling().additional == "standard"
    monkeypatch.setenv(ADDITIONAL, "other")
    with pytest.raises(InputError, match=ADDITIONAL):
        spelling()


def test_without_a_reasoning_parser_there_is_none_around_it() -> None:
    with serving.flags(grammar_backend="narrows"):
        backend = create_grammar_backend(None, serving.tokenizer(), WIDTH, {end()})
    assert type(backend) is Backend
    assert not backend.enable_strict_thinking
    assert backend.init_strict_reasoning_grammar(True) is None


def test_an_sglang_that_lacks_something_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(base_grammar_backend, "GRAMMAR_BACKEND_REGISTRY", {})
    monkeypatch.delattr(base_grammar_backend.BaseGrammarObject, "fill_vocab_mask_batched")
    install.install()
    assert "fill_vocab_mask_batched" in caplog.text
    assert base_grammar_backend.GRAMMAR_BACKEND_REGISTRY == {}


# The vocabulary.


def test_the_vocabulary_is_as_wide_as_the_logits(backend: Backend) -> None:
    assert backend.vocabulary.size == WIDTH > len(serving.tokenizer())
    grammar = made(backend, "regex", r"[\s\S]*")
    assert max(allowed(grammar)) < len(serving.tokenizer())
    narrower = Backend(serving.tokenizer(), 40_000, {end()})
    mask = made(narrower, "regex", r"[\s\S]*").allocate_vocab_mask(40_000, 2, "cpu")
    assert mask.shape == (2, 1250)
    assert mask.dtype == torch.int32
    assert mask.eq(-1).all()


@pytest.mark.parametrize(
    ("given", "ends"),
    [(None, {2}), ({0}, {0, 2}), ([0, 2], {0, 2}), (0, {0, 2}), (set(), {2})],
)
def test_the_text_ends_where_sglang_ends_it(given: Any, ends: set[int]) -> None:
    backend = Backend(serving.tokenizer(), WIDTH, given)
    grammar = made(backend, "regex", "a?")
    assert ends == set(backend.vocabulary.eos_ids)
    assert ends < allowed(grammar)
    grammar.accept_token(min(ends))
    assert grammar.is_terminated()


def test_a_tokenizer_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(VocabularyError, match="neither a fast backend"):
        Backend(object(), 10, [1])


# What keys mean.


@pytest.mark.parametrize(
    ("kind", "text", "right", "wrong"),
    [
        ("json", "$$ANY$$", ['{"a": [1, null]}', "[]"], ["1", '"a"']),
        ("json", '{"type": "object", "properties": {"b": {}, "a": {}}}', ['{"b": 1, "a": 2}'], ['{"a": 1, "b": 2}']),
        ("json", '{"type": "object", "properties": {"a": {}}}', ['{"a": 1}', "{}"], ['{"c": 1}']),
        ("json", '{"type": "object"}', ['{"c": 1}'], ["[]"]),
        ("regex", "^a.b$", ["axb", "a\nb"], ["ab"]),
        ("regex", "[^x]|yes", ["yes", "\n"], ["x", "ye"]),
        ("ebnf", 'root ::= "a" rest*\nrest ::= [b-d]', ["abcd", "a"], ["b"]),
        ("ebnf", '<root> ::= <one> "b"\n<one> ::= "a" | "c"', ["ab", "cb"], ["b"]),
        ("ebnf", 'start: "a" NUMBER\nNUMBER: /[0-9]+/', ["a12"], ["a"]),
        ("full_assistant_ebnf", 'root ::= "a"', ["a"], ["b"]),
        (
            "structural_tag",
            '{"type": "structural_tag", "structures": [{"begin": "<f>", "end": "</f>"}], "triggers": ["<f"]}',
            ["free <f>[1]</f> text", "free"],
            ["<f>1", "<fx"],
        ),
        (
            "structural_tag",
            '{"structures": [{"begin": "<f>", "schema": null, "end": "</f>"}], "triggers": ["<f"], "at_least_one": true}',
            ["<f>1</f> text"],
            ["text", "text <f>1</f>"],
        ),
        (
            "structural_tag",
            '{"format": {"type": "tag", "begin": "<t>", "content": {"type": "json_schema"}, "end": "</t>"}}',
            ["<t>{}</t>"],
            ["{}"],
        ),
    ],
)
def test_keys(backend: Backend, kind: str, text: str, right: list[str], wrong: list[str]) -> None:
    for answer in right:
        assert matches(made(backend, kind, text), answer), answer
    for answer in wrong:
        assert not matches(made(backend, kind, text), answer), answer


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        ("json", '{"type": "strin"}', "(at /type)"),
        ("json", "{", "not JSON"),
        ("json", '{"not": {"contains": {"const": 1}}, "unevaluatedItems": {"$ref": "#/nowhere"}}', "nowhere"),
        ("json", "false", "allows nothing"),
        ("regex", "a)(", "(offset 1)"),
        ("regex", "(a)\\1", "(offset 3)"),
        ("ebnf", "root ::= missing", "(line 1:"),
        ("ebnf", 'start: "a', "(line 1:"),
        ("structural_tag", "[]", "a structural tag is an object"),
        ("structural_tag", "{", "the structural tag is not JSON"),
        ("structural_tag", '{"structures": [1], "triggers": ["<f"]}', "structures"),
        ("structural_tag", '{"structures": 1, "triggers": ["<f"]}', "structures"),
        ("structural_tag", '{"type": "structural_tag"}', "format"),
        (
            "structural_tag",
            '{"structures": [{"begin": "<f>", "schema": {"type": "strin"}, "end": "</f>"}], "triggers": ["<f"]}',
            "/json_schema/type)",
        ),
        (
            "structural_tag",
            '{"type": "structural_tag", "format": {"type": "qwen_xml_parameter"}}',
            "(at /format/type)",
        ),
    ],
)
def test_errors_say_what_is_wrong(backend: Backend, kind: str, text: str, says: str) -> None:
    grammar = backend._init_value_dispatch((kind, text), False)
    assert isinstance(grammar, InvalidGrammarObject)
    assert says in grammar.error_message


def test_what_is_nested_too_deeply(backend: Backend) -> None:
    for refused in (backend.dispatch_json("[" * 100_000), backend.dispatch_structural_tag("[" * 100_000)):
        assert "nested too deeply" in refused.error_message


def test_what_sglang_refuses_for_all_backends(backend: Backend) -> None:
    assert "NUL" in backend._init_value_dispatch(("regex", "a\0"), False).error_message


def test_counted_whitespace() -> None:
    backend = Backend(serving.tokenizer(), WIDTH, {end()}, Spelling("bounded", 1))
    schema = '{"type": "array", "items": {"type": "integer"}}'
    tag = json.dumps({"type": "structural_tag", "format": {"type": "json_schema", "json_schema": json.loads(schema)}})
    for kind, text in (("json", schema), ("structural_tag", tag)):
        assert matches(made(backend, kind, text), "[1, 2]")
        assert not matches(made(backend, kind, text), "[1,  2]")
    refused = backend._init_value_dispatch(("json", '{"items": {"type": "strin"}}'), False)
    assert "(at /items/type)" in refused.error_message
    none = Backend(serving.tokenizer(), WIDTH, {end()}, Spelling("bounded", 0))
    assert matches(made(none, "json", schema), "[1,2]")
    assert not matches(made(none, "json", "$$ANY$$"), "[1, 2]")


def test_bounds_keep_all_their_digits(backend: Backend) -> None:
    schema = '{"type": "number", "minimum": 0.1000000000000000055, "maximum": 0.2}'
    tag = f'{{"type": "structural_tag", "format": {{"type": "json_schema", "json_schema": {schema}}}}}'
    for kind, text in (("json", schema), ("structural_tag", tag)):
        assert not matches(made(backend, kind, text), "0.1")
        assert matches(made(backend, kind, text), "0.11")


def test_markers_are_no_text(backend: Backend) -> None:
    assert marker("<think>") not in allowed(made(backend, "regex", r"[\s\S]*"))
    call = {"type": "tag", "begin": "<tool_call>", "content": {"type": "json_schema"}, "end": "</tool_call>"}
    tag = {"type": "structural_tag", "format": call}
    assert allowed(made(backend, "structural_tag", json.dumps(tag))) == {marker("<tool_call>")}


# What is kept.


def test_the_cache_is_bounded() -> None:
    backend = Backend(serving.tokenizer(), WIDTH, {end()}, limits=Limits(grammar_cache_entries=3))
    running = made(backend, "regex", "a0")
    backend.set_cache(("regex", "a0"), running.copy())
    for at in range(1, 6):
        backend.set_cache(("regex", f"a{at}"), made(backend, "regex", f"a{at}"))
    backend.set_cache(("regex", "("), InvalidGrammarObject("wrong"))
    assert list(backend.cache) == [("regex", "a4"), ("regex", "a5"), ("regex", "(")]
    assert len(backend._constraints._kept) <= 4
    assert takes(running, ids("a0")), "what is running is not touched"
    again, is_hit = backend.get_cached_or_future_value(("regex", "a4"), False)
    assert is_hit
    backend.set_cache(("regex", "a6"), made(backend, "regex", "a6"))
    assert ("regex", "a4") in backend.cache, "it was used last"
    backend.reset()
    assert not backend.cache
    assert takes(again, ids("a4"))


def test_the_cache_is_bounded_by_bytes() -> None:
    backend = Backend(serving.tokenizer(), WIDTH, {end()}, limits=Limits(grammar_cache_bytes=1))
    for at in range(3):
        backend.set_cache(("regex", f"a{at}"), made(backend, "regex", f"a{at}"))
    assert list(backend.cache) == [("regex", "a2")]
    assert len(backend._constraints._kept) == 1


# Jumps.


def test_a_jump_and_new_tokens(backend: Backend) -> None:
    """As a scheduler would jump: the text is appended, tokenized anew, and the state follows the new tokens."""
    tokenizer = serving.tokenizer()
    grammar = made(
        backend, "json", '{"type": "object", "properties": {"name": {"enum": ["Ada"]}}, "required": ["name"]}'
    )
    compact = Backend(tokenizer, WIDTH, {end()}, Spelling("compact"))
    grammar = made(compact, "json", grammar.definition.text)
    old = ids('{"')
    for token in old:
        grammar.accept_token(token)
    helper = grammar.try_jump_forward(tokenizer)
    assert helper == ([], 'name":"Ada"}')
    text, state = grammar.jump_forward_str_state(helper)
    assert state == -1
    new = ids(text_of(old) + text)
    assert new[: len(old)] != old or len(new) > len(old)
    grammar.jump_and_retokenize(old, new, state)
    assert grammar.matcher.history() == new
    assert grammar.try_jump_forward(tokenizer) is None
    assert allowed(grammar) == {end()}
    shorter = new[:2]
    grammar.jump_and_retokenize(new, shorter, state)
    assert grammar.matcher.history() == shorter
    with pytest.raises(ValueError, match="Tokens not accepted"):
        grammar.jump_and_retokenize(shorter, [*shorter, *ids("zz")], state)


def test_a_jump_begins_with_a_whole_character(backend: Backend) -> None:
    grammar = made(backend, "regex", "éé!")
    first, *_ = (t for t in allowed(grammar) if backend.vocabulary.token_bytes(t) == "é".encode()[:1])
    assert grammar.try_jump_forward(serving.tokenizer()) == ([], "éé!")
    grammar.accept_token(first)
    assert grammar.try_jump_forward(serving.tokenizer()) is None


# Masks as tensors.


def test_masks_are_applied_by_torch() -> None:
    generator = torch.Generator().manual_seed(3)
    mask = torch.randint(-(2**31), 2**31, (4, 3), dtype=torch.int64, generator=generator).to(torch.int32)
    for width in (96, 90, 100):
        for dtype in (torch.float32, torch.bfloat16):
            logits = torch.zeros(4, width, dtype=dtype)
            Grammar.apply_vocab_mask(logits, mask)
            for row in range(4):
                kept = set((logits[row] == 0).nonzero().flatten().tolist())
                assert kept == {t for t in serving.bits(mask[row]) if t < width} | set(range(96, width))
    Grammar.reset_vocab_mask(mask)
    assert mask.eq(-1).all()


def test_token_filters() -> None:
    mask = rows.allocate(96, 2)
    Backend.set_token_filter(mask, [3, 40], 1, is_allowed=False)
    assert serving.bits(mask[1]) == set(range(96)) - {3, 40}
    Backend.set_token_filter(mask, [3, 95], 1)
    assert serving.bits(mask[1]) == {3, 95}
    Backend.set_token_filter(mask, [3], 1, is_allowed=False, reset_vocab_mask=False)
    assert serving.bits(mask[1]) == {95}
    assert mask[0].eq(-1).all()
    assert Backend.move_vocab_mask(mask, "cpu") is mask


def test_rows_that_do_not_follow_each_other(backend: Backend) -> None:
    grammars = [made(backend, "regex", text) for text in ("a", "b", "c")]
    mask = backend.allocate_vocab_mask(WIDTH, 6, "cpu")
    entries = [GrammarRow(row, grammar) for row, grammar in zip((0, 4, 2), grammars, strict=True)]
    Grammar.fill_vocab_mask_batched(entries, mask)
    assert [serving.bits(mask[row]) for row in (0, 4, 2)] == [set(ids(text)) for text in ("a", "b", "c")]
    assert mask[[1, 3, 5]].eq(-1).all()
    Grammar.fill_vocab_mask_batched([], mask)


# Frames.


FRAMED = [
    ("json", "$$ANY$$", '{"a": 1}'),
    ("regex", "a.c", "a\nc"),
    ("ebnf", 'root ::= "ab"', "ab"),
    ("json", "{}", "1"),
]


@pytest.mark.parametrize(("kind", "text", "answer"), FRAMED, ids=[text for _, text, _ in FRAMED])
def test_a_grammar_in_a_frame(kind: str, text: str, answer: str) -> None:
    backend = Backend(serving.tokenizer(), WIDTH, {end()})
    opened, closed = marker("<tool_call>"), marker("</tool_call>")
    word = ids(" the")[0]
    backend.reserve_framing_tokens([opened, closed, word])

    def frame(content: dict[str, Any]) -> dict[str, Any]:
        token = {"type": "token", "token": closed}
        elements = [{"type": "token", "token": opened}, content, token, {"type": "token", "token": word}]
        return {"type": "structural_tag", "format": {"type": "sequence", "elements": elements}}

    grammar = backend.compile_framed_grammar(made(backend, kind, text), frame)
    assert grammar.grammar_stats.dispatch_type == "structural_tag"
    assert takes(grammar, [opened, *ids(answer), closed, word, end()])
    assert grammar.is_terminated()
    other = backend.compile_framed_grammar(
        made(backend, kind, text), lambda content: {"type": "structural_tag", "format": content}
    )
    assert takes(other, ids(answer))
    free = backend.compile_framed_grammar(made(backend, "regex", r"[\s\S]*"), frame)
    free.accept_token(opened)
    assert word not in allowed(free)
    assert word in allowed(made(backend, "regex", r"[\s\S]*"))


def test_definitions_as_formats() -> None:
    tag = '{"type": "structural_tag", "format": {"type": "const_string", "value": "a"}}'
    assert Definition("structural_tag", tag).as_format(Spelling()) == {"type": "const_string", "value": "a"}
    assert Definition("json", "{}").as_format(Spelling("bounded", 2))["max_whitespace_cnt"] == 2


# What SGLang itself asks for, for calls of tools.

REFUSED = {"deepseekv32", "deepseekv4", "deepseekv41", "nanbeige", "qwen3_coder", "step3p5"}
"""SGLang's own parsers whose structural tags have parameters as XML or in another notation."""


def test_constraints_of_required_calls(backend: Backend) -> None:
    offered, refused = [Tool(**tool) for tool in TOOLS], set()
    for name in FunctionCallParser.ToolCallParserEnum:
        if name == "response_template":  # it needs the template of a model
            continue
        constraint = FunctionCallParser(offered, name).get_structure_constraint("required")
        if constraint is None:
            continue
        kind, value = constraint
        kind = "json" if kind == "json_schema" else kind
        text = (
            value
            if isinstance(value, str)
            else json.dumps(value if kind == "json" else value.model_dump(by_alias=True))
        )
        grammar = backend._init_value_dispatch((kind, text), False)
        if isinstance(grammar, InvalidGrammarObject):
            refused.add(name)
            assert "style" in grammar.error_message
    assert refused == REFUSED


def test_a_required_call_in_narrows_own_format(backend: Backend) -> None:
    parser = FunctionCallParser([Tool(**tool) for tool in TOOLS], "narrows_hermes_json")
    kind, tag = parser.get_structure_constraint("required")
    grammar = made(backend, kind, json.dumps(tag.model_dump(by_alias=True)))
    assert allowed(grammar) == {marker("<tool_call>")}
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    assert matches(grammar, text)


def test_the_flags_and_differences_of_the_docs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "sglang.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in REFUSED)
    assert ADDITIONAL in page
    for line in page.splitlines():
        if line.startswith("python -m sglang.launch_server"):
            arguments = shlex.split(line.replace("MODEL", "m"))[3:]
            parser = argparse.ArgumentParser()
            ServerArgs.add_cli_args(parser)
            parser.parse_args(arguments)
    (example,) = [block for block in page.split("```json\n")[1:] if "json_schema" in block]
    body = json.loads(example.split("```")[0])
    backend = Backend(serving.tokenizer(), WIDTH, {end()})
    schema = json.dumps(body["response_format"]["json_schema"]["schema"])
    assert matches(made(backend, "json", schema), '{"city": "Paris", "days": 3}')
