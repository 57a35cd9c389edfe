"""GrammarCompiler and CompiledGrammar.

Compiling costs what reading a grammar costs; masks are computed when they are first needed, and shared by all grammars
of the vocabulary. So `max_threads` has nothing to do here. The compiler keeps what it has compiled, and is thread-safe:
threads that want the same grammar wait for one compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from narrows.compat.xgrammar import definition as d
from narrows.compat.xgrammar.exception import (
    CompatError,
    DeserializeFormatError,
    WrongTypeError,
    as_theirs,
)
from narrows.compat.xgrammar.grammar import (
    Grammar,
    ebnf_step,
    lark_step,
    regex_step,
    schema_text,
    structural_tag_step,
)
from narrows.compat.xgrammar.schemas import options_text
from narrows.compat.xgrammar.serialized import read_object, write_object
from narrows.compat.xgrammar.tokenizer_info import TokenizerInfo
from narrows.compile_cache import CompileCache, Lease
from narrows.constraint import Constraint
from narrows.errors import GrammarError
from narrows.grammar.flatten import flatten
from narrows.limits import DEFAULT_LIMITS, Limits


class CompiledGrammar:
    """A grammar for a vocabulary. Any number of matchers and threads may share it. `GrammarCompiler` makes it."""

    __slots__ = ("_constraint", "_definition", "_info", "_lease")

    def __init__(
        self,
        constraint: Constraint,
        definition: d.Definition,
        info: TokenizerInfo,
        lease: Lease[Constraint] | None = None,
    ) -> None:
        self._constraint = constraint
        self._definition = definition
        self._info = info
        self._lease = lease
        """While it lives, the compiler's cache counts the constraint as in use."""

    @property
    def grammar(self) -> Grammar:
        """What was compiled."""
        assert self._constraint.grammar is not None
        return Grammar(self._definition, self._constraint.grammar)

    @property
    def tokenizer_info(self) -> TokenizerInfo:
        """The vocabulary that it was compiled for."""
        return self._info

    @property
    def memory_size_bytes(self) -> int:
        """Bytes of what has been computed for this grammar alone. It grows as masks are asked for, up to about twice
        `Limits.constraint_bytes`."""
        return self._constraint.bytes

    def serialize_json(self) -> str:
        """The definition, and the facts of the vocabulary that it needs again. Short: no masks are in it."""
        return write_object({"steps": self._definition, "tokenizer": self._info.dump_metadata()})

    @staticmethod
    def deserialize_json(json_str: str, tokenizer_info: TokenizerInfo) -> CompiledGrammar:
        """Compiles again what `serialize_json` has written. Raises InvalidJSONError, DeserializeVersionError, and
        DeserializeFormatError where the vocabulary is another."""
        fields = read_object(json_str, versioned=True)
        if fields.get("tokenizer") != tokenizer_info.dump_metadata():
            raise DeserializeFormatError("it was compiled for another vocabulary", pointer="/tokenizer")
        definition = d.from_steps(fields.get("steps"))
        grammar = Grammar(definition, d.read(definition))
        return CompiledGrammar(compiled(grammar, tokenizer_info, DEFAULT_LIMITS), definition, tokenizer_info)

    def __repr__(self) -> str:
        return f"<narrows.compat.xgrammar.CompiledGrammar: {self._definition[-1][0]}>"


def compiled(grammar: Grammar, info: TokenizerInfo, limits: Limits) -> Constraint:
    """The grammar for the vocabulary. Raises CompatError."""
    vocabulary, source = info._vocabulary(), grammar._grammar
    with as_theirs():
        try:
            arrays = flatten(source.module, vocabulary.facts, limits, source.work)
        except GrammarError as error:
            if error.code != "token_unknown":
                raise
            # Only some grammars name tokens, and looking them up takes a while.
            facts = replace(vocabulary.facts, names=info._by_text())
            arrays = flatten(source.module, facts, limits, source.work)
        return vocabulary.assemble(arrays, limits, source)


