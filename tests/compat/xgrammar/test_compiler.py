"""GrammarCompiler: its cache, what it compiles, and compiled grammars that are written and read again."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import narrows
import narrows.compat.xgrammar as ours


def test_each_kind_is_compiled(xgr: Any, compiler: Any, sequence: Any) -> None:
    compiled = {
        "ab": compiler.compile_regex("ab"),
        "{}": compiler.compile_builtin_json_grammar(),
        '{"a":1}': compiler.compile_json_schema({"type": "object", "properties": {"a": {"const": 1}}}),
        "b": compiler.compile_grammar('root ::= "a"\nx ::= "b"', root_rule_name="x"),
        "1": compiler.compile_grammar(xgr.Grammar.from_regex("1")),
        "a": compiler.compile_lark('start: "a"'),
        "é": compiler.compile_structural_tag(
            {"type": "structural_tag", "format": {"type": "const_string", "value": "é"}}
        ),
    }
    for text, grammar in compiled.items():
        at = sequence(grammar).matcher
        assert at.accept_string(text)
        assert at.is_completed()
        assert isinstance(grammar.grammar, xgr.Grammar)
        assert grammar.tokenizer_info.vocab_size == 15
        assert grammar.memory_size_bytes >= 0


def test_tokens_by_id_and_by_text(compiler: Any, sequence: Any) -> None:
    at = sequence(compiler.compile_grammar('root ::= "a" Token(7)'))
    at.accept(2)
    assert at.allowed() == [7]
    assert at.accept(7, 1) == [True, True]
    named = {"type": "structural_tag", "format": {"type": "token", "token": "ab"}}
    assert sequence(compiler.compile_structural_tag(named)).allowed() == [4]


def test_a_token_that_is_not_there(compiler: Any) -> None:
    with pytest.raises(RuntimeError):
        compiler.compile_structural_tag({"type": "structural_tag", "format": {"type": "token", "token": "nothing"}})


def test_the_cache_keeps_and_forgets(xgr: Any, info: Any) -> None:
    compiler = xgr.GrammarCompiler(info)
    assert compiler.get_cache_size_bytes() == 0
    compiler.compile_regex("a")
    held = compiler.get_cache_size_bytes()
    assert held > 0
    compiler.compile_regex("a")
    assert compiler.get_cache_size_bytes() == held
    compiler.clear_cache()
    compiler.compile_regex("b")
    assert 0 < compiler.get_cache_size_bytes() <= 2 * held
    assert xgr.GrammarCompiler(info, cache_limit_bytes=1_000_000).cache_limit_bytes == 1_000_000
    assert xgr.GrammarCompiler(info, cache_limit_bytes=0).cache_limit_bytes == 0
    without = xgr.GrammarCompiler(info, cache_enabled=False)
    without.compile_regex("a")
    assert without.get_cache_size_bytes() == 0
    with pytest.raises(RuntimeError):
        xgr.GrammarCompiler(info, cache_limit_bytes=-2)


def test_equal_definitions_are_compiled_once() -> None:
    compiler = ours.GrammarCompiler(ours.TokenizerInfo(["a", "</s>"]))
    first = compiler.compile_json_schema({"type": "string"}, indent=3)
    assert compiler.compile_json_schema('{"type": "string"}')._constraint is first._constraint
    assert compiler.compile_json_schema({"type": "string"}, strict_mode=False)._constraint is not first._constraint
    grammar = ours.Grammar.from_regex("a")
    assert compiler.compile_grammar(grammar)._constraint is compiler.compile_regex("a")._constraint


def test_the_cache_is_never_without_bounds() -> None:
    info = ours.TokenizerInfo(["a", "</s>"])
    assert ours.GrammarCompiler(info).cache_limit_bytes == narrows.Limits().grammar_cache_bytes
    small = ours.GrammarCompiler(info, cache_limit_bytes=30_000)
    for count in range(200):
        small.compile_regex(f"a{{{count}}}")
    assert small.get_cache_size_bytes() < 60_000


def test_threads_share_a_compiler() -> None:
    compiler = ours.GrammarCompiler(ours.TokenizerInfo(["a", "b", "</s>"]))
    found: list[Any] = []

    def work() -> None:
        for count in range(20):
            found.append((count, compiler.compile_regex(f"(a|b){{{count}}}")._constraint))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 20


def test_a_compiled_grammar_is_written_and_read_again(xgr: Any, info: Any, compiler: Any, sequence: Any) -> None:
    text = compiler.compile_regex("ab*").serialize_json()
    again = sequence(xgr.CompiledGrammar.deserialize_json(text, info))
    again.accept(2)
    assert again.allowed() == [1, 3]
    other = xgr.TokenizerInfo(["a", "</s>"])
    with pytest.raises(RuntimeError):
        xgr.CompiledGrammar.deserialize_json(text, other)
    with pytest.raises(xgr.InvalidJSONError):
        xgr.CompiledGrammar.deserialize_json("{", info)


def test_limits_of_narrows_hold_and_can_be_raised() -> None:
    info = ours.TokenizerInfo(["a", "</s>"])
    with pytest.raises(ours.CompatError) as caught:
        ours.GrammarCompiler(info, limits=narrows.Limits(regex_bytes=5)).compile_regex("a" * 6)
    assert caught.value.limit == "regex_bytes"


def test_wrong_types(xgr: Any, compiler: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        xgr.GrammarCompiler("x")
    with pytest.raises(ValueError, match=r"."):
        compiler.compile_grammar(3)
    with pytest.raises(TypeError):
        compiler.compile_regex(3)