class GrammarCompiler:
    """Compiles grammars for one vocabulary."""

    def __init__(
        self,
        tokenizer_info: TokenizerInfo,
        *,
        max_threads: int = 8,
        cache_enabled: bool = True,
        cache_limit_bytes: int = -1,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """cache_limit_bytes: -1 stands for `limits.grammar_cache_bytes`: no cache here is without bounds. In any case
        it keeps at most `limits.grammar_cache_entries` grammars.

        limits: narrows' bounds on untrusted input, which xgrammar does not have. Raises CompatError
        `argument_invalid`.
        """
        if not isinstance(tokenizer_info, TokenizerInfo):
            raise CompatError(
                f"tokenizer_info must be a TokenizerInfo, not {type(tokenizer_info).__name__}",
                code="wrong_type",
                hint="Make one with TokenizerInfo.from_huggingface(tokenizer)",
            )
        if max_threads < 1 or cache_limit_bytes < -1:
            raise CompatError("max_threads is at least 1, cache_limit_bytes at least -1", code="argument_invalid")
        self._info = tokenizer_info
        self._limits = limits
        self._limit_bytes = limits.grammar_cache_bytes if cache_limit_bytes == -1 else cache_limit_bytes
        self._is_kept = cache_enabled and self._limit_bytes > 0
        self._cache = self._new_cache()
        self._info._vocabulary()

    def _new_cache(self) -> CompileCache[d.Definition, Constraint]:
        limits = replace(self._limits, grammar_cache_bytes=max(self._limit_bytes, 1))
        return CompileCache(lambda constraint: constraint.bytes, limits)

    def compile_json_schema(
        self,
        schema: Any,
        *,
        any_whitespace: bool = True,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        strict_mode: bool = True,
        max_whitespace_cnt: int | None = None,
        any_order: bool = False,
    ) -> CompiledGrammar:
        """As `Grammar.from_json_schema`."""
        options = options_text(any_whitespace, indent, separators, strict_mode, max_whitespace_cnt, any_order)
        return self._of_step(("json_schema", schema_text(schema), options))

    def compile_builtin_json_grammar(self) -> CompiledGrammar:
        """Any JSON array or object."""
        return self._of_step(("json",))

    def compile_regex(self, regex: str) -> CompiledGrammar:
        """As `Grammar.from_regex`."""
        return self._of_step(regex_step(regex))

    def compile_lark(
        self, lark_string: str, *, named_grammars: Mapping[str, Grammar | str] | None = None
    ) -> CompiledGrammar:
        """As `Grammar.from_lark`."""
        step, parts = lark_step(lark_string, named_grammars)
        return self._of_step(step, parts)

    def compile_structural_tag(self, *args: Any, **kwargs: Any) -> CompiledGrammar:
        """As `Grammar.from_structural_tag`."""
        return self._of_step(structural_tag_step(args, kwargs))

    def compile_grammar(self, grammar: str | Grammar, *, root_rule_name: str = "root") -> CompiledGrammar:
        """A Grammar, or a text in xgrammar's EBNF."""
        if isinstance(grammar, str):
            return self._of_step(ebnf_step(grammar, root_rule_name))
        if not isinstance(grammar, Grammar):
            raise WrongTypeError(f"a Grammar or an EBNF text is wanted, not {type(grammar).__name__}")
        return self._compile(grammar._definition, lambda: grammar)

    def clear_cache(self) -> None:
        """Forget what was compiled."""
        self._cache = self._new_cache()

    def get_cache_size_bytes(self) -> int:
        """Bytes of what the cache keeps."""
        return self._cache.bytes_held

    @property
    def cache_limit_bytes(self) -> int:
        """The bound on the cache, which always is there: never -1."""
        return self._limit_bytes

    def _of_step(self, step: d.Step, parts: list[Grammar] | None = None) -> CompiledGrammar:
        steps = [inner for part in parts or () for inner in part._definition]
        return self._compile((*steps, step), lambda: Grammar._of(step, parts or (), self._limits))

    def _compile(self, definition: d.Definition, grammar: Callable[[], Grammar]) -> CompiledGrammar:
        def made() -> Constraint:
            return compiled(grammar(), self._info, self._limits)

        if not self._is_kept:
            return CompiledGrammar(made(), definition, self._info)
        overhead = sum(len(text) for step in definition for text in step)
        lease = self._cache.get(definition, made, overhead)
        return CompiledGrammar(lease.value, definition, self._info, lease)
